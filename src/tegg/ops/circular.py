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

# (asin(x) / x - 1) / x^2 in x^2 on [0, 1/4], likewise: relative error of asin(x) 5.1e-18, 1.0e-9.
_ASIN_64 = (0.028757851367421566, -0.014851887071247204, 0.01740087944269402, 0.005457506718640358,
            0.01032281435018578, 0.011479177415184906, 0.013971212973552933, 0.017352392720869973,
            0.02237217294214989, 0.030381944138531247, 0.04464285714635543, 0.07499999999998433,
            0.16666666666666669)
_ASIN_32 = (0.03369084720283012, 0.017149238357677253, 0.03110066273549457, 0.04459940152851218,
            0.07500094543497424, 0.16666666366730908)


@public()
def tan(x: Operand) -> Tensor:
    """The tangent of x in radians, as sin / cos: its relative error grows as 1 / |cos x|."""
    return unary("tan", x, lambda g, u: g.expansion("Div", g.op("Sin", u), g.expansion("Cos", u)))


def _odd(g: Graph, x: Node, square: Node, coefficients: tuple[float, ...]) -> Node:
    """x + x square (a polynomial in square, its highest coefficient first)."""
    series = g.full(coefficients[0], x.dtype)
    for c in coefficients[1:]:
        series = g.add(g.mul(series, square), c)
    return g.add(g.mul(g.mul(series, square), x), x)


def _positive_atan(g: Graph, x: Node) -> Node:
    """atan of x >= 0: pi/2 + atan(-1 / x) above tan(3 pi/8), pi/4 + atan((x - 1) / (x + 1)) above
    tan(pi/8). One division does for all: others take longer than all the rest."""
    def where(far: float | Node, middle: float | Node, near: float | Node) -> Node:
        far, middle, near = (v if isinstance(v, Node) else g.full(v, x.dtype)
                             for v in (far, middle, near))
        return g.select(beyond, far, g.select(turned, middle, near))
    turned, beyond = g.less(math.tan(math.pi / 8), x), g.less(math.tan(3 * math.pi / 8), x)
    t = g.expansion("Div", where(-1, g.add(x, -1), x), where(x, g.add(x, 1), 1))
    series = _odd(g, t, g.mul(t, t), _ATAN_64 if x.dtype is f64 else _ATAN_32)
    return g.add(series, where(math.pi / 2, math.pi / 4, 0))


def _atan(g: Graph, x: Node) -> Node:
    return signed(g, x, _positive_atan(g, g.idiom("Abs", x)))


@public("arctan")
def atan(x: Operand) -> Tensor:
    """The inverse of tan, in [-pi/2, pi/2]."""
    return unary("atan", x, _atan)


@public("arcsin")
def asin(x: Operand) -> Tensor:
    """The inverse of sin, in [-pi/2, pi/2]: a series, of sqrt((1 - |x|) / 2) where |x| > 1/2. NaN
    beyond 1."""
    def record(g: Graph, u: Node) -> Node:
        outer, series = _asin_series(g, g.idiom("Abs", u))
        return signed(g, u, g.select(outer, g.add(g.mul(series, -2), math.pi / 2), series))
    return unary("asin", x, record)


@public("arccos")
def acos(x: Operand) -> Tensor:
    """The inverse of cos, in [0, pi], by the series of ``asin``. NaN beyond 1."""
    def record(g: Graph, u: Node) -> Node:
        outer, series = _asin_series(g, g.idiom("Abs", u))
        below = g.less(u, 0)
        size = g.select(outer, g.mul(series, 2), g.add(g.mul(series, -1), math.pi / 2))
        return g.select(below, g.add(g.mul(size, -1), math.pi), size)
    return unary("acos", x, record)


def _asin_series(g: Graph, x: Node) -> tuple[Node, Node]:
    """Of x >= 0: whether it is above 1/2, and asin of s, which is sqrt((1 - x) / 2) there, so that
    asin(x) = pi/2 - 2 asin(s), and x elsewhere."""
    outer = g.less(0.5, x)
    half = g.mul(g.add(g.mul(x, -1), 1), 0.5)
    s = g.select(outer, g.op("Sqrt", half), x)
    square = g.select(outer, half, g.mul(x, x))
    return outer, _odd(g, s, square, _ASIN_64 if x.dtype is f64 else _ASIN_32)


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
