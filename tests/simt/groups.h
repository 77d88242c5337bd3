// Products of groups of four warps, which go on while threads do. Part of machine.cpp, whose names it
// uses. They are made when they are started; their sums come to the threads when they are waited for,
// and until then nobody may touch the sums, nor write where operands lie.
namespace {
enum { DEEP = 16, MOST_COLUMNS = 256 };
const uint32_t FIRST = 0x410;  // where a block's shared memory begins: at no multiple of 1024

// Sums of a thread: an array of its stack, what it will hold, and the batch of products that says so.
struct Sums {
  char *low;
  size_t n;
  bool touched;
  uint32_t batch;
  std::vector<float> next;
  bool over(const char *p, size_t size) const { return p < low + n && low < p + size; }
};
struct Group {
  unsigned arrived;
  int line;
  const char *what;
  uint64_t left, right;
  uint32_t batch, done;                      // batches that were committed, and waited for
  std::vector<std::vector<char *>> reading;  // chunks of 16 bytes, a batch after the other
};
Group groups[MOST / GROUP];
// Registers that products read, until the batch they are of has been waited for.
struct Held {
  const char *low;
  uint32_t batch;
};
enum { TURNED_LEFT = 1, TURNED_RIGHT = 2, BRAIN = 4, ALONE = 8, REGISTERS = 4 * sizeof(uint32_t) };
std::vector<Sums> sums[MOST];
std::vector<Held> registers[MOST];
const uint32_t *left_of[MOST];            // where a thread's registers of a left operand are
float *given[MOST];                       // the sums that a thread came with
bool fenced[MOST];                        // whether it has ever said that sums may be added to

void groups_begin() {
  for (Group &g : groups) g = Group{};
  for (unsigned i = 0; i < thread_count; i++) {
    sums[i].clear(), shown[i].clear(), registers[i].clear();
    fenced[i] = false;
  }
}
bool flying(const Sums &s, int thread) { return s.batch > groups[thread / GROUP].done; }
// The first group whose products have read a byte since the last barrier, and nothing tells this thread
// that all of its threads have waited for them; -1 where there is none.
int unordered_products(const Cell &c) {
  for (int g = 0; g < 2; g++) {
    if (!c.multiplied[g] || c.multiplied[g] < shared_since) continue;
    for (unsigned i = g * GROUP; i < (unsigned)(g + 1) * GROUP && i < thread_count; i++)
      if (c.multiplied[g] >= passed[me][i]) return g;
  }
  return -1;
}
// What a thread does to its own stack.
void touch_stack(char *p, size_t n, bool write) {
  for (const Held &h : registers[me])
    if (write && h.batch > groups[me / GROUP].done && h.low < p + n && p < h.low + REGISTERS)
      simt_fail("registers are written that products read, which have not been waited for");
  for (Sums &s : sums[me])
    if (s.over(p, n)) {
      if (flying(s, me)) simt_fail("sums are touched, whose products have not been waited for");
      s.touched = true;
    }
}
// All threads of a group meet, the last of them does something, and all go on.
template <class Act> void together(int line, const char *what, Act act) {
  Group &g = groups[me / GROUP];
  if (thread_count % GROUP) simt_fail("%s at line %d, and groups of %d are not whole", what, line, GROUP);
  if (g.arrived && (g.line != line || strcmp(g.what, what)))
    simt_fail("divergent group: this thread is in %s at line %d, others in %s at line %d", what, line,
              g.what, g.line);
  g.line = fibers[me].line = line, g.what = what;
  if (++g.arrived < GROUP) {
    wait_as(AT_GROUP);
    return;
  }
  g.arrived = 0;
  act(g);
  for (int i = me / GROUP * GROUP; i < me / GROUP * GROUP + GROUP; i++)
    if (fibers[i].state == AT_GROUP) fibers[i].state = READY;
}
// A chunk of an operand, which others have written and shown.
void read_chunk(Group &g, uint32_t address, uint16_t *to, int line) {
  char *p = dynamic_low + (int64_t)address - FIRST;
  Region *r = find(p);
  if (!r || !r->shared || p + 16 > r->low + r->size)
    simt_fail("products at line %d read address %u, beyond the shared memory of the launch", line, address);
  for (int i = 0; i < 16; i++) {
    Cell &c = r->cells[p - r->low + i];
    const size_t at = p - r->low + i;
    if (c.flying) simt_fail("products at line %d read byte %zu, which a copy has not been waited for", line, at);
    if (c.wrote < block_first) simt_fail("products at line %d read byte %zu, which nobody has written", line, at);
    const bool met = c.wrote < passed[me][c.writer];
    if (c.wrote >= shared_since && !met)
      simt_fail("race: products at line %d read byte %zu, which thread %d has written, with no barrier "
                "between", line, at, c.writer);
    const std::vector<uint32_t> &seen = shown[c.writer];
    if (c.shown >= seen.size()
        || (seen[c.shown] >= shared_since && seen[c.shown] >= passed[me][c.writer]))
      simt_fail("products at line %d read byte %zu, which thread %d has written and not shown to them "
                "before the barrier (fence.proxy.async)", line, at, c.writer);
    c.products++;
  }
  g.reading.back().push_back(p);
  memcpy(to, p, 16);
}
float half_value(uint16_t h, bool brain) {
  if (brain) {
    const uint32_t b = (uint32_t)h << 16;
    float f;
    memcpy(&f, &b, 4);
    return f;
  }
  const int e = h >> 10 & 31, m = h & 1023;
  const float x = e == 31 ? (m ? NAN : INFINITY) : e ? ldexpf(1024.0f + m, e - 25) : ldexpf((float)m, -24);
  return h & 0x8000 ? -x : x;
}
// An operand of `places` rows or columns, 16 deep, into a table by depth and place. turned: lines of it
// go along the places.
void read_matrix(Group &g, uint64_t about, int places, bool turned, bool brain, float *out, int line) {
  const uint32_t start = (about & 0x3fff) << 4, leading = (about >> 16 & 0x3fff) << 4,
                 other = (about >> 32 & 0x3fff) << 4, mode = about >> 62;
  if (!mode || about >> 49 & 7 || about & 0x1c000c000c000ull)
    simt_fail("products at line %d: the machine does not know the descriptor %llx", line,
              (unsigned long long)about);
  const int width = 256 >> mode, bits = 4 - mode;  // bytes of a line: 128, 64 or 32
  const int lines = turned ? DEEP : places, across = (turned ? places : DEEP) / 8;
  for (int i = 0; i < lines; i++)
    for (int chunk = 0; chunk < across; chunk++) {
      const int whole = chunk * 16 / width;  // lines end, and the next begins elsewhere
      uint32_t address = start + i % 8 * width + i / 8 * other + chunk * 16 % width + whole * leading;
      address ^= (address >> 7 & ((1u << bits) - 1)) << 4;
      uint16_t x[8];
      read_chunk(g, address, x, line);
      for (int k = 0; k < 8; k++)
        out[turned ? i * MOST_COLUMNS + chunk * 8 + k : (chunk * 8 + k) * MOST_COLUMNS + i] =
            half_value(x[k], brain);
    }
}
Sums &sums_of(int thread, float *at, size_t count) {
  const size_t n = count * sizeof(float);
  for (Sums &s : sums[thread])
    if (s.low == (char *)at && s.n == n) return s;
  for (size_t i = 0; i < sums[thread].size(); i++)
    if (sums[thread][i].over((char *)at, n)) sums[thread].erase(sums[thread].begin() + i--);
  sums[thread].push_back(Sums{(char *)at, n, false, 0, {}});
  return sums[thread].back();
}
// The left operand that the threads of a group hold.
void read_registers(bool brain, float (*out)[MOST_COLUMNS]) {
  for (int i = 0; i < GROUP; i++)
    for (int r = 0; r < 4; r++)
      for (int half = 0; half < 2; half++) {
        const uint16_t x = (uint16_t)(left_of[me / GROUP * GROUP + i][r] >> 16 * half);
        out[i % 4 * 2 + r / 2 * 8 + half][i / 32 * 16 + i % 32 / 4 + r % 2 * 8] = half_value(x, brain);
      }
}
void multiply(Group &g, int columns, int flags, bool held, int line) {
  static float a[DEEP][MOST_COLUMNS], b[DEEP][MOST_COLUMNS];
  if (g.reading.empty() || g.reading.size() == g.batch - g.done) g.reading.emplace_back();
  if (held) read_registers(flags & BRAIN, a);
  else read_matrix(g, g.left, 64, flags & TURNED_LEFT, flags & BRAIN, a[0], line);
  read_matrix(g, g.right, columns, flags & TURNED_RIGHT, flags & BRAIN, b[0], line);
  for (int row = 0; row < 64; row++) {
    double total[MOST_COLUMNS] = {};
    for (int k = 0; k < DEEP; k++)
      for (int c = 0; c < columns; c++) total[c] += (double)a[k][row] * b[k][c];
    for (int c = 0; c < columns; c++) {
      const int thread = (me / GROUP * GROUP) + row / 16 * 32 + row % 8 * 4 + c % 8 / 2;
      Sums &s = sums_of(thread, given[thread], columns / 2);
      float &x = s.next[c / 8 * 4 + row % 16 / 8 * 2 + c % 2];
      x = (float)((flags & ALONE ? 0 : x) + total[c]);
    }
  }
}
// A thread comes with its sums and with what it knows of the operands.
void start_products(float *d, uint64_t left, uint64_t right, int columns, int line) {
  Group &g = groups[me / GROUP];
  if (g.arrived && !strcmp(g.what, "products") && (g.left != left || g.right != right))
    simt_fail("products at line %d, whose descriptors differ among threads", line);
  Sums &s = sums_of(me, d, columns / 2);
  if (!fenced[me] || s.touched)
    simt_fail("products at line %d add to sums that were touched, with no wgmma_fence between", line);
  if (!s.batch) s.next.assign(d, d + columns / 2), memset((void *)d, 0xff, s.n);
  s.batch = g.batch + 1, g.left = left, g.right = right, given[me] = d;
}
// The first batches are done: sums come to their threads, operands may be written again after a barrier.
void done(Group &g, uint32_t batches) {
  for (; g.done < batches; g.reading.erase(g.reading.begin())) {
    g.done++;
    for (char *p : g.reading.front())
      for (int i = 0; i < 16; i++) {
        Cell &c = find(p)->cells[p + i - find(p)->low];
        c.products--;
        if (&g - groups < 2) c.multiplied[&g - groups] = epoch;
        else c.read = epoch, c.reader = ANY;
      }
  }
  for (int i = me / GROUP * GROUP; i < me / GROUP * GROUP + GROUP; i++)
    for (Sums &s : sums[i])
      if (s.batch && s.batch <= g.done) {
        memcpy(s.low, s.next.data(), s.n);
        s.batch = 0;
      }
  for (int i = me / GROUP * GROUP; i < me / GROUP * GROUP + GROUP; i++)
    while (!registers[i].empty() && registers[i].front().batch <= g.done)
      registers[i].erase(registers[i].begin());
}
}  // namespace

