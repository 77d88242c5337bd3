"""Transposed convolutions: the adjoints of convolutions, that spread each element over a window.

The results at each place within a stride, a phase, are a correlation with the taps that reach them.
Where there are many phases, those that as many taps reach are the channels of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from tegg.dim import Dim
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.conv import biased, correlate
from tegg.ops.phases import Band, Phase, Taps
from tegg.ops.public import public
from tegg.ops.spatial import Sizes, batched, padded, per_axis, unbatched, windows
from tegg.ops.value import Operand, fail, operands, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor

_PHASES = 9  # strides of 3 of an image, of 2 of a volume


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
    axes = tuple(Taps(*along) for along in zip(kernel, strides, dilations, around))
    lengths = tuple(t.results(n, m) for t, n, m in zip(axes, a.shape[2:], more))
    for t, n in zip(axes, lengths):
        if not graph.facts.nonnegative(n - 1):
            fail(ShapeError, f"{op}: padding {t.padding} leaves nothing of an axis of "
                             f"{n + 2 * t.padding}")
    spread = _in_bands if _many(axes) else _by_phases
    out = spread(op, graph, a, w, groups, axes, lengths)
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


def _many(axes: Sequence[Taps]) -> bool:
    """Whether there are so many phases that a kernel for each is slower than one for a band."""
    return math.prod(t.stride for t in axes) > _PHASES and all(t.dilation == 1 for t in axes)


def _in_bands(op: str, graph: Graph, x: Node, w: Node, groups: int, axes: Sequence[Taps],
              lengths: Sequence[Dim]) -> Node:
    """A correlation for all phases that as many taps reach: they are its channels."""
    places = tuple(n - 1 - (-t.kernel // t.stride) for t, n in zip(axes, x.shape[2:]))
    bands = [t.bands() for t in axes]
    found = [_band(op, graph, x, w, groups, chosen, places) for chosen in product(*bands)]
    for axis, here in reversed(list(enumerate(bands))):
        found = [graph.concat(found[i:i + len(here)], 2 + axis)
                 for i in range(0, len(found), len(here))]
    return _between(graph, found[0], [t.padding for t in axes], lengths)


def _band(op: str, graph: Graph, x: Node, w: Node, groups: int, bands: Sequence[Band],
          places: Sequence[Dim]) -> Node:
    rank, (c, o) = len(bands), w.shape[:2]
    phases = tuple(b.phases for b in bands)
    shape = (x.shape[0], groups * o, *phases, *places)
    if not all(b.count for b in bands):
        return graph.full(0, x.dtype, shape)
    for i, (b, q) in enumerate(zip(bands, places)):
        w = graph.narrow(w, 2 + 2 * i, b.first, (b.count - 1) * b.stride + b.phases)
        w = graph.op("Window", w, 2 + 2 * i, b.count, 1, b.stride)
        x = padded(graph, x, 2 + i, (b.count - 1,), (q - x.shape[2 + i],))
    w = graph.permute(w, (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 2 + 2 * rank, 2)))
    w = graph.reshape(w, (c, o * math.prod(phases), *w.shape[2 + rank:]))
    taps = windows(op, graph, x, 2, [b.count for b in bands], (1,) * rank, (1,) * rank)
    return graph.reshape(correlate(op, graph, taps, _flipped(graph, w, groups, 2), groups), shape)


def _by_phases(op: str, graph: Graph, x: Node, w: Node, groups: int, axes: Sequence[Taps],
               lengths: Sequence[Dim]) -> Node:
    """A correlation for each phase, with the taps that reach it."""
    places = tuple(t.strides(n, r) for t, n, r in zip(axes, x.shape[2:], lengths))
    lead = (x.shape[0], groups * w.shape[1])
    parts = []
    for phases in product(*(t.phases() for t in axes)):
        reached = [p for p, n, q in zip(phases, x.shape[2:], places) if p and p.reaches(n, q)]
        y = (_phase(op, graph, x, w, groups, reached, places) if len(reached) == len(axes) else
             graph.full(0, x.dtype, (*lead, *places)))
        parts.append(graph.reshape(y, (*lead, 1, *places)))
    y = graph.concat(parts, 2)
    y = graph.reshape(y, (*lead, *(t.stride for t in axes), *places))
    return _between(graph, y, (0,) * len(axes), lengths)


def _phase(op: str, graph: Graph, x: Node, w: Node, groups: int, phases: Sequence[Phase],
           places: Sequence[Dim]) -> Node:
    for axis, (p, q) in enumerate(zip(phases, places), 2):
        w = _every(graph, w, axis, p)
        x = _around(graph, x, axis, p.before, p.after(x.shape[axis], q))
    taps = windows(op, graph, x, 2, [p.count for p in phases], (1,) * len(phases),
                   [p.apart for p in phases])
    return correlate(op, graph, taps, _flipped(graph, w, groups, 2), groups)


def _every(graph: Graph, w: Node, axis: int, p: Phase) -> Node:
    """The taps of a phase."""
    if p.count == w.shape[axis]:
        return w
    rank = len(w.shape)
    return graph.op("Slice", w, tuple(p.first if i == axis else 0 for i in range(rank)),
                    tuple(p.first + (p.count - 1) * p.every + 1 if i == axis else n
                          for i, n in enumerate(w.shape)),
                    tuple(p.every if i == axis else 1 for i in range(rank)))


def _around(graph: Graph, x: Node, axis: int, before: int, after: Dim) -> Node:
    """Zeros before and after an axis; so many elements are cut off where it is fewer than none."""
    n, low = x.shape[axis], max(0, -before)
    high = max(0, -after) if isinstance(after, int) else 0
    x = graph.narrow(x, axis, low, n - low - high)
    return padded(graph, x, axis, (max(0, before),), (after + high,))


def _between(graph: Graph, y: Node, first: Sequence[int], lengths: Sequence[Dim]) -> Node:
    """(n, o, strides..., places...) -> (n, o, lengths...): what stands in a stride lies side by
    side; so many are left out at first."""
    rank = len(lengths)
    strides, places = y.shape[2:2 + rank], y.shape[2 + rank:]
    y = graph.permute(y, (0, 1, *(a for i in range(rank) for a in (2 + rank + i, 2 + i))))
    y = graph.reshape(y, (*y.shape[:2], *(p * s for p, s in zip(places, strides))))
    for axis, (start, n) in enumerate(zip(first, lengths), 2):
        beyond = start + n - y.shape[axis]
        y = padded(graph, y, axis, (0,), (max(0, beyond) if isinstance(beyond, int) else 0,))
        y = graph.narrow(y, axis, start, n)
    return y
