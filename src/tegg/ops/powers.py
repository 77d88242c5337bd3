"""Powers: by squaring where the exponent is whole, else by logarithm, with C's special values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tegg.dim import Poly
from tegg.dtype import bool_
from tegg.errors import DTypeError
from tegg.ir.graph import Graph, Node
from tegg.ops.elementwise import rsqrt, sqrt
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, in_float32, is_scalar, one, operands, wrap

if TYPE_CHECKING:
    from tegg.tensor import Tensor

_LARGE = 1 << 16  # exponents below it are worked out by squaring


@public("power", keywords={"exponent": "y"})
def pow(x: Operand, y: Operand) -> Tensor:
    """x to the power y, with C's special values: pow(x, 0) = pow(1, y) = 1.

    A Python integer y: by repeated squaring, exact for integers (which wrap), right for negative
    x; 0.5 and -0.5 as sqrt and rsqrt. A tensor y of floats: 2^(y log2 |x|) with the sign of an odd
    power; NaN for negative x and fractional y; relative error up to 1e-5 near the range's ends.
    A tensor y of integers: by squaring over its bits; 0 where y < 0 and |x| > 1.
    Negative y with integer x is refused where it is seen.
    """
    if is_scalar(y) and not is_scalar(x) and not isinstance(y, (bool, np.bool_, Poly)):
        graph, a = one("pow", x)
        if float(y).is_integer() and -_LARGE < y < _LARGE:
            return wrap(graph, in_float32(graph, (a,), lambda u: _int_pow(graph, u, int(y))))
        if a.dtype.is_float and y in (0.5, -0.5):
            return sqrt(x) if y == 0.5 else rsqrt(x)
    graph, (a, b) = operands("pow", x, y)
    if b.dtype.is_float and isinstance(x, (int, float, np.number)) and 0 < x < math.inf:
        if x == 1:
            return wrap(graph, graph.full(1, b.dtype, b.shape))
        scale = math.log2(x)
        return wrap(graph, in_float32(graph, (b,), lambda u: graph.op("Exp2", graph.mul(u, scale))))
    if a.dtype.kind == "bool":
        fail(DTypeError, "pow: needs numbers, not bool; write x.cast('i32')")
    if a.dtype.is_float:
        return wrap(graph, in_float32(graph, (a, b), lambda u, v: _float_pow(graph, u, v)))
    return wrap(graph, _bitwise_pow(graph, a, b))


def _int_pow(graph: Graph, x: Node, n: int) -> Node:
    if n < 0:
        if not x.dtype.is_float:
            fail(DTypeError, f"pow: {x.dtype.name} to the power {n} is no integer; "
                             f"write x.cast('f32')")
        return graph.op("Recip", _int_pow(graph, x, -n))
    if x.dtype is bool_:
        fail(DTypeError, "pow: needs numbers, not bool; write x.cast('i32')")
    out, power = None, x
    while n:
        if n & 1:
            out = power if out is None else graph.mul(out, power)
        n >>= 1
        power = graph.mul(power, power) if n else power
    return graph.full(1, x.dtype, x.shape) if out is None else out


def _float_pow(graph: Graph, x: Node, y: Node) -> Node:
    size = graph.idiom("Abs", x)
    raw = graph.op("Exp2", graph.mul(y, graph.op("Log2", size)))
    half = graph.idiom("Abs", graph.broadcast("Mod", y, graph.full(2, y.dtype)))
    one_ = graph.full(1, y.dtype)
    odd = graph.idiom("Equal", half, one_)
    infinite = graph.idiom("Equal", graph.idiom("Abs", y), graph.full(math.inf, y.dtype))
    endless = graph.add(infinite, graph.idiom("Equal", size, graph.full(math.inf, x.dtype)))
    even = graph.add(graph.idiom("Equal", half, graph.full(0, y.dtype)), endless)
    nan = graph.select(even, raw, graph.full(math.nan, y.dtype))
    negative = graph.select(odd, graph.mul(raw, -1), nan)
    out = graph.select(graph.less(x, 0), negative, raw)
    # Where |x| = 1 the logarithm is 0, and 0 times an infinite y would be NaN.
    unit = graph.mul(graph.idiom("Equal", size, one_), infinite)
    always = graph.add(graph.idiom("Equal", x, one_),
                       graph.add(unit, graph.idiom("Equal", y, graph.full(0, y.dtype))))
    minus_zero = graph.mul(odd, graph.idiom("Equal", x, graph.full(0, x.dtype)))
    out = graph.select(minus_zero, _odd_power_of_zero(graph, x, y), out)
    return graph.select(always, one_, out)


def _odd_power_of_zero(graph: Graph, x: Node, y: Node) -> Node:
    """0 or -0 for y > 0, inf or -inf for y < 0."""
    return graph.select(graph.less(y, 0), graph.op("Recip", x), x)


def _bitwise_pow(graph: Graph, x: Node, y: Node) -> Node:
    """Square and multiply over the bits of |y|, lowest first; 1/x^|y| truncated where y < 0."""
    bits = 8 * x.dtype.itemsize - (x.dtype.name != "u8")
    one_, two, out = graph.full(1, x.dtype), graph.full(2, x.dtype), graph.full(1, x.dtype)
    unit = graph.idiom("Equal", graph.idiom("Abs", x), one_)
    rest = graph.idiom("Abs", y)
    for _ in range(bits):
        odd = graph.less(0, graph.broadcast("Mod", rest, two))
        out = graph.select(odd, graph.mul(out, x), out)
        rest, x = graph.broadcast("IntDiv", rest, two), graph.mul(x, x)
    inverse = graph.select(unit, out, graph.full(0, x.dtype))
    return graph.select(graph.less(y, 0), inverse, out)
