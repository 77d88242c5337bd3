"""Along which axes neighbours lie side by side, held against where elements come from."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tegg.dtype import f32
from tegg.ir.graph import Graph, Node
from tegg.ir.neighbours import axes_beside, beside_of, stored
from tegg.ir.oracle import evaluate

SHAPE = (4, 12, 40)


def beside(g: Graph, out: Node) -> frozenset[int]:
    shapes = {n.id: n.shape for n in g.nodes}
    known: dict[int, frozenset[int]] = {}
    for n in g.nodes:
        if n.op.name != "Input":
            step = SimpleNamespace(op=n.op, attrs=n.attrs, args=tuple(a.id for a in n.args))
            known[n.id] = axes_beside(n.id, step, shapes, known)
    return known.get(out.id, stored(out.shape))


MOVED = {
    "as it lies": lambda g, x: g.reshape(x, SHAPE),
    "turned": lambda g, x: g.permute(x, (2, 0, 1)),
    "windows": lambda g, x: g.op("Window", x, 2, 5, 1, 1),
    "every other window": lambda g, x: g.op("Window", x, 2, 5, 2, 1),
    "windows apart": lambda g, x: g.op("Window", x, 2, 5, 4, 1),
    "taps apart": lambda g, x: g.op("Window", x, 2, 5, 1, 3),
    "windows of rows": lambda g, x: g.op("Window", x, 1, 3, 1, 1),
    "windows of both": lambda g, x: g.op("Window", g.op("Window", x, 1, 3, 1, 1), 3, 3, 1, 1),
    "split": lambda g, x: g.reshape(x, (4, 12, 5, 8)),
    "joined": lambda g, x: g.reshape(x, (48, 40)),
    "turned and split": lambda g, x: g.reshape(g.permute(x, (2, 0, 1)), (8, 5, 48)),
    "an axis behind": lambda g, x: g.reshape(x, (4, 12, 40, 1)),
    "repeated": lambda g, x: g.expand(g.reshape(x, (4, 12, 40, 1)), (4, 12, 40, 9)),
    "every other": lambda g, x: g.op("Slice", x, (0, 0, 0), SHAPE, (1, 1, 2)),
    "every third": lambda g, x: g.op("Slice", x, (0, 0, 0), SHAPE, (1, 1, 3)),
    "backwards": lambda g, x: g.op("Flip", x, 2),
}


@pytest.mark.parametrize("name", MOVED)
def test_it_is_said_of_the_axes_along_which_memory_is_near(name):
    """Steps along an axis are small but at the ends of runs, or some are all far."""
    g = Graph()
    x = g.input("x", SHAPE, f32)
    y = MOVED[name](g, x)
    (at,) = evaluate([y], {0: np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)})
    steps = [np.abs(np.diff(at, axis=i)) for i in range(at.ndim)]
    near = {i for i, s in enumerate(steps) if s.size == 0 or np.mean(s <= 2) > 0.7}
    assert beside(g, y) == near


def test_what_is_computed_of_two_is_near_where_both_are():
    g = Graph()
    x = g.input("x", (8, 40), f32)
    w = g.expand(g.input("w", (8, 1), f32), (8, 40))
    turned = g.permute(g.input("y", (40, 8), f32), (1, 0))
    assert beside(g, g.mul(x, w)) == {1}
    assert beside(g, g.mul(x, turned)) == frozenset()
    assert beside(g, g.mul(turned, w)) == {0}
    assert beside(g, g.mul(x, g.full(2.0, f32, (8, 40)))) == {1}


def test_sums_and_rows_of_idioms():
    g = Graph()
    v = g.op("Window", g.input("x", (4, 40), f32), 1, 5, 1, 1)
    assert beside(g, v) == {1, 2}
    assert beside(g, g.op("SumReduce", v, 2)) == {1}
    turned = g.permute(g.input("y", (40, 8), f32), (1, 0))
    for name, near in (("Softmax", {0}), ("ArgSort", {1})):
        shapes = {0: (8, 40), 1: (8, 40)}
        step = SimpleNamespace(op=g.table[name], attrs=(1,), args=(0,))
        assert axes_beside(1, step, shapes, {0: frozenset({0})}) == near
    assert beside(g, turned) == {0}


def test_a_class_is_read_in_any_of_its_ways():
    g = Graph()
    x = g.input("x", (8, 40), f32)
    a, b = g.permute(x, (1, 0)), g.reshape(x, (40, 8))
    nodes = {n.id: [SimpleNamespace(op=n.op, attrs=n.attrs, args=tuple(i.id for i in n.args))]
             for n in g.nodes}
    shapes = {n.id: n.shape for n in g.nodes}
    assert beside_of(a.id, nodes, shapes) == {0}
    circle = {**nodes, x.id: [*nodes[x.id], SimpleNamespace(op=a.op, attrs=((1, 0),), args=(a.id,))]}
    assert beside_of(a.id, circle, shapes) == {0}
    two = {**nodes, a.id: [*nodes[a.id], SimpleNamespace(op=x.op, attrs=(), args=())]}
    assert beside_of(a.id, two, shapes) == {0, 1}  # as it is stored, too
    assert beside_of(b.id, nodes, shapes) == {1}
    half = g.cast(g.permute(g.input("h", (8, 40), "bf16"), (1, 0)), f32)  # of one element each
    nodes = {n.id: [SimpleNamespace(op=n.op, attrs=n.attrs, args=tuple(i.id for i in n.args))]
             for n in g.nodes}
    assert beside_of(half.id, nodes, {n.id: n.shape for n in g.nodes}) == {0}
