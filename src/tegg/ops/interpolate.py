"""Resampling of spatial axes: nearest, linear, bilinear and trilinear, as PyTorch's interpolate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tegg.dim import Dim, Poly, exact_div
from tegg.dtype import DType, f32, f64, i64
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.adaptive_pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from tegg.ops.movement import sizes_of
from tegg.ops.public import public
from tegg.ops.spatial import float_only
from tegg.ops.value import Operand, fail, in_float32, one, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_MODES = ("nearest", "nearest-exact", *_LINEAR, "area")


@public(method=False)
def interpolate(x: Operand, size: int | Sequence[int] | None = None,
                scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
                align_corners: bool | None = None) -> Tensor:
    """x with spatial axes of other sizes, as in PyTorch: (n, c, one to three axes), given as
    ``size`` or as ``scale_factor`` (m = floor(n factor)), one for all or for each.

    With r = n / m (1 / factor where that is given): ``"nearest"`` takes the element floor(i r),
    ``"nearest-exact"`` floor((i + 1/2) r). ``"linear"``, ``"bilinear"``, ``"trilinear"`` (3, 4, 5
    axes; floats) weigh the neighbours of max(0, (i + 1/2) r - 1/2), or with ``align_corners`` of
    i (n - 1) / (m - 1). ``"area"`` is an adaptive average pool. Places are computed in float32 as
    in PyTorch, halves in float32. Batch and channels may be symbolic; other axes only for "nearest"
    with a whole factor. Raises ArgumentError for modes and sizes that are none, ShapeError for a
    rank that does not fit.

    >>> tegg.interpolate(x, scale_factor=2, mode="bilinear")   # (1, 3, 32, 32)
    Tensor((1, 3, 64, 64), f32, ...)
    """
    graph, a = one("interpolate", x)
    if mode not in _MODES:
        fail(ArgumentError, f"interpolate: mode is one of {', '.join(map(repr, _MODES))}, not "
                            f"{mode!r}")
    rank = len(a.shape) - 2
    if not 1 <= rank <= 3 or _LINEAR.get(mode, rank) != rank:
        wanted = f"{_LINEAR[mode] + 2}" if mode in _LINEAR else "3 to 5"
        fail(ShapeError, f"interpolate: mode {mode!r} takes {wanted} axes, not {show(a.shape)}")
    if align_corners is not None and mode not in _LINEAR:
        fail(ArgumentError, f"interpolate: align_corners says nothing to mode {mode!r}")
    sizes, ratios = _targets(a, rank, size, scale_factor)
    if mode == "area":
        pool: Any = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[rank - 1]
        return pool(wrap(graph, a), tuple(map(_known, sizes)))
    if mode in _LINEAR:
        float_only("interpolate", a)
        return wrap(graph, in_float32(graph, (a,), lambda u: _linear(
            graph, u, sizes, ratios, bool(align_corners))))
    for i, (m, r) in enumerate(zip(sizes, ratios)):
        a = _nearest(graph, a, 2 + i, m, r, mode == "nearest-exact")
    return wrap(graph, a)


def _targets(a: Node, rank: int, size, scale_factor) -> tuple[list[Dim], list[float | None]]:
    """Per axis its new size, and r where a factor gives it (else n / m)."""
    if (size is None) == (scale_factor is None):
        fail(ArgumentError, "interpolate: give size or scale_factor, and one of them only")
    given = size if size is not None else scale_factor
    each = tuple(given) if isinstance(given, Sequence) else (given,) * rank
    if len(each) != rank:
        fail(ArgumentError, f"interpolate: {len(each)} sizes for {rank} spatial axes")
    spatial = a.shape[2:]
    if size is not None:
        sizes = list(sizes_of("interpolate", (each,)))
        if any(not isinstance(m, int) or m < 1 for m in sizes):
            fail(ArgumentError, f"interpolate: a size is an int of at least 1, not {size!r}")
        return sizes, [None] * rank
    if any(isinstance(s, bool) or not isinstance(s, (int, float)) or not 0 < s < math.inf
           for s in each):
        fail(ArgumentError, f"interpolate: a scale factor is a number above 0, not "
                            f"{scale_factor!r}")
    out: list[Dim] = []
    for n, s in zip(spatial, each):
        if isinstance(n, Poly) and s != int(s):
            fail(ShapeError, f"interpolate: an axis of {n} takes a whole scale factor, not {s}")
        out.append(n * int(s) if s == int(s) or isinstance(n, Poly) else math.floor(n * s))
    if 0 in out:
        fail(ShapeError, f"interpolate: scale factor {scale_factor} leaves nothing of "
                         f"{show(a.shape)}")
    return out, [1.0 / s for s in each]


def _known(n: Dim) -> int:
    if isinstance(n, Poly) or n == 0:
        fail(ShapeError, f"interpolate: an axis of {n} needs a known size above 0, or mode "
                         f"'nearest' with a whole scale factor")
    return n


def _nearest(graph: Graph, a: Node, axis: int, m: Dim, ratio: float | None, exact: bool) -> Node:
    before, n, after = a.shape[:axis], a.shape[axis], a.shape[axis + 1:]
    times = exact_div(m, n) if n != 0 else None
    if isinstance(times, int) and times > 0 and (ratio is None or ratio == 1 / times):
        wide = graph.expand(graph.reshape(a, (*before, n, 1, *after)), (*before, n, times, *after))
        return graph.reshape(wide, (*before, m, *after))
    i = graph.cast(graph.iota(m, i64), f32)
    step = ratio if ratio is not None else _known(n) / _known(m)
    place = graph.mul(graph.add(i, 0.5) if exact else i, step)
    _known(n)
    return graph.op("Gather", a, graph.cast(place, i64), axis)


def _linear(graph: Graph, a: Node, sizes: list[Dim], ratios: list[float | None], corners: bool,
            ) -> Node:
    for k, (m, ratio) in enumerate(zip(sizes, ratios)):
        axis, n, m = 2 + k, _known(a.shape[2 + k]), _known(m)
        if n == m and (corners or ratio is None or ratio == 1):
            continue
        place = _places(graph, n, m, ratio, corners, a.dtype)
        low = graph.cast(place, i64)  # at least 0, so that truncation is the floor
        weight = graph.expansion("Sub", place, graph.cast(low, place.dtype))
        weight = graph.reshape(weight, (m, *(1,) * (len(a.shape) - axis - 1)))
        first = graph.op("Gather", a, low, axis)
        second = graph.op("Gather", a, graph.add(low, 1), axis)  # clamped to the last
        rest = graph.add(graph.mul(weight, -1), 1)
        a = graph.add(graph.mul(first, rest), graph.mul(second, weight))
    return a


def _places(graph: Graph, n: int, m: int, ratio: float | None, corners: bool, dtype: DType) -> Node:
    """(m,): where each new element lies among the n old ones."""
    kind = f64 if dtype is f64 else f32
    i = graph.cast(graph.iota(m, i64), kind)
    if corners:
        return graph.mul(i, (n - 1) / (m - 1) if m > 1 else 0.0)
    step = ratio if ratio is not None else n / m
    place = graph.add(graph.mul(graph.add(i, 0.5), step), -0.5)
    return graph.idiom("Maximum", place, graph.full(0, kind))
