// Numbers that are held in 8 and 16 bits inside products: groups of them go into panels, and come out.
#ifndef TEGG_NARROW
#define TEGG_NARROW
INL void put_g2(uint16_t *to, vf a, vf b) {
  vi_store((int32_t *)to, vs_to_i(vs_f_to_g(a)) | vs_to_i(vs_f_to_g(b)) << 16);
}
INL void put_h1(uint16_t *to, vf a) { vh_store(to, a); }
// The same of numbers that 16 bits hold already.
INL void keep_g2(uint16_t *to, vf a, vf b) {
  vi_store((int32_t *)to, ((vi)a >> 16 & 0xffff) | ((vi)b & (int32_t)0xffff0000));
}
INL void put_bytes(void *to, vi a, vi b, vi c, vi d) {
  vi_store((int32_t *)to, (a & 255) | (b & 255) << 8 | (c & 255) << 16 | d << 24);
}
#define put_u4 put_bytes
#define put_c4 put_bytes
INL void vi_store_u(uint8_t *to, vi x) { vu_store(to, vi_to_u(x)); }
INL void vi_store_c(int8_t *to, vi x) { vc_store(to, vi_to_c(x)); }
#endif
