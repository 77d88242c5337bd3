"""Proven ranges hold of every value, in every dtype, and are found where indices need them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tegg.bits import bits_of
from tegg.dim import dim
from tegg.dtype import DTYPES, bool_
from tegg.ir.graph import Graph, Node
from tegg.ir.oracle import evaluate
from tegg.rewrite.compiler import Generic
from tegg.rewrite.egraph import saturate
from tegg.rewrite.encode import Codec
from tegg.rewrite.ranges import Ranges
from tegg.rewrite.view import View
from tegg.testing.agree import class_values

INTS = [d for d in DTYPES.values() if d.kind == "int"]


def ranges_of(graph: Graph) -> Ranges:
    """The ranges of a graph's nodes, each a class of its own."""
    from tegg.ir.classes import ENode
    nodes = {n.id: [ENode(n.op, tuple(a.id for a in n.args), n.attrs)] for n in graph.nodes}
    for i in graph.idioms:
        nodes[i.node.id].append(ENode(i.op, tuple(a.id for a in i.args), i.attrs))
    return Ranges(View(graph.table, Codec(graph.facts), nodes, {n.id: n.shape for n in graph.nodes},
                       {n.id: n.dtype for n in graph.nodes}, {n.id: n.id for n in graph.nodes}, {}))


@st.composite
def programs(draw) -> tuple[Graph, dict[int, np.ndarray], dict[str, int]]:
    """Random arithmetic of integers of one dtype, with masks, limits and movement."""
    g, dtype = Graph(), draw(st.sampled_from(INTS))
    s = dim("s", min=draw(st.integers(0, 2)), max=draw(st.sampled_from([3, None])))
    shape = (draw(st.sampled_from([2, 3, s])), 3)
    info = np.iinfo(dtype.numpy)
    few = st.sampled_from([0, 1, 2, 3, 5, -1, -4, 100, info.min, info.max])

    def constant() -> Node:
        return g.full(draw(few), dtype, shape)

    numbers = [g.input("x", shape, dtype), constant(),
               g.expand(g.reshape(g.iota(shape[0], dtype), (shape[0], 1)), shape),
               g.expand(g.reshape(g.size(shape[0], dtype), (1, 1)), shape)]
    bools = [g.input("b", shape, bool_)]
    for _ in range(draw(st.integers(2, 12))):
        a, b = (draw(st.sampled_from([*numbers, numbers[-1], constant()])) for _ in range(2))
        kind = draw(st.sampled_from(["binary", "binary", "limit", "compare", "select", "move",
                                     "logic", "reduce", "cast"]))
        if kind == "binary":
            numbers.append(g.op(draw(st.sampled_from(["Add", "Mul", "Mod", "IntDiv"])), a, b))
        elif kind == "limit":
            numbers.append(g.idiom(draw(st.sampled_from(["Maximum", "Minimum"])), a, b))
        elif kind == "compare":
            name = draw(st.sampled_from(["LessThan", "Equal", "LessEqual"]))
            bools.append(g.less(a, b) if name == "LessThan" else g.idiom(name, a, b))
        elif kind == "select":
            c = draw(st.sampled_from([*bools, g.less(a, b)]))
            numbers.append(g.select(c, *draw(st.permutations([a, g.add(a, b)]))))
        elif kind == "move":
            numbers.append(draw(st.sampled_from([
                lambda: g.op("Flip", a, 0), lambda: g.narrow(g.pad(a, (1, 0), (0, 1), draw(few)),
                                                             1, 1, 3) if shape[0] == -1 else
                g.op("Slice", g.pad(a, (1, 0), (0, 1), draw(few)), (0, 1), (shape[0], 4), (1, 1)),
                lambda: g.op("Gather", a, g.full(draw(few), dtype, (3,)), 1)]))())
        elif kind == "logic":
            p, q = (draw(st.sampled_from(bools)) for _ in range(2))
            bools.append(draw(st.sampled_from([lambda: g.op("Add", p, q), lambda: g.op("Mul", p, q),
                                               lambda: g.idiom("Not", p)]))())
        elif kind == "reduce":
            op = draw(st.sampled_from(["SumReduce", "MaxReduce"]))
            numbers.append(g.expand(g.op(op, a, draw(st.integers(0, 1))), shape))
        else:
            other = draw(st.sampled_from([*INTS, bool_]))
            numbers.append(g.cast(g.cast(a, other), dtype))
    for i, n in enumerate((*numbers, *bools)):
        g.outputs[f"y{i}"] = n
    size = draw(st.integers(s.min if isinstance(s, int) else 0, 3)) if False else draw(
        st.integers(2, 3))
    sizes = {"s": size}
    rng = np.random.default_rng(draw(st.integers(0, 2 ** 32)))
    real = tuple(size if not isinstance(d, int) else d for d in shape)
    wide = rng.integers(info.min, info.max, real, dtype.numpy, endpoint=True)
    x = np.where(rng.random(real) < 0.5, wide, rng.integers(0, 4, real).astype(dtype.numpy))
    return g, {0: x.astype(dtype.numpy), 1: rng.random(real) < 0.5}, sizes


def check_holds(interval, value: np.ndarray, sizes: dict[str, int], what: object) -> None:
    from tegg.dim import evaluate as size_of
    if value.size:
        low, high = int(value.min()), int(value.max())
        for v in interval.lows:
            assert size_of(v, sizes) <= low, (what, interval, low)
        for h in interval.highs:
            assert high <= size_of(h, sizes), (what, interval, high)


@settings(max_examples=150)
@given(program=programs())
def test_every_value_is_in_its_range(program):
    graph, inputs, sizes = program
    ranges = ranges_of(graph)
    nodes = [n for n in graph.reachable() if n.op.name != "Input"]
    for n, value in zip(nodes, evaluate(nodes, inputs, sizes)):
        check_holds(ranges.of(n.id), value, sizes, n)
