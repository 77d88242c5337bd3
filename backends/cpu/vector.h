// Vectors of TEGG_LANES lanes: types, memory, masks, conversions, selection and reduction.
//
// Registers are named by a letter: f float, d double, i int32, l int64, u uint8, c int8, b bool
// (a mask of int32 lanes, 0 or -1; a scalar bool is 0 or 1). Memory has two more: h float16 and
// g bfloat16, which are float registers. v_ functions take vectors, s_ ones scalars. With TEGG_BYTES
// lanes, in kernels that compute in bytes alone, the lanes of masks of b, u and c are int8.
#pragma once
#include <stdint.h>
#include <string.h>

#ifndef TEGG_LANES
#if defined(__AVX512F__)
#define TEGG_LANES 16
#elif defined(__AVX2__)
#define TEGG_LANES 8
#else
#define TEGG_LANES 4
#endif
#endif

#if defined(__znver1__) || defined(__znver2__) || defined(__znver3__) || defined(__znver4__) || \
    defined(__znver5__)
#define TEGG_ZEN
#endif

// Whether a vector is one register of this CPU, and gcc's builtins for it are there. Wider ones are
// right too, a register or a lane at a time.
#if defined(__clang__) || !defined(__SSE2__)
#define V_REGISTER 0
#elif TEGG_LANES == 16 && !defined(__AVX512F__) || TEGG_LANES == 8 && !defined(__AVX__)
#define V_REGISTER 0
#else
#define V_REGISTER 1
#endif

// Whether a vector of 64-bit lanes is one register: in kernels that mostly have such.
#if TEGG_LANES == 8 && defined(__AVX512F__) || TEGG_LANES == 4 && defined(__AVX2__)
#define V_ONE 1
#else
#define V_ONE 0
#endif

#define TEGG_BYTES 32

#define INL static inline __attribute__((always_inline, unused))
#define VECTOR(T, NAME) \
  typedef T NAME __attribute__((vector_size(sizeof(T) * TEGG_LANES))); \
  typedef T NAME##_any __attribute__((vector_size(sizeof(T) * TEGG_LANES), \
                                      aligned(sizeof(T)), may_alias));
VECTOR(float, vf)
VECTOR(double, vd)
VECTOR(int32_t, vi)
VECTOR(int64_t, vl)
VECTOR(uint8_t, vu)
VECTOR(int8_t, vc)
VECTOR(uint16_t, vs)  // the bits of halves
VECTOR(int16_t, vw)   // bytes on the way to other numbers
#undef VECTOR

#define FOR_LANES for (int k = 0; k < TEGG_LANES; k++)

#define ADD_PRODUCT(a, b, c) ((a) * (b) + (c))  // of integers; of others v_fma (vecmath.h)

// acc += v * s, of float32 vectors and a number s. GCC puts a sum wherever a register is free, and where
// sums fill all of them copies and spills follow; or it reads v again for each product. In place, as the
// instruction can, convolutions took 0.9 times as long on Zen 3. With AVX-512 there are registers to
// spare, and s is an operand in memory.
#if defined(__FMA__) && !defined(__AVX512F__) && !defined(__clang__) && TEGG_LANES <= 8
#define ADD_SCALED(acc, v, s) \
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(v), "x"((s) - (vf){0}))
#else
#define ADD_SCALED(acc, v, s) ((acc) += (v) * (s))
#endif

// ---- memory that is wanted soon; any address will do
INL void fetch_read(const void *p) { __builtin_prefetch(p, 0, 3); }
INL void fetch_write(const void *p) { __builtin_prefetch(p, 1, 3); }
#ifdef TEGG_ZEN  // the hardware follows several runs by itself: asking took longer on Zen 4
INL void fetch_run(const void *p) { (void)p; }
#else
INL void fetch_run(const void *p) { __builtin_prefetch(p, 0, 3); }
#endif

// ---- memory that begins with a cache line: where it is, or a copy of it
INL void *at_line(void *p, void *copy, size_t bytes) {
  return (uintptr_t)p % 64 ? memcpy(copy, p, bytes) : p;
}

// ---- indices
INL int64_t clamp_index(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }
INL int in_range(int64_t i, int64_t low, int64_t high) { return i >= low && i <= high; }
INL int64_t nonzero(int64_t d) { return d ? d : 1; }
INL int64_t floor_div(int64_t a, int64_t b) { int64_t q = a / b; return a % b < 0 ? q - 1 : q; }
INL int64_t floor_mod(int64_t a, int64_t b) { int64_t r = a % b; return r < 0 ? r + b : r; }

// ---- lanes
// Numbers of lanes are spelt out: where they are a loop, gcc unrolls it anew in each place.
#define FOUR(k) (k), (k) + 1, (k) + 2, (k) + 3
#define EIGHT(k) FOUR(k), FOUR((k) + 4)
#define SIXTEEN(k) EIGHT(k), EIGHT((k) + 8)
#if TEGG_LANES == TEGG_BYTES
#define IOTA(V) ((V){SIXTEEN(0), SIXTEEN(16)})
#elif TEGG_LANES == 16
#define IOTA(V) ((V){SIXTEEN(0)})
#elif TEGG_LANES == 8
#define IOTA(V) ((V){EIGHT(0)})
#else
#define IOTA(V) ((V){FOUR(0)})
#endif
INL vi vi_iota(void) { return IOTA(vi); }
INL vl vl_iota(void) { return IOTA(vl); }

