"""Adaptive pooling: the maximum or the mean of each of a given number of parts of spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegg.dim import Dim, exact_div
from tegg.dtype import i64
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.public import public
from tegg.ops.spatial import batched, float_only, lowest, per_axis, unbatched
from tegg.ops.value import Operand, fail, in_float32, one, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor

Wanted = int | Sequence[int | None] | None


@public(method=False)
def adaptive_avg_pool1d(x: Operand, output_size: Wanted) -> Tensor:
    """``adaptive_avg_pool2d`` over one axis: (n, c, l) -> (n, c, output_size)."""
    return _adaptive("adaptive_avg_pool1d", 1, x, output_size)


@public(method=False)
def adaptive_avg_pool2d(x: Operand, output_size: Wanted) -> Tensor:
    """The mean of each of h' times w' parts, as in PyTorch: (n, c, h, w) -> (n, c, h', w').

    Part i of h' goes from floor(i h / h') up to ceil((i + 1) h / h'): parts overlap where h' does
    not divide h. None keeps an axis. Floats; halves are computed in float32. A symbolic axis may
    become one part, or as many as divide it. Raises ShapeError and ArgumentError otherwise.

    >>> tegg.adaptive_avg_pool2d(x, 1)   # (8, 512, 7, 7)
    Tensor((8, 512, 1, 1), f32, ...)
    """
    return _adaptive("adaptive_avg_pool2d", 2, x, output_size)


@public(method=False)
def adaptive_avg_pool3d(x: Operand, output_size: Wanted) -> Tensor:
    """``adaptive_avg_pool2d`` over three axes."""
    return _adaptive("adaptive_avg_pool3d", 3, x, output_size)


@public(method=False)
def adaptive_max_pool1d(x: Operand, output_size: Wanted) -> Tensor:
    """``adaptive_max_pool2d`` over one axis: (n, c, l) -> (n, c, output_size)."""
    return _adaptive("adaptive_max_pool1d", 1, x, output_size)


@public(method=False)
def adaptive_max_pool2d(x: Operand, output_size: Wanted) -> Tensor:
    """The largest value of each of the parts of ``adaptive_avg_pool2d``. NaN propagates. Any
    dtype."""
    return _adaptive("adaptive_max_pool2d", 2, x, output_size)


@public(method=False)
def adaptive_max_pool3d(x: Operand, output_size: Wanted) -> Tensor:
    """``adaptive_max_pool2d`` over three axes."""
    return _adaptive("adaptive_max_pool3d", 3, x, output_size)


def _adaptive(op: str, rank: int, x: Operand, output_size: Wanted) -> Tensor:
    graph, a = one(op, x)
    mean = "avg" in op
    a, added = batched(op, graph, float_only(op, a) if mean else a, rank)
    given = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,) * rank
    if len(given) != rank:
        fail(ArgumentError, f"{op}: output_size is one size or {rank}, not {output_size!r}")
    sizes = [n if s is None else per_axis(op, "output_size", s, 1)[0]
             for s, n in zip(given, a.shape[2:])]
    if 0 in a.shape[2:]:
        fail(ShapeError, f"{op}: an axis of {show(a.shape)} is empty")

    def record(u: Node) -> Node:
        for i, size in enumerate(sizes):
            u = _parts(op, graph, u, 2 + i, size, mean)
        return u

    return wrap(graph, unbatched(graph, in_float32(graph, (a,), record) if mean else record(a),
                                 added))


def _parts(op: str, graph: Graph, x: Node, axis: int, size: Dim, mean: bool) -> Node:
    """One axis as ``size`` parts, each reduced to its mean or maximum."""
    n = x.shape[axis]
    if n == size:
        return x
    whole = exact_div(n, size)
    if whole is not None:
        y = graph.reshape(x, (*x.shape[:axis], size, whole, *x.shape[axis + 1:]))
        y = graph.expansion("Mean", y, axis + 1) if mean else graph.op("MaxReduce", y, axis + 1)
        return graph.reshape(y, (*x.shape[:axis], size, *x.shape[axis + 1:]))
    if not (isinstance(n, int) and isinstance(size, int)):
        fail(ShapeError, f"{op}: {n} elements do not divide into {size} parts for every size")
    return _uneven(graph, x, axis, n, size, mean)


def _uneven(graph: Graph, x: Node, axis: int, n: int, size: int, mean: bool) -> Node:
    """Parts of different lengths: each is a window of the longest, with the rest left out."""
    most = max(-(-(i + 1) * n // size) - i * n // size for i in range(size))
    i = graph.reshape(graph.iota(size, i64), (size, 1))
    start = graph.broadcast("IntDiv", graph.mul(i, n), graph.full(size, i64))
    stop = graph.broadcast("IntDiv", graph.add(graph.mul(i, n), n + size - 1),
                           graph.full(size, i64))
    at = graph.add(start, graph.iota(most, i64))
    tail = (1,) * (len(x.shape) - axis - 1)
    inside = graph.reshape(graph.less(at, stop), (size, most, *tail))
    empty = graph.full(0 if mean else lowest(x.dtype), x.dtype)
    y = graph.select(inside, graph.op("Gather", x, at, axis), empty)
    y = graph.op("SumReduce" if mean else "MaxReduce", y, axis + 1)
    y = graph.reshape(y, (*x.shape[:axis], size, *x.shape[axis + 1:]))
    if not mean:
        return y
    length = graph.cast(graph.reshape(graph.expansion("Sub", stop, start), (size, *tail)), x.dtype)
    return graph.broadcast("Mul", y, graph.op("Recip", length))
