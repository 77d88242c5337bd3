// What stands above every kernel: types, scalar functions, and how a team of threads reduces.
// Metal Shading Language 2.3, compiled with fast maths: the compiler may take it that no value is
// NaN or infinite. So whatever tells such values from others, or picks among values, works on their
// bits, constants of that kind are hidden from it, and functions are the precise ones.
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

#ifndef SHARED
#define SHARED threadgroup
#endif
#define INL static inline __attribute__((always_inline))
#ifndef UNROLL
#define UNROLL _Pragma("clang loop unroll(full)")
#define PRAGMA(text) _Pragma(#text)
#define UNROLL_BY(n) PRAGMA(clang loop unroll_count(n))
#endif
typedef long int64_t;
typedef ulong uint64_t;

// ---- where a thread stands: parameters of every kernel
#define thread_id() ((int)thread_at)
#define lane_id() ((int)lane_at)
#define block_id() ((int)block_at)
#define block_count() ((int)blocks_in_all)
// Memory is two buffers: what stays from run to run, at ~offset, and all else, at offset.
INL device uchar *lies(device uchar *fixed, device uchar *memory, int64_t offset) {
  return offset < 0 ? fixed + ~offset : memory + offset;
}

// ---- constants that no compiler sees: `hidden` is 0, read from memory
#define __builtin_nanf(text) as_type<float>(0x7fc00000 | hidden)
#define __builtin_inff() as_type<float>(0x7f800000 | hidden)

// ---- indices
INL int64_t clamp_index(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }
INL int64_t nonzero(int64_t d) { return d ? d : 1; }
INL int64_t floor_div(int64_t a, int64_t b) { int64_t q = a / b; return a % b < 0 ? q - 1 : q; }
INL int64_t floor_mod(int64_t a, int64_t b) { int64_t r = a % b; return r < 0 ? r + b : r; }

// ---- floats by their bits
INL bool is_nan(float x) { return (as_type<uint>(x) & 0x7fffffffu) > 0x7f800000u; }
INL bool is_finite(float x) { return (as_type<uint>(x) & 0x7f800000u) != 0x7f800000u; }
// Integers in the order of the floats, both zeros 0.
INL int rank_of(float x) {
  int i = as_type<int>(x);
  return i < 0 ? as_type<int>(0x80000000u - as_type<uint>(i)) : i;
}
INL float pick(bool c, float a, float b) {
  return as_type<float>(c ? as_type<int>(a) : as_type<int>(b));
}

// ---- selection and comparisons
#define SELECT(c, a, b) ((c) ? (a) : (b))
#define sf_sel pick
#define si_sel SELECT
#define sl_sel SELECT
#define su_sel SELECT
#define sc_sel SELECT
#define sb_sel SELECT
#define sf_test(x) ((int)(x))
#define si_test(x) ((int)(x))
#define sl_test(x) ((int)(x))
#define su_test(x) ((int)(x))
#define sc_test(x) ((int)(x))
#define sb_or(a, b) ((a) | (b))
#define sb_and(a, b) ((a) & (b))
#define sb_not(a) ((int)!(a))
INL bool sf_less(float a, float b) { return !is_nan(a) && !is_nan(b) && rank_of(a) < rank_of(b); }
INL bool sf_less_equal(float a, float b) {
  return !is_nan(a) && !is_nan(b) && rank_of(a) <= rank_of(b);
}
INL bool sf_equal(float a, float b) { return !is_nan(a) && rank_of(a) == rank_of(b); }
#define LESS(a, b) ((a) < (b))
#define LESS_EQUAL(a, b) ((a) <= (b))
#define EQUAL(a, b) ((a) == (b))
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
#define sb_less LESS
#define sb_less_equal LESS_EQUAL
#define sb_equal EQUAL

// ---- arithmetic; NaN propagates through max and min
INL float sf_max(float a, float b) {
  return pick(is_nan(a) || (!is_nan(b) && rank_of(a) > rank_of(b)), a, b);
}
INL float sf_min(float a, float b) {
  return pick(is_nan(a) || (!is_nan(b) && rank_of(a) < rank_of(b)), a, b);
}
INL float sf_abs(float a) { return as_type<float>(as_type<int>(a) & 0x7fffffff); }
INL float sf_floor(float a) { return floor(a); }
INL float sf_mod(float a, float b) { return precise::fmod(a, b); }
INL float sf_fma(float a, float b, float c) { return fma(a, b, c); }
INL float sf_add(float a, float b) { return a + b; }
INL float sf_mul(float a, float b) { return a * b; }
INL float sf_relu(float a) { return pick(as_type<int>(a) < 0 && !is_nan(a), 0.0f, a); }