// The lanes low .. high, as bits and as a vector.
INL int lane_mask(int64_t low, int64_t high) {
  if (low < 0) low = 0;
  if (high > TEGG_LANES - 1) high = TEGG_LANES - 1;
  return low > high ? 0 : (int)((2u << high) - (1u << low));
}
#if TEGG_LANES == TEGG_BYTES
typedef vc vb;
INL vb vb_iota(void) { return IOTA(vb); }
#else
typedef vi vb;
#define vb_iota vi_iota
#endif
INL vb lane_range(int64_t low, int64_t high) {
  int8_t a = low < 0 ? 0 : low > TEGG_LANES ? TEGG_LANES : (int8_t)low;
  int8_t b = high < -1 ? -1 : high > TEGG_LANES ? TEGG_LANES : (int8_t)high;
  return (vb_iota() >= a) & (vb_iota() <= b);
}

#undef IOTA
#undef SIXTEEN
#undef EIGHT
#undef FOUR

INL vf vf_splat(float x) { return x - (vf){0}; }
INL vd vd_splat(double x) { return x - (vd){0}; }
INL vi vi_splat(int32_t x) { return x + (vi){0}; }
INL vl vl_splat(int64_t x) { return x + (vl){0}; }
INL vu vu_splat(uint8_t x) { return x + (vu){0}; }
INL vc vc_splat(int8_t x) { return x + (vc){0}; }
INL vb vb_splat(int x) { return (int8_t)-(x != 0) + (vb){0}; }

// ---- conversions between registers
// gcc widens in two halves, and makes a conversion to lanes of four times the size, or of a quarter,
// lane by lane: AVX-512 has an instruction for each, and elsewhere bytes go by way of 16 bits.
#define TO(A, VA, B, VB) \
  INL VB v##A##_to_##B(VA x) { return __builtin_convertvector(x, VB); }
TO(f, vf, i, vi) TO(f, vf, l, vl)
TO(d, vd, f, vf) TO(d, vd, i, vi) TO(d, vd, l, vl)
TO(i, vi, f, vf)
TO(l, vl, f, vf) TO(l, vl, d, vd) TO(l, vl, i, vi)
TO(u, vu, c, vc) TO(c, vc, u, vu)
#if V_ONE && V_REGISTER && TEGG_LANES == 4 && __has_builtin(__builtin_ia32_cvtps2pd256)
INL vd vf_to_d(vf x) { return __builtin_ia32_cvtps2pd256(x); }
INL vd vi_to_d(vi x) { return __builtin_ia32_cvtdq2pd256(x); }
INL vl vi_to_l(vi x) { return (vl)__builtin_ia32_pmovsxdq256(x); }
#elif V_ONE && V_REGISTER && TEGG_LANES == 8 && __has_builtin(__builtin_ia32_cvtps2pd512_mask)
INL vd vf_to_d(vf x) { return __builtin_ia32_cvtps2pd512_mask(x, (vd){0}, -1, 4); }
INL vd vi_to_d(vi x) { return __builtin_ia32_cvtdq2pd512_mask(x, (vd){0}, -1); }
INL vl vi_to_l(vi x) {
  typedef long long to_ __attribute__((vector_size(sizeof(vl))));
  return (vl)__builtin_ia32_pmovsxdq512_mask(x, (to_){0}, -1);
}
#else
TO(f, vf, d, vd) TO(i, vi, d, vd) TO(i, vi, l, vl)
#endif
#undef TO
#if TEGG_LANES == 16 && defined(__AVX512F__) && __has_builtin(__builtin_ia32_pmovzxwd512_mask)
#define BY(A, VA, BUILTIN, T, B, VB, TB) \
  INL VB v##A##_to_##B(VA x) { \
    typedef T from_ __attribute__((vector_size(sizeof(VA)))); \
    typedef TB to_ __attribute__((vector_size(sizeof(VB)))); \
    return (VB)__builtin_ia32_##BUILTIN##512_mask((from_)x, (to_){0}, -1); \
  }
BY(u, vu, pmovzxbd, char, i, vi, int) BY(c, vc, pmovsxbd, char, i, vi, int)
BY(s, vs, pmovzxwd, short, i, vi, int) BY(i, vi, pmovdw, int, s, vs, short)
BY(i, vi, pmovdb, int, u, vu, char)
INL vc vi_to_c(vi x) { return (vc)vi_to_u(x); }
#undef BY
#else
#define BY(A, VA, HALF, B, VB) \
  INL VB v##A##_to_##B(VA x) { return __builtin_convertvector(__builtin_convertvector(x, HALF), VB); }
#if TEGG_LANES == 8 && defined(__AVX2__) && __has_builtin(__builtin_ia32_pmovzxbd256)
#define OF(A, VA, BUILTIN) \
  INL vi v##A##_to_i(VA x) { \
    typedef long long pair_ __attribute__((vector_size(16))); \
    typedef char from_ __attribute__((vector_size(16))); \
    long long low; \
    memcpy(&low, &x, 8); \
    return __builtin_ia32_##BUILTIN##256((from_)(pair_){low, 0}); \
  }
OF(u, vu, pmovzxbd) OF(c, vc, pmovsxbd)
#undef OF
INL vi vs_to_i(vs x) {
  typedef short from_ __attribute__((vector_size(16)));
  return __builtin_ia32_pmovzxwd256((from_)x);
}
#else
BY(u, vu, vs, i, vi) BY(c, vc, vw, i, vi)
INL vi vs_to_i(vs x) { return __builtin_convertvector(x, vi); }
#endif
BY(i, vi, vs, u, vu) BY(i, vi, vw, c, vc)
#undef BY
INL vs vi_to_s(vi x) { return __builtin_convertvector(x, vs); }
#endif
#define BYTES(A, VA, B, VB) \
  INL VB v##A##_to_##B(VA x) { return vi_to_##B(v##A##_to_i(x)); } \
  INL VA v##B##_to_##A(VB x) { return vi_to_##A(v##B##_to_i(x)); }
