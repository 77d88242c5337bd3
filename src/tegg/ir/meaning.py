"""The NumPy meaning of ops whose meaning is longer than a line; op.py's table points here.

Every function takes ``(arrays, attrs, shape, dtype)``: concrete arrays, attributes with dims as
ints, and the concrete shape and DType of the result.
"""

from __future__ import annotations

import math

import numpy as np

from tegg.bits import float_of, value_of
from tegg.contraction import Spec
from tegg.dtype import DType

_HALF = (2,)  # item size of f16 and bf16, which are computed in float32 and rounded once


def wide(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Half-precision values as float32; everything else as it is."""
    return x.astype(np.float32) if dtype.is_float and x.dtype.itemsize in _HALF else x


def elementwise(f):
    """A meaning from a NumPy function; halves are computed in float32 and rounded once."""

    def meaning(a, attrs, shape, dtype):
        args = [x.astype(np.float32) if x.dtype.itemsize == 2 else x for x in a]
        return np.asarray(f(*args)).astype(dtype.numpy, copy=False)

    return meaning


def recip(x):
    return np.divide(np.ones((), x.dtype), x)


def int_div(x, y):
    """Division that truncates towards zero, as C; 0 where the divisor is 0."""
    safe = np.where(y == 0, np.ones_like(y), y)
    q = np.floor_divide(x, safe)
    q = q + ((np.remainder(x, safe) != 0) & ((x < 0) != (safe < 0))).astype(q.dtype)
    return np.where(y == 0, np.zeros_like(q), q).astype(x.dtype)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x):
    return np.asarray(_erf(x.astype(np.float64))).astype(x.dtype)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * 0.5 * (1 + erf(x * x.dtype.type(2 ** -0.5)))


def gelu_tanh(x):
    return x * 0.5 * (1 + np.tanh(x.dtype.type((2 / np.pi) ** 0.5) * (x + 0.044715 * x ** 3)))


def full(a, attrs, shape, dtype):
    return np.broadcast_to(np.asarray(value_of(attrs[2], dtype), dtype.numpy), shape)


def sum_reduce(a, attrs, shape, dtype):
    """float32 accumulation for halves; the order of the sum is free."""
    x = wide(a[0], dtype)
    if dtype.kind == "bool":
        return np.any(x, axis=attrs[0], keepdims=True)
    return np.sum(x, axis=attrs[0], keepdims=True, dtype=x.dtype).astype(dtype.numpy)


def lowest(dtype: DType):
    """The smallest value of a dtype: what the maximum of nothing is."""
    if dtype.is_float:
        return -np.inf
    return False if dtype.kind == "bool" else int(np.iinfo(dtype.numpy).min)


def max_reduce(a, attrs, shape, dtype):
    """NaN propagates; the maximum of nothing is the dtype's lowest value."""
    x = wide(a[0], dtype)
    return np.max(x, axis=attrs[0], keepdims=True, initial=lowest(dtype)).astype(dtype.numpy)


def gather(a, attrs, shape, dtype):
    """Indices outside the axis are clamped to it."""
    return np.take(a[0], a[1], axis=attrs[0], mode="clip")


def scatter(a, attrs, shape, dtype):
    """Later positions win (last), or values are combined (add, max); bad indices are dropped."""
    (base, index, update), (axis, mode) = a, attrs
    out = np.moveaxis(base.copy(), axis, 0)
    new = np.moveaxis(update, axis, 0)
    for i, j in enumerate(index):
        if 0 <= j < out.shape[0]:
            out[j] = (new[i] if mode == "last" else
                      out[j] + new[i] if mode == "add" else np.maximum(out[j], new[i]))
    return np.moveaxis(out, 0, axis)


def slice_(a, attrs, shape, dtype):
    return a[0][tuple(slice(*s) for s in zip(*attrs))]


def pad(a, attrs, shape, dtype):
    low, high, fill = attrs
    out = np.full(shape, value_of(fill, dtype), dtype.numpy)
    out[tuple(slice(lo, n - hi) for lo, hi, n in zip(low, high, shape))] = a[0]
    return out


def window(a, attrs, shape, dtype):
    axis, size, stride, dilation = attrs
    positions = np.arange(shape[axis])[:, None] * stride + np.arange(size) * dilation
    return np.take(a[0], positions, axis=axis)


def mean(a, attrs, shape, dtype):
    """sum / n; of nothing NaN."""
    return _mean(wide(a[0], dtype), attrs[0]).astype(dtype.numpy)


def _mean(x, axis):
    return np.sum(x, axis=axis, keepdims=True, dtype=x.dtype) / x.dtype.type(x.shape[axis])


def softmax(a, attrs, shape, dtype):
    """exp(x - max) / sum; a row of -inf gives NaN, as the primops do."""
    x = wide(a[0], dtype)
    e = np.exp(x - np.max(x, axis=attrs[0], keepdims=True, initial=-np.inf))
    return (e / e.sum(axis=attrs[0], keepdims=True)).astype(dtype.numpy)


def log_softmax(a, attrs, shape, dtype):
    x = wide(a[0], dtype)
    x = x - np.max(x, axis=attrs[0], keepdims=True, initial=-np.inf)
    return (x - np.log(np.exp(x).sum(axis=attrs[0], keepdims=True))).astype(dtype.numpy)


def normalize(a, attrs, shape, dtype):
    return _normalize(wide(a[0], dtype), *attrs).astype(dtype.numpy)


def _normalize(x, axis, eps):
    c = x - _mean(x, axis)
    return c / np.sqrt(_mean(c * c, axis) + x.dtype.type(float_of(eps)))


def layer_norm(a, attrs, shape, dtype):
    x, gain, bias = (wide(v, dtype) for v in a)
    return (_normalize(x, *attrs) * gain + bias).astype(dtype.numpy)


def rms_normalize(a, attrs, shape, dtype):
    return _rms_normalize(wide(a[0], dtype), *attrs).astype(dtype.numpy)


def _rms_normalize(x, axis, eps):
    return x / np.sqrt(_mean(x * x, axis) + x.dtype.type(float_of(eps)))


def rms_norm(a, attrs, shape, dtype):
    x, gain = (wide(v, dtype) for v in a)
    return (_rms_normalize(x, *attrs) * gain).astype(dtype.numpy)


def rope(a, attrs, shape, dtype):
    """x cos + rotate_half(x) sin, the halves of the last axis rotated."""
    x, cos, sin = (wide(v, dtype) for v in a)
    x1, x2 = np.split(x, 2, axis=-1)
    return (x * cos + np.concatenate([-x2, x1], -1) * sin).astype(dtype.numpy)


def contract(a, attrs, shape, dtype):
    """Sum of products over the labels that the output lacks."""
    x, y = (wide(v, dtype) for v in a)
    return Spec.parse(attrs[0]).evaluate(x, y, shape).astype(dtype.numpy)


def attention(a, attrs, shape, dtype):
    """Sums of values, weighted by the softmax of scores along what is summed."""
    axis = Spec.parse(attrs[0]).x.index(Spec.parse(attrs[0]).k)
    scores, values = (wide(v, dtype) for v in a)
    weights = softmax((scores,), (axis,), scores.shape, dtype)
    return contract((weights, values), attrs, shape, dtype)
