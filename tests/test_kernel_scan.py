"""Scans as loops: placed innermost, in lanes or blocks, with what follows them; equal bits."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tegg.testing.draw import Draw
from kernels import build, call, check
from tegg.testing.kernels import random_inputs
from tegg.backends.cpu.emit import C

from tegg.dim import dim
from tegg.ir.oracle import evaluate
from tegg.kernel.lower import lower
from tegg.kernel.scan import BLOCK

SCANS = ("CumSum", "CumProd", "CumMax", "LogCumSumExp")


@pytest.mark.parametrize("op", SCANS)
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((5, 40), 1), ((5, 40), 0),
                                             ((3, 17, 20), 1), ((1, 1), 0), ((0, 3), 0)])
def test_every_axis_with_what_follows(op, shape, axis):
    g = Draw()
    x = g.x(*shape)
    y = g.op(op, g.mul(x, 0.5), axis)
    check(g, [y, g.add(g.mul(y, y), x)], slack=4)


@pytest.mark.parametrize("dtype", ("f64", "f16", "bf16", "i32", "i64", "u8", "i8", "bool"))
def test_dtypes(dtype):
    g = Draw()
    x = g.x(6, 50, dtype=dtype)
    outs = [g.op(op, x, axis) for op in SCANS[:3] for axis in (0, 1)
            if op != "CumProd" or dtype != "f16"]
    check(g, outs)


def test_one_nest_for_a_scan_and_its_followers():
    g = Draw()
    y = g.op("CumSum", g.x(8, 64), 1)
    assert len(check(g, [g.add(y, 1), g.mul(y, y)]).stages) == 1
    stored = check(g, [g.add(y, 1), g.flip(y, 1)])
    assert len(stored.stages) == 2 and len(stored.temporaries) == 1


def test_scans_of_scans_and_reductions():
    g = Draw()
    x = g.x(6, 40)
    once = g.op("CumSum", g.softmax(x, 1), 0)
    check(g, [g.op("CumMax", once, 1), g.total(g.op("CumSum", once, 1), 0), once])


def test_lanes_follow_what_is_contiguous():
    """Columns side by side, or the row itself, in whose vectors lanes are joined in steps."""
    g = Draw()
    x = g.x(64, 64)
    down, along = (lower(g, [g.op("CumSum", x, a)], "k", C(16)).source for a in (0, 1))
    assert "vd_add" in down and "running" not in down
    assert "vd_running_add" in along and "sd_add" not in along
    strided = lower(g, [g.op("CumSum", g.permute(x, (1, 0)), 1)], "k", C(16)).source
    assert "running" not in strided
    dear = lower(g, [g.op("LogCumSumExp", x, 1)], "k", C(16)).source
    assert "vd_logsum" in dear


@pytest.mark.parametrize("op", SCANS)
@pytest.mark.parametrize("n", (8 * BLOCK, 9 * BLOCK + 5))
def test_long_rows_in_blocks_give_equal_bits_for_any_threads(op, n):
    g = Draw()
    outputs = [g.add(g.op(op, g.add(g.mul(g.x(2, n), 1e-3), 1), 1), 1)]
    code = lower(g, outputs, "k", C(16))
    assert [s.parallel for s in code.stages] == [True, True, True]
    library, inputs = build(code, 16), random_inputs(g, {})
    results = [call(library, code, g, outputs, inputs, {}, threads)[0] for threads in (1, 2, 5)]
    assert all(r.tobytes() == results[0].tobytes() for r in results)
    ufunc = {"CumSum": np.add, "CumProd": np.multiply, "CumMax": np.maximum,
             "LogCumSumExp": np.logaddexp}[op]
    term = (inputs[0] * np.float32(1e-3) + np.float32(1)).astype(np.float64)
    np.testing.assert_allclose(results[0], ufunc.accumulate(term, 1) + 1, rtol=1e-5)


def test_symbolic_axes():
    g, n, m = Draw(), dim("n", 0, 100), dim("m", 0, 100)
    x = g.x(m, n)
    outs = [g.op("CumSum", x, 0), g.add(g.op("CumMax", x, 1), x), g.op("CumProd", x, 1)]
    code = None
    for sizes in ({"n": 33, "m": 7}, {"n": 1, "m": 1}, {"n": 0, "m": 3}):
        code = check(g, outs, sizes, code=code)


def test_axes_that_a_producer_splits():
    """A reshape below makes the axis two loops, both innermost and in order."""
    g = Draw()
    x = g.x(4, 3, 5)
    y = g.op("CumSum", g.reshape(g.permute(x, (1, 2, 0)), (3, 20)), 1)
    source = check(g, [y]).source
    assert len(re.findall("for ", source)) >= 2


def test_a_scan_in_the_oracle_is_its_expansion():
    g = Draw()
    x = g.x(5, 6)
    row = g.op("CumSum", x, 1)
    spelled = g.idiom("CumSum", x, 1)
    a, b = evaluate([row, spelled], random_inputs(g, {}))
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("op", SCANS[:3])
@pytest.mark.parametrize("dtype", ("f32", "f64", "i32", "i64"))
def test_special_values_stay_where_they_came(op, dtype):
    """In lanes that are joined in steps: nothing of a lane gets into those before it."""
    g = Draw()
    code = lower(g, [g.op(op, g.x(3, 203, dtype=dtype), 1)], "k", C(16))
    assert "_running_" in code.source
    rng = np.random.default_rng(1)
    x = rng.integers(-2, 3, (3, 203)).astype(dtype.replace("f", "float").replace("i", "int"))
    if dtype[0] == "f":
        x[0, [5, 60, 130]], x[1, 20], x[2, 100], x[2, :9] = (-np.inf, -0.0, np.nan), np.inf, -np.inf, -0.0
    (got,) = call(build(code, 16), code, g, list(g.nodes[-1:]), {0: x}, {}, 2)
    ufunc = {"CumSum": np.add, "CumProd": np.multiply, "CumMax": np.maximum}[op]
    with np.errstate(all="ignore"):
        want = ufunc.accumulate(x.astype(np.float64) if dtype[0] == "f" else x, 1).astype(x.dtype)
    np.testing.assert_array_equal(got, want)