BYTES(f, vf, u, vu) BYTES(d, vd, u, vu) BYTES(l, vl, u, vu)
BYTES(f, vf, c, vc) BYTES(d, vd, c, vc) BYTES(l, vl, c, vc)
#undef BYTES

// ---- comparison: lanes as wide as the operands', 0 or -1; of scalars 0 or 1
// gcc takes a comparison of vectors wider than a register apart into branches, so those of 64-bit
// lanes are made of two registers, unless they fill one.
#if V_ONE
#define HALVES(V, NAME, OP) INL vl NAME(V a, V b) { return a OP b; }
#else
#define HALVES(V, NAME, OP) \
  INL vl NAME(V a, V b) { \
    typedef typeof(a[0]) half_ __attribute__((vector_size(4 * TEGG_LANES))); \
    typedef int64_t mask_ __attribute__((vector_size(4 * TEGG_LANES))); \
    union { V whole; half_ half[2]; } x = {a}, y = {b}; \
    union { vl whole; mask_ half[2]; } r; \
    for (int h = 0; h < 2; h++) r.half[h] = x.half[h] OP y.half[h]; \
    return r.whole; \
  }
#endif
HALVES(vd, vd_less, <) HALVES(vd, vd_less_equal, <=) HALVES(vd, vd_equal, ==)
HALVES(vl, vl_less, <) HALVES(vl, vl_less_equal, <=) HALVES(vl, vl_equal, ==)
#undef HALVES
#define LESS(a, b) ((a) < (b))
#define LESS_EQUAL(a, b) ((a) <= (b))
#define EQUAL(a, b) ((a) == (b))
#define vf_less LESS
#define vf_less_equal LESS_EQUAL
#define vf_equal EQUAL
#define vi_less LESS
#define vi_less_equal LESS_EQUAL
#define vi_equal EQUAL
#define vu_less LESS
#define vu_less_equal LESS_EQUAL
#define vu_equal EQUAL
#define vc_less LESS
#define vc_less_equal LESS_EQUAL
#define vc_equal EQUAL
#define sf_less LESS
#define sf_less_equal LESS_EQUAL
#define sf_equal EQUAL
#define sd_less LESS
#define sd_less_equal LESS_EQUAL
#define sd_equal EQUAL
#define si_less LESS
#define si_less_equal LESS_EQUAL
#define si_equal EQUAL
#define sl_less LESS
#define sl_less_equal LESS_EQUAL
#define sl_equal EQUAL
#define su_less LESS
#define su_less_equal LESS_EQUAL
#define su_equal EQUAL
#define sc_less LESS
#define sc_less_equal LESS_EQUAL
#define sc_equal EQUAL

// ---- selection: the mask is a bool, whatever is selected
INL vf vf_sel(vi m, vf a, vf b) { return (vf)(((vi)a & m) | ((vi)b & ~m)); }
INL vi vi_sel(vi m, vi a, vi b) { return (a & m) | (b & ~m); }
INL vl vl_sel(vi m, vl a, vl b) {
  vl w = __builtin_convertvector(m, vl);
  return (a & w) | (b & ~w);
}
INL vd vd_sel(vi m, vd a, vd b) { return (vd)vl_sel(m, (vl)a, (vl)b); }
#if TEGG_LANES == TEGG_BYTES
INL vc vc_sel(vb m, vc a, vc b) { return (a & m) | (b & ~m); }
#define vb_sel vc_sel
#else
INL vc vc_sel(vb m, vc a, vc b) {
  vc w = vi_to_c(m);
  return (a & w) | (b & ~w);
}
#define vb_sel vi_sel
#endif
INL vu vu_sel(vb m, vu a, vu b) { return (vu)vc_sel(m, (vc)a, (vc)b); }
#define SCALAR_SEL(c, a, b) ((c) ? (a) : (b))
#define sf_sel SCALAR_SEL
#define sd_sel SCALAR_SEL
#define si_sel SCALAR_SEL
#define sl_sel SCALAR_SEL
#define su_sel SCALAR_SEL
#define sc_sel SCALAR_SEL
#define sb_sel SCALAR_SEL

// ---- the result of a comparison as a bool
#define vf_test(m) (m)
#define vi_test(m) (m)
#define vd_test(m) __builtin_convertvector(m, vi)
#define vl_test(m) __builtin_convertvector(m, vi)
#if TEGG_LANES == TEGG_BYTES
#define vc_test(m) (m)
#else
#define vc_test(m) vc_to_i(m)
#endif
#define vu_test(m) vc_test((vc)(m))
#define sf_test(x) (x)
#define sd_test(x) (x)
#define si_test(x) (x)
#define sl_test(x) (x)
#define su_test(x) (x)
#define sc_test(x) (x)

// ---- bool
#define vb_or(a, b) ((a) | (b))
#define vb_and(a, b) ((a) & (b))
#define vb_not(a) (~(a))
#define vb_less(a, b) (~(a) & (b))
#define vb_less_equal(a, b) (~(a) | (b))
#define vb_equal(a, b) (~((a) ^ (b)))
#define sb_or(a, b) ((a) | (b))
#define sb_and(a, b) ((a) & (b))
#define sb_not(a) (!(a))
#define sb_less(a, b) ((a) < (b))
#define sb_less_equal(a, b) ((a) <= (b))
#define sb_equal(a, b) ((a) == (b))

