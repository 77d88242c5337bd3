// Tiles of 16 rows of 64 bytes, and products of them: the instructions of AMX where the compiler was
// told of them, else the same in C.
#ifndef TEGG_TILES
#define TEGG_TILES
// `lines` lines of each of some rows, `stride` bytes apart: the first of all rows, then the second.
INL void tiles_order(void *to, const void *from, int64_t stride, int rows, int64_t lines) {
  for (int64_t l = 0; l < lines; l++)
    for (int r = 0; r < rows; r++)
      memcpy((char *)to + (l * rows + r) * 64, (const char *)from + r * stride + l * 64, 64);
}
#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__) && !defined(TEGG_PLAYED_TILES)
// Whoever else runs on this thread may have left tiles of another shape.
INL void tiles_begin(void) {
  struct __attribute__((packed)) {
    uint8_t palette, start, none[14];
    uint16_t bytes[16];
    uint8_t rows[16];
  } c = {1};
  for (int i = 0; i < 8; i++) c.bytes[i] = 64, c.rows[i] = 16;
  __asm__ volatile("ldtilecfg %0" :: "m"(c));
}
INL void tiles_end(void) { __asm__ volatile("tilerelease" ::: "memory"); }
#define TILE_NAME_(T) "%%tmm" #T
#define tile_zero(T) __asm__ volatile("tilezero " TILE_NAME_(T) ::)
#define tile_load(T, FROM, STRIDE) \
  __asm__ volatile("tileloadd (%0,%1,1), " TILE_NAME_(T) :: "r"(FROM), "r"((int64_t)(STRIDE)) : "memory")
// The same of what is not needed soon again: it leaves alone what the nearest cache holds.
#define tile_pass(T, FROM, STRIDE) \
  __asm__ volatile("tileloaddt1 (%0,%1,1), " TILE_NAME_(T) :: "r"(FROM), "r"((int64_t)(STRIDE)) : "memory")
#define tile_store(T, TO, STRIDE) \
  __asm__ volatile("tilestored " TILE_NAME_(T) ", (%0,%1,1)" :: "r"(TO), "r"((int64_t)(STRIDE)) : "memory")
#define TILE_PRODUCT_(OP, D, A, B) \
  __asm__ volatile(OP " " TILE_NAME_(B) ", " TILE_NAME_(A) ", " TILE_NAME_(D) ::)
#define tile_dot_gg(D, A, B) TILE_PRODUCT_("tdpbf16ps", D, A, B)
#define tile_dot_uc(D, A, B) TILE_PRODUCT_("tdpbusd", D, A, B)
#define tile_dot_cu(D, A, B) TILE_PRODUCT_("tdpbsud", D, A, B)
#else
#define TEGG_PLAYED 1
static __thread char tegg_tiles[8][16][64] __attribute__((aligned(64)));
INL void tiles_begin(void) {}
INL void tiles_end(void) {}
INL void tile_zero(int t) { memset(tegg_tiles[t], 0, sizeof tegg_tiles[t]); }
INL void tile_load(int t, const void *from, int64_t stride) {
  for (int r = 0; r < 16; r++) memcpy(tegg_tiles[t][r], (const char *)from + r * stride, 64);
}
#define tile_pass tile_load
INL void tile_store(int t, void *to, int64_t stride) {
  for (int r = 0; r < 16; r++) memcpy((char *)to + r * stride, tegg_tiles[t][r], 64);
}
// Each number of the sum adds the products of 16 groups, one after the other.
#define TILE_PRODUCT_(NAME, SUM, A, B, GROUP, TIMES) \
  static void NAME(int d, int a, int b) { \
    for (int m = 0; m < 16; m++) \
      for (int n = 0; n < 16; n++) { \
        SUM *const s = (SUM *)tegg_tiles[d][m] + n; \
        for (int k = 0; k < 16; k++) { \
          const A *const x = (const A *)tegg_tiles[a][m] + k * GROUP; \
          const B *const y = (const B *)tegg_tiles[b][k] + n * GROUP; \
          for (int g = 0; g < GROUP; g++) *s += TIMES(x[g], y[g]); \
        } \
      } \
  }
#define TILE_REAL_(X, Y) (g_to_f(X) * g_to_f(Y))
#define TILE_WHOLE_(X, Y) ((int32_t)(X) * (int32_t)(Y))
TILE_PRODUCT_(tile_dot_gg, float, uint16_t, uint16_t, 2, TILE_REAL_)
TILE_PRODUCT_(tile_dot_uc, int32_t, uint8_t, int8_t, 4, TILE_WHOLE_)
TILE_PRODUCT_(tile_dot_cu, int32_t, int8_t, uint8_t, 4, TILE_WHOLE_)
#undef TILE_PRODUCT_
#undef TILE_REAL_
#undef TILE_WHOLE_
#endif
#endif
