// The names of CUDA C that emitted kernels use, for g++: stands before the unchanged text.
#pragma once
#include <math.h>
#include <string.h>
#include <utility>
#include "machine.h"

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline, unused))
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("simt_shared")))
#define ROOM(name) uint8_t *const name = (uint8_t *)simt_dynamic()
#define __align__(n) __attribute__((aligned(n)))

// Fields that are calls: reading where a thread stands touches no memory.
#define SIMT_NUMBER(NAME, CALL) \
  struct NAME##_t { struct { operator unsigned() const { return CALL(); } } x; }; \
  static const NAME##_t NAME __attribute__((unused));
SIMT_NUMBER(threadIdx, simt_thread)
SIMT_NUMBER(blockIdx, simt_block)
SIMT_NUMBER(blockDim, simt_threads)
SIMT_NUMBER(gridDim, simt_blocks)

#define __syncthreads() simt_barrier(__LINE__)
#define __syncwarp() simt_warp_barrier(0xffffffffu, __LINE__)

template <class T> SIMT_PLAIN static T simt_shuffle(unsigned mask, T mine, unsigned source, int line,
                                                    const char *what) {
  static_assert(sizeof(T) <= SIMT_SLOT, "too wide for a shuffle");
  const char *slots = simt_exchange(mask, &mine, sizeof(T), line, what);
  if (source > 31 || !(mask >> source & 1))
    simt_fail("%s at line %d reads lane %u, which does not take part", what, line, source);
  T out;
  memcpy(&out, slots + source * SIMT_SLOT, sizeof(T));
  return out;
}
#define __shfl_sync(MASK, VALUE, LANE) \
  simt_shuffle(MASK, VALUE, (unsigned)(LANE), __LINE__, "__shfl_sync")
#define __shfl_xor_sync(MASK, VALUE, BITS) \
  simt_shuffle(MASK, VALUE, (threadIdx.x & 31u) ^ (unsigned)(BITS), __LINE__, "__shfl_xor_sync")

template <class To, class From> SIMT_PLAIN static To simt_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To out;
  memcpy(&out, &x, sizeof(To));
  return out;
}
#define __int_as_float(x) simt_bits<float>((int)(x))
#define __float_as_int(x) simt_bits<int>((float)(x))

// 8 or 16 bytes move at once, and only from addresses that divide by as much.
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) longlong2 { long long x, y; };
struct alignas(16) double2 { double x, y; };
SIMT_PLAIN static inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
SIMT_PLAIN static inline longlong2 make_longlong2(long long x, long long y) { return {x, y}; }
SIMT_PLAIN static inline double2 make_double2(double x, double y) { return {x, y}; }
SIMT_PLAIN static inline int2 make_int2(int x, int y) { return {x, y}; }
SIMT_PLAIN static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

