// Work(evaluations=629760, iterations=768, loaded=49536, stored=43008)
// ("GemmParams(form='packed', lanes=16, mr=8, nv=3, depth=48, rows=64, span=85, piece=1, inline=False, in_place=True, abreast=1, together=0, parts=1, passing=False, held=None, panels=1, asked=1, symmetric=False, lying=False)",)
// k_stage0 reads [1] writes [4]
// k reads [0, 2, 4] writes [3]
static inline __attribute__((always_inline)) vf k_a_k(const float *const b0, const float *const b1, const float *const b2, float *const b3, int64_t z0, int64_t m0, int64_t k0) {
  const vf v7_0 = vf_load(b0 + (k0 + m0 * 48));
  return v7_0;
}
static inline __attribute__((always_inline)) vf k_a_k_left(const float *const b0, const float *const b1, const float *const b2, float *const b3, int64_t z0, int64_t m0, int64_t k0, const int left) {
  const int mask = (1 << left) - 1; (void)mask;
  const vb lanes = lane_range(0, left - 1); (void)lanes;
  const vf v7_0 = vf_loadm(b0 + (k0 + m0 * 48), mask);
  return v7_0;
}
static inline __attribute__((always_inline)) vf k_b0_k(const float *const b0, const float *const b1, const float *const b2, float *const b3, int64_t z0, int64_t n0, int64_t k0) {
  const vf v8_0 = vf_load(b1 + (k0 + n0 * 48));
  return v8_0;
}
static inline __attribute__((always_inline)) void k_out0_n(const float *const b0, const float *const b1, const float *const b2, float *const b3, int64_t z0, int64_t m0, int64_t n0, const vf s0) {
  const vf v4_0 = vf_load(b2 + n0);
  const vf v5_0 = (s0 + v4_0);
  const vf v6_0 = vf_relu(v5_0);
  vf_store(b3 + (n0 + m0 * 96), v6_0);
}
static inline __attribute__((always_inline)) void k_out0_n_left(const float *const b0, const float *const b1, const float *const b2, float *const b3, int64_t z0, int64_t m0, int64_t n0, const vf s0, const int left) {
  const int mask = (1 << left) - 1; (void)mask;
  const vb lanes = lane_range(0, left - 1); (void)lanes;
  const vf v4_0 = vf_loadm(b2 + n0, mask);
  const vf v5_0 = (s0 + v4_0);
  const vf v6_0 = vf_relu(v5_0);
  vf_storem(b3 + (n0 + m0 * 96), v6_0, mask);
}
// A block of 16 x 16: interleaving the halves log2(16) times.
static inline __attribute__((always_inline)) void k_transpose(vf *r) {
#pragma GCC unroll 8
  for (int s = 1; s < 16; s *= 2) {
    vf t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16 / 2; i++) {
      t[2 * i] = __builtin_shufflevector(r[i], r[i + 16 / 2], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 16 / 2], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) r[i] = t[i];
  }
}

// Shares of threads: ranges of batch items, of row panels and of column panels. The grid is the one
// whose busiest thread has least to do; 6 and 0 are what one element of an operand costs
// to evaluate, in multiply-adds. Panels that were packed ahead, more than a thread's own cache holds,
// are read for each block of rows anew, in the time of 20 rows at least.
struct k_grid { int64_t b, i, q, tb, tm, tn; };
struct k_share { int64_t b0, b1, i0, i1, q0, q1; };
static struct k_grid k_cut(int64_t b, int64_t mp, int64_t np, int64_t mr, int64_t nr,
    int64_t depth, int nt) {
  struct k_grid g = {b, mp, np, 0, 0, 0};  // of nothing
  int64_t best = INT64_MAX;
  if (b <= 0 || mp <= 0 || np <= 0) return g;
  for (int64_t x = 1; x <= nt && x <= b; x++)
    for (int64_t y = 1; y * x <= nt && y <= mp; y++) {
      int64_t z = nt / (x * y) < np ? nt / (x * y) : np;
      int64_t cb = (b + x - 1) / x, cm = (mp + y - 1) / y * mr, cn = (np + z - 1) / z * nr;
      int64_t far = cn * depth * (int64_t)sizeof(float) > rt_own_cache / 4 * 3;
      int64_t read = far ? (cm + 64 - 1) / 64 * 20 : 0, rows = cm > read ? cm : read;
      int64_t cost = cb * (rows * cn + cm * 6 + cn * 0);
      if (cost < best) { best = cost; g.tb = x; g.tm = y; g.tn = z; }
    }
  return g;
}
static struct k_share k_of(struct k_grid g, int tid) {
  if (tid >= g.tb * g.tm * g.tn) return (struct k_share){0, 0, 0, 0, 0, 0};
  int64_t i = tid % g.tm, j = tid / g.tm % g.tn, p = tid / (g.tm * g.tn);
  return (struct k_share){g.b * p / g.tb, g.b * (p + 1) / g.tb, g.i * i / g.tm, g.i * (i + 1) / g.tm,
                             g.q * j / g.tn, g.q * (j + 1) / g.tn};
}

