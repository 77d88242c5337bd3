"""Activations beyond relu, gelu, silu, sigmoid and tanh, with PyTorch's names and defaults.

Floats; halves are computed in float32 and rounded once. NaN stays NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegg.dim import exact_div
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.elementwise import clamp, mul, sigmoid
from tegg.ops.exponential import expm1_of, log1p_of, unary
from tegg.ops.movement import axis_of
from tegg.ops.parts import split
from tegg.ops.public import public
from tegg.ops.spatial import float_only
from tegg.ops.value import Operand, fail, in_float32, one, operands, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def _above_zero(g: Graph, u: Node, otherwise: Node) -> Node:
    """x where it is above 0, and where it is NaN."""
    return g.select(g.idiom("LessEqual", u, g.full(0, u.dtype)), otherwise, u)


@public()
def leaky_relu(x: Operand, negative_slope: float = 0.01) -> Tensor:
    """x above 0, negative_slope x below."""
    return unary("leaky_relu", x, lambda g, u: _above_zero(g, u, g.mul(u, negative_slope)))


@public()
def prelu(x: Operand, weight: Operand) -> Tensor:
    """x above 0, weight x below; weight has one element or one for each channel (axis 1)."""
    graph, (a, w) = operands("prelu", x, weight)
    if len(w.shape) > 1 or (w.shape not in ((), (1,)) and w.shape != a.shape[1:2]):
        fail(ShapeError, f"prelu: a weight for each channel of {show(a.shape)}, or one, is 1-D, "
                         f"not {show(w.shape)}")
    if w.shape not in ((), (1,)):
        w = graph.reshape(w, (*w.shape, *(1,) * (len(a.shape) - 2)))
    scaled = graph.broadcast("Mul", a, graph.reshape(w, ()) if w.shape == (1,) else w)
    return wrap(graph, _above_zero(graph, a, scaled))


@public()
def elu(x: Operand, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha (e^x - 1) below. Formula: Clevert et al., arXiv 1511.07289."""
    return unary("elu", x, lambda g, u: _above_zero(g, u, g.mul(expm1_of(g, u), alpha)))


@public()
def selu(x: Operand) -> Tensor:
    """1.0507 elu(x, 1.6733). Formula: Klambauer et al., arXiv 1706.02515."""
    return unary("selu", x, lambda g, u: g.mul(
        _above_zero(g, u, g.mul(expm1_of(g, u), _SELU_ALPHA)), _SELU_SCALE))