// ---- maximum and minimum of floats: a where it is beyond b or NaN, else b. So NaN propagates, and what
// is joined to b, the best so far, waits for one instruction of AVX-512.
#if V_REGISTER && TEGG_LANES == 16
#define EXTREME(L, V, S, NAME, LOW, HIGH) \
  INL V v##L##_##NAME(V a, V b) { \
    typedef typeof(a[0]) part_ __attribute__((vector_size(64))); \
    enum { PARTS = sizeof(V) / 64, ORDERED = 7 }; \
    union { V whole; part_ parts[PARTS]; } x = {a}, y = {b}; \
    for (int k = 0; k < PARTS; k++) \
      x.parts[k] = __builtin_ia32_##NAME##S##512_mask( \
          x.parts[k], y.parts[k], x.parts[k], \
          __builtin_ia32_cmp##S##512_mask(x.parts[k], x.parts[k], ORDERED, -1, 4), 4); \
    return x.whole; \
  }
#else
#define EXTREME(L, V, S, NAME, LOW, HIGH) \
  INL V v##L##_##NAME(V a, V b) { \
    typeof(v##L##_less(a, b)) m_ = v##L##_less(LOW, HIGH) | ~v##L##_equal(a, a); \
    return (V)(((typeof(m_))a & m_) | ((typeof(m_))b & ~m_)); \
  }
#endif
EXTREME(f, vf, ps, max, b, a) EXTREME(f, vf, ps, min, a, b)
EXTREME(d, vd, pd, max, b, a) EXTREME(d, vd, pd, min, a, b)
#undef EXTREME

// ---- arithmetic that C does not spell as an operator
#define FLOATS(L, V, T, BITS, SIGN, SUFFIX) \
  INL T s##L##_max(T a, T b) { return a > b || a != a ? a : b; } \
  INL T s##L##_min(T a, T b) { return a < b || a != a ? a : b; } \
  INL V v##L##_abs(V a) { return (V)((BITS)a & SIGN); } \
  INL T s##L##_abs(T a) { return __builtin_fabs##SUFFIX(a); } \
  INL V v##L##_floor(V a) { V r; FOR_LANES r[k] = __builtin_floor##SUFFIX(a[k]); return r; } \
  INL T s##L##_floor(T a) { return __builtin_floor##SUFFIX(a); } \
  INL T s##L##_mod(T a, T b) { return __builtin_fmod##SUFFIX(a, b); }
FLOATS(f, vf, float, vi, 0x7fffffff, f)
FLOATS(d, vd, double, vl, 0x7fffffffffffffffll, )
#undef FLOATS

// Division by 0 gives 0; dividing the lowest value by -1 wraps.
#define INTEGERS(L, V, T, SIGNED) \
  INL T s##L##_div(T a, T b) { return b == 0 ? 0 : SIGNED && b == (T)-1 ? (T)(0 - a) : (T)(a / b); } \
  INL T s##L##_mod(T a, T b) { return b == 0 || (SIGNED && b == (T)-1) ? 0 : (T)(a % b); } \
  INL T s##L##_max(T a, T b) { return a > b ? a : b; } \
  INL T s##L##_min(T a, T b) { return a < b ? a : b; } \
  INL V v##L##_abs(V a) { \
    return SIGNED ? v##L##_sel(v##L##_test(v##L##_less(a, (V){0})), -a, a) : a; \
  } \
  INL T s##L##_abs(T a) { return SIGNED && a < 0 ? (T)(0 - a) : a; }
INTEGERS(i, vi, int32_t, 1)
INTEGERS(l, vl, int64_t, 1)
INTEGERS(u, vu, uint8_t, 0)
INTEGERS(c, vc, int8_t, 1)
#undef INTEGERS

// No processor divides vectors of integers. A quotient of two of 32 bits, rounded to a double, is below
// the next integer if it was, and so is one of two of 8 bits that is rounded to a float.
INL vi vi_div(vi a, vi b) {
  const vi none = b == 0, back = b == -1, by = (b & ~(none | back)) | ((none | back) & 1);
  const vi q = vd_to_i(vi_to_d(a) / vi_to_d(by));
  return ((q & ~back) | (-a & back)) & ~none;
}
INL vi vi_mod(vi a, vi b) { return (a - vi_div(a, b) * b) & ~(b == 0); }
#define BYTES(L, V) \
  INL V v##L##_div(V a, V b) { \
    const vi y = v##L##_to_i(b), none = y == 0; \
    const vf q = vi_to_f(v##L##_to_i(a)) / vi_to_f(y | (none & 1)); \
    return vi_to_##L(vf_to_i(q) & ~none); \
  } \
  INL V v##L##_mod(V a, V b) { return (a - v##L##_div(a, b) * b) & ~(V)(b == 0); }
BYTES(u, vu) BYTES(c, vc)
#undef BYTES
INL vl vl_div(vl a, vl b) { vl r; FOR_LANES r[k] = sl_div(a[k], b[k]); return r; }
INL vl vl_mod(vl a, vl b) { vl r; FOR_LANES r[k] = sl_mod(a[k], b[k]); return r; }

#define EXTREMES(L, V) \
  INL V v##L##_max(V a, V b) { return v##L##_sel(v##L##_test(v##L##_less(b, a)), a, b); } \
  INL V v##L##_min(V a, V b) { return v##L##_sel(v##L##_test(v##L##_less(a, b)), a, b); }
EXTREMES(i, vi) EXTREMES(u, vu) EXTREMES(c, vc)
#undef EXTREMES