// The product of a block of rows of A with panels of B: the only code that multiplies.
typedef float k_wide __attribute__((vector_size(64)));
typedef float k_memory __attribute__((vector_size(64), aligned(sizeof(float)), may_alias));
#if defined(__clang__)
#define CONTRACTED
#else
#define CONTRACTED __attribute__((noinline, optimize("fp-contract=fast")))
#endif
// t[8][48] = (more ? t : 0) + a . b over kc steps: a holds 8 rows with stride `as`, b is a panel
// [kc][48]. What is read later, of the coming panel from `next` on (`pace` bytes a step) or of this
// one, is fetched meanwhile.
#define PRODUCT(NAME, NV)                                                                         \
  static CONTRACTED void NAME(int64_t kc, const float *restrict a, const int64_t as,                 \
      const float *restrict b, float *restrict t, int more, const char *next, int64_t pace) {           \
    CONTRACT                                                                                      \
    k_wide acc[8][NV];                                                                       \
    _Pragma("GCC unroll 16") for (int i = 0; i < 8; i++)                                        \
      _Pragma("GCC unroll 8") for (int j = 0; j < NV; j++) acc[i][j] = (k_wide){0};            \
    _Pragma("GCC unroll 2") for (int64_t p = 0; p < kc; p++) {                                    \
      k_wide bv[NV];                                                                           \
      __builtin_prefetch(next, 0, 2); next += pace;                                                                                        \
      _Pragma("GCC unroll 8") for (int j = 0; j < NV; j++)                                        \
        bv[j] = *(const k_memory *)(b + p * 48 + 16 * j);                       \
      _Pragma("GCC unroll 16") for (int i = 0; i < 8; i++)                                      \
        _Pragma("GCC unroll 8") for (int j = 0; j < NV; j++) acc[i][j] += bv[j] * a[i * as + p];  \
    }                                                                                             \
    _Pragma("GCC unroll 16") for (int i = 0; i < 8; i++)                                        \
      _Pragma("GCC unroll 8") for (int j = 0; j < NV; j++) {                                      \
        k_memory *o = (k_memory *)(t + i * 48 + 16 * j);                           \
        *o = more ? acc[i][j] + *o : acc[i][j];                                                   \
      }                                                                                           \
  }
#if defined(__clang__)
#define CONTRACT _Pragma("clang fp contract(fast)")
#else
#define CONTRACT
#endif
PRODUCT(k_product_3, 3)
#undef CONTRACTED
#undef CONTRACT
#undef PRODUCT

// Rows of a block, of so many: blocks are equally tall, for each reads all panels.
static int64_t k_tall(int64_t rows) {
  const int64_t tiles = (rows + 8 - 1) / 8, cuts = (tiles + 64 / 8 - 1) / (64 / 8);
  return (tiles + cuts - 1) / cuts * 8;
}

// How many bytes of the coming panel are asked for at a step, while so many rows meet this one: all of
// it, evenly, for what is far away comes as fast as that and no faster.
static int64_t k_pace(int64_t rows) {
  const int64_t tiles = (rows + 8 - 1) / 8;
  return tiles > 3 ? (3 * 64 + tiles - 1) / tiles : 64;
}

// Rows row .. row+rows of A over the outer steps ko0 .. ko1 of k, with stride `as`; rows up to a
// multiple of 8 are 0.
static void k_fill(const float *const b0, const float *const b1, const float *const b2, float *const b3, int64_t z0,  int64_t row, int64_t rows, int64_t ko0, int64_t ko1,
    const int64_t as, float *restrict o) {
  int64_t i = 0;
  while (i < rows) {
    const int64_t m0 = row + i;
    {
      float *restrict at = o + i * as;
       {
        int64_t k0 = ko0;
        for (; k0 + 16 <= ko1; k0 += 16, at += 16)
          vf_store(at, k_a_k(b0, b1, b2, b3, z0,  m0,  k0));

      }
      i++;
    }

  }
  for (; i % 8; i++) memset(o + i * as, 0, (ko1 - ko0) * (1) * sizeof(float));

}

