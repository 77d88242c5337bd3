"""Elementwise functions: arithmetic, exponentials, activations, rounding.

Operands broadcast as in NumPy. Floats of one size stay in it; a Python scalar has no say in the
dtype; halves are computed in float32 and rounded once. Every function raises ShapeError where
shapes do not broadcast and DTypeError where a dtype does not fit, and names the user's line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING


from tegg.dtype import DType, bool_, dtype as as_dtype
from tegg.errors import ArgumentError, DTypeError
from tegg.ir.graph import Graph, Node
from tegg.ops.public import public
from tegg.ops.value import (Operand, exact, fail, in_float32, named, one, operands,
                            primitive, wrap)

if TYPE_CHECKING:
    from tegg.tensor import Tensor


# ---- arithmetic
@public()
def add(x: Operand, y: Operand) -> Tensor:
    """x + y. Shapes broadcast; of bools it is ``or``."""
    return primitive("Add", x, y)


@public("multiply")
def mul(x: Operand, y: Operand) -> Tensor:
    """x y. Shapes broadcast; of bools it is ``and``."""
    return primitive("Mul", x, y)


@public("subtract")
def sub(x: Operand, y: Operand) -> Tensor:
    """x - y, as x + (-1) y. u8 wraps. Bools are refused."""
    return exact("Sub", x, y, idiom=False)


@public("divide", "true_divide")
def div(x: Operand, y: Operand, rounding_mode: str | None = None) -> Tensor:
    """x / y of floats, as x (1 / y): up to 1.5 units in the last place off, and 0 or inf where
    1 / y leaves the range. Integers are refused; write x.cast('f32') or x // y.

    ``rounding_mode``: ``"floor"`` is ``floor_divide``; ``"trunc"`` rounds towards 0, as C divides
    integers, and takes integers too: (x - fmod(x, y)) // y, of floats trunc(x / y).
    """
    if rounding_mode is None:
        return named("Div", x, y)
    if rounding_mode == "floor":
        return floor_divide(x, y)
    if rounding_mode != "trunc":
        fail(ArgumentError, f"div: rounding_mode is None, 'floor' or 'trunc', not "
                            f"{rounding_mode!r}")
    graph, nodes = operands("div", x, y)
    if nodes[0].dtype.is_float:
        return trunc(named("Div", x, y))
    a, b = (wrap(graph, n) for n in nodes)
    return floor_divide(sub(a, fmod(a, b)), b)


@public("negative")
def neg(x: Operand) -> Tensor:
    """-x. u8 wraps. Bools are refused."""
    return exact("Neg", x, idiom=False)


@public()
def fmod(x: Operand, y: Operand) -> Tensor:
    """C's fmod: x - y trunc(x / y), exactly, with the sign of x. An integer modulo 0 is 0."""
    return primitive("Mod", x, y)


@public("mod")
def remainder(x: Operand, y: Operand) -> Tensor:
    """x % y of Python and NumPy: x - y floor(x / y), with the sign of y; fmod has x's sign.

    Exact. An integer modulo 0 is 0; a float modulo 0 is NaN.
    """
    graph, (a, b) = operands("remainder", x, y)
    r = graph.broadcast("Mod", a, b)
    if a.dtype.name == "u8":
        return wrap(graph, r)
    out = graph.select(_opposite(graph, r, b), graph.add(r, b), r)
    if a.dtype.is_float:  # a zero takes the sign of the divisor
        zero = graph.select(graph.less(b, 0), graph.full(-0.0, a.dtype), graph.full(0, a.dtype))
        out = graph.select(graph.idiom("Equal", r, graph.full(0, a.dtype)), zero, out)
    return wrap(graph, out)


def _opposite(graph: Graph, r: Node, b: Node) -> Node:
    """Whether r and b have different signs, neither being 0."""
    return graph.add(graph.mul(graph.less(r, 0), graph.less(0, b)),
                     graph.mul(graph.less(0, r), graph.less(b, 0)))


