// Sums, products and maxima so far along the lanes of a vector, after what came before it.
//
//   vd_running_add(before, a)   lane k: before + a[0] + ... + a[k];   _mul, _max;   of f d i l
//
// Each register is joined with itself, moved on by 1, 2, 4, ... lanes; `before` comes last, so that
// what follows waits for one operation only. NaN stays, in a maximum too.
#pragma once

#define RUN_MOVED_16_1 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
#define RUN_MOVED_16_2 0, 1, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29
#define RUN_MOVED_16_4 0, 1, 2, 3, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27
#define RUN_MOVED_16_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define RUN_MOVED_8_1 0, 8, 9, 10, 11, 12, 13, 14
#define RUN_MOVED_8_2 0, 1, 8, 9, 10, 11, 12, 13
#define RUN_MOVED_8_4 0, 1, 2, 3, 8, 9, 10, 11
#define RUN_MOVED_4_1 0, 4, 5, 6
#define RUN_MOVED_4_2 0, 1, 4, 5
#define RUN_MOVED_2_1 0, 2
#define RUN_STEP(N, S, JOIN) r = JOIN(__builtin_shufflevector(none, r, RUN_MOVED_##N##_##S), r);
#define RUN_2(JOIN) RUN_STEP(2, 1, JOIN)
#define RUN_4(JOIN) RUN_STEP(4, 1, JOIN) RUN_STEP(4, 2, JOIN)
#define RUN_8(JOIN) RUN_STEP(8, 1, JOIN) RUN_STEP(8, 2, JOIN) RUN_STEP(8, 4, JOIN)
#define RUN_16(JOIN) \
  RUN_STEP(16, 1, JOIN) RUN_STEP(16, 2, JOIN) RUN_STEP(16, 4, JOIN) RUN_STEP(16, 8, JOIN)
#define RUN_NAME(N) RUN_NAME_(N)
#define RUN_NAME_(N) RUN_##N

#define RUN_ADD(a, b) ((a) + (b))
#define RUN_MUL(a, b) ((a) * (b))
#define RUN_MAX(a, b) ({ \
  const typeof(b) a_ = a, b_ = b; \
  const typeof(b_ < a_) m_ = (b_ < a_) | (a_ != a_); \
  (typeof(b))(((typeof(m_))a_ & m_) | ((typeof(m_))b_ & ~m_)); \
})

// H: vectors of N elements, which a register holds; V is one of them or two.
#define RUNNING(L, V, T, H, N, NAME, JOIN, NONE) \
  INL V v##L##_running_##NAME(T before, V a) { \
    union { V whole; H part[sizeof(V) / sizeof(H)]; } x = {a}; \
    const H none = (T)(NONE) - (H){0}, first = before - (H){0}; \
    H last = none; \
    for (int p = 0; p < (int)(sizeof(V) / sizeof(H)); p++) { \
      H r = x.part[p]; \
      RUN_NAME(N)(JOIN) \
      if (p) r = JOIN(last, r); \
      last = r[N - 1] - (H){0}; \
      x.part[p] = JOIN(first, r); \
    } \
    return x.whole; \
  }
#define RUNNINGS(L, V, T, H, N, LEAST) \
  RUNNING(L, V, T, H, N, add, RUN_ADD, 0) \
  RUNNING(L, V, T, H, N, mul, RUN_MUL, 1) \
  RUNNING(L, V, T, H, N, max, RUN_MAX, LEAST)
RUNNINGS(f, vf, float, vf, TEGG_LANES, -__builtin_inff())
RUNNINGS(i, vi, int32_t, vi, TEGG_LANES, INT32_MIN)
RUNNINGS(d, vd, double, turn_d, TURN_HALF, -__builtin_inf())
RUNNINGS(l, vl, int64_t, turn_l, TURN_HALF, INT64_MIN)
#undef RUNNING
#undef RUNNINGS
