// A machine of blocks and threads on one OS thread. Kernels are compiled with -fsanitize=thread, and
// the hooks that this puts at every access are defined here: they know which memory exists, who wrote
// it, and which barriers stand between.
#include "machine.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <algorithm>
#include <map>
#include <vector>

namespace {
enum State { READY, AT_BARRIER, AT_WARP, AT_GROUP, DONE };
enum { MOST = 1024, LANES = 32, GROUP = 128 };  // GROUP: threads that multiply together
const size_t STACK = 128 << 10;

// It outlives the block: a thread of the next one goes on where this has returned. Contexts are entered
// once, as they ask the kernel for signals at each switch; jumps do not.
struct Fiber {
  ucontext_t context;
  jmp_buf at;
  bool made, entered;
  State state;
  int line;
};
// What one warp exchanges. Slots are two, so that a fast lane cannot overwrite what others still read.
struct Warp {
  unsigned live, mask, arrived, synced;
  int line, turn;
  const char *what;
  char slots[2][LANES][SIMT_SLOT];
};
// A barrier of a number: who has come there, and what all of them had done, or seen done, by then.
struct Numbered {
  unsigned arrived;
  bool came[MOST], waits[MOST];
  uint32_t seen[MOST];
};
// One byte of known memory: who touched it last, between which barriers. ANY: several readers.
struct Cell {
  uint32_t wrote, read;            // epochs; 0: never
  uint32_t wrote_sync, read_sync;  // warp barriers passed by then
  uint16_t writer, reader;
  bool known, flying;              // flying: an asynchronous copy may write it at any time
  uint16_t products;               // how many read it that have not been waited for
  uint32_t multiplied[2];          // when products of the first two groups had read it: epochs
  uint32_t shown;                  // how often its writer had shown its writes to products by then
};
const uint16_t ANY = 0xffff;
const size_t ROOM = 4096;
struct Region {
  char *low;
  size_t size;
  std::vector<char> name;
  std::vector<Cell> cells;
  bool shared;
  bool counted = true;  // among the bytes that are moved; arguments of a launch are not
};

// What asynchronous copies of a thread have read and not yet brought, a group after the other.
struct Copy {
  char *to;
  size_t n;
  char bytes[16];
};
typedef std::vector<Copy> Copies;

Fiber fibers[MOST];
std::vector<Copies> flights[MOST];  // the last group is not committed yet
enum { NUMBERS = 16 };
Numbered numbered[NUMBERS];
uint32_t passed[MOST][MOST];  // of a thread: the epoch before which it knows all of another's doings
std::vector<uint32_t> shown[MOST];  // when a thread has shown its writes to products: epochs
Warp warps[MOST / LANES];
jmp_buf launcher;
char *stacks;
std::map<char *, Region> regions;  // by first byte
Region *last;
char *shared_low, *shared_high;
char *dynamic_low;  // memory of the block whose size the launch says
size_t dynamic_size;
std::vector<int> order;
unsigned place[MOST];  // of a thread in the order
unsigned thread_count, block_count, block, live, waiting;
int me = -1, barrier_line;
uint32_t epoch = 1, block_first, launch_first, seed;
uint32_t device_since, shared_since;  // the epochs of the last barriers that order them
void (*body)(void *);
void *arguments;
bool failed;
char message[1024];
uint64_t moved[2];  // bytes of device memory that threads have read and written in this launch

void step_to(int to) {
  const int from = me;
  me = to;
  if (_setjmp(from < 0 ? launcher : fibers[from].at)) return;
  if (to >= 0 && !fibers[to].entered) {
    fibers[to].entered = true;
    setcontext(&fibers[to].context);
  }
  _longjmp(to < 0 ? launcher : fibers[to].at, 1);
}
int next_ready() {
  const size_t first = me < 0 ? 0 : place[me] + 1;
  for (size_t at = first; at < order.size(); at++)
    if (fibers[order[at]].state == READY) return order[at];
  for (size_t at = 0; at < first; at++)
    if (fibers[order[at]].state == READY) return order[at];
  return -1;
}
void deadlock() {
  int at = -1, in = -1;
  for (unsigned i = 0; i < thread_count; i++) {
    if (fibers[i].state == AT_BARRIER) at = i;
    if (fibers[i].state == AT_WARP || fibers[i].state == AT_GROUP) in = i;
  }
  simt_fail("threads wait for ever: thread %d at a barrier (line %d), thread %d in an operation of its "
            "warp or group (line %d)", at, at < 0 ? 0 : fibers[at].line, in, in < 0 ? 0 : fibers[in].line);
}
void wait_as(State state) {
  fibers[me].state = state;
  const int n = next_ready();
  if (n < 0) deadlock();
  step_to(n);
}
// The lanes of a warp that have all arrived go on.
void release(unsigned w) {
  Warp &warp = warps[w];
  if (!warp.arrived || (warp.arrived & warp.live) != (warp.mask & warp.live)) return;
  for (unsigned l = 0; l < LANES; l++)
    if (warp.arrived >> l & 1 && fibers[w * LANES + l].state == AT_WARP)
      fibers[w * LANES + l].state = READY;
  warp.arrived = 0;
  warp.turn ^= 1;
}
void run_thread() {
  body(arguments);
  const unsigned w = me / LANES;
  fibers[me].state = DONE;
  live--;
  warps[w].live &= ~(1u << me % LANES);
  if (waiting)
    simt_fail("thread %d has returned, and %u others wait at the barrier of line %d", me, waiting,
              barrier_line);
  release(w);
  for (int i = 0; !live && i < NUMBERS; i++)
    if (numbered[i].arrived)
      simt_fail("%u threads have come to barrier %d, which nobody waits at", numbered[i].arrived, i);
  const int n = next_ready();
  if (n < 0 && live) deadlock();
  step_to(n);
}
void run_fiber() {
  for (;;) run_thread();
}

// ---- memory
Region *find(char *p) {
  if (last && p >= last->low && p < last->low + last->size) return last;
  auto it = regions.upper_bound(p);
  if (it == regions.begin()) return nullptr;
  Region &r = (--it)->second;
  return p < r.low + r.size ? last = &r : nullptr;
}
void outside(char *p, size_t n, const char *verb) {
  const Region *near = nullptr;
  long best = 1l << 62;
  for (auto &[low, r] : regions) {
    const long d = p < low ? low - p : p - (low + r.size);
    if (d < best) best = d, near = &r;
  }
  simt_fail("out of bounds: %s of %zu bytes %ld %s %s (%zu bytes)", verb, n, best,
            near && p < near->low ? "before" : "past", near ? near->name.data() : "anything",
            near ? near->size : 0);
}
bool ordered(uint16_t other, uint32_t sync) {
  return other == me || (other != ANY && other / LANES == me / LANES
                         && sync != warps[me / LANES].synced);
}
void race(const Region &r, size_t at, const char *what, uint32_t when, uint16_t other) {
  if (when < block_first)
    simt_fail("race between blocks: %s of %s at byte %zu", what, r.name.data(), at);
  simt_fail("race: %s of %s at byte %zu, by thread %d and thread %d, with no barrier between", what,
            r.name.data(), at, me, other == ANY ? -1 : other);
}
// Whether an access at an epoch is of this launch, and nothing orders it before now.
bool clashes(const Region &r, uint32_t when, uint16_t who, uint32_t sync) {
  if (who != ANY && when < passed[me][who]) return false;
  if (when >= (r.shared ? shared_since : device_since)) return !ordered(who, sync);
  return !r.shared && when >= launch_first && when < block_first;
}
void touch_stack(char *p, size_t n, bool write);
int unordered_products(const Cell &c);
void touch(Region &r, size_t at, bool write) {
  Cell &c = r.cells[at];
  if (c.flying)
    simt_fail("%s of %s at byte %zu, which an asynchronous copy has not been waited for",
              write ? "write" : "read", r.name.data(), at);
  const uint32_t sync = warps[me / LANES].synced;
  if (c.wrote && clashes(r, c.wrote, c.writer, c.wrote_sync))
    race(r, at, write ? "two writes" : "write and read", c.wrote, c.writer);
  if (write) {
    if (c.products)
      simt_fail("write of %s at byte %zu, which products read that have not been waited for",
                r.name.data(), at);
    c.shown = shown[me].size();
    if (c.read && clashes(r, c.read, c.reader, c.read_sync))
      race(r, at, "read and write", c.read, c.reader);
    if (const int g = unordered_products(c); g >= 0)
      race(r, at, "read by products and write", c.multiplied[g], g * GROUP);
    c.wrote = epoch, c.writer = me, c.wrote_sync = sync, c.known = true;
    return;
  }
  if (r.shared ? c.wrote < block_first : !c.known)
    simt_fail("uninitialised read of %s at byte %zu", r.name.data(), at);
  const bool others = c.read >= (r.shared ? shared_since : device_since) && c.reader != me && !ordered(c.reader, c.read_sync);
  c.read = epoch, c.reader = others ? ANY : me, c.read_sync = sync;
}
void access(void *pointer, size_t n, bool write) {
  char *p = (char *)pointer;
  if (me < 0) return;
  if (p >= stacks && p < stacks + STACK * MOST) {
    touch_stack(p, n, write);
    return;
  }
  Region *r = find(p);
  if (!r || p + n > r->low + r->size) outside(p, n, write ? "write" : "read");
  if ((n & (n - 1)) == 0 && n <= 16 && (uintptr_t)p % n)
    simt_fail("misaligned %s of %zu bytes in %s at byte %zu", write ? "write" : "read", n,
              r->name.data(), (size_t)(p - r->low));
  if (!r->shared && r->counted) moved[write] += n;
  for (size_t i = 0; i < n; i++) touch(*r, p - r->low + i, write);
}
}  // namespace
#include "groups.h"
namespace {

// ---- a launch
void arrange(int how) {
  order.resize(thread_count);
  for (unsigned i = 0; i < thread_count; i++) order[i] = how == 1 ? thread_count - 1 - i : i;
  for (unsigned i = thread_count; how == 2 && i > 1; i--) {
    seed = seed * 1664525u + 1013904223u;
    std::swap(order[i - 1], order[(seed >> 8) % i]);
  }
  for (unsigned i = 0; i < thread_count; i++) place[order[i]] = i;
}
void run_block() {
  block_first = device_since = shared_since = ++epoch;
  if (shared_low) memset(shared_low, 0xff, shared_high - shared_low);
  if (dynamic_size) memset(dynamic_low, 0xff, dynamic_size);
  live = thread_count, waiting = 0;
  groups_begin();
  for (unsigned i = 0; i < thread_count; i++) flights[i].assign(1, Copies());
  for (Numbered &b : numbered) b = Numbered{};
  for (unsigned i = 0; i < thread_count; i++) memset(passed[i], 0, thread_count * sizeof *passed[i]);
  for (unsigned w = 0; w * LANES < thread_count; w++) warps[w] = Warp{};
  for (unsigned i = 0; i < thread_count; i++) {
    Fiber &f = fibers[i];
    f.state = READY;
    warps[i / LANES].live |= 1u << i % LANES;
    if (f.made) continue;
    f.made = true, f.entered = false;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = stacks + i * STACK;
    f.context.uc_stack.ss_size = STACK;
    f.context.uc_link = nullptr;
    makecontext(&f.context, run_fiber, 0);
  }
  step_to(order[0]);
}
}  // namespace