@public()
def floor_divide(x: Operand, y: Operand) -> Tensor:
    """x // y of Python and NumPy: floor(x / y).

    Exact for integers; x // 0 is 0. For floats the whole number nearest to (x - x % y) / y, which
    is exact below 2^22 (f32) or 2^51 (f64); x // 0 is x / 0. Formula: CPython's float_divmod.
    """
    graph, (a, b) = operands("floor_divide", x, y)
    if a.dtype.kind == "bool":
        fail(DTypeError, "floor_divide: needs numbers, not bool; write x.cast('i32')")
    if a.dtype.is_float:
        return wrap(graph, in_float32(graph, (a, b), lambda u, v: _float_floor_div(graph, u, v)))
    q = graph.broadcast("IntDiv", a, b)
    if a.dtype.name == "u8":
        return wrap(graph, q)
    down = graph.cast(_opposite(graph, graph.broadcast("Mod", a, b), b), a.dtype)
    return wrap(graph, graph.expansion("Sub", q, down))


def _float_floor_div(graph: Graph, a: Node, b: Node) -> Node:
    r = graph.broadcast("Mod", a, b)
    whole = _nearest(graph, graph.expansion("Div", graph.expansion("Sub", a, r), b))
    q = graph.select(_opposite(graph, r, b), graph.add(whole, -1), whole)
    by_zero = graph.idiom("Equal", b, graph.full(0, b.dtype))
    return graph.select(by_zero, graph.expansion("Div", a, b), q)


# ---- exponentials, roots, circular functions
@public()
def exp(x: Operand) -> Tensor:
    """e^x, as 2^(x log2 e). Floats."""
    return named("Exp", x)


@public()
def exp2(x: Operand) -> Tensor:
    """2^x. Floats."""
    return primitive("Exp2", x)


@public()
def log(x: Operand) -> Tensor:
    """The natural logarithm, as log2(x) ln 2. Floats; log(0) = -inf, NaN below 0."""
    return named("Log", x)


@public()
def log2(x: Operand) -> Tensor:
    """The logarithm to base 2. Floats; log2(0) = -inf, NaN below 0."""
    return primitive("Log2", x)


@public()
def sqrt(x: Operand) -> Tensor:
    """The square root. Floats; NaN below 0."""
    return primitive("Sqrt", x)


@public()
def rsqrt(x: Operand) -> Tensor:
    """1 / sqrt(x). Floats."""
    return named("Rsqrt", x)


@public()
def reciprocal(x: Operand) -> Tensor:
    """1 / x. Floats; 1 / 0 = inf, 1 / -0 = -inf."""
    return primitive("Recip", x)


@public()
def square(x: Operand) -> Tensor:
    """x x."""
    return mul(x, x)


@public()
def sin(x: Operand) -> Tensor:
    """The sine of x in radians. Floats."""
    return primitive("Sin", x)


@public()
def cos(x: Operand) -> Tensor:
    """The cosine of x in radians. Floats."""
    return named("Cos", x)


# ---- activations
@public()
def sigmoid(x: Operand) -> Tensor:
    """1 / (1 + e^-x). Floats."""
    return named("Sigmoid", x)


@public()
def tanh(x: Operand) -> Tensor:
    """The hyperbolic tangent, as 2 sigmoid(2x) - 1. Floats."""
    return named("Tanh", x)


@public("swish")
def silu(x: Operand) -> Tensor:
    """x sigmoid(x). Floats. Formula: Ramachandran et al., arXiv 1710.05941."""
    return named("Silu", x)


@public()
def erf(x: Operand) -> Tensor:
    """The error function 2/sqrt(pi) int_0^x e^(-t^2) dt. Floats; absolute error 5e-7 in f32 and
    1e-15 in f64."""
    return named("Erf", x, idiom=True)