// Integers wrap: sums, products and negation are those of unsigned ones. Division by 0 gives 0;
// dividing the lowest value by -1 wraps.
#define INTEGERS(L, T, U, SIGNED) \
  INL T s##L##_div(T a, T b) { \
    return b == 0 ? (T)0 : SIGNED && b == (T)-1 ? (T)((U)0 - (U)a) : (T)(a / b); \
  } \
  INL T s##L##_mod(T a, T b) { return b == 0 || (SIGNED && b == (T)-1) ? (T)0 : (T)(a % b); } \
  INL T s##L##_max(T a, T b) { return a > b ? a : b; } \
  INL T s##L##_min(T a, T b) { return a < b ? a : b; } \
  INL T s##L##_abs(T a) { return SIGNED && a < 0 ? (T)((U)0 - (U)a) : a; } \
  INL T s##L##_add(T a, T b) { return (T)((U)a + (U)b); } \
  INL T s##L##_mul(T a, T b) { return (T)((U)a * (U)b); } \
  INL T s##L##_sub(T a, T b) { return (T)((U)a - (U)b); } \
  INL T s##L##_neg(T a) { return (T)((U)0 - (U)a); } \
  INL T s##L##_relu(T a) { return a < 0 ? (T)0 : a; }
INTEGERS(i, int32_t, uint32_t, 1)
INTEGERS(l, int64_t, uint64_t, 1)
INTEGERS(u, uint8_t, uint32_t, 0)
INTEGERS(c, int8_t, uint32_t, 1)
#undef INTEGERS

// ---- mathematics
INL float s_exp2(float x) { return precise::exp2(x); }
INL float s_log2(float x) { return precise::log2(x); }
INL float s_exp(float x) { return precise::exp(x); }
INL float s_log(float x) { return precise::log(x); }
INL float s_sin(float x) { return precise::sin(x); }
INL float s_cos(float x) { return precise::cos(x); }
INL float s_sqrt(float x) { return precise::sqrt(x); }
INL float s_tanh(float x) { return precise::tanh(x); }
INL float s_sigmoid(float x) { return 1.0f / (1.0f + precise::exp(-x)); }
// The error function: 1 - 2^(a r(a)) with r = log2(erfc a) / a on [0, 4], 1 from 4 on. With
// 2^f - 1 = f q(f) it is (1 - 2^n) - 2^n f q(f), which loses nothing near 0, where n is 0.
INL float s_erf(float x) {
  const float a = pick(!is_nan(x) && rank_of(sf_abs(x)) > rank_of(4.0f), 4.0f, sf_abs(x));
  float p = 0x1.c03cc8p-17f;
  p = fma(p, a, -0x1.640366p-13f);
  p = fma(p, a, 0x1.debda6p-11f);
  p = fma(p, a, -0x1.3b425cp-9f);
  p = fma(p, a, 0x1.e5b168p-13f);
  p = fma(p, a, 0x1.c4b8c8p-6f);
  p = fma(p, a, -0x1.2fabe0p-3f);
  p = fma(p, a, -0x1.d63ec4p-1f);
  p = fma(p, a, -0x1.a0be84p+0f);
  const float n = rint(a * p), f = fma(a, p, -n);
  float q = 0x1.446ca2p-13f;
  q = fma(q, f, 0x1.5f08c6p-10f);
  q = fma(q, f, 0x1.3b29e4p-7f);
  q = fma(q, f, 0x1.c6af6cp-5f);
  q = fma(q, f, 0x1.ebfbe0p-3f);
  q = fma(q, f, 0x1.62e430p-1f);
  const float minus = -precise::exp2(n);
  const float y = fma(minus, q * f, minus + 1.0f);
  return as_type<float>((as_type<int>(y) & 0x7fffffff) | (as_type<int>(x) & (int)0x80000000));
}
// log(e^a + e^b) without overflow; of infinities the larger one, of NaN NaN.
INL float sf_logadd(float a, float b) {
  const float m = sf_max(a, b);
  return pick(!is_finite(m), m, m + precise::log(1.0f + precise::exp(-sf_abs(a - b))));
}
// A running sum e^m s of exponentials, m the largest exponent so far: one more term e^x. Where m is
// no number s stays finite. Its logarithm is ..._logged.
INL void sf_logsum(thread float *m, thread float *s, float x) {
  const float top = sf_max(*m, x);
  const float e = pick(is_finite(top), precise::exp(-sf_abs(x - *m)), 0.0f);
  *s = pick(sf_less(*m, x), fma(*s, e, 1.0f), *s + e);
  *m = top;
}
INL float sf_logged(float m, float s) { return m + precise::log(s); }

