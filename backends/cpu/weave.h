// Rows of scratch written element by element of each in turn.
//
//   vf_weave(p, t, pitch, rows, columns)   float, and so for each letter that memory has
//
// p[j * rows + i] becomes t[i * pitch + j] for i below `rows` and j below `columns`, of which there are
// at most TEGG_LANES. Two rows, or four, are woven in registers.
#pragma once

#define WEAVE_PAIR(a, b, low, high) \
  low = __builtin_shufflevector(a, b, TURN_NAME(LOW, TEGG_LANES)); \
  high = __builtin_shufflevector(a, b, TURN_NAME(HIGH, TEGG_LANES));
// M: the letter of memory; R: that of the register, whose scratch has elements of RT.
#define WEAVE(M, T, R, RT, V) \
  INL void v##M##_weave(T *p, const RT *t, int pitch, int rows, int columns) { \
    if (columns == TEGG_LANES && rows == 2) { \
      V a = v##R##_load(t), b = v##R##_load(t + pitch), c, d; \
      WEAVE_PAIR(a, b, c, d) \
      v##M##_store(p, c); \
      v##M##_store(p + TEGG_LANES, d); \
    } else if (columns == TEGG_LANES && rows == 4) { \
      V a = v##R##_load(t), b = v##R##_load(t + pitch), c = v##R##_load(t + 2 * pitch); \
      V d = v##R##_load(t + 3 * pitch), e[2], f[2]; \
      WEAVE_PAIR(a, c, e[0], e[1]) \
      WEAVE_PAIR(b, d, f[0], f[1]) \
      for (int h = 0; h < 2; h++) { \
        WEAVE_PAIR(e[h], f[h], a, b) \
        v##M##_store(p + 2 * h * TEGG_LANES, a); \
        v##M##_store(p + (2 * h + 1) * TEGG_LANES, b); \
      } \
    } else { \
      for (int j = 0; j < columns; j++) \
        for (int i = 0; i < rows; i++) s##M##_store(p + j * rows + i, s##R##_load(t + i * pitch + j)); \
    } \
  }
WEAVE(f, float, f, float, vf)
WEAVE(h, uint16_t, f, float, vf)
WEAVE(g, uint16_t, f, float, vf)
WEAVE(d, double, d, double, vd)
WEAVE(i, int32_t, i, int32_t, vi)
WEAVE(l, int64_t, l, int64_t, vl)
WEAVE(u, uint8_t, u, uint8_t, vu)
WEAVE(c, int8_t, c, int8_t, vc)
WEAVE(b, uint8_t, b, uint8_t, vi)
#undef WEAVE
#undef WEAVE_PAIR
