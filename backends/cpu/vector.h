// Vectors of TEGG_LANES lanes: types and memory.
#pragma once
#include <stdint.h>

#define INL static inline __attribute__((always_inline, unused))
#define VECTOR(T, NAME) \
  typedef T NAME __attribute__((vector_size(sizeof(T) * TEGG_LANES))); \
  typedef T NAME##_any __attribute__((vector_size(sizeof(T) * TEGG_LANES), \
                                      aligned(sizeof(T)), may_alias)); \
  INL NAME NAME##_load(const T *p) { return *(const NAME##_any *)p; } \
  INL void NAME##_store(T *p, NAME x) { *(NAME##_any *)p = x; }
VECTOR(float, vf)
VECTOR(double, vd)
VECTOR(int32_t, vi)
VECTOR(int64_t, vl)
#undef VECTOR
