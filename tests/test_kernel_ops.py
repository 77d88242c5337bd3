"""Every elementwise op, cast and reduction in every dtype, with the values that break things."""

from __future__ import annotations

import numpy as np
import pytest
from tegg.testing.draw import Draw
from kernels import build, call
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.target import Cpu

from tegg.dtype import DTYPES, f32
from tegg.kernel.lower import lower
from tegg.ir.op import OPS
from tegg.ir.oracle import evaluate
from tegg.testing.rows import check_elementwise, edges
from tegg.testing.tolerance import wrong


@pytest.mark.parametrize("lanes", (16, 8, 4))
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_elementwise(dtype, lanes):
    names = check_elementwise(Cpu(lanes), OPS, dtype, 0)
    assert {"Cast", "Add", "Select"} <= names
    if dtype is f32:
        assert names >= {o.name for o in OPS.values() if o.kind == "elementwise"} - {"Not", "IntDiv"}


def differ(got, want, dtype):
    """Why results of reductions and movement differ, or None."""
    bad = wrong(got, want, dtype)
    return f"{got[bad][:4]} for {want[bad][:4]} at {np.argwhere(bad)[:4]}" if bad.any() else None


@pytest.mark.parametrize("width", (16, 4))
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_reductions_and_movement(dtype, width):
    g = Draw()
    x, index = g.x(6, 45, dtype=dtype.name), g.x(9, dtype="i64")
    fill = {"float": -2.5, "int": 3, "bool": 1}[dtype.kind]
    outputs = [g.total(x, 0), g.total(x, 1), g.total(x, 0, 1), g.top(x, 0), g.top(x, 1),
               g.padded(g.flip(x, 1), (1, 0), (3, 30), fill=fill),
               g.permute(x, (1, 0)), g.op("Gather", x, index, 1),
               g.op("Gather", x, index, 0), g.slice(x, (0, 6, 2), (1, 44, 3)),
               g.full(fill, dtype, (3, 40)), g.op("Iota", dtype, (70,)) if dtype.kind != "bool"
               else g.full(0, dtype, (2,))]
    rng = np.random.default_rng(1)
    given = {0: edges(dtype, "any", 1).repeat(4)[:270].reshape(6, 45),
             1: rng.integers(-3, 60, 9)}
    if dtype.is_float:
        given[0] = np.where(np.isfinite(given[0]), given[0], 1).astype(dtype.numpy)
    code = lower(g, outputs, "k", C(width))
    got = call(build(code, width), code, g, outputs, given, {}, 2, False)
    for i, (a, b, node) in enumerate(zip(got, evaluate(outputs, given), outputs)):
        if i < 3 and dtype.is_float:
            scale = np.abs(given[0].astype(float)).sum()
            unit = {"f64": 1e-15, "f32": 1e-7, "f16": 1e-3, "bf16": 8e-3}[dtype.name]
            assert np.abs(a.astype(float) - b.astype(float)).max() <= unit * scale, (i, a, b)
        else:
            why = differ(a, b, node.dtype)
            assert why is None, f"output {i} {dtype.name}: {why}"


@pytest.mark.parametrize("dtype", ("f32", "f64", "f16", "bf16"))
def test_nan_and_infinity_in_reductions(dtype):
    g = Draw()
    x = g.x(4, 40, dtype=dtype)
    outputs = [g.top(x, 1), g.total(x, 1), g.top(x, 0)]
    given = np.ones((4, 40))
    given[0, 33], given[1, 5], given[2, 7], given[2, 8] = np.nan, np.inf, np.inf, -np.inf
    given[3] = -np.inf
    inputs = {0: given.astype(DTYPES[dtype].numpy)}
    code = lower(g, outputs, "k", C(16))
    got = call(build(code, 16), code, g, outputs, inputs, {})
    for a, b in zip(got, evaluate(outputs, inputs)):
        assert differ(a, b, DTYPES[dtype]) is None, (a, b)


def test_constants_round_trip():
    g = Draw()
    numbers = (0.1, -0.0, 1e-45, 3.4028234e38, np.inf, -np.inf, np.nan, 1 / 3, 1e300, -1e-300)
    outputs = [g.full(v, d, (3,)) for v in numbers for d in ("f32", "f64", "f16", "bf16")]
    outputs += [g.full(v, "i64", (3,)) for v in (2 ** 63 - 1, -2 ** 63, -1)]
    outputs += [g.full(-2 ** 31, "i32", (20,)), g.full(255, "u8", (20,)), g.full(-128, "i8", ())]
    code = lower(g, outputs, "k", C(16))
    got = call(build(code, 16), code, g, outputs, {}, {})
    with np.errstate(all="ignore"):
        want = evaluate(outputs, {})
    for a, b in zip(got, want):
        assert a.tobytes() == b.tobytes() or (np.isnan(a.astype(float)).all()
                                              and np.isnan(b.astype(float)).all()), (a, b)
