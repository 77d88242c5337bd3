"""Norms, similarities and distances of vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.elementwise import abs as absolute
from tegg.ops.elementwise import add, clamp, div, maximum, mul, sqrt, sub
from tegg.ops.linalg import matmul
from tegg.ops.movement import transpose
from tegg.ops.reduce import Axes, max as max_over, min as min_over, sum as sum_over
from tegg.ops.spatial import float_only
from tegg.ops.powers import pow as power
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, in_float32, one, operands, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


@public("vector_norm", keywords={"ord": "p"})
def norm(x: Operand, p: float = 2.0, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The vector p-norm over axes, all by default: (sum |x|^p)^(1/p); the largest |x| for inf, the
    smallest for -inf, the number of elements but 0 for p = 0. Floats; halves are computed in
    float32. torch.linalg.vector_norm."""
    graph, a = one("norm", x)
    if isinstance(p, bool) or not isinstance(p, (int, float)) or math.isnan(p):
        fail(ArgumentError, f"norm: p is a number, not {p!r}")
    out = in_float32(graph, (float_only("norm", a),),
                     lambda u: _norm(wrap(graph, u), p, dim, keepdim).node)
    return wrap(graph, out)


def _norm(x: Tensor, p: float, dim: Axes, keepdim: bool) -> Tensor:
    if p == 2:
        return sqrt(sum_over(mul(x, x), dim, keepdim))
    if p == math.inf:
        return max_over(absolute(x), dim, keepdim)
    if p == -math.inf:
        return min_over(absolute(x), dim, keepdim)
    if p == 0:
        return sum_over((x != 0).cast(x.dtype), dim, keepdim)
    if p == 1:
        return sum_over(absolute(x), dim, keepdim)
    whole = int(p) if p == int(p) else p
    total = sum_over(power(absolute(x), _exponent(x, whole)), dim, keepdim)
    return power(total, _exponent(total, 1 / p))


def _exponent(x: Tensor, p: float) -> Operand:
    """A Python integer, or a tensor of floats."""
    return p if isinstance(p, int) else wrap(x.graph, x.graph.full(p, x.dtype))


@public()
def normalize(x: Operand, dim: int = -1, eps: float = 1e-12, p: float = 2.0) -> Tensor:
    """x / max(|x|_p, eps) along an axis, as PyTorch's normalize. Floats."""
    return div(x, maximum(norm(x, p, dim, keepdim=True), eps))


@public(method=False, keywords={"x1": "x", "x2": "y"})
def cosine_similarity(x: Operand, y: Operand, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x . y / (max(|x|, eps) max(|y|, eps)) along an axis, as in PyTorch. Shapes broadcast."""
    graph, nodes = operands("cosine_similarity", x, y)
    float_only("cosine_similarity", nodes[0])

    def record(a: Node, b: Node) -> Node:
        u, v = wrap(graph, a), wrap(graph, b)
        lengths = [maximum(norm(t, 2, dim, keepdim=True), eps) for t in (u, v)]
        return sum_over(mul(div(u, lengths[0]), div(v, lengths[1])), dim).node

    shapes = _met(graph, nodes)
    return wrap(graph, in_float32(graph, shapes, record))


def _met(graph: Graph, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Operands expanded to one shape."""
    both = graph.broadcast("LessThan", *nodes).shape
    return tuple(graph.expand(n, both) for n in nodes)


@public(method=False, keywords={"x1": "x", "x2": "y"})
def pairwise_distance(x: Operand, y: Operand, p: float = 2.0, eps: float = 1e-6,
                      keepdim: bool = False) -> Tensor:
    """The p-norm of x - y + eps along the last axis, as in PyTorch. Shapes broadcast."""
    return norm(add(sub(x, y), eps), p, -1, keepdim)


@public(method=False, keywords={"x1": "x", "x2": "y"})
def cdist(x: Operand, y: Operand, p: float = 2.0) -> Tensor:
    """The p-norm of each row of x minus each row of y: (..., n, d), (..., m, d) -> (..., n, m).

    For p = 2 as sqrt(|x|^2 + |y|^2 - 2 x.y): one product, which loses digits where rows nearly
    agree, and is NaN where a row holds inf, as PyTorch's for more than 25 rows.
    """
    graph, (a, b) = operands("cdist", x, y)
    canon = graph.facts.canonical
    if len(a.shape) < 2 or len(b.shape) < 2 or canon(a.shape[-1]) != canon(b.shape[-1]):
        fail(ShapeError, f"cdist: takes (..., n, d) and (..., m, d), not {show(a.shape)} and "
                         f"{show(b.shape)}")
    float_only("cdist", a)
    return wrap(graph, in_float32(graph, (a, b), lambda u, v: _cdist(graph, u, v, p)))


def _cdist(graph: Graph, a: Node, b: Node, p: float) -> Node:
    u, v = wrap(graph, a), wrap(graph, b)
    if p == 2:
        squares = add(sum_over(mul(u, u), -1, True), transpose(sum_over(mul(v, v), -1, True),
                                                              -1, -2))
        return sqrt(clamp(sub(squares, mul(matmul(u, transpose(v, -1, -2)), 2)), 0)).node
    rows = graph.reshape(a, (*a.shape[:-1], 1, a.shape[-1]))
    columns = graph.reshape(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    return norm(sub(wrap(graph, rows), wrap(graph, columns)), p, -1).node
