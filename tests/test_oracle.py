"""The oracle: every node by its row, with the recorded shape and dtype, and clear errors."""

from __future__ import annotations

import numpy as np
import pytest

from tegg.bits import bits_of
from tegg.dim import dim
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph
from tegg.dtype import f32
from tegg.ir.oracle import evaluate


def run(build, *arrays, sizes=None):
    g = Graph()
    node = build(g, *(g.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)))
    return evaluate([node], dict(enumerate(arrays)), sizes)[0]


def test_symbolic_sizes():
    g, n = Graph(), dim("n", 1)
    x = g.input("x", (n, 2), "f32")
    y = g.mul(g.op("SumReduce", x, 0), g.size(n, f32))
    for k in (1, 3):
        (out,) = evaluate([y], {0: np.ones((k, 2), np.float32)}, {"n": k})
        assert (out == k * k).all()


def test_a_deep_graph_needs_no_recursion():
    g = Graph()
    x = y = g.input("x", (), "f64")
    for _ in range(5000):
        y = g.add(y, x)
    assert evaluate([y, x], {0: np.array(1.0)}) == [5001.0, 1.0]


def test_primops_at_the_edges():
    i8 = np.array([-128, 127, 5, -5], np.int8)
    zero = np.zeros(4, np.int8)
    assert run(lambda g, a, b: g.op("Mod", a, b), i8, zero).tolist() == [0, 0, 0, 0]
    assert run(lambda g, a, b: g.op("IntDiv", a, b), i8, zero).tolist() == [0, 0, 0, 0]
    two = np.full(4, 2, np.int8)
    assert run(lambda g, a, b: g.op("IntDiv", a, b), i8, two).tolist() == [-64, 63, 2, -2]
    assert run(lambda g, a, b: g.op("Mod", a, b), i8, two).tolist() == [0, 1, 1, -1]
    u8 = np.array([250, 3, 0, 255], np.uint8)
    assert run(lambda g, a, b: g.op("IntDiv", a, b), u8, u8[::-1].copy()).tolist() == [0, 0, 0, 1]
    empty = np.empty((0, 2), np.float32)
    assert run(lambda g, x: g.op("MaxReduce", x, 0), empty).tolist() == [[-np.inf, -np.inf]]
    assert run(lambda g, x: g.op("SumReduce", x, 0), empty).tolist() == [[0, 0]]
    nan = np.array([1, np.nan], np.float32)
    assert np.isnan(run(lambda g, x: g.op("MaxReduce", x, 0), nan)).all()
    assert run(lambda g, x: g.op("MaxReduce", x, 0), np.array([-5, -7], np.int32)) == [-5]
    assert run(lambda g, x: g.op("SumReduce", x, 0), np.array([True, True])).tolist() == [True]
    half = np.full(3000, 1, np.float16)  # 2048 + 1 is 2048 in float16
    assert run(lambda g, x: g.op("SumReduce", x, 0), half) == [3000]
    assert np.isnan(run(lambda g, x: g.expansion("Mean", x, 0), empty)).all()


def test_gather_and_scatter_at_the_edges():
    x, i = np.arange(6.0).reshape(3, 2), np.array([0, 2, -1, 9])
    assert run(lambda g, x, i: g.op("Gather", x, i, 0), x, i)[:, 0].tolist() == [0, 4, 0, 4]
    u = np.full((4, 2), 10.0)
    for mode, want in (("last", [10, 2, 10]), ("add", [10, 2, 14]), ("max", [10, 2, 10])):
        out = run(lambda g, x, i, u, m=mode: g.op("Scatter", x, i, u, 0, m), x, i, u)
        assert out[:, 0].tolist() == want


def test_pad_fills_and_keeps_bits():
    x = np.array([-0.0], np.float32)
    out = run(lambda g, x: g.op("Pad", x, (1,), (0,), bits_of(np.nan, f32)), x)
    assert np.isnan(out[0]) and np.signbit(out[1])


def test_what_is_missing_or_does_not_fit():
    g = Graph()
    x = g.input("x", (2,), "f32")
    with pytest.raises(ArgumentError) as e:
        evaluate([x], {})
    assert str(e.value) == "input 0 was not given"
    with pytest.raises(ShapeError) as e:
        evaluate([x], {0: np.ones(3)})
    assert str(e.value) == "input 0 is (3,), not (2,)"
    with pytest.raises(ShapeError, match="the size of dim 'n' is not known here"):
        evaluate([g.input("y", (dim("n"),), "f32")], {1: np.ones(3)})