// A softmax that goes on: weights e^(x - base) below the highest x so far, or 0 where that is -inf.
// shrink: what weights below the highest before are multiplied by.
INL float s_base(float top) { return pick(as_type<uint>(top) == 0xff800000u, 0.0f, top); }
INL float s_weight(float x, float base) {
  return pick(as_type<uint>(x) == 0xff800000u, 0.0f, precise::exp(x - base));
}
INL float s_shrink(float high, float base) { return s_weight(high, base); }

// ---- conversions
#define CONVERT(A, T) \
  INL float s##A##_to_f(T x) { return (float)x; } \
  INL int32_t s##A##_to_i(T x) { return (int32_t)x; } \
  INL int64_t s##A##_to_l(T x) { return (int64_t)x; } \
  INL uint8_t s##A##_to_u(T x) { return (uint8_t)(int32_t)x; } \
  INL int8_t s##A##_to_c(T x) { return (int8_t)(int32_t)x; }
CONVERT(f, float)
CONVERT(i, int32_t)
CONVERT(l, int64_t)
CONVERT(u, uint8_t)
CONVERT(c, int8_t)
CONVERT(b, int)
#undef CONVERT

// ---- halves: `half` is the machine's, bfloat is no type of MSL 2.3 and is made of its bits
INL float h_to_f(half h) { return (float)h; }
INL half f_to_h(float x) { return (half)x; }
INL float g_to_f(ushort g) { return as_type<float>((uint)g << 16); }
INL ushort f_to_g(float x) {
  const uint b = as_type<uint>(x);
  if (is_nan(x)) return (ushort)((b >> 16) | 0x40u);
  return (ushort)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
}
INL float sh_round(float x) { return h_to_f(f_to_h(x)); }
INL float sg_round(float x) { return g_to_f(f_to_g(x)); }

// ---- memory
#define MEMORY(L, T) \
  INL T s##L##_load(const device T *p) { return *p; } \
  INL void s##L##_store(device T *p, T x) { *p = x; }
MEMORY(f, float)
MEMORY(i, int32_t)
MEMORY(l, int64_t)
MEMORY(u, uint8_t)
MEMORY(c, int8_t)
#undef MEMORY
#define HALF(L, T) \
  INL float s##L##_load(const device T *p) { return L##_to_f(*p); } \
  INL void s##L##_store(device T *p, float x) { *p = f_to_##L(x); }
HALF(h, half)
HALF(g, ushort)
#undef HALF
INL int sb_load(const device uint8_t *p) { return (int)(*p != 0); }
INL void sb_store(device uint8_t *p, int x) { *p = (uint8_t)(x != 0); }

// ---- neighbours move as words of 32 bits, up to four at once, or as two of 64, from addresses that
// divide by as much
typedef int4 wide_4;
typedef int2 wide_2;
typedef int wide_1;
typedef long2 wide_l;
INL int4 wide_load_4(const device void *p) { return *(const device int4 *)p; }
INL int2 wide_load_2(const device void *p) { return *(const device int2 *)p; }
INL int wide_load_1(const device void *p) { return *(const device int *)p; }
INL void wide_store_4(device void *p, int a, int b, int c, int d) {
  *(device int4 *)p = int4(a, b, c, d);
}
INL void wide_store_2(device void *p, int a, int b) { *(device int2 *)p = int2(a, b); }
INL void wide_store_1(device void *p, int a) { *(device int *)p = a; }
INL long2 wide_load_l(const device int64_t *p) { return *(const device long2 *)p; }
INL void wide_store_l(device int64_t *p, int64_t a, int64_t b) {
  *(device long2 *)p = long2(a, b);
}
#define whole_store_4 wide_store_4
#define whole_store_2 wide_store_2
#define whole_store_1 wide_store_1
#define whole_store_l wide_store_l
// What a word holds, and the word of some values: the first are the lowest bits.
INL float sf_of(int w) { return as_type<float>(w); }
INL int sf_word(float x) { return as_type<int>(x); }
INL int32_t si_of(int w) { return w; }
INL int si_word(int32_t x) { return x; }
INL float sh_of(int w, int k) { return h_to_f(as_type<half>((ushort)((uint)w >> (16 * k)))); }
INL int sh_word(float a, float b) {
  return (int)((uint)as_type<ushort>(f_to_h(a)) | (uint)as_type<ushort>(f_to_h(b)) << 16);
}
INL float sg_of(int w, int k) { return g_to_f((ushort)((uint)w >> (16 * k))); }
INL int sg_word(float a, float b) { return (int)((uint)f_to_g(a) | (uint)f_to_g(b) << 16); }
INL uint8_t su_of(int w, int k) { return (uint8_t)((uint)w >> (8 * k)); }
INL int su_word(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  return (int)((uint)a | (uint)b << 8 | (uint)c << 16 | (uint)d << 24);
}
INL int8_t sc_of(int w, int k) { return (int8_t)su_of(w, k); }
INL int sc_word(int8_t a, int8_t b, int8_t c, int8_t d) {
  return su_word((uint8_t)a, (uint8_t)b, (uint8_t)c, (uint8_t)d);
}
INL int sb_of(int w, int k) { return (int)(su_of(w, k) != 0); }
INL int sb_word(int a, int b, int c, int d) {
  return su_word((uint8_t)(a != 0), (uint8_t)(b != 0), (uint8_t)(c != 0), (uint8_t)(d != 0));
}

