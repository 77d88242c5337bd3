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
#define __launch_bounds__(threads)
#define __shared__ static __attribute__((section("simt_shared")))
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

// 16 bytes move at once, and only from addresses that divide by 16.
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
SIMT_PLAIN static inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
SIMT_PLAIN static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

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
