"""Proven ranges hold of every value, in every dtype, and are found where indices need them."""

from __future__ import annotations

import numpy as np
import pytest
from profiles import examples
import tegg
from hypothesis import given, settings, strategies as st

from tegg.dim import dim, evaluate as size_of
from tegg.dtype import DTYPES, bool_
from tegg.ir.classes import ENode
from tegg.ir.graph import Graph, Node
from tegg.ir.oracle import evaluate
from tegg.rewrite import ranges as module
from tegg.rewrite.compiler import Generic
from tegg.rewrite.egraph import saturate
from tegg.rewrite.encode import Codec
from tegg.rewrite.interval import Interval, whole
from tegg.rewrite.ranges import Ranges
from tegg.rewrite.view import View

INTS = [d for d in DTYPES.values() if d.kind == "int"]


def view_of(graph: Graph, nodes: dict[int, list[ENode]], kept: dict | None = None) -> View:
    """A view in which each node of a graph is a class of its own."""
    return View(graph.table, Codec(graph.facts), nodes, {n.id: n.shape for n in graph.nodes},
                {n.id: n.dtype for n in graph.nodes}, dict, {}, frozenset(),
                classes=nodes.keys(), kept={} if kept is None else kept)


def ranges_of(graph: Graph, kept: dict | None = None) -> Ranges:
    """The ranges of a graph's nodes, each a class of its own."""
    nodes = {n.id: [ENode(n.op, tuple(a.id for a in n.args), n.attrs)] for n in graph.nodes}
    for i in graph.idioms:
        nodes[i.node.id].append(ENode(i.op, tuple(a.id for a in i.args), i.attrs))
    return Ranges(view_of(graph, nodes, kept))


def test_they_are_worked_out_again_where_integers_are_others(monkeypatch):
    settled = []
    monkeypatch.setattr(module, "_Settling",
                        lambda view, real=module._Settling: settled.append(1) or real(view))
    g, kept = Graph(), {}
    x = g.op("Mul", g.iota(5, "i32"), g.full(3, "i32", (5,)))
    first = ranges_of(g, kept)
    g.op("Neg", g.input("y", (5,), "f32"))  # none of theirs
    again = ranges_of(g, kept)
    assert len(settled) == 1 and again.of(x.id) == first.of(x.id) and again.within(x.id, 13)
    bound = g.op("Minimum", x, g.full(7, "i32", (5,)))
    assert ranges_of(g, kept).of(bound.id).high == 7 and len(settled) == 2


class Drawn:
    """Random arithmetic of integers of one dtype, with masks, limits and movement."""

    def __init__(self, draw) -> None:
        self.draw, self.graph = draw, Graph()
        self.dtype = self.pick(INTS)
        self.size = self.pick([2, 3])
        s = dim("s", min=self.pick([0, 1, 2]), max=self.pick([3, None]))
        self.shape = (self.pick([self.size, s]), 3)
        g, d, (n, _) = self.graph, self.dtype, self.shape
        self.numbers = [g.input("x", self.shape, d),
                        g.expand(g.reshape(g.iota(n, d), (n, 1)), self.shape),
                        g.expand(g.reshape(g.size(n, d), (1, 1)), self.shape)]
        self.bools = [g.input("b", self.shape, bool_)]

    def pick(self, choices):
        return self.draw(st.sampled_from(choices))

    def few(self) -> int:
        info = np.iinfo(self.dtype.numpy)
        return self.pick([0, 1, 2, 3, 5, -1, -4, 100, int(info.min), int(info.max)])

    def number(self) -> Node:
        constant = self.graph.full(self.few(), self.dtype, self.shape)
        return self.pick([*self.numbers, self.numbers[-1], constant])

    def step(self) -> None:
        kind = self.pick(["binary", "binary", "limit", "compare", "select", "move", "logic",
                          "reduce", "cast"])
        made = getattr(self, kind)(self.number(), self.number())
        (self.bools if made.dtype is bool_ else self.numbers).append(made)

    def binary(self, a: Node, b: Node) -> Node:
        return self.graph.op(self.pick(["Add", "Mul", "Mod", "IntDiv", "Sub"]), a, b)

    def limit(self, a: Node, b: Node) -> Node:
        return self.graph.idiom(self.pick(["Maximum", "Minimum"]), a, b)

    def compare(self, a: Node, b: Node) -> Node:
        name = self.pick(["LessThan", "Equal", "LessEqual"])
        return self.graph.less(a, b) if name == "LessThan" else self.graph.idiom(name, a, b)

    def select(self, a: Node, b: Node) -> Node:
        branches = self.draw(st.permutations([a, self.graph.add(a, b)]))
        return self.graph.select(self.pick([*self.bools, self.graph.less(a, b)]), *branches)

    def move(self, a: Node, b: Node) -> Node:
        g, kind = self.graph, self.pick(["Flip", "Pad", "Gather"])
        if kind == "Gather":
            return g.op("Gather", a, g.full(self.few(), self.dtype, (3,)), 1)
        if kind == "Flip":
            return g.op("Flip", a, 0)
        padded = g.pad(a, (1, 0), (0, 1), self.few())
        return g.op("Slice", padded, (0, 1), (self.shape[0], 4), (1, 1))

    def logic(self, a: Node, b: Node) -> Node:
        p, q = self.pick(self.bools), self.pick(self.bools)
        name = self.pick(["Add", "Mul", "Not"])
        return self.graph.idiom("Not", p) if name == "Not" else self.graph.op(name, p, q)

    def reduce(self, a: Node, b: Node) -> Node:
        op = self.pick(["SumReduce", "MaxReduce"])
        return self.graph.expand(self.graph.op(op, a, self.pick([0, 1])), self.shape)

    def cast(self, a: Node, b: Node) -> Node:
        return self.graph.cast(self.graph.cast(a, self.pick([*INTS, bool_])), self.dtype)