// Of 64 bits register by register: compilers take two of them apart lane by lane.
typedef long long part_l __attribute__((vector_size(4 * TEGG_LANES)));
#if V_REGISTER && TEGG_LANES == 16
#define PART_MAX(a, b) __builtin_ia32_pmaxsq512_mask(a, b, a, (char)-1)
#define PART_MIN(a, b) __builtin_ia32_pminsq512_mask(a, b, a, (char)-1)
#else
#define PART_PICK(m, a, b) (((m) & (a)) | (~(m) & (b)))
#define PART_MAX(a, b) PART_PICK((a) > (b), a, b)
#define PART_MIN(a, b) PART_PICK((a) < (b), a, b)
#endif
#if V_ONE
#define EXTREME(NAME, CALL) INL vl vl_##NAME(vl a, vl b) { return CALL(a, b); }
#else
#define EXTREME(NAME, CALL) \
  INL vl vl_##NAME(vl a, vl b) { \
    union { vl whole; part_l parts[2]; } x = {a}, y = {b}; \
    for (int k = 0; k < 2; k++) x.parts[k] = CALL(x.parts[k], y.parts[k]); \
    return x.whole; \
  }
#endif
EXTREME(max, PART_MAX) EXTREME(min, PART_MIN)
#undef EXTREME
#undef PART_MAX
#undef PART_MIN
#undef PART_PICK

#define NUMBERS(L, V, T) \
  INL V v##L##_add(V a, V b) { return a + b; } \
  INL T s##L##_add(T a, T b) { return (T)(a + b); } \
  INL V v##L##_mul(V a, V b) { return a * b; } \
  INL T s##L##_mul(T a, T b) { return (T)(a * b); } \
  INL T s##L##_relu(T a) { return a < 0 ? 0 : a; }
NUMBERS(f, vf, float)
NUMBERS(d, vd, double)
NUMBERS(i, vi, int32_t)
NUMBERS(l, vl, int64_t)
NUMBERS(u, vu, uint8_t)
NUMBERS(c, vc, int8_t)
#undef NUMBERS

#define RELU(L, V) \
  INL V v##L##_relu(V a) { return v##L##_sel(v##L##_test(v##L##_less(a, (V){0})), (V){0}, a); }
RELU(f, vf) RELU(d, vd) RELU(i, vi) RELU(u, vu) RELU(c, vc)
#undef RELU
INL vl vl_relu(vl a) { return vl_max(a, (vl){0}); }

// Horizontal sums, maxima and products, in pairs.
#define HORIZONTAL(L, V, T, OP) \
  INL T v##L##_h##OP(V a) { \
    T r[TEGG_LANES]; \
    FOR_LANES r[k] = a[k]; \
    for (int n = TEGG_LANES / 2; n; n /= 2) \
      for (int k = 0; k < n; k++) r[k] = s##L##_##OP(r[k], r[k + n]); \
    return r[0]; \
  }
HORIZONTAL(d, vd, double, add) HORIZONTAL(d, vd, double, max)
HORIZONTAL(i, vi, int32_t, add) HORIZONTAL(i, vi, int32_t, max)
HORIZONTAL(l, vl, int64_t, add) HORIZONTAL(l, vl, int64_t, max)
HORIZONTAL(u, vu, uint8_t, add) HORIZONTAL(u, vu, uint8_t, max)
HORIZONTAL(c, vc, int8_t, add) HORIZONTAL(c, vc, int8_t, max)
HORIZONTAL(f, vf, float, mul) HORIZONTAL(d, vd, double, mul) HORIZONTAL(i, vi, int32_t, mul)
HORIZONTAL(l, vl, int64_t, mul) HORIZONTAL(u, vu, uint8_t, mul) HORIZONTAL(c, vc, int8_t, mul)
#undef HORIZONTAL

// Lane k takes lane (k + n) mod TEGG_LANES.
INL vf vf_rotate(vf a, int n) {
#ifdef __clang__
  vf r;
  FOR_LANES r[k] = a[(k + n) & (TEGG_LANES - 1)];
  return r;
#else
  return __builtin_shuffle(a, (vi_iota() + n) & (TEGG_LANES - 1));
#endif
}
INL float vf_hadd(vf a) {
  for (int n = TEGG_LANES / 2; n; n /= 2) a += vf_rotate(a, n);
  return a[0];
}
INL float vf_hmax(vf a) {
  for (int n = TEGG_LANES / 2; n; n /= 2) a = vf_max(a, vf_rotate(a, n));
  return a[0];
}
INL int vb_hand(vb a) { int r = 1; FOR_LANES r &= a[k] != 0; return r; }
INL int vb_hor(vb a) { int r = 0; FOR_LANES r |= a[k]; return r != 0; }

#define REVERSE(L, V) \
  INL V v##L##_reverse(V a) { V r = a; FOR_LANES r[k] = a[TEGG_LANES - 1 - k]; return r; }
REVERSE(f, vf)
REVERSE(i, vi)
REVERSE(d, vd)
REVERSE(l, vl)
REVERSE(u, vu)
REVERSE(c, vc)
#undef REVERSE

// ---- conversions of what comparisons give, and of scalars
#if TEGG_LANES == TEGG_BYTES
#define vb_reverse vc_reverse
#define vb_to_c(m) (-(m))
#define vb_to_u(m) ((vu)-(m))
#else
#define vb_reverse vi_reverse
#define vb_to_i(m) (-(m))
#define vb_to_f(m) vi_to_f(-(m))
#define vb_to_d(m) vi_to_d(-(m))
#define vb_to_l(m) vi_to_l(-(m))
#define vb_to_u(m) vi_to_u(-(m))
#define vb_to_c(m) vi_to_c(-(m))
#endif
#define SCALAR_TO(A, TA) \
  INL float s##A##_to_f(TA x) { return (float)x; } \
  INL double s##A##_to_d(TA x) { return (double)x; } \
  INL int32_t s##A##_to_i(TA x) { return (int32_t)x; } \
  INL int64_t s##A##_to_l(TA x) { return (int64_t)x; } \
  INL uint8_t s##A##_to_u(TA x) { return (uint8_t)(int32_t)x; } \
  INL int8_t s##A##_to_c(TA x) { return (int8_t)(int32_t)x; }
