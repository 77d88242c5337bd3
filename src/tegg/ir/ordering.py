"""Sorting and scattering along an axis: meanings and expansions.

A position in sorted order is a count: how many elements come before, with the index to break ties.
The expansion compares all pairs, so it is general and quadratic; a backend sorts.
"""

from __future__ import annotations

import numpy as np

from tegg.dim import product
from tegg.dtype import i64
from tegg.ir.expand import logical_not, not_nan


def argsort(a, attrs, shape, dtype):
    """Stable. NaN counts as the largest; -0.0 equals 0.0."""
    axis, (kept,), descending = attrs
    x = a[0].astype(np.float32) if a[0].dtype.itemsize == 2 else a[0]
    if descending:  # from the back, so that ties stay in their order
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"),
                                            axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    return np.take(order, np.arange(kept), axis).astype(dtype.numpy)


def sort(a, attrs, shape, dtype):
    """The elements at ``argsort``'s indices."""
    return np.take_along_axis(a[0], argsort(a, attrs, shape, i64), attrs[0])


def scatter_along(a, attrs, shape, dtype):
    """Along the axis later elements win (last), or are combined in order; bad indices dropped."""
    (base, index, update), (axis, mode) = a, attrs
    out, at, new = (np.moveaxis(v, axis, -1).reshape(-1, v.shape[axis]) for v in
                    (base.copy(), index, update))
    rows = np.arange(len(out))
    for j in range(at.shape[1]):
        good = (0 <= at[:, j]) & (at[:, j] < out.shape[1])
        i, k, v = rows[good], at[good, j], new[good, j]
        out[i, k] = (v if mode == "last" else out[i, k] + v if mode == "add" else
                     np.maximum(out[i, k], v))
    moved = (*base.shape[:axis], *base.shape[axis + 1:], base.shape[axis])
    return np.moveaxis(out.reshape(moved), -1, axis)


# ---- expansions
def _pairs(b, x, axis):
    """x at positions (axis) and x at sources (axis + 1), over the square of the axis."""
    n = x.shape[axis]
    wider = (*x.shape[:axis], n, *x.shape[axis:])
    here = b.reshape(x, (*x.shape[:axis + 1], 1, *x.shape[axis + 1:]))
    there = b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
    return b.expand(here, wider), b.expand(there, wider)


def _along(b, n, axis, rank):
    return b.reshape(b.iota(n), tuple(n if i == axis else 1 for i in range(rank)))


def below(b, x, y):
    """x before y in ascending order: NaN is the largest."""
    less = b.less(x, y)
    if not x.dtype.is_float:
        return less
    return b.add(less, b.mul(not_nan(b, x), logical_not(b, (not_nan(b, y),), ())))


def expand_argsort(b, a, attrs):
    """out[r] = sum over i of i [rank of i is r]; the rank counts what comes before."""
    x, (axis, (kept,), descending) = a[0], attrs
    n, rank = x.shape[axis], len(x.shape) + 1
    here, there = _pairs(b, x, axis)
    if descending:
        before, after = below(b, here, there), below(b, there, here)
    else:
        before, after = below(b, there, here), below(b, here, there)
    earlier = b.expand(b.less(_along(b, n, axis + 1, rank), _along(b, n, axis, rank)), here.shape)
    first = b.add(before, b.mul(logical_not(b, (after,), ()), earlier))
    place = b.op("SumReduce", b.cast(first, "i64"), axis + 1)  # of the element at each position
    wider = (*x.shape[:axis + 1], kept, *x.shape[axis + 1:])
    found = b.idiom("Equal", b.expand(place, wider),
                    b.expand(_along(b, kept, axis + 1, rank), wider))
    index = b.select(found, b.expand(_along(b, n, axis, rank), wider),
                     b.expand(b.full(0, "i64"), wider))
    out = (*x.shape[:axis], kept, *x.shape[axis + 1:])
    return b.reshape(b.op("SumReduce", index, axis), out)


def taken_along(b, x, index, axis):
    """x at ``index`` along an axis, from x as a flat array. The index lies inside, and has at most
    x's sizes on the other axes."""
    if len(x.shape) == 1:
        return b.op("Gather", x, index, 0)
    flat, stride = None, 1
    for i in reversed(range(len(x.shape))):
        here = index if i == axis else _along(b, index.shape[i], i, len(x.shape))
        step = here if stride == 1 else b.mul(here, b.size(stride, i64))
        flat = step if flat is None else b.add(flat, step)
        stride = stride * x.shape[i]
    return b.op("Gather", b.reshape(x, (b.count(x),)), flat, 0)


def expand_sort(b, a, attrs):
    """What stands at the indices in order."""
    x, (axis, (kept,), _) = a[0], attrs
    if 0 in (*x.shape, kept):
        return b.narrow(x, axis, 0, kept)
    return taken_along(b, x, b.idiom("ArgSort", x, *attrs), axis)


def expand_scatter_along(b, a, attrs):
    """One Scatter into the flat base; what lies outside the axis stays outside."""
    (base, index, update), (axis, mode) = a, attrs
    at = b.cast(index, "i64")
    flat, stride = None, 1
    for i in reversed(range(len(base.shape))):
        here = at if i == axis else _along(b, at.shape[i], i, len(at.shape))
        step = here if stride == 1 else b.mul(here, b.size(stride, at.dtype))
        flat = step if flat is None else b.add(flat, step)
        stride = stride * base.shape[i]
    inside = b.mul(b.less(-1, at), b.less(at, b.size(base.shape[axis], at.dtype)))
    flat = b.select(inside, b.expand(flat, at.shape), b.full(-1, at.dtype))
    count = product(at.shape)
    out = b.op("Scatter", b.reshape(base, (product(base.shape),)), b.reshape(flat, (count,)),
               b.reshape(update, (count,)), 0, mode)
    return b.reshape(out, base.shape)
