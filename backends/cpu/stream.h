// Stores past the caches: a line that is written whole need not be read first.
//
//   vf_stream(p, x, past)           float, and so for each letter that memory has
//   vg_stream_pair(p, a, b, past)   two vectors side by side, of bfloat16
//
// Past the caches if `past` says so, else an ordinary store. A line that an ordinary store begins is
// read first. Whether results go past the caches, a line of which begins at p:
//
//   PAST_TURNED(p, bytes)  results of so many bytes, in squares: hardware foresees none of their lines
//   PAST_ALONG(p, bytes)   those of a function that touches so many bytes: so much more than the last
//                          cache holds that little of it is there when it is touched again
//   PAST_BURST(p, bytes)   the same where many lines come at once: caches take them in faster than
//                          memory, so it pays later
//
// stream_fence() makes the stores visible.
#pragma once

#define PAST(p, bytes, from) ((bytes) >= (from) && (uintptr_t)(p) % 64 == 0)

#if defined(__x86_64__) && !defined(__clang__)
#define PAST_TURNED(p, bytes) PAST(p, bytes, 8 << 20)
#define PAST_ALONG(p, bytes) PAST(p, bytes, rt_last_cache / 4 * 5)
#define PAST_BURST(p, bytes) PAST(p, bytes, rt_last_cache * 2)
typedef long long stream_2 __attribute__((vector_size(16)));
typedef long long stream_4 __attribute__((vector_size(32)));
typedef long long stream_8 __attribute__((vector_size(64)));
INL void stream_fence(void) { __builtin_ia32_sfence(); }
INL void stream_bytes(void *p, const void *x, int n) {
#if defined(__AVX512F__)
  for (; n >= 64; n -= 64, p = (stream_8 *)p + 1, x = (const stream_8 *)x + 1)
    __builtin_ia32_movntdq512(p, *(const stream_8 *)x);
#endif
#if defined(__AVX__)
  for (; n >= 32; n -= 32, p = (stream_4 *)p + 1, x = (const stream_4 *)x + 1)
    __builtin_ia32_movntdq256(p, *(const stream_4 *)x);
#endif
  for (; n >= 16; n -= 16, p = (stream_2 *)p + 1, x = (const stream_2 *)x + 1)
    __builtin_ia32_movntdq(p, *(const stream_2 *)x);
  memcpy(p, x, (size_t)n);
}
#define STREAM(L, T, V) \
  INL void v##L##_stream(T *p, V x, int past) { \
    if (past) { \
      T y[TEGG_LANES] __attribute__((aligned(64))); \
      v##L##_store(y, x); \
      stream_bytes(p, y, (int)sizeof(y)); \
    } else v##L##_store(p, x); \
  }
INL void vg_stream_pair(uint16_t *p, vf a, vf b, int past) {
  if (past) {
    uint16_t y[2 * TEGG_LANES] __attribute__((aligned(64)));
    vg_store_pair(y, a, b);
    stream_bytes(p, y, (int)sizeof(y));
  } else vg_store_pair(p, a, b);
}
#else
#define PAST_TURNED(p, bytes) 0
#define PAST_ALONG(p, bytes) 0
#define PAST_BURST(p, bytes) 0
INL void stream_fence(void) {}
#define STREAM(L, T, V) \
  INL void v##L##_stream(T *p, V x, int past) { (void)past; v##L##_store(p, x); }
INL void vg_stream_pair(uint16_t *p, vf a, vf b, int past) { (void)past; vg_store_pair(p, a, b); }
#endif
STREAM(f, float, vf)
STREAM(d, double, vd)
STREAM(i, int32_t, vi)
STREAM(l, int64_t, vl)
STREAM(u, uint8_t, vu)
STREAM(c, int8_t, vc)
STREAM(h, uint16_t, vf)
STREAM(g, uint16_t, vf)
STREAM(b, uint8_t, vb)
#undef STREAM