SCALAR_TO(f, float)
SCALAR_TO(d, double)
SCALAR_TO(i, int32_t)
SCALAR_TO(l, int64_t)
SCALAR_TO(u, uint8_t)
SCALAR_TO(c, int8_t)
SCALAR_TO(b, int)
#undef SCALAR_TO

// ---- halves: to nearest even, as IEEE 754 asks; all values, infinities and NaN included
INL float bits_float(int32_t i) { float f; memcpy(&f, &i, 4); return f; }
INL int32_t float_bits(float f) { int32_t i; memcpy(&i, &f, 4); return i; }
INL float h_to_f(uint16_t h) {
  int32_t em = (h & 0x7fff) << 13;
  float f = bits_float(em) * 0x1p112f;
  if (em >= 0x7c00 << 13) f = bits_float(em | 0x7f800000);
  return bits_float(float_bits(f) | (int32_t)((uint32_t)(h & 0x8000) << 16));
}
INL uint16_t f_to_h(float x) {
  int32_t b = float_bits(x), a = b & 0x7fffffff;
  int32_t normal = (a + 0xfff + ((a >> 13) & 1) - 0x38000000) >> 13;
  int32_t tiny = float_bits(bits_float(a) + 0.5f) - 0x3f000000;
  int32_t h = a < 0x38800000 ? tiny : a >= 0x47800000 ? 0x7c00 : normal;
  if (a > 0x7f800000) h = 0x7e00;
  return (uint16_t)(h | ((b >> 16) & 0x8000));
}
INL float g_to_f(uint16_t g) { return bits_float((int32_t)((uint32_t)g << 16)); }
INL uint16_t f_to_g(float x) {
  uint32_t b = (uint32_t)float_bits(x);
  if ((b & 0x7fffffff) > 0x7f800000) return (uint16_t)((b >> 16) | 0x40);
  return (uint16_t)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}

#if TEGG_LANES == 16 && defined(__AVX512F__) && __has_builtin(__builtin_ia32_vcvtph2ps512_mask)
typedef short tegg_bits16 __attribute__((vector_size(32)));
INL vf vs_h_to_f(vs h) { return __builtin_ia32_vcvtph2ps512_mask((tegg_bits16)h, (vf){0}, -1, 4); }
INL vs vs_f_to_h(vf x) { return (vs)__builtin_ia32_vcvtps2ph512_mask(x, 0, (tegg_bits16){0}, -1); }
#elif TEGG_LANES == 8 && defined(__F16C__) && __has_builtin(__builtin_ia32_vcvtph2ps256)
typedef short tegg_bits16 __attribute__((vector_size(16)));
INL vf vs_h_to_f(vs h) { return __builtin_ia32_vcvtph2ps256((tegg_bits16)h); }
INL vs vs_f_to_h(vf x) { return (vs)__builtin_ia32_vcvtps2ph256(x, 0); }
#else
INL vf vs_h_to_f(vs h) {
  vi w = vs_to_i(h), em = (w & 0x7fff) << 13, big = em >= (0x7c00 << 13);
  vi f = (vi)((vf)em * 0x1p112f);
  return (vf)(vi_sel(big, em | 0x7f800000, f) | ((w & 0x8000) << 16));
}
INL vs vs_f_to_h(vf x) {
  vi b = (vi)x, a = b & 0x7fffffff;
  vi normal = (a + 0xfff + ((a >> 13) & 1) - 0x38000000) >> 13;
  vi tiny = (vi)((vf)a + 0.5f) - 0x3f000000;
  vi h = vi_sel(a < 0x38800000, tiny, vi_sel(a >= 0x47800000, vi_splat(0x7c00), normal));
  h = vi_sel(a > 0x7f800000, vi_splat(0x7e00), h);
  return vi_to_s(h | ((b >> 16) & 0x8000));
}
#endif
#if TEGG_LANES == 16 && defined(__AVX512VBMI__) && \
    __has_builtin(__builtin_ia32_permvarqi512_mask) && __has_builtin(__builtin_ia32_si512_256si)
INL vf vs_g_to_f(vs g) {  // bytes to their places, and zeros: one instruction, not two
  typedef char bytes_ __attribute__((vector_size(64)));
  typedef int half_ __attribute__((vector_size(32)));
#define FROM(k) 2 * (k), 2 * (k) + 1, 2 * (k), 2 * (k) + 1
  const bytes_ from = {FROM(0), FROM(1), FROM(2), FROM(3), FROM(4), FROM(5), FROM(6), FROM(7), FROM(8),
                       FROM(9), FROM(10), FROM(11), FROM(12), FROM(13), FROM(14), FROM(15)};
#undef FROM
  return (vf)__builtin_ia32_permvarqi512_mask((bytes_)__builtin_ia32_si512_256si((half_)g), from,
                                              (bytes_){0}, 0xccccccccccccccccull);
}
#else
INL vf vs_g_to_f(vs g) { return (vf)(vs_to_i(g) << 16); }
#endif
INL vf vf_near_g(vf x) {
  vi b = (vi)x, near = (b + 0x7fff + ((b >> 16) & 1)) & (int32_t)0xffff0000;
#if TEGG_LANES == 16 && defined(__AVX512F__) && __has_builtin(__builtin_ia32_pord512_mask)
  return (vf)__builtin_ia32_pord512_mask(b & (int32_t)0xffff0000, vi_splat(0x400000), near,
                                         __builtin_ia32_cmpps512_mask(x, x, 3, -1, 4));
#else
  return (vf)vi_sel((b & 0x7fffffff) > 0x7f800000, (b & (int32_t)0xffff0000) | 0x400000, near);
#endif
}
#if TEGG_LANES == 16 && defined(__AVX512BF16__) && defined(__AVX512DQ__) && \
    __has_builtin(__builtin_ia32_fpclassps512_mask)
