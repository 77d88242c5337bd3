// What stands above every kernel: types, scalar functions, and how a team of threads reduces.
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif
#ifdef __CUDACC__
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000ll)
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#endif

// KERNEL(threads), or KERNEL(threads, blocks): of so many blocks that a multiprocessor shall hold
#define KERNEL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)
#define INL static __device__ __forceinline__
#ifdef __CUDACC__
#define ROOM(name) extern __shared__ __align__(16) uint8_t name[]  // of the size that a launch says
#endif
#define FULL 0xffffffffu

// ---- where a thread stands
INL int thread_id() { return (int)threadIdx.x; }
INL int lane_id() { return (int)(threadIdx.x & 31u); }
INL int block_id() { return (int)blockIdx.x; }
INL int block_count() { return (int)gridDim.x; }

// ---- indices
INL int64_t clamp_index(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }
INL int64_t nonzero(int64_t d) { return d ? d : 1; }
INL int64_t floor_div(int64_t a, int64_t b) { int64_t q = a / b; return a % b < 0 ? q - 1 : q; }
INL int64_t floor_mod(int64_t a, int64_t b) { int64_t r = a % b; return r < 0 ? r + b : r; }

// ---- selection and comparisons
#define SELECT(c, a, b) ((c) ? (a) : (b))
#define sf_sel SELECT
#define sd_sel SELECT
#define si_sel SELECT
#define sl_sel SELECT
#define su_sel SELECT
#define sc_sel SELECT
#define sb_sel SELECT
#define sf_test(x) (x)
#define sd_test(x) (x)
#define si_test(x) (x)
#define sl_test(x) (x)
#define su_test(x) (x)
#define sc_test(x) (x)
#define sb_or(a, b) ((a) | (b))
#define sb_and(a, b) ((a) & (b))
#define sb_not(a) (!(a))
#define LESS(a, b) ((a) < (b))
#define LESS_EQUAL(a, b) ((a) <= (b))
#define EQUAL(a, b) ((a) == (b))
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
#define sb_less LESS
#define sb_less_equal LESS_EQUAL
#define sb_equal EQUAL

