"""Convolutions over one, two or three spatial axes: one contraction over a view of windows.

The windows of the padded input are a view, (batch, channels, position, place in the kernel, ...),
and the contraction with the weight sums over channels and places: no array of windows is made.
"""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

from tegg.contraction import Spec
from tegg.dim import Dim, exact_div
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.linalg import contraction
from tegg.ops.public import public
from tegg.ops.spatial import Sizes, batched, padded, per_axis, unbatched, windows
from tegg.ops.value import Operand, fail, operands, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


@public(method=False)
def conv1d(x: Operand, weight: Operand, bias: Operand | None = None, stride: Sizes = 1,
           padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """``conv2d`` over one axis: (n, c, l), (o, c/groups, k), (o,) -> (n, o, positions)."""
    return _conv("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)


@public(method=False)
def conv2d(x: Operand, weight: Operand, bias: Operand | None = None, stride: Sizes = 1,
           padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """Cross-correlation, as in PyTorch: x (n, c, h, w), weight (o, c/groups, kh, kw), bias (o,)
    -> (n, o, h', w').

    out[n, o, i] = bias[o] + sum over c, a of x[n, c, s i + d a - p] weight[o, c, a] with stride s,
    dilation d and padding p; i and a are pairs, c goes over the channels of o's group, and around x
    are zeros. h' = floor((h + padding before and after - d (kh - 1) - 1) / s) + 1. The batch axis
    may be missing.

    ``padding``: widths on both sides, ``"valid"`` for none, or ``"same"`` for h' = h (stride 1; the
    odd one goes after). Any numbers; integers wrap, halves accumulate in float32. A batch or a
    length may be symbolic; a stride must then divide it. Raises ShapeError where channels, kernel
    or bias do not fit, ArgumentError for sizes below 1.

    >>> tegg.conv2d(x, weight, padding=1, stride=2)   # (8, 3, 32, 32), (16, 3, 3, 3)
    Tensor((8, 16, 16, 16), f32, ...)
    """
    return _conv("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)


@public(method=False)
def conv3d(x: Operand, weight: Operand, bias: Operand | None = None, stride: Sizes = 1,
           padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """``conv2d`` over three axes: (n, c, d, h, w), (o, c/groups, kd, kh, kw), (o,)."""
    return _conv("conv3d", 3, x, weight, bias, stride, padding, dilation, groups)


def _conv(op: str, rank: int, x: Operand, weight: Operand, bias: Operand | None, stride: Sizes,
          padding: Sizes | str, dilation: Sizes, groups: int) -> Tensor:
    graph, (a, w) = operands(op, x, weight)
    a, added = batched(op, graph, a, rank)
    if len(w.shape) != rank + 2:
        fail(ShapeError, f"{op}: the weight is (out, in / groups, {rank} kernel sizes), not "
                         f"{show(w.shape)}")
    kernel = per_axis(op, "a kernel size", w.shape[2:], rank)
    strides, dilations = per_axis(op, "stride", stride, rank), per_axis(op, "dilation", dilation,
                                                                      rank)
    low, high = _padding(op, padding, kernel, strides, dilations)
    per_group(op, groups, a.shape[1], w.shape[1], w.shape[0], f"{show(a.shape)} and weight "
                                                              f"{show(w.shape)}")
    a = padded(graph, a, 2, low, high)
    a = windows(op, graph, a, 2, kernel, strides, dilations)
    out = correlate(op, graph, a, w, groups)
    return wrap(graph, unbatched(graph, biased(op, graph, out, bias, rank), added))


def _padding(op: str, padding: Sizes | str, kernel: tuple[int, ...], strides: tuple[int, ...],
             dilations: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Widths before and after each axis."""
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            fail(ArgumentError, f"{op}: padding is 'same', 'valid' or widths, not {padding!r}")
        if padding == "same" and set(strides) != {1}:
            fail(ArgumentError, f"{op}: padding='same' needs stride 1, not {strides}")
        total = [(k - 1) * d if padding == "same" else 0 for k, d in zip(kernel, dilations)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    widths = per_axis(op, "padding", padding, len(kernel), 0)
    return widths, widths


def per_group(op: str, groups: int, channels: Dim, inner: Dim, out: Dim, shapes: str) -> None:
    """Raises where channels do not divide into groups as the weight says."""
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        fail(ArgumentError, f"{op}: groups is an int of at least 1, not {groups!r}")
    if not isinstance(channels, int) or not isinstance(out, int):
        fail(ShapeError, f"{op}: channels cannot be symbolic; {shapes}")
    if channels != inner * groups or exact_div(out, groups) is None:
        fail(ShapeError, f"{op}: {shapes} do not fit: {channels} channels in {groups} "
                         f"group{'s' * (groups > 1)} of {inner} that give {out}")


def correlate(op: str, graph: Graph, x: Node, w: Node, groups: int) -> Node:
    """Windows (n, c, p, k, q, l, ...), a weight (o, c/groups, k, l, ...) -> (n, o, p, q, ...)."""
    n, _, *places = x.shape
    inner, kernel = w.shape[1], w.shape[2:]
    if groups > 1:
        x = graph.reshape(x, (n, groups, inner, *places))
        w = graph.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:]))
    out = w.shape[0] if groups == 1 else w.shape[0] * w.shape[1]
    free = iter(ascii_lowercase)
    batch, group, channel, filters = (next(free) for _ in range(4))
    positions, taps = ([next(free) for _ in kernel] for _ in range(2))
    lead = [batch, *([group] if groups > 1 else [])]
    in_x = [*lead, channel, *(c for pair in zip(positions, taps) for c in pair)]
    in_w = [*lead[1:], filters, channel, *taps]
    in_out = [*lead, filters, *positions]
    size = dict(zip(in_x, x.shape)) | dict(zip(in_w, w.shape))
    spec = Spec(*(tuple("" if size[c] == 1 else c for c in axes)
                  for axes in (in_x, in_w, in_out)))
    y = contraction(graph, op, x, w, spec, tuple(size[c] for c in in_out))
    return graph.reshape(y, (n, out, *(size[c] for c in positions)))


def biased(op: str, graph: Graph, y: Node, bias: Operand | None, rank: int) -> Node:
    """y plus a value for each channel. Raises ShapeError for another shape."""
    if bias is None:
        return y
    _, (y, b) = operands(op, wrap(graph, y), bias)
    if tuple(map(graph.facts.canonical, b.shape)) != y.shape[1:2]:
        fail(ShapeError, f"{op}: the bias has shape {show(b.shape)}, not {show(y.shape[1:2])}")
    return graph.add(y, graph.reshape(b, (*b.shape, *(1,) * rank)))