// ---- tensor cores and asynchronous copies, as prelude.h has them in PTX
SIMT_PLAIN static inline float simt_half(uint32_t pair, int which) {
  const uint32_t h = pair >> 16 * which & 0xffff, e = h >> 10 & 31, m = h & 1023;
  const float x = e == 31 ? (m ? NAN : INFINITY) : e ? ldexpf(1024.0f + m, (int)e - 25) : ldexpf(m, -24);
  return h & 0x8000 ? -x : x;
}
SIMT_PLAIN static inline float simt_brain(uint32_t pair, int which) {
  return simt_bits<float>(which ? pair & 0xffff0000u : pair << 16);
}
SIMT_PLAIN static inline float simt_tf32(uint32_t x, int) { return simt_bits<float>(x & 0xffffe000u); }
struct simt_fragments { uint32_t a[4], b[2]; };
// d += a b for a of 16 rows and b of 8 columns. A register holds `each` neighbours of the depth; lane
// 4 g + t has rows g and g + 8 of a, and column g of b.
template <class Decode>
SIMT_PLAIN static void simt_mma(float *d, const uint32_t *a, const uint32_t *b, int each, Decode decode,
                                int line, const char *what) {
  simt_fragments mine;
  memcpy(mine.a, a, sizeof mine.a);
  memcpy(mine.b, b, sizeof mine.b);
  const char *slots = simt_exchange(0xffffffffu, &mine, sizeof mine, line, what);
  const int g = (threadIdx.x & 31) / 4, t = threadIdx.x % 4;
  for (int e = 0; e < 4; e++) {
    const int row = e / 2, column = 2 * t + e % 2;
    double sum = d[e];
    for (int k = 0; k < 8 * each; k++) {
      const int lane = k % (4 * each) / each, half = k / (4 * each);
      simt_fragments left, right;
      memcpy(&left, slots + (4 * g + lane) * SIMT_SLOT, sizeof left);
      memcpy(&right, slots + (4 * column + lane) * SIMT_SLOT, sizeof right);
      sum += (double)decode(left.a[row + 2 * half], k % each) * decode(right.b[half], k % each);
    }
    d[e] = (float)sum;
  }
}
#define mma_h(D, A, B) simt_mma(D, A, B, 2, simt_half, __LINE__, "mma_h")
#define mma_g(D, A, B) simt_mma(D, A, B, 2, simt_brain, __LINE__, "mma_g")
#define mma_t(D, A, B) simt_mma(D, A, B, 1, simt_tf32, __LINE__, "mma_t")
struct alignas(16) simt_row { uint16_t x[8]; };
// Four squares of 8 by 8 halves; lane 8 i + j gives the address of row j of square i.
template <bool TURNED> SIMT_PLAIN static void simt_squares(uint32_t *r, const void *row, int line,
                                                           const char *what) {
  simt_row mine, all[32];
  simt_read(row, sizeof mine);
  memcpy(&mine, row, sizeof mine);
  const char *slots = simt_exchange(0xffffffffu, &mine, sizeof mine, line, what);
  for (int i = 0; i < 32; i++) memcpy(&all[i], slots + i * SIMT_SLOT, sizeof mine);
  const int g = (threadIdx.x & 31) / 4, t = threadIdx.x % 4;
  for (int i = 0; i < 4; i++) {
    const uint32_t low = TURNED ? all[8 * i + 2 * t].x[g] : all[8 * i + g].x[2 * t];
    const uint32_t high = TURNED ? all[8 * i + 2 * t + 1].x[g] : all[8 * i + g].x[2 * t + 1];
    r[i] = low | high << 16;
  }
}
#define squares(R, ROW) simt_squares<false>(R, ROW, __LINE__, "squares")
#define squares_turned(R, ROW) simt_squares<true>(R, ROW, __LINE__, "squares_turned")
#define copy_start(TO, FROM, FILLED) simt_copy(TO, FROM, 16, FILLED, __LINE__)
#define copies_commit() simt_commit()
#define copies_wait(GROUPS) simt_wait(GROUPS)
#define shared_address(P) simt_shared_address(P)
#define shown_to_products() simt_shown()
#define group_came(BARRIER) simt_numbered(BARRIER, 0, __LINE__)
#define group_waits(BARRIER) simt_numbered(BARRIER, 1, __LINE__)
#define wgmma_fence() simt_products_fence(__LINE__)
#define wgmma_commit() simt_products_commit(__LINE__)
#define wgmma_wait(GROUPS) simt_products_wait(GROUPS, __LINE__)
template <int N> SIMT_PLAIN static void wgmma_settle(float *d) {
  simt_read(d, N * sizeof(float));
}
#define SIMT_PRODUCTS(NAME, COLUMNS, BRAIN) \
  template <int X, int Y, int D = 1> SIMT_PLAIN static void NAME##_##COLUMNS( \
      float *d, uint64_t a, uint64_t b, int line = __builtin_LINE()) { \
    simt_products(d, a, b, COLUMNS, X + 2 * Y + 4 * BRAIN + 8 * (1 - D), line); \
  }
#define SIMT_PRODUCTS_HELD(NAME, COLUMNS, BRAIN) \
  template <int Y> SIMT_PLAIN static void NAME##_held_##COLUMNS( \
      float *d, const uint32_t *a, uint64_t b, int line = __builtin_LINE()) { \
    simt_products_held(d, a, b, COLUMNS, 2 * Y + 4 * BRAIN, line); \
  }
#define SIMT_BOTH(MAKE, COLUMNS) MAKE(wgmma_h, COLUMNS, 0) MAKE(wgmma_g, COLUMNS, 1)
SIMT_BOTH(SIMT_PRODUCTS, 64) SIMT_BOTH(SIMT_PRODUCTS, 128) SIMT_BOTH(SIMT_PRODUCTS, 256)
SIMT_BOTH(SIMT_PRODUCTS_HELD, 32) SIMT_BOTH(SIMT_PRODUCTS_HELD, 64) SIMT_BOTH(SIMT_PRODUCTS_HELD, 128)

// A kernel as a function of a table of pointers to its arguments.
template <class... A, size_t... I>
SIMT_PLAIN static void simt_apply(void (*f)(A...), void **a, std::index_sequence<I...>) {
  f(*(A *)a[I]...);
}
template <class... A> SIMT_PLAIN static void simt_call(void (*f)(A...), void **a) {
  simt_apply(f, a, std::index_sequence_for<A...>());
}
template <class... A> static constexpr int simt_count(void (*)(A...)) { return sizeof...(A); }
#define SIMT_EXPORT(NAME) \
  extern "C" SIMT_PLAIN void simt_body_##NAME(void *a) { simt_call(NAME, (void **)a); } \
  extern "C" int simt_arguments_##NAME(void) { return simt_count(NAME); }
