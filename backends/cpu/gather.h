// Elements of an array at a vector of 32-bit (i) or 64-bit (l) positions, or of 64 bits of which 32
// would do (n):
//
//   vf_gather_i(p, i)      all lanes, and so for d, i and l in the place of f
//   vf_gatherm_i(p, i, m)  those of the mask m, of int32 lanes; the others are not read and give 0
//
//   vf_near(p, i, at, n)   all lanes of an axis of n, which begins at p, most of them near each other,
//                          as at an end of what is read: about from `at` on; vf_nearm, of a mask
//
// Positions and elements of 64 bits fill two registers. Compilers take such vectors apart lane by
// lane where they are compared or converted, so that is written by halves here.
#pragma once

#define HALF_BYTES (4 * TEGG_LANES)
typedef int64_t half_l __attribute__((vector_size(HALF_BYTES)));
typedef double half_d __attribute__((vector_size(HALF_BYTES)));
typedef float half_f __attribute__((vector_size(HALF_BYTES / 2)));
typedef int32_t half_i __attribute__((vector_size(HALF_BYTES / 2)));
typedef union { vl v; part_l q[2]; } halves_l;
typedef union { vd v; half_d h[2]; } halves_d;
typedef union { vf v; half_f h[2]; } halves_f;
typedef union { vi v; half_i h[2]; } halves_i;

// ---- registers of two halves, which do not go through memory where the compiler can say so
#if __has_builtin(__builtin_shufflevector) && TEGG_LANES == 16
#define LOW 0, 1, 2, 3, 4, 5, 6, 7
#define HIGH 8, 9, 10, 11, 12, 13, 14, 15
#elif __has_builtin(__builtin_shufflevector) && TEGG_LANES == 8
#define LOW 0, 1, 2, 3
#define HIGH 4, 5, 6, 7
#endif
#ifdef LOW
INL vf f_join(half_f a, half_f b) { return __builtin_shufflevector(a, b, LOW, HIGH); }
INL half_f f_low(vf a) { return __builtin_shufflevector(a, a, LOW); }
INL half_f f_high(vf a) { return __builtin_shufflevector(a, a, HIGH); }
INL half_i i_low(vi a) { return __builtin_shufflevector(a, a, LOW); }
INL half_i i_high(vi a) { return __builtin_shufflevector(a, a, HIGH); }
#undef LOW
#undef HIGH
#else
INL vf f_join(half_f a, half_f b) { return ((halves_f){.h = {a, b}}).v; }
INL half_f f_low(vf a) { return ((halves_f){a}).h[0]; }
INL half_f f_high(vf a) { return ((halves_f){a}).h[1]; }
INL half_i i_low(vi a) { return ((halves_i){a}).h[0]; }
INL half_i i_high(vi a) { return ((halves_i){a}).h[1]; }
#endif
INL part_l l_low(vl a) { return ((halves_l){a}).q[0]; }
INL part_l l_high(vl a) { return ((halves_l){a}).q[1]; }
INL vd d_join(half_d a, half_d b) { return ((halves_d){.h = {a, b}}).v; }

// ---- positions inside of an axis of n
INL vi vi_clamp(vi i, int64_t n) {
  int32_t top = n > INT32_MAX ? INT32_MAX : (int32_t)(n - 1);
  vi a = i & (i > 0), in = a < top;
  return (a & in) | (vi_splat(top) & ~in);
}
INL vl vl_clamp(vl i, int64_t n) { return vl_min(vl_max(i, (vl){0}), vl_splat(n - 1)); }

