"""Functions of few bits: how far they are from the full ones, and where they are reached."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest
from tegg.backends.cpu.instructions import ESTIMATES
from tegg.backends.cpu.library import prelude
from tegg.backends.cpu.near import near_rows
from tegg.backends.cpu.target import Cpu
from test_vecmath import MACHINES

import tegg
from tegg.cache import default
from tegg.dtype import f32, f64
from tegg.errors import DTypeError

_WORST = """
#include <math.h>
const struct rt_table *tegg_rt;
#define SIGMOID(x) (1 / (1 + exp(-(x))))
static double ref_sigmoid(double x) { return SIGMOID(x); }
static double ref_silu(double x) { return x * SIGMOID(x); }
static double ref_gelu_tanh(double x) {
  return x * SIGMOID(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)); }
static double ref_gelu(double x) { return x * 0.5 * erfc(-x * 0.70710678118654752440); }
// The worst error against the result, of every step-th float; what is below LEAST is not to be seen.
#define WORST(NAME) \\
  double worst_##NAME(uint32_t first, int64_t step, double least, double beside, uint32_t *at) { \\
    double worst = 0; \\
    for (int64_t b = first; b < (1ll << 32); b += step * TEGG_LANES) { \\
      float x[TEGG_LANES], y[TEGG_LANES]; \\
      for (int k = 0; k < TEGG_LANES; k++) { \\
        uint32_t bits = (uint32_t)(b + k * step); memcpy(x + k, &bits, 4); } \\
      vf_store(y, v_near_##NAME(vf_load(x))); \\
      for (int k = 0; k < TEGG_LANES; k++) { \\
        if (!isfinite(x[k])) continue; \\
        const double want = ref_##NAME(x[k]), off = fabs(y[k] - want) - beside * fabs(x[k]); \\
        const double e = off <= least ? 0 : off / fabs(want); \\
        if (!(e <= worst)) worst = e, memcpy(at, x + k, 4); \\
      } \\
    } \\
    return worst; \\
  }
WORST(sigmoid) WORST(silu) WORST(gelu_tanh) WORST(gelu)
#define EACH(NAME) void each_##NAME(const float *x, float *y, int64_t n) { \\
  for (int64_t i = 0; i < n; i += TEGG_LANES) vf_store(y + i, v_near_##NAME(vf_load(x + i))); \\
  for (int64_t i = 0; i < n; i++) if (memcmp(y + i, &(float){s_near_##NAME(x[i])}, 4)) y[i] = 7; }
EACH(sigmoid) EACH(silu) EACH(gelu_tanh) EACH(gelu)
"""
NAMES = ("sigmoid", "silu", "gelu_tanh", "gelu")
NORMAL = 2.0 ** -126
# Past -9 there is 0, and where a sigmoid is no normal number.
LEAST = {"gelu": 1e-17, "silu": 90 * NORMAL, "gelu_tanh": 12 * NORMAL}


@pytest.fixture(scope="module", params=sorted(MACHINES))
def library(request):
    compiler, text = MACHINES[request.param], prelude(request.param) + _WORST
    made = ctypes.CDLL(str(compiler.shared_object(default(), {"near": text}, "near")))
    made.estimates = request.param == 16
    return made


def worst(library, name: str, step: int) -> None:
    """The full formulas, which stand in elsewhere, cancel below 0: to what float32 has beside 1."""
    at = ctypes.c_uint32()
    beside = 0.0 if library.estimates else 2.0 ** -22
    function = library[f"worst_{name}"]
    function.restype = ctypes.c_double
    found = function(
        ctypes.c_uint32(0), ctypes.c_int64(step), ctypes.c_double(LEAST.get(name, NORMAL)),
        ctypes.c_double(beside), ctypes.byref(at))
    assert found <= 2.0 ** -12, (name, found * 2 ** 12, hex(at.value))


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_below_those_of_bfloat16(library, name):
    worst(library, name, 4999)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_of_every_other_float(library, name):
    worst(library, name, 19)


@pytest.mark.parametrize("name", NAMES)
def test_special_values_and_scalars(library, name):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -3e38, 9, -9, 1, -1, 88, -88,
                  127, -127], np.float32)
    y = np.empty_like(x)
    library[f"each_{name}"](*(a.ctypes.data_as(ctypes.c_void_p) for a in (x, y)),
                            ctypes.c_int64(len(x)))
    assert not (y == 7).any()
    assert np.isnan(y[0]) and y[1] == (1 if name == "sigmoid" else np.inf)
    assert y[2] == 0 if name == "sigmoid" else np.isnan(y[2])
    assert np.abs(y[3:5] - 0.5 * (name == "sigmoid")).max() <= 2 ** -13 * (name == "sigmoid")
    assert name == "sigmoid" or list(np.signbit(y[3:5])) == [False, True]


def test_they_are_of_float32():
    for row in near_rows():
        assert row.dtype([f32], ()) is f32
        with pytest.raises(DTypeError, match="^is of f32, not f64; write a Cast$"):
            row.dtype([f64], ())


@pytest.mark.parametrize("call, name", [
    (lambda x: tegg.gelu(x, approximate="tanh"), "gelu_tanh"), (tegg.gelu, "gelu"),
    (tegg.silu, "silu"), (tegg.sigmoid, "sigmoid")])
def test_they_are_reached_by_a_licence_alone(call, name):
    x = np.random.default_rng(3).normal(size=(40, 100)).astype(ml_dtypes.bfloat16) * 3
    exact = np.asarray(tegg.compile(call)(x)).astype(np.float32)

    def made(x, *stack, estimates=True):
        target = Cpu(16, (ESTIMATES,) if estimates else ())
        run = tegg.compile(lambda x: call(x) - 1, *stack,
                           tegg.Compiler(target=target, name="having"), cache=False)
        return np.asarray(run(x)), run.source()
    few, source = made(x, tegg.Generic(), tegg.Bf16())
    assert f"near_{name}(" in source
    for other in (made(x, tegg.Generic()), made(x, tegg.Generic(), tegg.Bf16(), estimates=False),
                  made(x.astype(np.float32), tegg.Generic(), tegg.Bf16())):
        assert "near_" not in other[1]
    assert np.abs(few.astype(np.float32) - (exact - 1)).max() <= 2 ** -7 * np.abs(exact).max()