// ---- arithmetic; NaN propagates through max and min
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800  // one instruction each
INL float sf_max(float a, float b) { float y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
INL float sf_min(float a, float b) { float y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
#else
INL float sf_max(float a, float b) { return a > b || a != a ? a : b; }
INL float sf_min(float a, float b) { return a < b || a != a ? a : b; }
#endif
INL double sd_max(double a, double b) { return a > b || a != a ? a : b; }
INL double sd_min(double a, double b) { return a < b || a != a ? a : b; }
#define FLOATS(L, T, S) \
  INL T s##L##_abs(T a) { return fabs##S(a); } \
  INL T s##L##_floor(T a) { return floor##S(a); } \
  INL T s##L##_mod(T a, T b) { return fmod##S(a, b); } \
  INL T s##L##_fma(T a, T b, T c) { return fma##S(a, b, c); } \
  INL T s##L##_add(T a, T b) { return a + b; } \
  INL T s##L##_mul(T a, T b) { return a * b; } \
  INL T s##L##_relu(T a) { return a < (T)0 ? (T)0 : a; }
FLOATS(f, float, f)
FLOATS(d, double, )
#undef FLOATS

// Integers wrap: sums, products and negation are those of unsigned ones. Division by 0 gives 0;
// dividing the lowest value by -1 wraps.
#define INTEGERS(L, T, U, SIGNED) \
  INL T s##L##_div(T a, T b) { return b == 0 ? (T)0 : SIGNED && b == (T)-1 ? (T)((U)0 - (U)a) : (T)(a / b); } \
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
#define MATHS(P, T, S) \
  INL T P##exp2(T x) { return exp2##S(x); } \
  INL T P##log2(T x) { return log2##S(x); } \
  INL T P##exp(T x) { return exp##S(x); } \
  INL T P##log(T x) { return log##S(x); } \
  INL T P##sin(T x) { return sin##S(x); } \
  INL T P##cos(T x) { return cos##S(x); } \
  INL T P##sqrt(T x) { return sqrt##S(x); } \
  INL T P##tanh(T x) { return tanh##S(x); } \
  INL T P##erf(T x) { return erf##S(x); } \
  INL T P##sigmoid(T x) { return (T)1 / ((T)1 + exp##S(-x)); }
MATHS(s_, float, f)
MATHS(sd_, double, )
#undef MATHS
// log(e^a + e^b) without overflow; of infinities the larger one, of NaN NaN.
INL double sd_logadd(double a, double b) {
  const double m = sd_max(a, b);
  return m - m != 0 ? m : m + log(1 + exp(-fabs(a - b)));
}
INL float sf_logadd(float a, float b) { return (float)sd_logadd(a, b); }
// A running sum e^m s of exponentials, m the largest exponent so far: one more term e^x. Where m is
// no number s stays finite. Its logarithm is ..._logged.
#define LOGSUM(P, L, T, S) \
  INL void s##L##_logsum(T *m, T *s, T x) { \
    const T top = s##L##_max(*m, x), far = -fabs##S(x - *m); \
    const T e = top - top != 0 ? (T)0 : P##exp(far); \
    *s = x > *m ? s##L##_fma(*s, e, (T)1) : *s + e; \
    *m = top; \
  } \
  INL T s##L##_logged(T m, T s) { return m + P##log(s); }
LOGSUM(s_, f, float, f)
LOGSUM(sd_, d, double, )
#undef LOGSUM

// ---- conversions
#define CONVERT(A, T) \
  INL float s##A##_to_f(T x) { return (float)x; } \
  INL double s##A##_to_d(T x) { return (double)x; } \
  INL int32_t s##A##_to_i(T x) { return (int32_t)x; } \
  INL int64_t s##A##_to_l(T x) { return (int64_t)x; } \
  INL uint8_t s##A##_to_u(T x) { return (uint8_t)(int32_t)x; } \
  INL int8_t s##A##_to_c(T x) { return (int8_t)(int32_t)x; }
CONVERT(f, float)
CONVERT(d, double)
CONVERT(i, int32_t)
CONVERT(l, int64_t)
CONVERT(u, uint8_t)
CONVERT(c, int8_t)
CONVERT(b, int)
#undef CONVERT

// ---- halves: to nearest even, as IEEE 754 asks; all values, infinities and NaN included
#ifdef __CUDACC__
INL float h_to_f(uint16_t h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
INL uint16_t f_to_h(float x) {
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
#else
INL float h_to_f(uint16_t h) {
  int32_t em = (h & 0x7fff) << 13;
  float f = __int_as_float(em) * 5192296858534827628530496329220096.0f;
  if (em >= 0x7c00 << 13) f = __int_as_float(em | 0x7f800000);
  return __int_as_float(__float_as_int(f) | (int32_t)((uint32_t)(h & 0x8000) << 16));
}
INL uint16_t f_to_h(float x) {
  int32_t b = __float_as_int(x), a = b & 0x7fffffff;
  int32_t tiny = __float_as_int(__int_as_float(a) + 0.5f) - 0x3f000000;
  int32_t h;
  if (a > 0x7f800000) h = 0x7e00;
  else if (a < 0x38800000) h = tiny;
  else if (a >= 0x47800000) h = 0x7c00;
  else h = (a - 0x38000000 + 0xfff + ((a >> 13) & 1)) >> 13;
  return (uint16_t)(h | ((b >> 16) & 0x8000));
}
#endif
INL float g_to_f(uint16_t g) { return __int_as_float((int32_t)((uint32_t)g << 16)); }
INL uint16_t f_to_g(float x) {
  uint32_t b = (uint32_t)__float_as_int(x);
  if ((b & 0x7fffffff) > 0x7f800000) return (uint16_t)((b >> 16) | 0x40);
  return (uint16_t)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}
INL float sh_round(float x) { return h_to_f(f_to_h(x)); }
INL float sg_round(float x) { return g_to_f(f_to_g(x)); }

// ---- memory
#define MEMORY(L, T) \
  INL T s##L##_load(const T *p) { return *p; } \
  INL void s##L##_store(T *p, T x) { *p = x; }
MEMORY(f, float)
MEMORY(d, double)
MEMORY(i, int32_t)
MEMORY(l, int64_t)
MEMORY(u, uint8_t)
MEMORY(c, int8_t)
#undef MEMORY
#define HALF(L) \
  INL float s##L##_load(const uint16_t *p) { return L##_to_f(*p); } \
  INL void s##L##_store(uint16_t *p, float x) { *p = f_to_##L(x); }
HALF(h)
HALF(g)
#undef HALF
INL int sb_load(const uint8_t *p) { return *p != 0; }
INL void sb_store(uint8_t *p, int x) { *p = x != 0; }

// ---- tensor cores: d += a b, of 16 rows of a and 8 columns of b, sums in float32
// _h: float16, _g: bfloat16, 16 deep, two neighbours of the depth in a register; _t: float32 rounded to
// TF32, 8 deep. Lane 4 g + t has rows g and g + 8 of a and d, column g of b, columns 2 t, 2 t + 1 of d.
#ifdef __CUDACC__
#define UNROLL _Pragma("unroll")
#define PRAGMA(text) _Pragma(#text)
#define UNROLL_BY(n) PRAGMA(unroll n)
#define MMA(NAME, SHAPE, TYPES) \
  INL void NAME(float *d, const uint32_t *a, const uint32_t *b) { \
    asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." TYPES ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, " \
                 "{%8,%9}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
  }
#if __CUDA_ARCH__ >= 800
MMA(mma_h, "m16n8k16", "f16.f16")
MMA(mma_g, "m16n8k16", "bf16.bf16")
MMA(mma_t, "m16n8k8", "tf32.tf32")
#else
INL void mma_h(float *d, const uint32_t *a, const uint32_t *b) {
  for (int i = 0; i < 2; i++)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
                 "{%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
}
#endif
#undef MMA
// Four squares of 8 by 8 halves of shared memory; lane 8 i + j gives the address of row j of square i.
#define SQUARES(NAME, HOW) \
  INL void NAME(uint32_t *r, const void *row) { \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" HOW ".shared.b16 {%0,%1,%2,%3}, [%4];" \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) \
                 : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory"); \
  }
SQUARES(squares, "")
SQUARES(squares_turned, ".trans")
#undef SQUARES
// 16 bytes to shared memory, zeros after the first `filled`. They are there once the group of copies
// that they were committed to has been waited for; all but the last `groups` are.
#if __CUDA_ARCH__ >= 800
INL void copy_start(void *to, const void *from, int filled) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::
               "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(filled) : "memory");
}
INL void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define copies_wait(groups) asm volatile("cp.async.wait_group %0;" :: "n"(groups) : "memory")
#else
INL void copy_start(void *to, const void *from, int filled) {
  *(int4 *)to = filled ? *(const int4 *)from : make_int4(0, 0, 0, 0);
}
INL void copies_commit() {}
#define copies_wait(groups)
#endif
// ---- products of four warps at once, of compute capability 9.0 alone: d += a b for 64 rows of a and N
// columns of b, 16 deep, operands in shared memory. They go on while threads do: neither d nor what a
// and b lie in may be touched before they have been waited for. Thread 32 w + 4 g + t has of d rows
// 16 w + g and 8 further down, and columns 2 t, 2 t + 1 of every eight: four values for each eight.
// D = 0: d is the products alone, whatever it was. _held: threads hold a, as warps do that of `mma`.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
INL uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
#define TEN(n) "%" #n "0,%" #n "1,%" #n "2,%" #n "3,%" #n "4,%" #n "5,%" #n "6,%" #n "7,%" #n "8,%" #n "9,"
#define TO_15 TEN() "%10,%11,%12,%13,%14,%15"
#define TO_31 TEN() TEN(1) TEN(2) "%30,%31"
#define TO_63 TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) "%60,%61,%62,%63"
#define TO_127 TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) \
  "%120,%121,%122,%123,%124,%125,%126,%127"
#define SUMS_8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), \
  "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS_32(i) SUMS_8(i), SUMS_8(i + 8), SUMS_8(i + 16), SUMS_8(i + 24)
#define SUMS_64 SUMS_32(0), SUMS_32(32)
#define SUMS_128 SUMS_64, SUMS_32(64), SUMS_32(96)
#define WGMMA(NAME, TYPE, N, ALL, GIVEN, ...) \
  template <int X, int Y, int D = 1> INL void NAME##_##N(float *d, uint64_t a, uint64_t b) { \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" ALL "}, " GIVEN ";" \
                 : __VA_ARGS__ : "l"(a), "l"(b), "n"(X), "n"(Y), "n"(D)); \
  }