INL int vf_subnormal(vf x) { return __builtin_ia32_fpclassps512_mask(x, 0x20, -1); }
INL vs vs_f_to_g(vf x) {  // by one instruction, which takes subnormal numbers for 0
  vs g;
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(g) : "v"(x));
  const int m = vf_subnormal(x);
  if (__builtin_expect(m, 0)) {
    const vi b = (vi)x;
    g = (vs)__builtin_ia32_pmovdw512_mask((b + 0x7fff + (b >> 16 & 1)) >> 16, (tegg_bits16)g, m);
  }
  return g;
}
INL vf vg_round(vf x) { return vs_g_to_f(vs_f_to_g(x)); }
#else
INL vs vs_f_to_g(vf x) { return vi_to_s((vi)vf_near_g(x) >> 16); }
INL vf vg_round(vf x) { return vf_near_g(x); }
#endif
INL vf vh_round(vf x) { return vs_h_to_f(vs_f_to_h(x)); }
INL float sh_round(float x) { return h_to_f(f_to_h(x)); }
INL float sg_round(float x) { return g_to_f(f_to_g(x)); }

// ---- memory: whole vectors, and those lanes whose bit in m is set
// gcc before 12.4 and 13.2 reads whole vectors where it knows the mask of a masked load (its bug
// 110309), past the end of an array; so it must not know it. Nor may it make masked vector code of
// lanes that are taken one by one: some of its masked stores touch what they do not write.
#define HIDE(m) __asm__("" : "+r"(m))
#define APART __asm__ volatile("" ::: "memory")
#define MEMORY(L, V, T) \
  INL V v##L##_load(const T *p) { return *(const V##_any *)p; } \
  INL void v##L##_store(T *p, V x) { *(V##_any *)p = x; }
#define MASKED(L, V, T) \
  INL V v##L##_loadm(const T *p, int m) { \
    V r = {0}; \
    FOR_LANES { if (m >> k & 1) r[k] = p[k]; APART; } \
    return r; \
  } \
  INL void v##L##_storem(T *p, V x, int m) { \
    FOR_LANES { if (m >> k & 1) p[k] = x[k]; APART; } \
  }
MEMORY(f, vf, float)
MEMORY(d, vd, double)
MEMORY(i, vi, int32_t)
MEMORY(l, vl, int64_t)
MEMORY(u, vu, uint8_t)
MEMORY(c, vc, int8_t)
MEMORY(s, vs, uint16_t)
MASKED(d, vd, double)
MASKED(l, vl, int64_t)
#if TEGG_LANES == 16 && defined(__AVX512F__)
INL vf vf_loadm(const float *p, int m) {
  HIDE(m);
  return __builtin_ia32_loadups512_mask(p, (vf){0}, (uint16_t)m);
}
INL void vf_storem(float *p, vf x, int m) {
  HIDE(m);
  __builtin_ia32_storeups512_mask(p, x, (uint16_t)m);
}
INL vi vi_loadm(const int32_t *p, int m) { return (vi)vf_loadm((const float *)p, m); }
INL void vi_storem(int32_t *p, vi x, int m) { vf_storem((float *)p, (vf)x, m); }
#elif TEGG_LANES == 8 && defined(__AVX2__)
INL vi mask_lanes(int m) { return (vi_splat(m) & (1 << vi_iota())) != 0; }
INL vi vi_loadm(const int32_t *p, int m) { return __builtin_ia32_maskloadd256((const vi *)p, mask_lanes(m)); }
#ifdef TEGG_ZEN  // masked stores are slow there, pieces of the first lanes are not
__attribute__((noinline, unused)) static void vi_storem(int32_t *p, vi x, int m) {
  if (m & (m + 1)) {  // others than the first ones
    __builtin_ia32_maskstored256((vi *)p, mask_lanes(m), x);
    return;
  }
  const char *from = (const char *)&x;
  for (; m & 8; p += 4, from += 16, m >>= 4) memcpy(p, from, 16);
  if (m & 2) {
    memcpy(p, from, 8);
    p += 2, from += 8, m >>= 2;
  }
  if (m & 1) memcpy(p, from, 4);
}
#else
INL void vi_storem(int32_t *p, vi x, int m) { __builtin_ia32_maskstored256((vi *)p, mask_lanes(m), x); }
#endif
INL vf vf_loadm(const float *p, int m) { return (vf)vi_loadm((const int32_t *)p, m); }
INL void vf_storem(float *p, vf x, int m) { vi_storem((int32_t *)p, (vi)x, m); }
#else
MASKED(f, vf, float)
MASKED(i, vi, int32_t)
#endif
#if TEGG_LANES == 16 && defined(__AVX512BW__) && defined(__AVX512VL__)
typedef char tegg_bytes __attribute__((vector_size(16)));
INL vu vu_loadm(const uint8_t *p, int m) {
  HIDE(m);
  return (vu)__builtin_ia32_loaddquqi128_mask((const void *)p, (tegg_bytes){0}, (uint16_t)m);
}
INL void vu_storem(uint8_t *p, vu x, int m) {
  HIDE(m);
  __builtin_ia32_storedquqi128_mask((void *)p, (tegg_bytes)x, (uint16_t)m);
}
INL vs vs_loadm(const uint16_t *p, int m) {
  HIDE(m);
  return (vs)__builtin_ia32_loaddquhi256_mask((const void *)p, (tegg_bits16){0}, (uint16_t)m);
}
INL void vs_storem(uint16_t *p, vs x, int m) {
  HIDE(m);
  __builtin_ia32_storedquhi256_mask((void *)p, (tegg_bits16)x, (uint16_t)m);
}
INL vc vc_loadm(const int8_t *p, int m) { return (vc)vu_loadm((const uint8_t *)p, m); }
INL void vc_storem(int8_t *p, vc x, int m) { vu_storem((uint8_t *)p, (vu)x, m); }
#elif TEGG_LANES == TEGG_BYTES  // mostly the first lanes, and so many that one by one would take long
INL vu vu_loadm(const uint8_t *p, int m) {
  vu r = {0};
  if (m & (m + 1)) {
    FOR_LANES { if (m >> k & 1) r[k] = p[k]; APART; }
  } else memcpy(&r, p, (size_t)__builtin_popcount((unsigned)m));
  return r;
}
INL void vu_storem(uint8_t *p, vu x, int m) {
  if (m & (m + 1)) {
    FOR_LANES { if (m >> k & 1) p[k] = x[k]; APART; }
  } else memcpy(p, &x, (size_t)__builtin_popcount((unsigned)m));
}
INL vc vc_loadm(const int8_t *p, int m) { return (vc)vu_loadm((const uint8_t *)p, m); }
INL void vc_storem(int8_t *p, vc x, int m) { vu_storem((uint8_t *)p, (vu)x, m); }
MASKED(s, vs, uint16_t)
#else
MASKED(u, vu, uint8_t)
MASKED(c, vc, int8_t)
MASKED(s, vs, uint16_t)
#endif
#undef MEMORY
#undef MASKED
#undef HIDE
#undef APART
#define HALF(L) \
  INL vf v##L##_load(const uint16_t *p) { return vs_##L##_to_f(vs_load(p)); } \
  INL vf v##L##_loadm(const uint16_t *p, int m) { return vs_##L##_to_f(vs_loadm(p, m)); } \
  INL void v##L##_store(uint16_t *p, vf x) { vs_store(p, vs_f_to_##L(x)); } \
  INL void v##L##_storem(uint16_t *p, vf x, int m) { vs_storem(p, vs_f_to_##L(x), m); } \
  INL float s##L##_load(const uint16_t *p) { return L##_to_f(*p); } \
  INL void s##L##_store(uint16_t *p, float x) { *p = f_to_##L(x); }