extern "C" {
unsigned simt_thread(void) { return me; }
unsigned simt_block(void) { return block; }
unsigned simt_threads(void) { return thread_count; }
unsigned simt_blocks(void) { return block_count; }

void simt_fail(const char *format, ...) {
  va_list a;
  va_start(a, format);
  const int n = snprintf(message, sizeof message, "block %u, thread %d: ", block, me);
  vsnprintf(message + n, sizeof message - n, format, a);
  va_end(a);
  failed = true;
  for (Fiber &f : fibers) f.made = false;  // they stand in the middle of a kernel
  step_to(-1);
  __builtin_trap();
}
const char *simt_message(void) { return message; }

void simt_barrier(int line) { simt_barrier_of(line, 3); }
void simt_barrier_of(int line, int memory) {
  if (live != thread_count)
    simt_fail("barrier of line %d, and %u threads have returned", line, thread_count - live);
  if (waiting && barrier_line != line)
    simt_fail("divergent barriers: this thread at line %d, others at line %d", line, barrier_line);
  barrier_line = fibers[me].line = line;
  if (++waiting < live) {
    wait_as(AT_BARRIER);
    return;
  }
  for (unsigned i = 0; i < thread_count; i++)
    if (fibers[i].state == AT_BARRIER) fibers[i].state = READY;
  waiting = 0;
  epoch++;
  if (memory & 1) device_since = epoch;
  if (memory & 2) shared_since = epoch;
}
// A thread comes to a barrier of a number, where all of the block are counted, and waits or goes on.
void simt_numbered(int number, int waits, int line) {
  if (number < 1 || number >= NUMBERS) simt_fail("there is no barrier %d (line %d)", number, line);
  Numbered &b = numbered[number];
  if (b.came[me])
    simt_fail("this thread comes to barrier %d again at line %d, and others have not", number, line);
  b.came[me] = true, b.waits[me] = waits, fibers[me].line = line;
  epoch++;  // what it does from now on is not known to those who wait
  passed[me][me] = epoch;
  for (unsigned i = 0; i < thread_count; i++) b.seen[i] = std::max(b.seen[i], passed[me][i]);
  if (++b.arrived < thread_count) {
    if (waits) wait_as(AT_GROUP);
    return;
  }
  for (unsigned i = 0; i < thread_count; i++)
    if (b.waits[i]) {
      memcpy(passed[i], b.seen, thread_count * sizeof *b.seen);
      if (fibers[i].state == AT_GROUP) fibers[i].state = READY;
    }
  b = Numbered{};
}
const char *simt_exchange(unsigned mask, const void *mine, size_t n, int line, const char *what) {
  const unsigned lane = me % LANES;
  Warp &w = warps[me / LANES];
  if (!(mask >> lane & 1)) simt_fail("%s at line %d: lane %u is not in its own mask", what, line, lane);
  if (w.arrived && (w.mask != mask || w.line != line || strcmp(w.what, what)))
    simt_fail("divergent warp: this lane is in %s at line %d, others in %s at line %d", what, line,
              w.what, w.line);
  w.mask = mask, w.line = fibers[me].line = line, w.what = what;
  char (*slots)[SIMT_SLOT] = w.slots[w.turn];
  memcpy(slots[lane], mine, n);
  w.arrived |= 1u << lane;
  if ((w.arrived & w.live) == (mask & w.live)) release(me / LANES);
  else wait_as(AT_WARP);
  return slots[0];
}
// Two exchanges: one to meet, and one so that nobody is still in front when the order is counted.
void simt_warp_barrier(unsigned mask, int line) {
  const char nothing = 0;
  const uint32_t before = warps[me / LANES].synced;
  simt_exchange(mask, &nothing, 1, line, "__syncwarp");
  warps[me / LANES].synced = before + 1;
  simt_exchange(mask, &nothing, 1, line, "__syncwarp (left)");
}

void simt_copy(void *to, const void *from, int n, int filled, int line) {
  if ((uintptr_t)to % n || (uintptr_t)from % n)
    simt_fail("asynchronous copy at line %d between addresses that are no multiples of %d", line, n);
  Region *r = find((char *)to);
  if (!r || !r->shared || (char *)to + n > r->low + r->size)
    simt_fail("asynchronous copy at line %d to what is no shared memory", line);
  Copy c{(char *)to, (size_t)n, {}};
  if (filled) access((void *)from, filled, false);
  memcpy(c.bytes, from, filled);
  access(to, n, true);
  memset(to, 0xff, n);
  for (int i = 0; i < n; i++) r->cells[c.to - r->low + i].flying = true;
  flights[me].back().push_back(c);
}
void simt_read(const void *from, size_t n) { access((void *)from, n, false); }
void simt_commit(void) { flights[me].push_back(Copies()); }
void simt_wait(int groups) {
  std::vector<Copies> &f = flights[me];
  while ((int)f.size() - 1 > groups) {
    for (const Copy &c : f.front()) {
      Region *r = find(c.to);
      for (size_t i = 0; i < c.n; i++) r->cells[c.to - r->low + i].flying = false;
      access(c.to, c.n, true);
      memcpy(c.to, c.bytes, c.n);
    }
    f.erase(f.begin());
  }
}

// ---- what Python calls
void simt_add(void *p, size_t n, const char *name, int shared) {
  regions[(char *)p] = Region{(char *)p, n, std::vector<char>(name, name + strlen(name) + 1),
                              std::vector<Cell>(n), shared != 0};
  last = nullptr;
}
void simt_drop(void *p) {
  regions.erase((char *)p);
  last = nullptr;
}
void simt_uncounted(void *p) { find((char *)p)->counted = false; }
void simt_known(void *p, size_t n) {  // the host has written it
  Region *r = find((char *)p);
  for (size_t i = 0; r && i < n; i++) r->cells[(char *)p - r->low + i].known = true;
}
uint64_t simt_moved(int written) { return moved[written]; }
void *simt_dynamic(void) { return dynamic_low; }
int simt_launch(void (*kernel)(void *), void *args, unsigned blocks, unsigned threads, int how,
                void *low, void *high, size_t dynamic) {
  if (threads < 1 || threads > MOST) return 2;
  if (!stacks)
    stacks = (char *)mmap(nullptr, STACK * MOST, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  body = kernel, arguments = args, thread_count = threads, block_count = blocks;
  failed = false, message[0] = 0, moved[0] = moved[1] = 0;
  shared_low = (char *)low, shared_high = (char *)high;
  if (high > low) simt_add(low, shared_high - shared_low, "shared memory", 1);
  std::vector<char> room(dynamic + 2 * ROOM);  // nobody's bytes stand around it
  dynamic_low = (char *)(((uintptr_t)room.data() + ROOM) / 128 * 128), dynamic_size = dynamic;
  if (dynamic) simt_add(dynamic_low, dynamic, "dynamic shared memory", 1);
  launch_first = ++epoch;
  arrange(how);
  for (unsigned b = 0; b < blocks && !failed; b++) {
    block = how == 1 ? blocks - 1 - b : b;
    run_block();
  }
  me = -1;
  if (high > low) simt_drop(low);
  if (dynamic) simt_drop(dynamic_low);
  dynamic_size = 0;
  return failed;
}
}
#include "hooks.h"