#define WGMMA_HELD(NAME, TYPE, N, ALL, GIVEN, ...) \
  template <int Y> INL void NAME##_held_##N(float *d, const uint32_t *a, uint64_t b) { \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" ALL "}, " GIVEN ";" \
                 : __VA_ARGS__ : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Y)); \
  }
#define WGMMAS(NAME, TYPE) \
  WGMMA(NAME, TYPE, 64, TO_31, "%32, %33, %36, 1, 1, %34, %35", SUMS_32(0)) \
  WGMMA(NAME, TYPE, 128, TO_63, "%64, %65, %68, 1, 1, %66, %67", SUMS_64) \
  WGMMA(NAME, TYPE, 256, TO_127, "%128, %129, %132, 1, 1, %130, %131", SUMS_128) \
  WGMMA_HELD(NAME, TYPE, 32, TO_15, "{%16,%17,%18,%19}, %20, 1, 1, 1, %21", SUMS_8(0), SUMS_8(8)) \
  WGMMA_HELD(NAME, TYPE, 64, TO_31, "{%32,%33,%34,%35}, %36, 1, 1, 1, %37", SUMS_32(0)) \
  WGMMA_HELD(NAME, TYPE, 128, TO_63, "{%64,%65,%66,%67}, %68, 1, 1, 1, %69", SUMS_64)