@public()
def celu(x: Operand, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha (e^(x / alpha) - 1) below. Formula: Barron, arXiv 1704.07483."""
    if alpha == 0:
        fail(ArgumentError, "celu: alpha cannot be 0")
    return unary("celu", x, lambda g, u: _above_zero(
        g, u, g.mul(expm1_of(g, g.mul(u, 1 / alpha)), alpha)))


@public()
def relu6(x: Operand) -> Tensor:
    """x limited to [0, 6]. Any numbers."""
    return clamp(x, 0, 6)


@public()
def hardtanh(x: Operand, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x limited to [min_val, max_val]."""
    return clamp(x, min_val, max_val)


def _hard_sigmoid(g: Graph, u: Node) -> Node:
    six, zero = g.full(6, u.dtype), g.full(0, u.dtype)
    limited = g.idiom("Minimum", g.idiom("Maximum", g.add(u, 3), zero), six)
    return g.mul(limited, 1 / 6)


@public()
def hardsigmoid(x: Operand) -> Tensor:
    """(x + 3) / 6 limited to [0, 1]. Formula: Howard et al., arXiv 1905.02244."""
    return unary("hardsigmoid", x, _hard_sigmoid)


@public()
def hardswish(x: Operand) -> Tensor:
    """x hardsigmoid(x). Formula: Howard et al., arXiv 1905.02244."""
    return unary("hardswish", x, lambda g, u: g.mul(u, _hard_sigmoid(g, u)))


@public()
def softplus(x: Operand, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e^(beta x)) / beta, and x where beta x > threshold, as in PyTorch; computed as
    max(z, 0) + log1p(e^-|z|) of z = beta x."""
    if beta == 0:
        fail(ArgumentError, "softplus: beta cannot be 0")

    def record(g: Graph, u: Node) -> Node:
        z = g.mul(u, beta) if beta != 1 else u
        out = g.mul(_softplus(g, z), 1 / beta) if beta != 1 else _softplus(g, z)
        return g.select(g.less(threshold, z), u, out)

    return unary("softplus", x, record)


def _softplus(g: Graph, z: Node) -> Node:
    tail = log1p_of(g, g.expansion("Exp", g.mul(g.idiom("Abs", z), -1)))
    return g.add(g.expansion("Relu", z), tail)


@public()
def logsigmoid(x: Operand) -> Tensor:
    """log sigmoid(x) = -softplus(-x), without a threshold."""
    return unary("logsigmoid", x, lambda g, u: g.mul(_softplus(g, g.mul(u, -1)), -1))


@public()
def softsign(x: Operand) -> Tensor:
    """x / (1 + |x|)."""
    return unary("softsign", x,
                 lambda g, u: g.expansion("Div", u, g.add(g.idiom("Abs", u), 1)))


@public()
def mish(x: Operand) -> Tensor:
    """x tanh(softplus(x)), as x n / (n + 2) with n = e^x (e^x + 2). Formula: Misra, arXiv
    1908.08681."""
    def record(g: Graph, u: Node) -> Node:
        e = g.expansion("Exp", g.idiom("Minimum", u, g.full(20, u.dtype)))
        n = g.mul(e, g.add(e, 2))
        return g.mul(u, g.expansion("Div", n, g.add(n, 2)))
    return unary("mish", x, record)


@public()
def hardshrink(x: Operand, lambd: float = 0.5) -> Tensor:
    """x where |x| > lambd, else 0."""
    def record(g: Graph, u: Node) -> Node:
        inside = g.idiom("LessEqual", g.idiom("Abs", u), g.full(lambd, u.dtype))
        return g.select(inside, g.full(0, u.dtype), u)
    return unary("hardshrink", x, record)


@public()
def softshrink(x: Operand, lambd: float = 0.5) -> Tensor:
    """x moved by lambd towards 0, and 0 where |x| <= lambd."""
    def record(g: Graph, u: Node) -> Node:
        low = g.select(g.less(u, -lambd), g.add(u, lambd), g.mul(u, 0))
        return g.select(g.less(lambd, u), g.add(u, -lambd), low)
    return unary("softshrink", x, record)


@public()
def tanhshrink(x: Operand) -> Tensor:
    """x - tanh(x)."""
    return unary("tanhshrink", x, lambda g, u: g.expansion("Sub", u, g.expansion("Tanh", u)))


@public()
def threshold(x: Operand, threshold: float, value: float) -> Tensor:
    """x where it is above ``threshold``, else ``value``."""
    def record(g: Graph, u: Node) -> Node:
        below = g.idiom("LessEqual", u, g.full(threshold, u.dtype))
        return g.select(below, g.full(value, u.dtype), u)
    return unary("threshold", x, record)


@public()
def glu(x: Operand, dim: int = -1) -> Tensor:
    """The first half of an axis times the sigmoid of the second. Formula: Dauphin et al., arXiv
    1612.08083."""
    _, a = one("glu", x)
    axis = axis_of("glu", dim, len(a.shape))
    half = exact_div(a.shape[axis], 2)
    if half is None:
        fail(ShapeError, f"glu: axis {dim} of {show(a.shape)} has no two halves")
    first, second = split(x, (half, half), axis)
    return mul(first, sigmoid(second))


@public(keywords={"input": "start"})
def lerp(start: Operand, end: Operand, weight: Operand) -> Tensor:
    """start + weight (end - start), counted from the nearer end as in PyTorch, so that weight 1
    gives end exactly. Shapes broadcast."""
    graph, nodes = operands("lerp", start, end, weight)

    def record(a: Node, b: Node, w: Node) -> Node:
        gap = graph.broadcast("Add", b, graph.mul(a, -1))
        low = graph.add(a, graph.mul(w, gap))
        high = graph.add(b, graph.mul(graph.mul(gap, graph.add(graph.mul(w, -1), 1)), -1))
        return graph.select(graph.less(graph.idiom("Abs", w), 0.5), low, high)

    float_only("lerp", nodes[0])
    return wrap(graph, in_float32(graph, nodes, record))
