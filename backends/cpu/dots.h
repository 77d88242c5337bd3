// Sums of products of a group of neighbours: one instruction where the CPU has it, else the same in C.
// A group of A is one word of 32 bits, which all lanes multiply with their own group of B.
#ifndef TEGG_DOTS
#define TEGG_DOTS
// acc += a[0] b[0] + a[1] b[1], of bfloat16. The instruction takes subnormal numbers for 0.
#if TEGG_LANES == 16 && defined(__AVX512BF16__)
INL vf dot_gg(vf acc, const uint16_t *a, vi b) {
  int32_t word;  // in a register: loads for each product would be more than Zen 5 makes meanwhile
  memcpy(&word, a, 4);
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(b), "v"(vi_splat(word)));
  return acc;
}
#else
INL vf dot_gg(vf acc, const uint16_t *a, vi b) {
  acc += (vf)(b & (int32_t)0xffff0000) * g_to_f(a[1]);
  return acc + (vf)(b << 16) * g_to_f(a[0]);
}
#endif
// acc += a[0] b[0] + ... + a[3] b[3], exact: unsigned bytes of one with signed bytes of the other.
#if TEGG_LANES == 16 && defined(__AVX512VNNI__)
INL vi dot_uc(vi acc, const uint8_t *a, vi b) {
  int32_t word;
  memcpy(&word, a, 4);
  __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(vi_splat(word)), "v"(b));
  return acc;
}
INL vi dot_cu(vi acc, const int8_t *a, vi b) {
  int32_t word;
  memcpy(&word, a, 4);
  __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(b), "v"(vi_splat(word)));
  return acc;
}
#else
INL vi dot_uc(vi acc, const uint8_t *a, vi b) {
  for (int g = 0; g < 4; g++) acc += (b << (24 - 8 * g) >> 24) * (int32_t)a[g];
  return acc;
}
INL vi dot_cu(vi acc, const int8_t *a, vi b) {
  for (int g = 0; g < 4; g++) acc += (b >> (8 * g) & 255) * (int32_t)a[g];
  return acc;
}
#endif
#endif
