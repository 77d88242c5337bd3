"""Reductions over any axes: sum, mean, max, min, var, std, logsumexp, any, all.

``dim`` is one axis, several, or None for all; ``axis=`` and ``keepdims=`` are understood too.
Every function raises ShapeError for an axis outside the tensor or named twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tegg.dim import Dim, Poly, product
from tegg.dtype import DType, bool_, dtype as as_dtype, i64
from tegg.errors import DTypeError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.compare import logical_not, ne
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, in_float32, one, wrap
from tegg.shape import items, normal_axis, show

if TYPE_CHECKING:
    from tegg.tensor import Tensor

Axes = int | Iterable[int] | None


def axes_of(op: str, node: Node, dim: Axes) -> tuple[int, ...]:
    """Axes in ascending order. Raises ShapeError for one outside or named twice."""
    rank = len(node.shape)
    if dim is None:
        return tuple(range(rank))
    try:
        axes = [normal_axis(a, rank) for a in items(dim)]
    except ShapeError as e:
        fail(ShapeError, f"{op}: {e}")
    if len(set(axes)) < len(axes):
        fail(ShapeError, f"{op}: an axis of {show(node.shape)} is named twice in {dim}")
    return tuple(sorted(axes))


def reduced(graph: Graph, op: str, node: Node, axes: tuple[int, ...]) -> Node:
    """A primop reduction over several axes, which stay with size 1."""
    for axis in axes:
        node = graph.op(op, node, axis)
    return node


def finished(graph: Graph, node: Node, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    """The reduced axes dropped, unless they are to stay."""
    if not keepdim:
        node = graph.reshape(node, tuple(n for i, n in enumerate(node.shape) if i not in axes))
    return wrap(graph, node)


@public()
def sum(x: Operand, dim: Axes = None, keepdim: bool = False,
        dtype: DType | str | None = None) -> Tensor:
    """The sum over axes. Integers and bools are summed in i64, as in NumPy, unless ``dtype`` says
    otherwise; halves accumulate in float32. An empty sum is 0."""
    graph, a = one("sum", x)
    want = as_dtype(dtype) if dtype is not None else a.dtype if a.dtype.is_float else i64
    axes = axes_of("sum", a, dim)
    return finished(graph, reduced(graph, "SumReduce", graph.cast(a, want), axes), axes, keepdim)


def count(shape: tuple[Dim, ...], axes: tuple[int, ...]) -> Dim:
    """The number of elements that are reduced to one."""
    return product(tuple(shape[i] for i in axes))


def times_inverse(graph: Graph, total: Node, n: Dim) -> Node:
    """total / n, as total times the constant 1/n where n is known."""
    if isinstance(n, Poly):
        return graph.expansion("Div", total, graph.size(n, total.dtype))
    return graph.mul(total, 1.0 / n if n else math.inf)


def mean_node(graph: Graph, x: Node, axes: tuple[int, ...]) -> Node:
    """The mean over axes, which stay; over one axis exactly the pattern of the row ``Mean``."""
    if len(axes) == 1:
        return graph.expansion("Mean", x, axes[0])
    return times_inverse(graph, reduced(graph, "SumReduce", x, axes), count(x.shape, axes))


def _float(op: str, a: Node) -> Node:
    if not a.dtype.is_float:
        fail(DTypeError, f"{op}: needs a float dtype, not {a.dtype.name}; write x.cast('f32')")
    return a


@public()
def mean(x: Operand, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The mean over axes: the sum times 1/n. Floats only: integers raise DTypeError and name
    ``cast``. The mean of nothing is NaN."""
    graph, a = one("mean", x)
    axes = axes_of("mean", _float("mean", a), dim)
    out = in_float32(graph, (a,), lambda u: mean_node(graph, u, axes))
    return finished(graph, out, axes, keepdim)


