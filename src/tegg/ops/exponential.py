"""Logarithms, exponentials and hyperbolic functions that keep their digits near 0.

Floats; halves are computed in float32 and rounded once. Relative errors are a few units in the last
place, but for results below the least normal number, which may be 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tegg.dtype import f64
from tegg.ir.graph import Graph, Node
from tegg.ops.public import public
from tegg.ops.spatial import float_only
from tegg.ops.value import Operand, in_float32, one, operands, wrap

if TYPE_CHECKING:
    from tegg.tensor import Tensor


def unary(op: str, x: Operand, record) -> Tensor:
    """``record(graph, node)`` of a float operand."""
    graph, a = one(op, x)
    return wrap(graph, in_float32(graph, (float_only(op, a),), lambda u: record(graph, u)))


def _sub(graph: Graph, a: Node, b: Node) -> Node:
    return graph.expansion("Sub", a, b)


@public()
def log10(x: Operand) -> Tensor:
    """The logarithm to base 10, as log2(x) log10(2). log10(0) = -inf, NaN below 0."""
    return unary("log10", x, lambda g, u: g.mul(g.op("Log2", u), math.log10(2)))


@public()
def log1p(x: Operand) -> Tensor:
    """log(1 + x), exact to a few units also for small x: log(u) x / (u - 1) with u = 1 + x rounded,
    x itself where u is 1. log1p(-1) = -inf, NaN below. Formula: Kahan, in Goldberg, "What every
    computer scientist should know about floating-point arithmetic", theorem 4."""
    return unary("log1p", x, log1p_of)


def log1p_of(graph: Graph, x: Node) -> Node:
    """``log1p`` of a node."""
    u = graph.add(x, 1)
    log = graph.expansion("Log", u)
    same = graph.idiom("Equal", u, graph.full(1, x.dtype))
    gap = graph.select(same, graph.full(1, x.dtype), graph.add(u, -1))
    near = graph.mul(log, graph.expansion("Div", x, gap))
    return graph.select(graph.less(1, x), log, graph.select(same, x, near))


@public()
def expm1(x: Operand) -> Tensor:
    """e^x - 1, exact to a few units also for small x: its power series where |x| < 1/2."""
    return unary("expm1", x, expm1_of)


def expm1_of(graph: Graph, x: Node) -> Node:
    """``expm1`` of a node."""
    terms = 15 if x.dtype is f64 else 9
    series = graph.full(1 / math.factorial(terms), x.dtype)
    for k in range(terms - 1, 1, -1):
        series = graph.add(graph.mul(series, x), 1 / math.factorial(k))
    small = graph.add(graph.mul(graph.mul(x, x), series), x)
    small = graph.select(graph.idiom("Equal", x, graph.full(0, x.dtype)), x, small)  # -0
    near = graph.less(graph.idiom("Abs", x), 0.5)
    return graph.select(near, small, graph.add(graph.expansion("Exp", x), -1))


@public()
def sinh(x: Operand) -> Tensor:
    """(e^x - e^-x) / 2, through expm1 below |x| = 1."""
    def record(g: Graph, u: Node) -> Node:
        size = g.idiom("Abs", u)
        e = expm1_of(g, g.idiom("Minimum", size, g.full(1, u.dtype)))
        small = g.mul(g.add(e, g.expansion("Div", e, g.add(e, 1))), 0.5)
        half = g.expansion("Exp", g.mul(size, 0.5))
        inverse = g.op("Recip", half)
        large = _sub(g, g.mul(g.mul(half, 0.5), half), g.mul(g.mul(inverse, 0.5), inverse))
        return signed(g, u, g.select(g.less(size, 1), small, large))
    return unary("sinh", x, record)


@public()
def cosh(x: Operand) -> Tensor:
    """(e^x + e^-x) / 2."""
    def record(g: Graph, u: Node) -> Node:
        half = g.expansion("Exp", g.mul(g.idiom("Abs", u), 0.5))
        inverse = g.op("Recip", half)
        return g.add(g.mul(g.mul(half, 0.5), half), g.mul(g.mul(inverse, 0.5), inverse))
    return unary("cosh", x, record)


def signed(graph: Graph, x: Node, size: Node) -> Node:
    """``size`` with the sign of x; x itself where x is 0."""
    out = graph.select(graph.less(x, 0), graph.mul(size, -1), size)
    return graph.select(graph.idiom("Equal", x, graph.full(0, x.dtype)), x, out)


@public("arcsinh")
def asinh(x: Operand) -> Tensor:
    """The inverse of sinh: log1p(a + a^2 / (1 + sqrt(a^2 + 1))) of a = |x|, log(a) + log 2 of large
    ones."""
    def record(g: Graph, u: Node) -> Node:
        size = g.idiom("Abs", u)
        a = g.idiom("Minimum", size, g.full(1e9, u.dtype))
        square = g.mul(a, a)
        root = g.add(g.op("Sqrt", g.add(square, 1)), 1)
        small = log1p_of(g, g.add(a, g.expansion("Div", square, root)))
        large = g.add(g.expansion("Log", size), math.log(2))
        return signed(g, u, g.select(g.less(1e8, size), large, small))
    return unary("asinh", x, record)


@public("arccosh")
def acosh(x: Operand) -> Tensor:
    """The inverse of cosh at or above 0: log1p(t + sqrt(2 t + t^2)) of t = x - 1, log(x) + log 2 of
    large ones. NaN below 1."""
    def record(g: Graph, u: Node) -> Node:
        t = g.add(g.idiom("Minimum", u, g.full(1e9, u.dtype)), -1)
        root = g.op("Sqrt", g.add(g.mul(t, 2), g.mul(t, t)))
        small = log1p_of(g, g.add(t, root))
        inside = g.select(g.less(u, 1), g.full(math.nan, u.dtype), small)
        return g.select(g.less(1e8, u), g.add(g.expansion("Log", u), math.log(2)), inside)
    return unary("acosh", x, record)


@public("arctanh")
def atanh(x: Operand) -> Tensor:
    """The inverse of tanh: log1p(2 x / (1 - x)) / 2. Infinite at 1, NaN beyond."""
    def record(g: Graph, u: Node) -> Node:
        size = g.idiom("Abs", u)
        rest = g.add(g.mul(size, -1), 1)
        return signed(g, u, g.mul(log1p_of(g, g.expansion("Div", g.mul(size, 2), rest)), 0.5))
    return unary("atanh", x, record)


@public()
def logaddexp(x: Operand, y: Operand) -> Tensor:
    """log(e^x + e^y), as m + log1p(e^-|x - y|) with m the larger. Shapes broadcast. Of two equal
    infinities it is that infinity."""
    graph, (a, b) = operands("logaddexp", x, y)
    float_only("logaddexp", a)

    def record(u: Node, v: Node) -> Node:
        top = graph.idiom("Maximum", u, v)
        gap = graph.idiom("Abs", _sub(graph, u, v))
        gap = graph.select(graph.idiom("Equal", u, v), graph.full(0, u.dtype), gap)
        return graph.add(top, log1p_of(graph, graph.expansion("Exp", graph.mul(gap, -1))))

    return wrap(graph, in_float32(graph, (a, b), record))