extern "C" {
uint32_t simt_shared_address(const void *p) {
  if ((char *)p < dynamic_low || (char *)p > dynamic_low + dynamic_size)
    simt_fail("only memory that the launch says has an address among shared memory here");
  return FIRST + (uint32_t)((char *)p - dynamic_low);
}
void simt_shown(void) { shown[me].push_back(epoch); }
void simt_products_fence(int line) {
  fenced[me] = true;
  for (Sums &s : sums[me]) s.touched = false;
  together(line, "wgmma_fence", [](Group &) {});
}
void simt_products(float *d, uint64_t left, uint64_t right, int columns, int flags, int line) {
  start_products(d, left, right, columns, line);
  together(line, "products", [&](Group &g) { multiply(g, columns, flags, false, line); });
}
void simt_products_held(float *d, const uint32_t *left, uint64_t right, int columns, int flags, int line) {
  start_products(d, 0, right, columns, line);
  simt_read(left, REGISTERS);
  left_of[me] = left;
  registers[me].push_back({(const char *)left, groups[me / GROUP].batch + 1});
  together(line, "products", [&](Group &g) { multiply(g, columns, flags, true, line); });
}
void simt_products_commit(int line) {
  together(line, "wgmma_commit", [](Group &g) {
    if (g.reading.size() == g.batch - g.done) g.reading.emplace_back();
    g.batch++;
  });
}
void simt_products_wait(int batches, int line) {
  together(line, "wgmma_wait", [&](Group &g) {
    if (g.batch > (uint32_t)batches) done(g, g.batch - batches);
  });
}
}