@public("amax")
def max(x: Operand, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The largest value over axes (values only). NaN propagates. Of bools it is ``any``.

    Raises ShapeError where an axis is empty; an axis that turns out empty in a call gives the
    lowest value of the dtype.
    """
    graph, a = one("max", x)
    axes = _not_empty("max", a, axes_of("max", a, dim))
    return finished(graph, reduced(graph, "MaxReduce", a, axes), axes, keepdim)


@public("amin")
def min(x: Operand, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The smallest value over axes (values only), as -max(-x), or as ~max(~x) for integers, which
    is exact. NaN propagates. Of bools it is ``all``. Raises ShapeError where an axis is empty."""
    graph, a = one("min", x)
    axes = _not_empty("min", a, axes_of("min", a, dim))
    turned = reversed_order(graph, reduced(graph, "MaxReduce", reversed_order(graph, a), axes))
    return finished(graph, turned, axes, keepdim)


def reversed_order(graph: Graph, x: Node) -> Node:
    """A bijection that reverses the order, and is its own inverse."""
    if x.dtype is bool_:
        return graph.idiom("Not", x)
    return graph.mul(x, -1) if x.dtype.is_float else graph.add(graph.mul(x, -1), -1)


def _not_empty(op: str, a: Node, axes: tuple[int, ...]) -> tuple[int, ...]:
    if 0 in (a.shape[i] for i in axes):
        fail(ShapeError, f"{op}: an axis of {show(a.shape)} is empty, and has no {op}imum")
    return axes


@public()
def prod(x: Operand, dim: Axes = None, keepdim: bool = False,
         dtype: DType | str | None = None) -> Tensor:
    """The product over axes. Integers and bools are multiplied in i64, as in NumPy and PyTorch,
    unless ``dtype`` says otherwise; f32 accumulates in float64, halves in float32. An empty product
    is 1. A symbolic axis needs an upper bound, else ShapeError."""
    graph, a = one("prod", x)
    want = as_dtype(dtype) if dtype is not None else a.dtype if a.dtype.is_float else i64
    axes = axes_of("prod", a, dim)

    def product_over(node: Node) -> Node:
        for axis in axes:
            node = graph.idiom("ProdReduce", node, axis)
        return node

    out = in_float32(graph, (graph.cast(a, want),), product_over)
    return finished(graph, out, axes, keepdim)


@public()
def var(x: Operand, dim: Axes = None, correction: int = 1, keepdim: bool = False) -> Tensor:
    """The variance over axes: sum (x - mean)^2 / (n - correction). As in PyTorch the correction is
    1 unless it is given (``ddof=0`` is NumPy's default). Floats only. n <= correction gives NaN."""
    graph, a = one("var", x)
    axes = axes_of("var", _float("var", a), dim)
    out = in_float32(graph, (a,), lambda u: _variance(graph, u, axes, correction))
    return finished(graph, out, axes, keepdim)


def _variance(graph: Graph, x: Node, axes: tuple[int, ...], correction: int) -> Node:
    c = graph.broadcast("Add", x, graph.mul(mean_node(graph, x, axes), -1))
    squares = graph.mul(c, c)
    if not correction:
        return mean_node(graph, squares, axes)
    total = reduced(graph, "SumReduce", squares, axes)
    n = count(x.shape, axes) - correction
    return times_inverse(graph, total, n if isinstance(n, Poly) or n > 0 else 0)


@public()
def std(x: Operand, dim: Axes = None, correction: int = 1, keepdim: bool = False) -> Tensor:
    """The square root of ``var``."""
    graph, a = one("std", x)
    axes = axes_of("std", _float("std", a), dim)
    out = in_float32(graph, (a,), lambda u: graph.op("Sqrt", _variance(graph, u, axes, correction)))
    return finished(graph, out, axes, keepdim)


@public()
def logsumexp(x: Operand, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """log sum e^x over axes, as m + log sum e^(x - m) with m the finite maximum. Floats only.
    Of -inf only it is -inf."""
    graph, a = one("logsumexp", x)
    axes = axes_of("logsumexp", _float("logsumexp", a), dim)
    return finished(graph, in_float32(graph, (a,), lambda u: _logsumexp(graph, u, axes)), axes,
                    keepdim)


def _logsumexp(graph: Graph, x: Node, axes: tuple[int, ...]) -> Node:
    top = reduced(graph, "MaxReduce", x, axes)
    finite = graph.less(graph.idiom("Abs", top), math.inf)
    m = graph.select(finite, top, graph.full(0, x.dtype))
    e = graph.expansion("Exp", graph.expansion("Sub", x, m))
    return graph.add(graph.expansion("Log", reduced(graph, "SumReduce", e, axes)), m)


@public()
def any(x: Operand, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Whether any element over axes is not 0. Gives bool; of nothing False."""
    graph, a = one("any", x)
    axes = axes_of("any", a, dim)
    true = a if a.dtype is bool_ else ne(x, 0).node
    return finished(graph, reduced(graph, "SumReduce", true, axes), axes, keepdim)


@public()
def all(x: Operand, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Whether every element over axes is not 0. Gives bool; of nothing True."""
    graph, a = one("all", x)
    axes = axes_of("all", a, dim)
    false = graph.idiom("Not", a if a.dtype is bool_ else ne(x, 0).node)
    return logical_not(finished(graph, reduced(graph, "SumReduce", false, axes), axes, keepdim))