@public()
def gelu(x: Operand, approximate: str = "none") -> Tensor:
    """x Phi(x) = x/2 (1 + erf(x / sqrt 2)); with ``approximate="tanh"`` x/2 (1 + tanh(sqrt(2/pi)
    (x + 0.044715 x^3))). Floats. Formula: Hendrycks and Gimpel, arXiv 1606.08415."""
    if approximate not in ("none", "tanh"):
        fail(ArgumentError, f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return named("Gelu" if approximate == "none" else "GeluTanh", x)


@public()
def relu(x: Operand) -> Tensor:
    """max(x, 0); NaN stays NaN. Any numbers."""
    return exact("Relu", x, idiom=False)


# ---- rounding, sign, limits
@public("absolute")
def abs(x: Operand) -> Tensor:
    """|x|. Any numbers; the lowest integer stays itself."""
    return exact("Abs", x)


@public()
def sign(x: Operand) -> Tensor:
    """-1, 0 or 1; NaN stays NaN. Any numbers."""
    graph, a = one("sign", x)
    if a.dtype is bool_:
        fail(DTypeError, "sign: needs numbers, not bool; write x.cast('i32')")
    out = graph.select(graph.less(0, a), graph.full(1, a.dtype), a)
    if a.dtype.name == "u8":
        return wrap(graph, out)
    return wrap(graph, graph.select(graph.less(a, 0), graph.full(-1, a.dtype), out))


@public()
def floor(x: Operand) -> Tensor:
    """The largest whole number not above x. Integers stay as they are."""
    graph, a = one("floor", x)
    return exact("Floor", x) if a.dtype.is_float else wrap(graph, _integer("floor", a))


@public()
def ceil(x: Operand) -> Tensor:
    """The smallest whole number not below x, as -floor(-x). Integers stay as they are."""
    graph, a = one("ceil", x)
    if not a.dtype.is_float:
        return wrap(graph, _integer("ceil", a))
    return neg(exact("Floor", neg(x)))


@public()
def trunc(x: Operand) -> Tensor:
    """The whole number next to x towards 0. Integers stay as they are."""
    graph, a = one("trunc", x)
    if not a.dtype.is_float:
        return wrap(graph, _integer("trunc", a))
    return wrap(graph, graph.select(graph.less(a, 0), ceil(x).node, floor(x).node))


@public("rint")
def round(x: Operand) -> Tensor:
    """The nearest whole number, halves to even, exactly. Integers stay as they are."""
    graph, a = one("round", x)
    return wrap(graph, _nearest(graph, a) if a.dtype.is_float else _integer("round", a))


def _integer(op: str, a: Node) -> Node:
    if a.dtype is bool_:
        fail(DTypeError, f"{op}: needs numbers, not bool; write x.cast('i32')")
    return a


def _nearest(graph: Graph, x: Node) -> Node:
    """floor(x), or one more where the rest is above a half, or a half above an odd number."""
    down = graph.idiom("Floor", x)
    rest = graph.expansion("Sub", x, down)  # exact; NaN for inf, which compares as false
    half = graph.mul(down, 0.5)
    odd = graph.less(graph.idiom("Floor", half), half)
    tie = graph.mul(graph.idiom("Equal", rest, graph.full(0.5, x.dtype)), odd)
    up = graph.add(graph.less(0.5, rest), tie)
    out = graph.select(up, graph.add(down, 1), down)
    # -0.5 <= x < 0 gives -0.0, as in NumPy
    low = graph.mul(graph.less(x, 0), graph.idiom("Equal", out, graph.full(0, x.dtype)))
    return graph.select(low, graph.full(-0.0, x.dtype), out)


@public()
def maximum(x: Operand, y: Operand) -> Tensor:
    """The larger of two; NaN in either propagates."""
    return exact("Maximum", x, y)


@public()
def minimum(x: Operand, y: Operand) -> Tensor:
    """The smaller of two; NaN in either propagates."""
    return exact("Minimum", x, y)


@public("clip", keywords={"a_min": "min", "a_max": "max"})
def clamp(x: Operand, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """x limited to [min, max]; ``max`` wins where they cross. NaN propagates."""
    if max is not None:
        return minimum(x if min is None else maximum(x, min), max)
    if min is not None:
        return maximum(x, min)
    fail(ArgumentError, "clamp: give min, max, or both")


@public(methods=("to", "type", "astype"))
def cast(x: Operand, dtype: DType | str) -> Tensor:
    """x with another dtype: to bool it is x != 0; float to integer truncates towards 0, and is
    undefined out of range. Raises DTypeError for a dtype that tegg lacks."""
    graph, a = one("cast", x)
    return wrap(graph, graph.cast(a, as_dtype(dtype)))


@public()
def contiguous(x: Operand) -> Tensor:
    """x, stored in memory: a hint that it is worth materialising."""
    graph, a = one("contiguous", x)
    return wrap(graph, graph.op("Contiguous", a))