#if TEGG_LANES == 16 && defined(__AVX512F__) && __has_builtin(__builtin_ia32_gathersiv16sf)
#define LANE_BITS(m) ((uint16_t)__builtin_ia32_cmpd512_mask(m, (vi){0}, 4, (uint16_t)-1))
INL vf vf_gatherm_i(const float *p, vi i, vi m) {
  return __builtin_ia32_gathersiv16sf((vf){0}, p, i, (short)LANE_BITS(m), 4);
}
#define IN_HALVES(L, V, T, I, VI, CALL) \
  INL V v##L##_gatherm_##I(const T *p, VI i, vi m) { \
    uint16_t on = LANE_BITS(m); \
    return L##_join(CALL((half_##L){0}, p, I##_low(i), (char)on, sizeof(T)), \
                    CALL((half_##L){0}, p, I##_high(i), (char)(on >> 8), sizeof(T))); \
  }
IN_HALVES(f, vf, float, l, vl, __builtin_ia32_gatherdiv16sf)
IN_HALVES(d, vd, double, i, vi, __builtin_ia32_gathersiv8df)
IN_HALVES(d, vd, double, l, vl, __builtin_ia32_gatherdiv8df)
#undef LANE_BITS
#undef IN_HALVES
#elif TEGG_LANES == 8 && defined(__AVX2__) && __has_builtin(__builtin_ia32_gathersiv8sf)
INL vf vf_gatherm_i(const float *p, vi i, vi m) {
  return __builtin_ia32_gathersiv8sf((vf){0}, p, i, (vf)m, 4);
}
// The mask of a half: the sign of each element says whether it is read.
#define f_mask_low(m) f_low((vf)(m))
#define f_mask_high(m) f_high((vf)(m))
#define d_mask_low(m) ((half_d)__builtin_convertvector(i_low(m), half_l))
#define d_mask_high(m) ((half_d)__builtin_convertvector(i_high(m), half_l))
#define IN_HALVES(L, V, T, I, VI, CALL) \
  INL V v##L##_gatherm_##I(const T *p, VI i, vi m) { \
    return L##_join(CALL((half_##L){0}, p, I##_low(i), L##_mask_low(m), sizeof(T)), \
                    CALL((half_##L){0}, p, I##_high(i), L##_mask_high(m), sizeof(T))); \
  }
IN_HALVES(f, vf, float, l, vl, __builtin_ia32_gatherdiv4sf256)
IN_HALVES(d, vd, double, i, vi, __builtin_ia32_gathersiv4df)
IN_HALVES(d, vd, double, l, vl, __builtin_ia32_gatherdiv4df)
#undef f_mask_low
#undef f_mask_high
#undef d_mask_low
#undef d_mask_high
#undef IN_HALVES
#else
#define GATHER(L, V, T, I, VI) \
  INL V v##L##_gatherm_##I(const T *p, VI i, vi m) { \
    V r = {0}; \
    for (int k = 0; k < TEGG_LANES; k++) \
      if (m[k]) r[k] = p[i[k]]; \
    return r; \
  }
GATHER(f, vf, float, i, vi)
GATHER(f, vf, float, l, vl)
GATHER(d, vd, double, i, vi)
GATHER(d, vd, double, l, vl)
#undef GATHER
#endif

// ---- all lanes. AMD's gathers take twice as long as loads and inserts, and more.
#if defined(TEGG_ZEN) && TEGG_LANES >= 8 && defined(__SSE4_1__) && \
    __has_builtin(__builtin_shufflevector)
typedef float four_f __attribute__((vector_size(16)));
#define FOURS(I, T) \
  INL four_f f_four_##I(const float *p, const T *at) { \
    four_f x = {p[at[0]]}; \
    x = __builtin_ia32_insertps128(x, (four_f){p[at[1]]}, 0x10); \
    x = __builtin_ia32_insertps128(x, (four_f){p[at[2]]}, 0x20); \
    return __builtin_ia32_insertps128(x, (four_f){p[at[3]]}, 0x30); \
  }
FOURS(i, int32_t)
FOURS(l, int64_t)
#undef FOURS
#if TEGG_LANES == 16
INL half_f f_pair(four_f a, four_f b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7); }
#define f_half(I, p, at) f_pair(f_four_##I(p, at), f_four_##I(p, (at) + 4))
#else
#define f_half(I, p, at) f_four_##I(p, at)
#endif
#define INSERTED(I, VI, T) \
  INL vf vf_gather_##I(const float *p, VI i) { \
    T at[TEGG_LANES] __attribute__((aligned(64))); \
    memcpy(at, &i, sizeof(at)); \
    return f_join(f_half(I, p, at), f_half(I, p, at + TEGG_LANES / 2)); \
  }
INSERTED(i, vi, int32_t)
INSERTED(l, vl, int64_t)
#undef INSERTED
#undef f_half
INL vf vf_gather_n(const float *p, vl i) { return vf_gather_l(p, i); }
#else
INL vf vf_gather_i(const float *p, vi i) { return vf_gatherm_i(p, i, vb_splat(1)); }
INL vf vf_gather_l(const float *p, vl i) { return vf_gatherm_l(p, i, vb_splat(1)); }
INL vf vf_gather_n(const float *p, vl i) { return vf_gather_i(p, vl_to_i(i)); }
#endif
INL vf vf_gatherm_n(const float *p, vl i, vi m) { return vf_gatherm_i(p, vl_to_i(i), m); }
INL vd vd_gather_i(const double *p, vi i) { return vd_gatherm_i(p, i, vb_splat(1)); }
INL vd vd_gather_l(const double *p, vl i) { return vd_gatherm_l(p, i, vb_splat(1)); }
INL vd vd_gather_n(const double *p, vl i) { return vd_gather_i(p, vl_to_i(i)); }
INL vd vd_gatherm_n(const double *p, vl i, vi m) { return vd_gatherm_i(p, vl_to_i(i), m); }

