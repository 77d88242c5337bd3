"""Every elementwise op, cast and reduction in every dtype, with the values that break things."""

from __future__ import annotations

import numpy as np
import pytest
from tegg.testing.draw import Draw
from kernels import build, call
from tegg.backends.cpu.emit import C

from tegg.dtype import DTYPES, DType
from tegg.errors import DTypeError
from tegg.ir.graph import Node
from tegg.kernel.lower import lower
from tegg.ir.op import OPS
from tegg.ir.oracle import evaluate

ELEMENTWISE = [o for o in OPS.values() if o.kind == "elementwise" and o.name != "Cast"]
N = 75
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 100.0, -100.0, np.inf, -np.inf, np.nan)


def values(dtype: DType, domain: str, seed: int) -> np.ndarray:
    """Special values first, in an order that depends on the seed; then random ones."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        x = np.concatenate([np.array(SPECIAL), rng.standard_normal(N - len(SPECIAL)) * 4])
        x = np.abs(x) if domain == "positive" else x
        return rng.permutation(x).astype(dtype.numpy)
    if dtype.kind == "bool":
        return rng.integers(0, 2, N).astype(bool)
    info = np.iinfo(dtype.numpy)
    x = rng.integers(max(info.min, -200), min(info.max, 200), N).astype(np.int64)
    x[:6] = 0, 1, info.max, info.min, max(info.min, -1), 2
    return rng.permutation(x).astype(dtype.numpy)


def differ(got: np.ndarray, want: np.ndarray, dtype: DType, tolerance: float,
           size: np.ndarray | float = 0.0) -> str | None:
    """Why results differ, or None. Errors are relative to the result and ``size``."""
    if not dtype.is_float:
        bad = got != want
        return (f"{got[bad][:4]} for {want[bad][:4]} at {np.argwhere(bad)[:4]}" if bad.any()
                else None)
    a, b = got.astype(np.float64), want.astype(np.float64)
    unit = {"f64": 4e-15, "f32": 4e-7, "f16": 1e-3, "bf16": 8e-3}[dtype.name] * tolerance
    tiny = {"f64": 1e-300, "f32": 1.2e-38, "f16": 6e-5, "bf16": 1.2e-38}[dtype.name]
    with np.errstate(invalid="ignore"):
        bad = ~((a == b) | (np.isnan(a) & np.isnan(b))
                | (np.abs(a - b) <= unit * (np.abs(b) + size) + tiny))
    return f"{a[bad][:4]} for {b[bad][:4]} at {np.argwhere(bad)[:4]}" if bad.any() else None


def given_to(node: Node, inputs: dict[int, np.ndarray]) -> np.ndarray:
    """The first operand of a node, in float64."""
    return np.nan_to_num(evaluate(node.args[:1], inputs)[0].astype(np.float64), posinf=0, neginf=0)


@pytest.mark.parametrize("width", (16, 8, 4))
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_elementwise(dtype, width):
    g, outputs, inputs, rows = Draw(), [], {}, []
    for op in ELEMENTWISE:
        kinds = ["any" if d in ("index", "small") else d for d in op.domains]
        args = []
        first = len(g.inputs)
        for i, domain in enumerate(kinds):
            is_condition = op.name == "Select" and i == 0
            args.append((DTYPES["bool"] if is_condition else dtype, domain))
        try:
            op.dtype([d for d, _ in args], ())
        except DTypeError:
            continue
        if dtype.kind == "bool" and op.name in ("Relu", "Abs", "Neg", "Sub"):
            continue
        if op.name == "Not" and dtype.kind != "bool":
            continue
        for i, (d, domain) in enumerate(args):
            g.x(N, dtype=d.name)
            inputs[first + i] = values(d, domain, first + i)
        nodes = [n for n in g.nodes if n.op.name == "Input"][first:]
        outputs.append(g.op(op.name, *nodes))
        outputs.append(g.op(op.name, *(g.reshape(g.slice(n, (k, k + 1, 1)), ())
                                       for k, n in enumerate(nodes, 3))))
        rows += [op, op]
    code = lower(g, outputs, "k", C(width))
    got = call(build(code.source, width), code, g, outputs, inputs, {})
    for op, a, b, node in zip(rows, got, evaluate(outputs, inputs), outputs):
        # fused steps and sums in another order: a few units in the last place
        slack = 8 * op.tolerance * (4 if op.name in ("Sin", "Cos") else 1)
        with np.errstate(invalid="ignore"):
            size = np.abs(given_to(node, inputs)) if op.name.startswith("Gelu") else 0.0
        why = differ(a, b, node.dtype, slack, size)  # 1 + erf cancels: gelu is good beside x
        assert why is None, f"{op.name} {dtype.name}: {why}"


@pytest.mark.parametrize("source", DTYPES.values(), ids=str)
def test_cast(source):
    g = Draw()
    x = g.x(N, dtype=source.name)
    given = values(source, "any", 5)
    if source.is_float:
        given = np.where(np.isfinite(given), given, 7)
        given = np.abs(np.clip(given, -100, 100)).astype(source.numpy)  # in range of every integer
    outputs = []
    for to in DTYPES.values():
        if to is not source:
            y = g.op("Cast", x, to)
            outputs += [y, g.op("Cast", g.reshape(g.slice(x, (4, 5, 1)), ()), to)]
            if to.is_float and source.is_float:
                outputs.append(g.op("Cast", y, source))  # a rounding that is seen
    code = lower(g, outputs, "k", C(16))
    got = call(build(code.source, 16), code, g, outputs, {0: given}, {})
    for a, b, node in zip(got, evaluate(outputs, {0: given}), outputs):
        why = differ(a, b, node.dtype, 1.0)
        assert why is None, f"{source.name} to {node.dtype.name}: {why}"


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
    given = {0: values(dtype, "any", 1).repeat(4)[:270].reshape(6, 45),
             1: rng.integers(-3, 60, 9)}
    if dtype.is_float:
        given[0] = np.where(np.isfinite(given[0]), given[0], 1).astype(dtype.numpy)
    code = lower(g, outputs, "k", C(width))
    got = call(build(code.source, width), code, g, outputs, given, {}, 2, False)
    for i, (a, b, node) in enumerate(zip(got, evaluate(outputs, given), outputs)):
        if i < 3 and dtype.is_float:
            scale = np.abs(given[0].astype(float)).sum()
            unit = {"f64": 1e-15, "f32": 1e-7, "f16": 1e-3, "bf16": 8e-3}[dtype.name]
            assert np.abs(a.astype(float) - b.astype(float)).max() <= unit * scale, (i, a, b)
        else:
            why = differ(a, b, node.dtype, 1.0)
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
    got = call(build(code.source, 16), code, g, outputs, inputs, {})
    for a, b in zip(got, evaluate(outputs, inputs)):
        assert differ(a, b, DTYPES[dtype], 1.0) is None, (a, b)


def test_constants_round_trip():
    g = Draw()
    numbers = (0.1, -0.0, 1e-45, 3.4028234e38, np.inf, -np.inf, np.nan, 1 / 3, 1e300, -1e-300)
    outputs = [g.full(v, d, (3,)) for v in numbers for d in ("f32", "f64", "f16", "bf16")]
    outputs += [g.full(v, "i64", (3,)) for v in (2 ** 63 - 1, -2 ** 63, -1)]
    outputs += [g.full(-2 ** 31, "i32", (20,)), g.full(255, "u8", (20,)), g.full(-128, "i8", ())]
    code = lower(g, outputs, "k", C(16))
    got = call(build(code.source, 16), code, g, outputs, {}, {})
    with np.errstate(all="ignore"):
        want = evaluate(outputs, {})
    for a, b in zip(got, want):
        assert a.tobytes() == b.tobytes() or (np.isnan(a.astype(float)).all()
                                              and np.isnan(b.astype(float)).all()), (a, b)
