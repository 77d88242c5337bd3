"""Pooling: the maximum or the mean of sliding windows of the spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegg.dim import Dim, Poly, exact_div
from tegg.dtype import DType, i64
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.public import public
from tegg.ops.reduce import reduced
from tegg.ops.spatial import (Sizes, batched, float_only, lowest, padded, per_axis, unbatched,
                              windows)
from tegg.ops.value import Operand, fail, in_float32, one, wrap

if TYPE_CHECKING:
    from tegg.tensor import Tensor


@public(method=False)
def max_pool1d(x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               dilation: Sizes = 1, ceil_mode: bool = False) -> Tensor:
    """``max_pool2d`` over one axis: (n, c, l) -> (n, c, l')."""
    return _max("max_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode)


@public(method=False)
def max_pool2d(x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               dilation: Sizes = 1, ceil_mode: bool = False) -> Tensor:
    """The largest value of each window, as in PyTorch: (n, c, h, w) -> (n, c, h', w'); the batch
    axis may be missing.

    h' = floor((h + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, or the ceiling of it with
    ``ceil_mode``, where a last window may hang over but starts inside x or the padding before it.
    ``stride`` is the kernel by default. Padding, at most half of the kernel, never wins. NaN
    propagates. Any dtype. Batch and channels may be symbolic; a length may where the stride divides
    it. Raises ShapeError where a window does not fit, ArgumentError for sizes below 1.

    >>> tegg.max_pool2d(x, 3, stride=2, padding=1)   # (8, 64, 112, 112)
    Tensor((8, 64, 56, 56), f32, ...)
    """
    return _max("max_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode)


@public(method=False)
def max_pool3d(x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               dilation: Sizes = 1, ceil_mode: bool = False) -> Tensor:
    """``max_pool2d`` over three axes: (n, c, d, h, w) -> (n, c, d', h', w')."""
    return _max("max_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode)


@public(method=False)
def avg_pool1d(x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor:
    """``avg_pool2d`` over one axis: (n, c, l) -> (n, c, l')."""
    return _avg("avg_pool1d", 1, x, kernel_size, stride, padding, ceil_mode, count_include_pad,
                None)


@public(method=False)
def avg_pool2d(x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: int | None = None) -> Tensor:
    """The mean of each window, as in PyTorch: (n, c, h, w) -> (n, c, h', w').

    Sizes are those of ``max_pool2d`` with dilation 1. The zeros of the padding count as elements
    unless ``count_include_pad`` is False; what hangs over with ``ceil_mode`` never counts.
    ``divisor_override`` divides the sum instead. Floats; halves are computed in float32. Raises as
    ``max_pool2d`` does, and DTypeError for integers.

    >>> tegg.avg_pool2d(x, 2)   # (8, 64, 56, 56)
    Tensor((8, 64, 28, 28), f32, ...)
    """
    return _avg("avg_pool2d", 2, x, kernel_size, stride, padding, ceil_mode, count_include_pad,
                divisor_override)


@public(method=False)
def avg_pool3d(x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
               ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: int | None = None) -> Tensor:
    """``avg_pool2d`` over three axes: (n, c, d, h, w) -> (n, c, d', h', w')."""
    return _avg("avg_pool3d", 3, x, kernel_size, stride, padding, ceil_mode, count_include_pad,
                divisor_override)


def _max(op: str, rank: int, x: Operand, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
         dilation: Sizes, ceil_mode: bool) -> Tensor:
    graph, a = one(op, x)
    a, added = batched(op, graph, a, rank)
    dilations = per_axis(op, "dilation", dilation, rank)
    kernel, strides, low = _sizes(op, rank, kernel_size, stride, padding, dilations)
    high = _after(op, a, kernel, strides, low, dilations, ceil_mode)
    a = padded(graph, a, 2, low, high, lowest(a.dtype))
    a = windows(op, graph, a, 2, kernel, strides, dilations)
    return wrap(graph, unbatched(graph, _over_windows(graph, "MaxReduce", a), added))


def _avg(op: str, rank: int, x: Operand, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
         ceil_mode: bool, count_include_pad: bool, divisor: int | None) -> Tensor:
    graph, x_node = one(op, x)
    a, added = batched(op, graph, float_only(op, x_node), rank)
    ones = (1,) * rank
    kernel, strides, low = _sizes(op, rank, kernel_size, stride, padding, ones)
    if divisor is not None and (not isinstance(divisor, int) or divisor == 0):
        fail(ArgumentError, f"{op}: divisor_override is an int but 0, not {divisor!r}")
    high = _after(op, a, kernel, strides, low, ones, ceil_mode)

    def record(u: Node) -> Node:
        total = windows(op, graph, padded(graph, u, 2, low, high), 2, kernel, strides, ones)
        total = _over_windows(graph, "SumReduce", total)
        if divisor is not None:
            return graph.mul(total, 1 / divisor)
        size = 1.0
        for i, (k, s, p, after) in enumerate(zip(kernel, strides, low, high)):
            inside = 0 if not count_include_pad else p
            if _constant(p, after, inside):
                size *= k
            else:
                n = _count(graph, u.dtype, u.shape[2 + i], total.shape[2 + i], k, s, p, inside)
                n = graph.reshape(n, (*n.shape, *(1,) * (rank - 1 - i)))
                total = graph.broadcast("Mul", total, graph.op("Recip", n))
        return graph.mul(total, 1 / size) if size != 1 else total

    return wrap(graph, unbatched(graph, in_float32(graph, (a,), record), added))


def _constant(low: int, high: Dim, inside: int) -> bool:
    """Whether every window of an axis has all of its elements counted."""
    return low == inside and high == inside


def _count(graph: Graph, dtype: DType, n: Dim, positions: Dim, kernel: int, stride: int,
           low: int, inside: int) -> Node:
    """(positions,): how many elements of each window count: those of the axis and of ``inside``
    more on both sides."""
    start = graph.add(graph.mul(graph.iota(positions, i64), stride), -low)
    end = graph.add(start, kernel)
    last = graph.size(n + inside, i64)
    first = graph.full(-inside, i64)
    inner = graph.expansion("Sub", graph.idiom("Minimum", end, last),
                            graph.idiom("Maximum", start, first))
    return graph.cast(inner, dtype)


def _over_windows(graph: Graph, op: str, x: Node) -> Node:
    """(n, c, p, k, q, l, ...) reduced over k, l, ... -> (n, c, p, q, ...)."""
    x = reduced(graph, op, x, tuple(range(3, len(x.shape), 2)))
    return graph.reshape(x, (*x.shape[:2], *x.shape[2::2]))


def _sizes(op: str, rank: int, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
           dilations: tuple[int, ...],
           ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    kernel = per_axis(op, "kernel_size", kernel_size, rank)
    strides = kernel if stride is None else per_axis(op, "stride", stride, rank)
    low = per_axis(op, "padding", padding, rank, 0)
    if any(2 * p > (k - 1) * d + 1 for p, k, d in zip(low, kernel, dilations)):
        fail(ArgumentError, f"{op}: padding {low} is more than half of the kernel {kernel}")
    return kernel, strides, low


def _after(op: str, x: Node, kernel: Sequence[int], strides: Sequence[int], low: Sequence[int],
           dilations: Sequence[int], ceil_mode: bool) -> tuple[Dim, ...]:
    """Widths after each axis: as before it, and with ``ceil_mode`` up to the end of a last window
    that hangs over."""
    if not ceil_mode:
        return tuple(low)
    out: list[Dim] = []
    for n, k, s, p, d in zip(x.shape[2:], kernel, strides, low, dilations):
        rest = n + 2 * p - (k - 1) * d - 1
        if isinstance(rest, Poly):
            if exact_div(rest, s) is None:
                fail(ShapeError, f"{op}: ceil_mode on an axis of {n} needs a known size")
            out.append(p)
            continue
        steps = -(-rest // s)
        if steps * s >= n + p:
            steps -= 1
        out.append(max(p, p + steps * s - rest))
    return tuple(out)