// ---- teams: each thread brings one value, all get the same result, in a fixed order of joining.
// A block leaves its simdgroups' values in a room of the kernel's; the second barrier lets it be
// used again. Shuffles move at most 32 bits of a number.
INL float across(float x, ushort d) { return simd_shuffle_xor(x, d); }
INL int32_t across(int32_t x, ushort d) { return simd_shuffle_xor(x, d); }
INL uint8_t across(uint8_t x, ushort d) { return (uint8_t)simd_shuffle_xor((int32_t)x, d); }
INL int8_t across(int8_t x, ushort d) { return (int8_t)simd_shuffle_xor((int32_t)x, d); }
INL int64_t across(int64_t x, ushort d) {
  return as_type<int64_t>(simd_shuffle_xor(as_type<uint2>(x), d));
}
#define TEAM(L, T, OP) \
  INL T warp_##OP##_##L(T x) { \
    for (ushort d = 16; d > 0; d /= 2) x = (T)s##L##_##OP(x, across(x, d)); \
    return x; \
  } \
  INL T team_##OP##_##L(T x, threadgroup T *room, int at, int lane, int threads) { \
    x = warp_##OP##_##L(x); \
    if (lane == 0) room[at / 32] = x; \
    threadgroup_barrier(mem_flags::mem_threadgroup); \
    T all = room[0]; \
    for (int w = 1; w < threads / 32; w++) all = (T)s##L##_##OP(all, room[w]); \
    threadgroup_barrier(mem_flags::mem_threadgroup); \
    return all; \
  }
#define NUMBERS(L, T) TEAM(L, T, add) TEAM(L, T, max) TEAM(L, T, mul)
NUMBERS(f, float)
NUMBERS(i, int32_t)
NUMBERS(l, int64_t)
NUMBERS(u, uint8_t)
NUMBERS(c, int8_t)
#undef NUMBERS
TEAM(f, float, logadd)
TEAM(b, int, or)
TEAM(b, int, and)
#undef TEAM
#define BLOCK(OP, L, x) team_##OP##_##L(x, room_##L, thread_id(), lane_id(), threads_of_block)
#define block_add_f(x) BLOCK(add, f, x)
#define block_max_f(x) BLOCK(max, f, x)
#define block_mul_f(x) BLOCK(mul, f, x)
#define block_add_i(x) BLOCK(add, i, x)
#define block_max_i(x) BLOCK(max, i, x)
#define block_mul_i(x) BLOCK(mul, i, x)
#define block_add_l(x) BLOCK(add, l, x)
#define block_max_l(x) BLOCK(max, l, x)
#define block_mul_l(x) BLOCK(mul, l, x)
#define block_add_u(x) BLOCK(add, u, x)
#define block_max_u(x) BLOCK(max, u, x)
#define block_mul_u(x) BLOCK(mul, u, x)
#define block_add_c(x) BLOCK(add, c, x)
#define block_max_c(x) BLOCK(max, c, x)
#define block_mul_c(x) BLOCK(mul, c, x)
#define block_logadd_f(x) BLOCK(logadd, f, x)
#define block_or_b(x) BLOCK(or, b, x)
#define block_and_b(x) BLOCK(and, b, x)
