// Numbers that are held in 8 and 16 bits inside products: groups of them go into panels, and come out.
#ifndef TEGG_NARROW
#define TEGG_NARROW
// The bits of bfloat16 in the upper half of each lane, to nearest even; NaN stays NaN.
INL vi vf_rounded(vf x) {
  vi b = (vi)x, nan = (b & 0x7fffffff) > 0x7f800000;
  return vi_sel(nan, b | 0x400000, b + 0x7fff + ((b >> 16) & 1)) & (int32_t)0xffff0000;
}
INL void put_g2(uint16_t *to, vf a, vf b) {
  vi_store((int32_t *)to, ((vf_rounded(a) >> 16) & 0xffff) | vf_rounded(b));
}
INL void put_h1(uint16_t *to, vf a) { vh_store(to, a); }
INL void put_bytes(void *to, vi a, vi b, vi c, vi d) {
  vi_store((int32_t *)to, (a & 255) | (b & 255) << 8 | (c & 255) << 16 | d << 24);
}
#define put_u4 put_bytes
#define put_c4 put_bytes
INL void vi_store_u(uint8_t *to, vi x) { vu_store(to, vi_to_u(x)); }
INL void vi_store_c(int8_t *to, vi x) { vc_store(to, vi_to_c(x)); }
#endif