// Integers are moved as floats of their size, bit by bit.
INL vi vi_gather_i(const int32_t *p, vi i) { return (vi)vf_gather_i((const void *)p, i); }
INL vi vi_gather_l(const int32_t *p, vl i) { return (vi)vf_gather_l((const void *)p, i); }
INL vi vi_gather_n(const int32_t *p, vl i) { return (vi)vf_gather_n((const void *)p, i); }
INL vl vl_gather_n(const int64_t *p, vl i) { return (vl)vd_gather_n((const void *)p, i); }
INL vl vl_gather_i(const int64_t *p, vi i) { return (vl)vd_gather_i((const void *)p, i); }
INL vl vl_gather_l(const int64_t *p, vl i) { return (vl)vd_gather_l((const void *)p, i); }
INL vi vi_gatherm_i(const int32_t *p, vi i, vi m) { return (vi)vf_gatherm_i((const void *)p, i, m); }
INL vi vi_gatherm_l(const int32_t *p, vl i, vi m) { return (vi)vf_gatherm_l((const void *)p, i, m); }
INL vi vi_gatherm_n(const int32_t *p, vl i, vi m) { return (vi)vf_gatherm_n((const void *)p, i, m); }
INL vl vl_gatherm_n(const int64_t *p, vl i, vi m) { return (vl)vd_gatherm_n((const void *)p, i, m); }
INL vl vl_gatherm_i(const int64_t *p, vi i, vi m) { return (vl)vd_gatherm_i((const void *)p, i, m); }
INL vl vl_gatherm_l(const int64_t *p, vl i, vi m) { return (vl)vd_gatherm_l((const void *)p, i, m); }

// ---- near each other: a load that stays inside of the axis, and a permutation
#if TEGG_LANES == 16 && defined(__AVX512F__) && __has_builtin(__builtin_ia32_permvarsf512_mask)
#define NEAR_ALL(k) ((uint16_t)__builtin_ia32_ucmpd512_mask(k, vi_splat(16), 1, (uint16_t)-1) == 0xffff)
#define NEAR_PICK(a, k) __builtin_ia32_permvarsf512_mask(a, k, (vf){0}, (uint16_t)-1)
#elif TEGG_LANES == 8 && defined(__AVX2__)
#define NEAR_ALL(k) (__builtin_ia32_movmskps256((vf)(((k) & ~7) == 0)) == 0xff)
#define NEAR_PICK(a, k) __builtin_ia32_permvarsf256(a, k)
#endif
INL vf vf_nearm(const float *p, vi i, vi m, int64_t at, int64_t n) {
#ifdef NEAR_ALL
  if (n >= TEGG_LANES) {
    at = at < 0 ? 0 : at > n - TEGG_LANES ? n - TEGG_LANES : at;
    const vi k = (i - (int32_t)at) & m;
    if (NEAR_ALL(k)) return (vf)((vi)NEAR_PICK(vf_load(p + at), k) & m);
  }
#endif
  return vf_gatherm_i(p, i, m);
}
INL vf vf_near(const float *p, vi i, int64_t at, int64_t n) {
#ifdef NEAR_ALL
  if (n >= TEGG_LANES) {
    at = at < 0 ? 0 : at > n - TEGG_LANES ? n - TEGG_LANES : at;
    const vi k = i - (int32_t)at;
    if (NEAR_ALL(k)) return NEAR_PICK(vf_load(p + at), k);
  }
#endif
  return vf_gather_i(p, i);
}
#undef NEAR_ALL
#undef NEAR_PICK
INL vi vi_near(const int32_t *p, vi i, int64_t at, int64_t n) {
  return (vi)vf_near((const void *)p, i, at, n);
}
INL vi vi_nearm(const int32_t *p, vi i, vi m, int64_t at, int64_t n) {
  return (vi)vf_nearm((const void *)p, i, m, at, n);
}

// ---- every other element, of the lanes in the bits of m; the others touch no memory and give 0
#if TEGG_LANES == 16
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#elif TEGG_LANES == 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#else
#define EVEN 0, 2, 4, 6
#endif
#if defined(__clang__) || __has_builtin(__builtin_shufflevector)
#define EVENS(a, b) __builtin_shufflevector(a, b, EVEN)
#else
#define EVENS(a, b) ({ \
    typeof(a) r_; \
    for (int k = 0; k < TEGG_LANES; k++) \
      r_[k] = k < TEGG_LANES / 2 ? a[2 * k] : b[2 * k - TEGG_LANES]; \
    r_; \
  })
#endif
#define EVERY_OTHER(L, V, T) \
  INL V v##L##_load_every_other(const T *p, int m) { \
    uint32_t bits = (uint32_t)m & (uint32_t)((1ull << TEGG_LANES) - 1); \
    bits = (bits | bits << 8) & 0x00ff00ffu; \
    bits = (bits | bits << 4) & 0x0f0f0f0fu; \
    bits = (bits | bits << 2) & 0x33333333u; \
    bits = (bits | bits << 1) & 0x55555555u; \
    const int low = (int)(bits & ((1u << TEGG_LANES) - 1)), high = (int)(bits >> TEGG_LANES); \
    V a = v##L##_loadm(p, low), b = v##L##_loadm(p + TEGG_LANES, high); \
    return EVENS(a, b); \
  }
EVERY_OTHER(f, vf, float) EVERY_OTHER(s, vs, uint16_t)
INL vf vg_load_every_other(const uint16_t *p, int m) { return vs_g_to_f(vs_load_every_other(p, m)); }
INL vf vh_load_every_other(const uint16_t *p, int m) { return vs_h_to_f(vs_load_every_other(p, m)); }
#undef EVERY_OTHER
#undef EVENS
#undef EVEN
