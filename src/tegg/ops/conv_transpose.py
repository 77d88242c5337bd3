"""Transposed convolutions: the adjoints of convolutions, that spread each element over a window.

Where the stride divides the kernel, the results of one stride are channels of a dense convolution
and nothing is multiplied in vain; elsewhere zeros are put between the elements first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegg.dim import Dim
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.conv import biased, correlate
from tegg.ops.public import public
from tegg.ops.spatial import Sizes, batched, padded, per_axis, unbatched, windows
from tegg.ops.value import Operand, fail, operands, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


@public(method=False)
def conv_transpose1d(x: Operand, weight: Operand, bias: Operand | None = None, stride: Sizes = 1,
                     padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1,
                     dilation: Sizes = 1) -> Tensor:
    """``conv_transpose2d`` over one axis: (n, c, l), (c, o/groups, k), (o,) -> (n, o, l')."""
    return _transposed("conv_transpose1d", 1, x, weight, bias, stride, padding, output_padding,
                       groups, dilation)


@public(method=False)
def conv_transpose2d(x: Operand, weight: Operand, bias: Operand | None = None, stride: Sizes = 1,
                     padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1,
                     dilation: Sizes = 1) -> Tensor:
    """The adjoint of ``conv2d``, as in PyTorch: x (n, c, h, w), weight (c, o/groups, kh, kw), bias
    (o,) -> (n, o, h', w').

    out[n, o, s i + d a - p] += x[n, c, i] weight[c, o, a] with stride s, dilation d and padding p,
    over all i, a and channels c of o's group. h' = (h - 1) s - 2 p + d (kh - 1) + 1 +
    output_padding, which is below the stride or the dilation and added after. Any numbers; integers
    wrap, halves accumulate in float32. The batch axis may be missing; batch and lengths may be
    symbolic. Raises ShapeError where channels or bias do not fit, or nothing is left of an axis;
    ArgumentError for sizes out of range.

    >>> tegg.conv_transpose2d(x, weight, stride=2)   # (1, 64, 14, 14), (64, 32, 2, 2)
    Tensor((1, 32, 28, 28), f32, ...)
    """
    return _transposed("conv_transpose2d", 2, x, weight, bias, stride, padding, output_padding,
                       groups, dilation)


@public(method=False)
def conv_transpose3d(x: Operand, weight: Operand, bias: Operand | None = None, stride: Sizes = 1,
                     padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1,
                     dilation: Sizes = 1) -> Tensor:
    """``conv_transpose2d`` over three axes: (n, c, d, h, w), (c, o/groups, kd, kh, kw), (o,)."""
    return _transposed("conv_transpose3d", 3, x, weight, bias, stride, padding, output_padding,
                       groups, dilation)


def _transposed(op: str, rank: int, x: Operand, weight: Operand, bias: Operand | None,
                stride: Sizes, padding: Sizes, output_padding: Sizes, groups: int,
                dilation: Sizes) -> Tensor:
    graph, (a, w) = operands(op, x, weight)
    a, added = batched(op, graph, a, rank)
    if len(w.shape) != rank + 2:
        fail(ShapeError, f"{op}: the weight is (in, out / groups, {rank} kernel sizes), not "
                         f"{show(w.shape)}")
    _grouped(op, groups, a, w)
    kernel = per_axis(op, "a kernel size", w.shape[2:], rank)
    strides, dilations = (per_axis(op, n, v, rank) for n, v in (("stride", stride),
                                                                ("dilation", dilation)))
    around, more = (per_axis(op, n, v, rank, 0) for n, v in (("padding", padding),
                                                             ("output_padding", output_padding)))
    if any(m >= max(s, d) for m, s, d in zip(more, strides, dilations)):
        fail(ArgumentError, f"{op}: output_padding {more} must be below the stride {strides} or "
                            f"the dilation {dilations}")
    if all(k % s == 0 and d == 1 for k, s, d in zip(kernel, strides, dilations)):
        out = _dense(op, graph, a, w, groups, kernel, strides)
    else:
        out = _spread(op, graph, a, w, groups, kernel, strides, dilations)
    out = _cut(op, graph, out, around, more)
    return wrap(graph, unbatched(graph, biased(op, graph, out, bias, rank), added))


def _grouped(op: str, groups: int, x: Node, w: Node) -> None:
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        fail(ArgumentError, f"{op}: groups is an int of at least 1, not {groups!r}")
    channels = x.shape[1]
    if not isinstance(channels, int) or channels != w.shape[0] or channels % groups:
        fail(ShapeError, f"{op}: {show(x.shape)} and weight {show(w.shape)} do not fit: the weight "
                         f"has {w.shape[0]} input channels in {groups} groups")


def _flipped(graph: Graph, w: Node, groups: int, first: int) -> Node:
    """(c, o, taps...) as the weight of a correlation, (o, c/groups, taps reversed...)."""
    for axis in range(first, len(w.shape)):
        w = graph.op("Flip", w, axis)
    c, o, *rest = w.shape
    w = graph.reshape(w, (groups, c // groups, o, *rest))
    w = graph.permute(w, (0, 2, 1, *range(3, len(w.shape))))
    return graph.reshape(w, (groups * o, c // groups, *rest))


def _dense(op: str, graph: Graph, x: Node, w: Node, groups: int, kernel: tuple[int, ...],
           strides: tuple[int, ...]) -> Node:
    """Every window is whole strides: the places within a stride are channels, later interleaved."""
    rank = len(strides)
    steps = tuple(k // s for k, s in zip(kernel, strides))
    c, o = w.shape[:2]
    w = graph.reshape(w, (c, o, *(n for pair in zip(steps, strides) for n in pair)))
    w = graph.permute(w, (0, 1, *range(3, 2 + 2 * rank, 2), *range(2, 2 + 2 * rank, 2)))
    inner = 1
    for s in strides:
        inner *= s
    w = _flipped(graph, graph.reshape(w, (c, o * inner, *steps)), groups, 2)
    edge = tuple(n - 1 for n in steps)
    x = padded(graph, x, 2, edge, edge)
    y = correlate(op, graph, windows(op, graph, x, 2, steps, (1,) * rank, (1,) * rank), w, groups)
    n, _, *places = y.shape
    y = graph.reshape(y, (n, groups * o, *strides, *places))
    y = graph.permute(y, (0, 1, *(a for i in range(rank) for a in (2 + rank + i, 2 + i))))
    return graph.reshape(y, (n, groups * o, *(p * s for p, s in zip(places, strides))))


def _spread(op: str, graph: Graph, x: Node, w: Node, groups: int, kernel: tuple[int, ...],
            strides: tuple[int, ...], dilations: tuple[int, ...]) -> Node:
    """Zeros between the elements, then a correlation with the flipped kernel."""
    rank = len(strides)
    for i, s in enumerate(strides):
        x = _zeros_between(graph, x, 2 + i, s)
    edge = tuple((k - 1) * d for k, d in zip(kernel, dilations))
    x = windows(op, graph, padded(graph, x, 2, edge, edge), 2, kernel, (1,) * rank, dilations)
    return correlate(op, graph, x, _flipped(graph, w, groups, 2), groups)


def _zeros_between(graph: Graph, x: Node, axis: int, stride: int) -> Node:
    """stride - 1 zeros between neighbours of an axis."""
    if stride == 1:
        return x
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1:]
    y = padded(graph, graph.reshape(x, (*before, n, 1, *after)), axis + 1, (0,), (stride - 1,))
    y = graph.reshape(y, (*before, n * stride, *after))
    return graph.narrow(y, axis, 0, n * stride - (stride - 1))


def _cut(op: str, graph: Graph, y: Node, around: tuple[int, ...], more: tuple[int, ...]) -> Node:
    """Padding taken off both sides, and ``more`` added after."""
    for i, (p, m) in enumerate(zip(around, more)):
        n: Dim = y.shape[2 + i]
        if not graph.facts.nonnegative(n - 2 * p + m - 1):
            fail(ShapeError, f"{op}: padding {p} leaves nothing of an axis of {n}")
        y = padded(graph, y, 2 + i, (0,), (max(0, m - p),))
        y = graph.narrow(y, 2 + i, p, n - 2 * p + m)
    return y