// Panels q0 .. q1 of B over the outer steps ko0 .. ko1 of k: [panel][deep][48], the last column again
// past it. B is contiguous along k: blocks of 16 x 16 are transposed, in registers.
static void k_pack0(const float *const b0, const float *const b1, const float *const b2, float *const b3, int64_t z0,  int64_t q0, int64_t q1, int64_t ko0, int64_t ko1,
    int64_t deep, float *restrict to) {
  for (int64_t g = q0 * 3; g < q1 * 3; g++) {
    const int64_t first = g * 16;
    float *restrict at = to + (g / 3) * deep * 48 + g % 3 * 16;

    int64_t n0_[16];
    for (int64_t j = 0; j < 16; j++) {
      const int64_t n0 = first + j < 96 - 1 ? first + j : 96 - 1;
      n0_[j] = n0;
    }
     {
      int64_t k0 = ko0;
      for (; k0 + 16 <= ko1; k0 += 16, at += 16 * 48) {
        vf r[16];
#pragma GCC unroll 16
        for (int j = 0; j < 16; j++) {
          const int64_t n0 = n0_[j];
          r[j] = k_b0_k(b0, b1, b2, b3, z0,  n0,  k0);
        }
        k_transpose(r);
#pragma GCC unroll 16
        for (int j = 0; j < 16; j++) vf_store(at + j * 48, r[j]);
      }

    }
  }
}

// What becomes of sums of rows row .. row+rows and columns col .. col+cols, which lie in t0 with
// row stride ts.
static void k_finish0(const float *const b0, const float *const b1, const float *const b2, float *const b3, int64_t z0,  int64_t row, int64_t rows, int64_t col,
    int64_t cols, int64_t ts, const float *restrict t0) {
  for (int64_t i = 0; i < rows; i++) {
    const int64_t m0 = row + i;
    int64_t j = 0;
    const int64_t first = col;
    int64_t n0 = first + j;
    while (j < cols) {
      if (cols == 48) { for (; j < 48; j += 16, n0 += 16) k_out0_n(b0, b1, b2, b3, z0, m0, n0, vf_load(t0 + i * ts + j)); break; }

    }
  }
}

// A block of rows against the column panels q0 .. q1 of one batch item, of those from low to high that
// meet these rows. fresh: the rows are not in scratch memory yet. Sums of a depth that takes several
// blocks of k rest in `sums`, tile by tile.
static void k_block(const float *const b0, const float *const b1, const float *const b2, float *const b3, int64_t z0,  int64_t row, int64_t rows, int64_t tall, int64_t q0, int64_t q1,
    int64_t low, int64_t high, int64_t fresh, const float *panels0,  char *ws) {
  const int64_t from0 = 0;
  const int64_t from1 = from0 + (96 + 47) / 48;
  const int64_t steps = 48, blocks = 48 > steps ? (48 + steps - 1) / steps : 1;
  const int64_t as = 80, deep = 48, span = blocks > 1 ? 85 : q1 - q0, pace = k_pace(rows);
  float *const a = (float *)ws;
  float *const tile = (float *)(ws + ((tall + 0) * as * sizeof(float) + 63) / 64 * 64), *const sums = tile + 1 * 1 * 8 * 48;

  for (int64_t c0 = q0; c0 < q1; c0 += span) {
    const int64_t c1 = q1 - c0 > span ? c0 + span : q1;
    // Panels that are read one after the other, and once more from the first on.
    const int64_t first = blocks > 1 ? c0 : low, last = blocks > 1 ? c1 : high; (void)first; (void)last;
    for (int64_t kb = 0; kb < blocks; kb++) {
      const int64_t ko0 = kb * steps, ko1 = 48 - ko0 < steps ? 48 : ko0 + steps;
      const int64_t kc = (ko1 - ko0) * (1), at = ko0 * (1);
      const int64_t after = kb + 1 < blocks ? at + kc : 0;  // depth that the first panel is next read at
      if (blocks > 1 || fresh) {
          const int64_t whole = rows / 8 * 8;
          if (whole < rows) k_fill(b0, b1, b2, b3, z0, row + whole, rows - whole, ko0, ko1, as, a + whole * as);
      }
        const int64_t whole = rows / 8 * 8; const int64_t stride = 48;
        const float *const in = b0 + (ko0 + row * 48);
        for (int64_t q = c0 > from0 ? c0 : from0; q < c1 && q < from1; q++) {
          const int64_t col = (q - from0) * 48, cols = 96 - col < 48 ? 96 - col : 48;
          for (int64_t i = 0; i < rows; i += 8) {
            const int64_t ahead = i / 8 * (kc / 1) * pace;
            float *const t = blocks == 1 ? tile : sums + ((q - c0) * (tall / 8) + i / 8) * (1 * 8 * 48);

            {
              const float *const b = panels0 + ((q - from0) * deep + at) * 48;
              const char *const next = (const char *)(q + 1 < last && q + 1 < from1 ? (b + deep * 48) : panels0 + ((first > from0 ? first - from0 : 0) * deep + after) * 48) + ahead;
k_product_3(kc, i < whole ? in + i * stride : a + i * as, i < whole ? stride : as, b, t + 0, kb > 0, next, pace);
            }

            if (kb == blocks - 1)
              k_finish0(b0, b1, b2, b3, z0,  row + i, rows - i < 8 ? rows - i : 8, col, cols,
                  48, t + 0);
          }
        }

    }
  }
}

