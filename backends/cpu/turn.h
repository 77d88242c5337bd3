// Squares of TEGG_LANES x TEGG_LANES elements turned over their diagonal, from memory to scratch.
//
//   vf_turn(t, pitch, p, stride, columns, rows)   float, and so for each letter that memory has
//
// t[j * pitch + k] becomes p[k * stride + j] for j below `columns` and k below `rows`, and 0 for
// the other k: scratch is read in whole vectors. Both may be more than TEGG_LANES. What comes next in
// each row is asked for, which of rows that are put in scratch backwards is what lies before: no
// hardware follows so many.
#pragma once

#define TURN_LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define TURN_HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define TURN_LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define TURN_HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define TURN_LOW_4 0, 4, 1, 5
#define TURN_HIGH_4 2, 6, 3, 7
#define TURN_LOW_2 0, 2
#define TURN_HIGH_2 1, 3

// V: vectors of N elements, which a register holds. A block of N x N is turned by interleaving its
// halves log2 N times.
#define TURN(L, T, REGISTER, R, V, N, LOAD, STORE) \
  static __attribute__((noinline, unused)) void v##L##_turn( \
      R *t, int pitch, const T *p, int64_t stride, int64_t columns, int64_t rows) { \
    if (columns < TEGG_LANES || rows < TEGG_LANES) { \
      for (int j = 0; j < TEGG_LANES && j < columns; j++) \
        for (int k = 0; k < TEGG_LANES; k++) \
          s##REGISTER##_store(t + j * pitch + k, k < rows ? s##L##_load(p + k * stride + j) : 0); \
      return; \
    } \
    for (int k = 0; k < TEGG_LANES; k++) \
      __builtin_prefetch((const char *)(p + k * stride) + (pitch < 0 ? -64 : 64)); \
    for (int j = 0; j < TEGG_LANES; j += N) \
      for (int k = 0; k < TEGG_LANES; k += N) { \
        V a[N], b[N]; \
        _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) a[i] = LOAD(p + (k + i) * stride + j); \
        _Pragma("GCC unroll 16") for (int s = 1; s < N; s *= 2) { \
          _Pragma("GCC unroll 16") for (int i = 0; i < N / 2; i++) { \
            b[2 * i] = __builtin_shufflevector(a[i], a[i + N / 2], TURN_NAME(LOW, N)); \
            b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + N / 2], TURN_NAME(HIGH, N)); \
          } \
          _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) a[i] = b[i]; \
        } \
        _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) STORE(t + (j + i) * pitch + k, a[i]); \
      } \
  }
#define TURN_NAME(WHICH, N) TURN_NAME_(WHICH, N)
#define TURN_NAME_(WHICH, N) TURN_##WHICH##_##N

// A register holds half as many elements of 64 bits, where vectors of them are not one.
#if TEGG_LANES << V_ONE == 16
#define TURN_HALF 8
#elif TEGG_LANES << V_ONE == 8
#define TURN_HALF 4
#else
#define TURN_HALF 2
#endif
typedef double turn_d __attribute__((vector_size(8 * TURN_HALF)));
typedef int64_t turn_l __attribute__((vector_size(8 * TURN_HALF)));
typedef double turn_d_any __attribute__((vector_size(8 * TURN_HALF), aligned(8), may_alias));
typedef int64_t turn_l_any __attribute__((vector_size(8 * TURN_HALF), aligned(8), may_alias));
#define TURN_READ_D(p) (*(const turn_d_any *)(p))
#define TURN_READ_L(p) (*(const turn_l_any *)(p))
#define TURN_WRITE_D(p, x) (*(turn_d_any *)(p) = (x))
#define TURN_WRITE_L(p, x) (*(turn_l_any *)(p) = (x))

TURN(f, float, f, float, vf, TEGG_LANES, vf_load, vf_store)
TURN(h, uint16_t, f, float, vf, TEGG_LANES, vh_load, vf_store)
TURN(g, uint16_t, f, float, vf, TEGG_LANES, vg_load, vf_store)
TURN(i, int32_t, i, int32_t, vi, TEGG_LANES, vi_load, vi_store)
TURN(u, uint8_t, u, uint8_t, vu, TEGG_LANES, vu_load, vu_store)
TURN(c, int8_t, c, int8_t, vc, TEGG_LANES, vc_load, vc_store)
TURN(b, uint8_t, b, uint8_t, vu, TEGG_LANES, vu_load, vu_store)
TURN(d, double, d, double, turn_d, TURN_HALF, TURN_READ_D, TURN_WRITE_D)
TURN(l, int64_t, l, int64_t, turn_l, TURN_HALF, TURN_READ_L, TURN_WRITE_L)
#undef TURN
