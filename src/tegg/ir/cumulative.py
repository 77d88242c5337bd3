"""Cumulative sums, products and maxima, and the product over an axis: meanings and expansions.

The expansion of a cumulative op spreads the axis over its square, replaces what lies behind each
position by the identity, and reduces: general in rank, axis, dtype and symbolic sizes. It is what
the op means; a backend runs it in one pass.
"""

from __future__ import annotations

import math

import numpy as np

from tegg.dim import upper_bound
from tegg.ir.meaning import lowest, wide


def accumulator(x: np.ndarray) -> np.ndarray:
    """Floats as sums and products along an axis are kept: float64, and float32 for halves."""
    if x.dtype.itemsize == 2:
        return x.astype(np.float32)
    return x.astype(np.float64) if x.dtype == np.float32 else x


def _running(ufunc, x: np.ndarray, axis: int) -> np.ndarray:
    return ufunc.accumulate(x, axis=axis, dtype=x.dtype)


def cumsum(a, attrs, shape, dtype):
    """float32 is summed in float64, halves in float32; integers wrap; bool: any so far."""
    x = accumulator(a[0])
    return _running(np.logical_or if dtype.kind == "bool" else np.add, x,
                    attrs[0]).astype(dtype.numpy)


def cumprod(a, attrs, shape, dtype):
    """float32 is multiplied in float64, halves in float32; integers wrap; bool: all so far."""
    x = accumulator(a[0])
    return _running(np.logical_and if dtype.kind == "bool" else np.multiply, x,
                    attrs[0]).astype(dtype.numpy)


def cummax(a, attrs, shape, dtype):
    """NaN stays from where it stands on."""
    ufunc = np.logical_or if dtype.kind == "bool" else np.maximum
    return _running(ufunc, wide(a[0], dtype), attrs[0]).astype(dtype.numpy)


def logcumsumexp(a, attrs, shape, dtype):
    """log of the sum of e^x so far, relative to the largest; as sums are kept."""
    return _running(np.logaddexp, accumulator(a[0]), attrs[0]).astype(dtype.numpy)


def prod_reduce(a, attrs, shape, dtype):
    """The product along an axis, in any order; of nothing 1."""
    x = accumulator(a[0])
    return np.prod(x, axis=attrs[0], keepdims=True, dtype=x.dtype).astype(dtype.numpy)


# ---- expansions
def so_far(b, x, axis, fill):
    """x over (..., position, source, ...), with ``fill`` where the source comes later."""
    n = x.shape[axis]
    rank = len(x.shape) + 1

    def along(place):
        return b.reshape(b.iota(n), tuple(n if i == place else 1 for i in range(rank)))

    wider = (*x.shape[:axis], n, *x.shape[axis:])
    source = b.expand(b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])), wider)
    seen = b.less(along(axis + 1), b.add(along(axis), 1))
    return b.select(b.expand(seen, wider), source, b.expand(b.full(fill, x.dtype), wider))


def expand_cumsum(b, a, attrs):
    x, (axis,) = a[0], attrs
    return b.reshape(b.op("SumReduce", so_far(b, x, axis, 0), axis + 1), x.shape)


def expand_cummax(b, a, attrs):
    x, (axis,) = a[0], attrs
    total = b.op("MaxReduce", so_far(b, x, axis, lowest(x.dtype)), axis + 1)
    return b.reshape(total, x.shape)


def expand_cumprod(b, a, attrs):
    x, (axis,) = a[0], attrs
    return b.reshape(b.idiom("ProdReduce", so_far(b, x, axis, 1), axis + 1), x.shape)


def expand_logcumsumexp(b, a, attrs):
    """m + log sum e^(x - m) with m the largest so far, or 0 where that is not finite."""
    x, (axis,) = a[0], attrs
    square = so_far(b, x, axis, -math.inf)
    top = b.op("MaxReduce", square, axis + 1)
    finite = b.mul(b.less(top, math.inf), b.less(-math.inf, top))
    m = b.select(finite, top, b.full(0, x.dtype))
    e = b.expansion("Exp", b.expansion("Sub", square, b.expand(m, square.shape)))
    total = b.op("SumReduce", e, axis + 1)
    return b.reshape(b.add(b.expansion("Log", total), m), x.shape)


def expand_prod_reduce(b, a, attrs):
    """Halves multiplied until one element is left, from a power of two padded with 1."""
    x, (axis,) = a[0], attrs
    top = upper_bound(x.shape[axis])
    assert top is not None, "the shape rule asks for a bound"
    size = 1 << max(0, top - 1).bit_length()
    high = tuple(size - n if i == axis else 0 for i, n in enumerate(x.shape))
    x = b.pad(x, (0,) * len(high), high, 1)
    while size > 1:
        size //= 2
        x = b.mul(b.narrow(x, axis, 0, size), b.narrow(x, axis, size, size))
    return x