@st.composite
def programs(draw) -> tuple[Graph, dict[int, np.ndarray], dict[str, int]]:
    made = Drawn(draw)
    for _ in range(draw(st.integers(2, 12))):
        made.step()
    for i, n in enumerate((*made.numbers, *made.bools)):
        made.graph.outputs[f"y{i}"] = n
    rng, real = np.random.default_rng(draw(st.integers(0, 2 ** 32))), (made.size, 3)
    kind = made.dtype.numpy
    info = np.iinfo(kind)
    wide = rng.integers(info.min, info.max, real, kind, endpoint=True)
    x = np.where(rng.random(real) < 0.5, wide, rng.integers(0, 4, real).astype(kind))
    return made.graph, {0: x.astype(kind), 1: rng.random(real) < 0.5}, {"s": made.size}


def check_holds(interval, value: np.ndarray, sizes: dict[str, int], what: object) -> None:
    if value.size:
        low, high = int(value.min()), int(value.max())
        for v in interval.lows:
            assert size_of(v, sizes) <= low, (what, interval, low)
        for h in interval.highs:
            assert high <= size_of(h, sizes), (what, interval, high)


@settings(max_examples=examples(150))
@given(program=programs())
def test_every_value_is_in_its_range(program):
    graph, inputs, sizes = program
    ranges = ranges_of(graph)
    nodes = [n for n in graph.reachable() if n.op.name != "Input"]
    for n, value in zip(nodes, evaluate(nodes, inputs, sizes)):
        check_holds(ranges.of(n.id), value, sizes, n)


S = dim("s", min=1)


def magnitude(x, n):
    return abs(x) % n


@pytest.mark.parametrize("n", [7, S, S + 2], ids=str)
@pytest.mark.parametrize("dtype", ["i64", "i32", "u8"])
@pytest.mark.parametrize("build", [
    lambda x, n: x.clip(0, n - 1), lambda x, n: x % n, lambda x, n: tegg.where(x < 0, 0, x) % n,
    lambda x, n: tegg.where((x >= 0) * (x < n), x, 0), magnitude],
    ids=["clip", "remainder", "fmod", "where", "abs"])
def test_what_users_write_is_proven_inside(build, dtype, n):
    if not isinstance(n, int) and dtype != "i64":
        n = 9  # a size without a bound may not fit
    g = Graph()
    x = g.tensor((4,), dtype)
    inside = build(x, n).node
    assert ranges_of(g).within(inside.id, n)
    assert not ranges_of(g).within(x.node.id, n)
    assert not ranges_of(g).within(inside.id, n - 1)


@pytest.mark.parametrize("build", [
    lambda x: x + 1, lambda x: x * 2, lambda x: tegg.where(x < 120, 0, x) + 10,
    lambda x: -x, lambda x: (x.cast("i32") + 100).cast("i8")])
def test_a_bound_that_may_wrap_is_no_bound(build):
    g = Graph()
    y = build(g.tensor((4,), "i8")).node
    assert ranges_of(g).of(y.id) == whole(y.dtype)


def test_an_iota_that_its_dtype_cannot_hold_proves_nothing():
    g = Graph()
    fits, wraps = g.iota(128, "i8"), g.iota(129, "i8")
    symbolic = g.iota(dim("n"), "i32")
    ranges = ranges_of(g)
    assert ranges.of(fits.id) == Interval((0,), (127,))
    assert ranges.of(wraps.id) == whole(wraps.dtype)
    assert ranges.of(symbolic.id) == whole(symbolic.dtype)


def test_what_is_assumed_of_sizes_counts():
    n, k = dim("n", min=1), dim("k", min=1)
    for assumed in (False, True):
        g = Graph()
        if assumed:
            g.facts.assume(n - k >= 0)
        assert ranges_of_iota(g, k).within(0, n) is assumed


def ranges_of_iota(g: Graph, n) -> Ranges:
    g.iota(n)
    return ranges_of(g)


def test_proven_comparisons_are_constants():
    g = Graph()
    i = g.tensor((4,), "i64") % 9
    (i < 9).output("y")
    classes = saturate(g, Generic()).classes
    assert {n.op.name for n in classes.nodes[classes.outputs["y"]]} >= {"Full"}


def test_classes_in_order_are_settled_once_and_those_in_a_cycle_again(monkeypatch):
    seen: list[int] = []
    real = module._Settling._refined
    monkeypatch.setattr(module._Settling, "_refined",
                        lambda self, c, get: (seen.append(c), real(self, c, get))[1])
    g = Graph()
    i = g.iota(6)
    g.outputs["y"] = g.op("Permute", g.op("Permute", g.reshape(i, (2, 3)), (1, 0)), (1, 0))
    nodes = {n.id: [ENode(n.op, tuple(a.id for a in n.args), n.attrs)] for n in g.nodes}

    def settled() -> Ranges:
        seen.clear()
        return Ranges(view_of(g, nodes))

    ranges = settled()
    assert sorted(seen) == sorted(ranges.known)
    first, last = g.outputs["y"].args[0].id, g.outputs["y"].id
    nodes[first].append(ENode(g.outputs["y"].op, (last,), ((1, 0),)))
    cyclic = settled()
    assert cyclic.known == ranges.known and len(seen) == 2 * len(ranges.known)