WGMMAS(wgmma_h, "f16")
WGMMAS(wgmma_g, "bf16")
#undef WGMMAS
#undef WGMMA_HELD
#undef WGMMA
// Sums that other instructions have touched may be added to; products are a group, and are waited for
// but for the last `groups`; sums of N values are read and written here, and not moved past this.
INL void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
INL void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define wgmma_wait(groups) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(groups) : "memory")
template <int N> INL void wgmma_settle(float *d) {
  UNROLL
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i]) :: "memory");
}
// What this thread has written to shared memory is what products read, once a barrier follows.
INL void shown_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// A barrier of two groups, number 1 to 15: one says that it has come there and goes on, the other waits
// for that.
INL void group_came(int barrier) { asm volatile("bar.arrive %0, 256;" :: "r"(barrier) : "memory"); }
INL void group_waits(int barrier) { asm volatile("bar.sync %0, 256;" :: "r"(barrier) : "memory"); }
#endif
#else
#define UNROLL
#define UNROLL_BY(n)
#endif
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Where a matrix of halves lies: lines of 128 bytes, the chunks of 16 of line i exchanged by i % 8, eight
// lines each a multiple of 1024 bytes. Bits 0 to 13 its address, 16 to 29 and 32 to 45 the leading and
// the other step, all in 16 bytes, 62 and 63 that exchange. Lines along the depth: `other` from eight
// places to the next. Along 64 places: `leading` to the next 64, `other` from eight terms to the next.
INL uint64_t matrix_at(const void *p, int leading, int other) {
  return (shared_address(p) & 0x3ffffu) >> 4 | (uint64_t)(leading >> 4) << 16
      | (uint64_t)(other >> 4) << 32 | (uint64_t)1 << 62;
}
// The first byte of a room that begins at a multiple of 1024 bytes.
INL uint8_t *whole_lines(uint8_t *room) { return room + ((0u - shared_address(room)) & 1023u); }
#endif
INL uint32_t f_to_t(float x) {  // the nearest of ten bits, away from zero where two are as near
  return ((uint32_t)__float_as_int(x) & 0x7f800000u) == 0x7f800000u
      ? (uint32_t)__float_as_int(x) : ((uint32_t)__float_as_int(x) + 0x1000u) & 0xffffe000u;
}
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
#define TWO(NAME, TYPE) \
  INL uint32_t NAME(float low, float high) { \
    uint32_t d; \
    asm("cvt.rn." TYPE ".f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low)); \
    return d; \
  }
TWO(two_h, "f16x2")
TWO(two_g, "bf16x2")
#undef TWO
#else
INL uint32_t two_h(float low, float high) { return f_to_h(low) | (uint32_t)f_to_h(high) << 16; }
INL uint32_t two_g(float low, float high) { return f_to_g(low) | (uint32_t)f_to_g(high) << 16; }
#endif

// ---- neighbours move as words of 32 bits, up to four at once, or as two of 64, from addresses that
// divide by as much
typedef int4 wide_4;
typedef int2 wide_2;
typedef int wide_1;
typedef longlong2 wide_l;
typedef double2 wide_d;
INL int4 wide_load_4(const void *p) { return *(const int4 *)p; }
INL int2 wide_load_2(const void *p) { return *(const int2 *)p; }
INL int wide_load_1(const void *p) { return *(const int *)p; }
INL void wide_store_4(void *p, int a, int b, int c, int d) { *(int4 *)p = make_int4(a, b, c, d); }
INL void wide_store_2(void *p, int a, int b) { *(int2 *)p = make_int2(a, b); }
// The same where a compiler may store each word by itself; it moves nothing past these, so that loops
// whose iterations it shall mix have the others.
#ifdef __CUDACC__
INL void whole_store_4(void *p, int a, int b, int c, int d) {
  asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::
               "l"(__cvta_generic_to_global(p)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
INL void whole_store_2(void *p, int a, int b) {
  asm volatile("st.global.v2.b32 [%0], {%1,%2};" ::
               "l"(__cvta_generic_to_global(p)), "r"(a), "r"(b) : "memory");
}
#else
#define whole_store_4 wide_store_4
#define whole_store_2 wide_store_2
#endif
#define whole_store_1 wide_store_1
#define whole_store_l wide_store_l
#define whole_store_d wide_store_d
INL void wide_store_1(void *p, int a) { *(int *)p = a; }
INL longlong2 wide_load_l(const int64_t *p) { return *(const longlong2 *)p; }
INL double2 wide_load_d(const double *p) { return *(const double2 *)p; }
INL void wide_store_l(int64_t *p, int64_t a, int64_t b) { *(longlong2 *)p = make_longlong2(a, b); }
INL void wide_store_d(double *p, double a, double b) { *(double2 *)p = make_double2(a, b); }
// What a word holds, and the word of some values: the first are the lowest bits.
INL float sf_of(int w) { return __int_as_float(w); }
INL int sf_word(float x) { return __float_as_int(x); }
INL int32_t si_of(int w) { return w; }
INL int si_word(int32_t x) { return x; }
INL float sh_of(int w, int k) { return h_to_f((uint16_t)((uint32_t)w >> 16 * k)); }
INL int sh_word(float a, float b) { return (int)two_h(a, b); }
INL float sg_of(int w, int k) { return g_to_f((uint16_t)((uint32_t)w >> 16 * k)); }
INL int sg_word(float a, float b) { return (int)two_g(a, b); }
INL uint8_t su_of(int w, int k) { return (uint8_t)((uint32_t)w >> 8 * k); }
INL int su_word(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  return (int)((uint32_t)a | (uint32_t)b << 8 | (uint32_t)c << 16 | (uint32_t)d << 24);
}
INL int8_t sc_of(int w, int k) { return (int8_t)su_of(w, k); }
INL int sc_word(int8_t a, int8_t b, int8_t c, int8_t d) {
  return su_word((uint8_t)a, (uint8_t)b, (uint8_t)c, (uint8_t)d);
}
INL int sb_of(int w, int k) { return su_of(w, k) != 0; }
INL int sb_word(int a, int b, int c, int d) {
  return su_word((uint8_t)(a != 0), (uint8_t)(b != 0), (uint8_t)(c != 0), (uint8_t)(d != 0));
}

// Four lanes side by side have each two columns of two fragments, of rows eight apart in each: lane t
// gets all eight columns of fragment t % 2, row t / 2.
INL void eight_columns(float *all, const float *first, const float *second) {
  const bool odd = lane_id() & 1, low = lane_id() & 2;
  float own[2][2][2];
  for (int row = 0; row < 2; row++)
    for (int e = 0; e < 2; e++) {
      const float a = first[2 * row + e], b = second[2 * row + e];
      const float given = __shfl_xor_sync(FULL, odd ? a : b, 1);
      own[row][0][e] = odd ? given : a;
      own[row][1][e] = odd ? b : given;
    }
  for (int lane = 0; lane < 2; lane++)
    for (int e = 0; e < 2; e++) {
      const float given = __shfl_xor_sync(FULL, low ? own[0][lane][e] : own[1][lane][e], 2);
      all[2 * lane + e] = low ? given : own[0][lane][e];
      all[2 * lane + 4 + e] = low ? own[1][lane][e] : given;
    }
}

// ---- teams: each thread brings one value, all get the same result, in a fixed order of joining.
// A block leaves its warps' values in shared memory; the second barrier lets it be used again.
#define TEAM(L, T, W, OP) \
  INL T warp_##OP##_##L(T x) { \
    for (int d = 16; d; d /= 2) x = s##L##_##OP(x, (T)__shfl_xor_sync(FULL, (W)x, d)); \
    return (T)__shfl_sync(FULL, (W)x, 0); \
  } \
  INL T block_##OP##_##L(T x) { \
    __shared__ T room[32]; \
    x = warp_##OP##_##L(x); \
    if (lane_id() == 0) room[threadIdx.x / 32] = x; \
    __syncthreads(); \
    T all = room[0]; \
    for (int w = 1; w < (int)blockDim.x / 32; w++) all = s##L##_##OP(all, room[w]); \
    __syncthreads(); \
    return all; \
  }
#define NUMBERS(L, T, W) TEAM(L, T, W, add) TEAM(L, T, W, max) TEAM(L, T, W, mul)
NUMBERS(f, float, float)
NUMBERS(d, double, double)
NUMBERS(i, int32_t, int)
NUMBERS(l, int64_t, long long)
NUMBERS(u, uint8_t, int)
NUMBERS(c, int8_t, int)
#undef NUMBERS
TEAM(f, float, float, logadd)
TEAM(d, double, double, logadd)
TEAM(b, int, int, or)
TEAM(b, int, int, and)
#undef TEAM
INL float across(float x, int d) { return __shfl_xor_sync(FULL, x, d); }
INL double across(double x, int d) { return __shfl_xor_sync(FULL, x, d); }
INL int32_t across(int32_t x, int d) { return __shfl_xor_sync(FULL, x, d); }
INL uint8_t across(uint8_t x, int d) { return (uint8_t)across((int32_t)x, d); }
INL int8_t across(int8_t x, int d) { return (int8_t)across((int32_t)x, d); }
INL int64_t across(int64_t x, int d) { return __shfl_xor_sync(FULL, (long long)x, d); }

// ---- a softmax that goes on: weights e^(x - base) below the highest x so far, or 0 where that is -inf.
// shrink: what weights below the highest before are multiplied by.
#define RISING(S, T, LOWEST) \
  INL T S##base(T top) { return top == LOWEST ? 0 : top; } \
  INL T S##weight(T x, T base) { return S##exp(x - base); } \
  INL T S##shrink(T high, T base) { return S##weight(high, base); }
RISING(s_, float, -__builtin_inff())
RISING(sd_, double, -__builtin_inf())
#undef RISING
// The same where weights are rounded to halves next: 2^x to two units in the last place. A base is in
// powers of two, rounded as that of the highest before is when sums shrink.
#ifdef __CUDACC__
INL float sq_exp2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
#else
INL float sq_exp2(float x) { return exp2f(x); }
#endif
INL float sq_base(float top) { return s_base(top) * 1.44269504f; }
INL float sq_weight(float x, float base) { return sq_exp2(fmaf(x, 1.44269504f, -base)); }
INL float sq_shrink(float high, float base) { return sq_exp2(high * 1.44269504f - base); }
