"""Ranges of an axis: kept, or cut out at even distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegg.dim import Dim, exact_div
from tegg.errors import ShapeError
from tegg.ops.getitem import getitem
from tegg.ops.movement import axis_of, whole
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, one, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


@public()
def slice_along(x: Operand, dim: int, start: Dim | None = None, stop: Dim | None = None,
                step: int = 1) -> Tensor:
    """x[..., start:stop:step, ...] on one axis: Python's slice, so that negative bounds count from
    the end, bounds outside are cut to the axis, and a step may be negative. (``narrow`` takes a
    start and a length, which must lie inside.)"""
    graph, a = one("slice_along", x)
    axis = axis_of("slice_along", dim, len(a.shape))
    return getitem(wrap(graph, a), (*[slice(None)] * axis, slice(start, stop, step)))


@public()
def excise(x: Operand, spacing: int, size: int, dim: int = -1) -> Tensor:
    """x without ``size`` elements after every ``spacing`` elements of an axis: element i stays
    where i mod (spacing + size) < spacing.

    Of a symbolic axis n the remainder of n / (spacing + size) must be known.
    """
    graph, a = one("excise", x)
    axis = axis_of("excise", dim, len(a.shape))
    keep, drop = whole("excise", "spacing", spacing, 1), whole("excise", "size", size, 0)
    if drop == 0:
        return wrap(graph, a)
    n, period = a.shape[axis], keep + drop
    groups, rest = _divided(n, period)
    kept = groups * keep + min(rest, keep)
    missing = (period - rest) % period
    groups = groups + (1 if rest else 0)
    lead, after = a.shape[:axis], a.shape[axis + 1:]
    none = (0,) * len(a.shape)
    a = graph.pad(a, none, (*none[:axis], missing, *none[axis + 1:]))
    a = graph.reshape(a, (*lead, groups, period, *after))
    a = graph.narrow(a, axis + 1, 0, keep)
    a = graph.reshape(a, (*lead, groups * keep, *after))
    return wrap(graph, graph.narrow(a, axis, 0, kept))


def _divided(n: Dim, period: int) -> tuple[Dim, int]:
    """Quotient and remainder. Raises ShapeError where the remainder depends on a symbol."""
    for rest in range(period):
        groups = exact_div(n - rest, period)
        if groups is not None:
            return groups, rest
    fail(ShapeError, f"excise: an axis of {show((n,))} has no known remainder by {period}; give "
                     f"its size as {period} times a symbol")
