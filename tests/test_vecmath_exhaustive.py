"""Vector functions of one float, on every float there is: 2^32 of them, against libm in double."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import pytest

from tegg.backends.cpu import toolchain
from tegg.backends.cpu.library import prelude
from tegg.cache import default
from tegg.cores import available

# In units in the last place, as vecmath.h says. Of odd functions the negative half is compared with
# the positive one, bit by bit.
BOUNDS = {"exp2": 2.0, "log2": 2.0, "sin": 2.0, "cos": 2.0, "erf": 3.0, "tanh": 3.0}
ODD = ("sin", "erf", "tanh")
PIECES = 256

_SWEEP = """
#include <math.h>
const struct rt_table *tegg_rt;
static double units_{n}(float y, double want) {{
  const float near = (float)want;
  if (y == near || (y != y && near != near)) return 0;
  if (fabs(want) < 0x1p-126 && y == 0 && {flushes}) return 0;
  const float size = fabsf(near) < 0x1p-126f ? 0x1p-126f : fabsf(near);
  if (!(size <= 0x1.fffffep127f) || !(fabsf(y) <= 0x1.fffffep127f)) return INFINITY;
  return fabs(y - want) / ldexp(1, ilogbf(size) - 23);
}}
// The worst error of the floats with the bits first .. first + count, and where it is.
void {n}_sweep(uint32_t first, uint32_t count, double *worst, uint32_t *at) {{
  for (uint32_t i = 0; i < count; i += TEGG_LANES) {{
    float x[TEGG_LANES], y[TEGG_LANES], z[TEGG_LANES];
    for (int k = 0; k < TEGG_LANES; k++) {{ uint32_t b = first + i + k; memcpy(x + k, &b, 4); }}
    vf_store(y, v_{n}(vf_load(x)));
    if ({odd}) vf_store(z, v_{n}(-vf_load(x)));
    for (int k = 0; k < TEGG_LANES; k++) {{
      double e = units_{n}(y[k], {n}((double)x[k]));
      if ({odd} && y[k] == y[k] && float_bits(z[k]) != (float_bits(y[k]) ^ (int32_t)0x80000000))
        e = INFINITY;
      if (!(e <= *worst)) *worst = e, *at = first + i + k;
    }}
  }}
}}
"""


@pytest.mark.long
@pytest.mark.parametrize("name", BOUNDS)
def test_every_float(name: str) -> None:
    compiler = toolchain.find()
    text = prelude(compiler.lanes) + _SWEEP.format(n=name, odd=int(name in ODD),
                                                   flushes=int(name == "exp2"))
    library = ctypes.CDLL(str(compiler.shared_object(default(), {"sweep": text}, "a sweep")))
    sweep = library[f"{name}_sweep"]
    sweep.restype = None
    whole = 1 << (31 if name in ODD else 32)

    def piece(i: int) -> tuple[float, int]:
        worst, at = ctypes.c_double(0), ctypes.c_uint32(0)
        sweep(ctypes.c_uint32(i * (whole // PIECES)), ctypes.c_uint32(whole // PIECES),
              ctypes.byref(worst), ctypes.byref(at))
        return worst.value, at.value

    with ThreadPoolExecutor(available()) as pool:
        worst, at = max(pool.map(piece, range(PIECES)))
    print(f"{name}: {worst:.3f} units in the last place, at {at:#010x}")
    assert worst <= BOUNDS[name], f"{name} of the float {at:#010x} is off by {worst:.2f}"


_ROUNDED = """
const struct rt_table *tegg_rt;
// The bits of the first of some floats that is rounded another way than one at a time; count: none.
uint32_t differs(uint32_t first, uint32_t count) {
  for (uint32_t i = 0; i < count; i += 2 * TEGG_LANES) {
    float x[2 * TEGG_LANES], y[2 * TEGG_LANES];
    uint16_t g[2 * TEGG_LANES], both[2 * TEGG_LANES];
    for (int k = 0; k < 2 * TEGG_LANES; k++) { uint32_t b = first + i + k; memcpy(x + k, &b, 4); }
    for (int k = 0; k < 2 * TEGG_LANES; k += TEGG_LANES) {
      vg_store(g + k, vf_load(x + k));
      vf_store(y + k, vg_round(vf_load(x + k)));
    }
    vg_store_pair(both, vf_load(x), vf_load(x + TEGG_LANES));
    for (int k = 0; k < 2 * TEGG_LANES; k++)
      if (g[k] != f_to_g(x[k]) || both[k] != g[k] ||
          float_bits(y[k]) != float_bits(sg_round(x[k]))) return i + k;
  }
  return count;
}
"""


@pytest.mark.long
def test_every_float_as_bfloat16() -> None:
    """In vectors, by an instruction where there is one, as one at a time: every bit."""
    compiler = toolchain.find()
    text = prelude(compiler.lanes) + _ROUNDED
    library = ctypes.CDLL(str(compiler.shared_object(default(), {"rounded": text}, "a sweep")))
    library.differs.restype = ctypes.c_uint32
    each = (1 << 32) // PIECES

    def piece(i: int) -> int:
        found = library.differs(ctypes.c_uint32(i * each), ctypes.c_uint32(each))
        return i * each + found if found < each else -1

    with ThreadPoolExecutor(available()) as pool:
        wrong = [at for at in pool.map(piece, range(PIECES)) if at >= 0]
    assert not wrong, f"{wrong[0]:#010x}"
