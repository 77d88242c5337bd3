"""Circular functions and their inverses, beside sin and cos.

Floats; halves are computed in float32 and rounded once. Relative errors of the inverses are a few
units in the last place.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tegg.dtype import f64
from tegg.ir.graph import Graph, Node
from tegg.ops.exponential import signed, unary
from tegg.ops.public import public
from tegg.ops.spatial import float_only
from tegg.ops.value import Operand, in_float32, operands, wrap

if TYPE_CHECKING:
    from tegg.tensor import Tensor

# (atan(x) / x - 1) / x^2 in x^2 on [0, tan(pi/8)^2], interpolated at Chebyshev points in 60 digits:
# relative error of atan(x) 1.7e-19 and 2.4e-9.
_ATAN_64 = (0.016284375050043393, -0.03456931506332609, 0.045515447340221615,
            -0.05230443640686948, 0.05878927554473807, -0.0666642476020052, 0.07692296368042296,
            -0.09090908753259112, 0.11111111105150588, -0.14285714285659779, 0.19999999999999804,
            -0.3333333333333333)
_ATAN_32 = (-0.06451718869358958, 0.10743668324830098, -0.14263949753605723, 0.1999954031495797,
            -0.33333331760434554)


@public()
def tan(x: Operand) -> Tensor:
    """The tangent of x in radians, as sin / cos: its relative error grows as 1 / |cos x|."""
    return unary("tan", x, lambda g, u: g.expansion("Div", g.op("Sin", u), g.expansion("Cos", u)))


def _positive_atan(g: Graph, x: Node) -> Node:
    """atan of x >= 0: pi/2 - atan(1/x) above 1, pi/4 + atan((x - 1) / (x + 1)) above tan(pi/8)."""
    inverted = g.less(1, x)
    y = g.select(inverted, g.op("Recip", x), x)
    turned = g.less(math.tan(math.pi / 8), y)
    t = g.select(turned, g.expansion("Div", g.add(y, -1), g.add(y, 1)), y)
    z = g.mul(t, t)
    coefficients = _ATAN_64 if x.dtype is f64 else _ATAN_32
    series = g.full(coefficients[0], x.dtype)
    for c in coefficients[1:]:
        series = g.add(g.mul(series, z), c)
    out = g.add(g.mul(g.mul(series, z), t), t)
    out = g.select(turned, g.add(out, math.pi / 4), out)
    return g.select(inverted, g.add(g.mul(out, -1), math.pi / 2), out)


def _atan(g: Graph, x: Node) -> Node:
    return signed(g, x, _positive_atan(g, g.idiom("Abs", x)))


@public("arctan")
def atan(x: Operand) -> Tensor:
    """The inverse of tan, in [-pi/2, pi/2]."""
    return unary("atan", x, _atan)


@public("arcsin")
def asin(x: Operand) -> Tensor:
    """The inverse of sin, in [-pi/2, pi/2], as atan(x / sqrt((1 - x) (1 + x))). NaN beyond 1."""
    def record(g: Graph, u: Node) -> Node:
        rest = g.op("Sqrt", g.mul(g.add(g.mul(u, -1), 1), g.add(u, 1)))
        return _atan(g, g.expansion("Div", u, rest))
    return unary("asin", x, record)


@public("arccos")
def acos(x: Operand) -> Tensor:
    """The inverse of cos, in [0, pi], as 2 atan(sqrt((1 - x) / (1 + x))). NaN beyond 1."""
    def record(g: Graph, u: Node) -> Node:
        ratio = g.expansion("Div", g.add(g.mul(u, -1), 1), g.add(u, 1))
        return g.mul(_positive_atan(g, g.op("Sqrt", ratio)), 2)
    return unary("acos", x, record)


@public("arctan2")
def atan2(y: Operand, x: Operand) -> Tensor:
    """The angle of the point (x, y) from the first axis, in [-pi, pi]. Shapes broadcast. With C's
    special values for zeros and infinities."""
    graph, (a, b) = operands("atan2", y, x)
    float_only("atan2", a)
    return wrap(graph, in_float32(graph, (a, b), lambda u, v: _angle(graph, u, v)))


def _angle(g: Graph, y: Node, x: Node) -> Node:
    height, width = g.idiom("Abs", y), g.idiom("Abs", x)
    inf, zero = g.full(math.inf, y.dtype), g.full(0, y.dtype)
    both = g.mul(g.idiom("Equal", height, inf), g.idiom("Equal", width, inf))
    none = g.mul(g.idiom("Equal", height, zero), g.idiom("Equal", width, zero))
    ratio = g.select(none, zero, g.select(both, g.full(1, y.dtype),
                                          g.expansion("Div", height, width)))
    size = _positive_atan(g, ratio)
    size = g.select(_negative(g, x), g.add(g.mul(size, -1), math.pi), size)
    return g.select(_negative(g, y), g.mul(size, -1), size)


def _negative(g: Graph, x: Node) -> Node:
    """Whether the sign of x is set: 1 / -0 is -inf."""
    zero = g.idiom("Equal", x, g.full(0, x.dtype))
    return g.less(g.select(zero, g.op("Recip", x), x), 0)