HALF(h)
HALF(g)
#undef HALF
// What is a number of bfloat16 already: nothing is rounded.
INL void vg_keep(uint16_t *p, vf x) { vs_store(p, vi_to_s((vi)x >> 16)); }
INL void sg_keep(uint16_t *p, float x) { *p = (uint16_t)(float_bits(x) >> 16); }
// A copy in float32, which begins with a cache line, of what is read again and again.
#define LINE(L) \
  INL float *L##_line(const uint16_t *p, void *copy, size_t bytes) { \
    const long n = (long)(bytes / sizeof(float)); \
    float *to = copy; \
    long i = 0; \
    for (; i + TEGG_LANES <= n; i += TEGG_LANES) vf_store(to + i, v##L##_load(p + i)); \
    for (; i < n; i++) to[i] = s##L##_load(p + i); \
    return to; \
  }
LINE(h) LINE(g)
#undef LINE
// Two vectors side by side: one instruction rounds both in the time that it takes for one.
#if TEGG_LANES == 16 && defined(__AVX512BF16__) && defined(__AVX512DQ__) && \
    __has_builtin(__builtin_ia32_fpclassps512_mask)
INL void vg_store_pair(uint16_t *p, vf a, vf b) {
  vi g;
  __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(g) : "v"(a), "v"(b));
  if (__builtin_expect(vf_subnormal(a) | vf_subnormal(b), 0)) {
    vg_store(p, a);
    vg_store(p + TEGG_LANES, b);
  } else vi_store((int32_t *)p, g);
}
#else
INL void vg_store_pair(uint16_t *p, vf a, vf b) {
  vg_store(p, a);
  vg_store(p + TEGG_LANES, b);
}
#endif
// Compared as bytes: gcc 12 widens what it loads one by one.
INL vb vb_load(const uint8_t *p) { return vc_test((vc)(vu_load(p) != 0)); }
INL vb vb_loadm(const uint8_t *p, int m) { return vc_test((vc)(vu_loadm(p, m) != 0)); }
INL void vb_store(uint8_t *p, vb x) { vu_store(p, vb_to_u(x)); }
INL void vb_storem(uint8_t *p, vb x, int m) { vu_storem(p, vb_to_u(x), m); }
#define SCALAR_MEMORY(L, T) \
  INL T s##L##_load(const T *p) { return *p; } \
  INL void s##L##_store(T *p, T x) { *p = x; }
SCALAR_MEMORY(f, float)
SCALAR_MEMORY(d, double)
SCALAR_MEMORY(i, int32_t)
SCALAR_MEMORY(l, int64_t)
SCALAR_MEMORY(u, uint8_t)
SCALAR_MEMORY(c, int8_t)
#undef SCALAR_MEMORY
INL int sb_load(const uint8_t *p) { return *p != 0; }
INL void sb_store(uint8_t *p, int x) { *p = x != 0; }
#undef FOR_LANES