// B0 in panels, for every batch item.
void k_stage0(void *const *buffers, const int64_t *sizes, int tid, int nt) {
  const float *const b0 = (const float *)buffers[0];
  const float *const b1 = (const float *)buffers[1];
  const float *const b2 = (const float *)buffers[2];
  float *const b3 = (float *)buffers[3];
  float *const to = buffers[4];
  const int64_t panels = (96 + 48 - 1) / 48, cuts = (panels + 1 - 1) / 1;
  const int64_t depth = 48, deep = (48 + depth - 1) / depth + (48 == 0), units = (1) * cuts * deep;
  for (int64_t u = units * tid / nt; u < units * (tid + 1) / nt; u++) {
    const int64_t batch = u / (cuts * deep), c = u / deep % cuts, d = u % deep;
    const int64_t z0 = batch; (void)z0;
    k_pack0(b0, b1, b2, b3, z0,  c * 1, (c + 1) * 1 < panels ? (c + 1) * 1 : panels,
        d * depth, (d + 1) * depth < 48 ? (d + 1) * depth : 48,
        48, to + (batch * panels * (48) + d * depth * (1)) * 48);
  }
}

// A piece is some panels of columns against a block of rows, or several such, of one share: what one
// thread leaves of its share another takes over. Rows that stay are not evaluated again.
void k(void *const *buffers, const int64_t *sizes, int tid, int nt) {
  const float *const b0 = (const float *)buffers[0];
  const float *const b1 = (const float *)buffers[1];
  const float *const b2 = (const float *)buffers[2];
  float *const b3 = (float *)buffers[3];
  const int64_t row_panels = (64 + 8 - 1) / 8;
  const int64_t from0 = 0;
  const int64_t from1 = from0 + (96 + 47) / 48;
  const struct k_grid grid = k_cut(1, row_panels, from1, 8, 48, 48, nt);
  if (!grid.tm) return;
  const int64_t steps = 48, as = 80, highest = (row_panels + grid.tm - 1) / grid.tm * 8;
  const int64_t widest = (from1 + grid.tn - 1) / grid.tn, most = highest < 64 ? highest : 64;
  const int64_t span = 48 > steps ? (widest < 85 ? widest : 85) : 0;
  const int64_t head = ((most + 0) * as * sizeof(float) + 63) / 64 * 64
      + (1 + span * (most / 8)) * (1 * 8 * 48) * sizeof(float) + 256;
  int64_t bytes = (head + 63) / 64 * 64;

  char *const ws = rt_scratch(bytes);

  int64_t batch_here = -1, row_here = -1;  // whose rows rest in scratch memory
  const double whole = (double)(1) * row_panels * from1 * (48) * (8 * 48) / 1048576 / nt;
  const int pieces = nt == 1 || whole < 1 ? 1 : whole < 32 ? (int)whole : 32;
  struct rt_pieces todo = rt_pieces(tid, nt, pieces);
  for (int64_t piece; (piece = rt_next(&todo)) >= 0;) {
    const struct k_share s = k_of(grid, piece / pieces);
    const int64_t row0 = s.i0 * 8, row1 = s.i1 * 8 < 64 ? s.i1 * 8 : 64, wide = s.q1 - s.q0;
    if (s.b0 >= s.b1 || row0 >= row1 || wide <= 0) continue;
    const int64_t tall = k_tall(row1 - row0), blocks = (row1 - row0 + tall - 1) / tall;
    // Of a depth of several blocks each cut reads all rows again, so there are fewer, and wide ones.
    const int64_t cut_in = span ? 4 : pieces, even = (wide + cut_in - 1) / cut_in;
    const int64_t deep = even > 0 ? even : 0;
    const int64_t each = !span ? even : deep < span ? deep : span, cuts = (wide + each - 1) / each;
    const int64_t units = (s.b1 - s.b0) * blocks * cuts, end = units * (piece % pieces + 1) / pieces;
    for (int64_t u = units * (piece % pieces) / pieces, here; u < end; u += here) {
      const int64_t at = u / cuts, cut = u % cuts, batch = s.b0 + at / blocks, row = row0 + at % blocks * tall;
      const int64_t fresh = batch != batch_here || row != row_here;
      const int64_t q0 = s.q0 + cut * each, q1 = q0 + (here = cuts - cut < end - u ? cuts - cut : end - u) * each;
      const int64_t z0 = batch; (void)z0;

      batch_here = batch, row_here = row;
      k_block(b0, b1, b2, b3, z0,  row, row1 - row < tall ? row1 - row : tall, tall, q0, q1 < s.q1 ? q1 : s.q1,
          s.q0, s.q1, fresh, (const float *)buffers[4] + 0,  ws);
    }
  }
}
