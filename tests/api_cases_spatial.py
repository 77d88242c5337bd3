"""Rows of spatial ops: convolutions, pools, channel norms, interpolation; written as loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from api_drawing import NUMBERS, Call, Draw, call
from tegg.testing.strategies import FLOATS


def _steps(n: int, k: int, stride: int, dilation: int) -> int:
    return (n - (k - 1) * dilation - 1) // stride + 1


def patches(x: np.ndarray, kernel: tuple, stride: tuple, dilation: tuple):
    """(position, patch of (n, c, *kernel)) for each window over the axes from 2 on."""
    sizes = [_steps(n, k, s, d) for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation)]
    for at in itertools.product(*map(range, sizes)):
        cut = tuple(slice(i * s, i * s + (k - 1) * d + 1, d)
                    for i, k, s, d in zip(at, kernel, stride, dilation))
        yield at, x[(slice(None), slice(None), *cut)]


def over(x, kernel, stride, dilation, channels, f):
    sizes = [_steps(n, k, s, d) for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation)]
    out = np.zeros((x.shape[0], channels, *sizes), x.dtype)
    for at, patch in patches(x, kernel, stride, dilation):
        out[(slice(None), slice(None), *at)] = f(patch)
    return out


# ---- convolutions
def conv_sample(rank: int):
    def sample(d: Draw) -> Call:
        groups, dtype = d.int(1, 2), d.pick(FLOATS)
        kernel = tuple(d.int(1, 2) for _ in range(rank))
        x = d.x((d.int(1, 2), 2 * groups, *(d.int(3, 5) for _ in range(rank))), dtype, "small")
        w = d.x((groups * d.int(1, 2), 2, *kernel), dtype, "small")
        bias = d.x((w.shape[0],), dtype, "small") if d.flag() else None
        return call(x, w, bias, stride=d.int(1, 2), padding=d.int(0, 1), dilation=d.int(1, 2),
                    groups=groups)
    return sample


def conv(x, w, bias, stride, padding, dilation, groups):
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * rank])
    outs = []
    for part, ws in zip(np.split(x, groups, 1), np.split(w, groups, 0)):
        outs.append(over(part, w.shape[2:], (stride,) * rank, (dilation,) * rank, len(ws),
                         lambda p, ws=ws: p.reshape(len(p), -1) @ ws.reshape(len(ws), -1).T))
    out = np.concatenate(outs, 1)
    return out if bias is None else out + bias.reshape(-1, *(1,) * rank)


def transpose_sample(rank: int):
    def sample(d: Draw) -> Call:
        groups, dtype = d.int(1, 2), d.pick(FLOATS)
        stride, dilation = d.int(1, 2), d.int(1, 2)
        x = d.x((d.int(1, 2), 2 * groups, *(d.int(1, 3) for _ in range(rank))), dtype, "small")
        w = d.x((2 * groups, d.int(1, 2), *(d.int(2, 3) for _ in range(rank))), dtype, "small")
        bias = d.x((w.shape[1] * groups,), dtype, "small") if d.flag() else None
        full = min((n - 1) * stride + (k - 1) * dilation for n, k in zip(x.shape[2:], w.shape[2:]))
        return call(x, w, bias, stride=stride, padding=d.int(0, int(full > 1)),
                    output_padding=d.int(0, max(stride, dilation) - 1), groups=groups,
                    dilation=dilation)
    return sample


def conv_transpose(x, w, bias, stride, padding, output_padding, groups, dilation):
    full = [(n - 1) * stride + (k - 1) * dilation + 1 for n, k in zip(x.shape[2:], w.shape[2:])]
    outs = []
    for part, ws in zip(np.split(x, groups, 1), np.split(w, groups, 0)):
        out = np.zeros((x.shape[0], w.shape[1], *(n + output_padding for n in full)), x.dtype)
        for at in itertools.product(*map(range, x.shape[2:])):
            cut = tuple(slice(i * stride, i * stride + (k - 1) * dilation + 1, dilation)
                        for i, k in zip(at, w.shape[2:]))
            out[(slice(None), slice(None), *cut)] += np.einsum(
                "nc,co...->no...", part[(slice(None), slice(None), *at)], ws)
        outs.append(out[(slice(None), slice(None), *(
            slice(padding, n - padding + output_padding) for n in full))])
    out = np.concatenate(outs, 1)
    return out if bias is None else out + bias.reshape(-1, *(1,) * (x.ndim - 2))


# ---- pools
def pool_sample(rank: int, dtypes: Any, mean: bool):
    def sample(d: Draw) -> Call:
        x = d.x((d.int(1, 2), d.int(1, 2), *(d.int(3, 5) for _ in range(rank))), dtypes)
        more: dict[str, Any] = {} if mean else {"dilation": d.int(1, 2)}
        if mean:
            more = {"count_include_pad": d.flag()}
        if mean and rank > 1:
            more["divisor_override"] = d.pick([None, None, 3])
        return call(x, d.int(2, 2), d.int(1, 3), d.int(0, 1), ceil_mode=d.flag(), **more)
    return sample


def hanging(x, kernel, stride, padding, dilation, ceil_mode):
    """Of each axis the number of windows: with ceil_mode one that hangs over, if it starts inside
    x or the padding before it."""
    span = (kernel - 1) * dilation + 1
    for n in x.shape[2:]:
        steps = (n + 2 * padding - span) / stride
        count = math.ceil(steps) if ceil_mode else math.floor(steps)
        yield count + (not (ceil_mode and count * stride >= n + padding))


def pooled(x, kernel, stride, padding, dilation, ceil_mode, reduce):
    """``reduce`` of the elements of each window that are in x, and of how many are in x or its
    padding."""
    out = np.zeros((*x.shape[:2], *hanging(x, kernel, stride, padding, dilation, ceil_mode)),
                   x.dtype)
    for at in np.ndindex(out.shape[2:]):
        places = [[i * stride - padding + j * dilation for j in range(kernel)] for i in at]
        inside = [[p for p in ps if 0 <= p < n] for ps, n in zip(places, x.shape[2:])]
        padded = math.prod(sum(p < n + padding for p in ps)
                           for ps, n in zip(places, x.shape[2:]))
        part = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)]
        out[(slice(None), slice(None), *at)] = reduce(part, padded)
    return out


def max_pool(x, kernel, stride, padding, ceil_mode, dilation):
    axes = tuple(range(2, x.ndim))
    low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return pooled(x, kernel, stride, padding, dilation, ceil_mode,
                  lambda p, _: p.max(axes, initial=low))


def avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override=None):
    axes = tuple(range(2, x.ndim))

    def mean(part, padded):
        count = padded if count_include_pad else math.prod(part.shape[2:])
        return part.sum(axes) / (divisor_override or count)
    return pooled(x, kernel, stride, padding, 1, ceil_mode, mean)


def adaptive_sample(rank: int, dtypes: Any):
    def sample(d: Draw) -> Call:
        return call(d.x((d.int(1, 2), 2, *(d.int(2, 5) for _ in range(rank))), dtypes),
                    d.int(1, 3))
    return sample


def adaptive(reduce: str):
    def formula(x, size):
        out = np.zeros((*x.shape[:2], *(size,) * (x.ndim - 2)), x.dtype)
        for at in itertools.product(range(size), repeat=x.ndim - 2):
            cut = tuple(slice(i * n // size, math.ceil((i + 1) * n / size))
                        for i, n in zip(at, x.shape[2:]))
            part = x[(slice(None), slice(None), *cut)]
            out[(slice(None), slice(None), *at)] = getattr(part, reduce)(
                tuple(range(2, x.ndim)))
        return out
    return formula


# ---- norms and interpolation
def batch_norm_sample(d: Draw) -> Call:
    c, dtype = d.int(1, 3), d.pick(FLOATS)
    x = d.x((d.int(1, 3), c, *d.shape(0, 2, 1)), dtype)
    mean, var, w, b = (d.x((c,), dtype, k) for k in ("small", "positive", "small", "small"))
    return call(x, mean, var, *d.pick([(), (w,), (w, b)]), eps=0.1)


def _channels(v, x):
    return v if np.ndim(v) == 0 else v.reshape(-1, *(1,) * (x.ndim - 2))


def batch_norm(x, mean, var, w=1, b=0, eps=0.0):
    mean, var, w, b = (_channels(v, x) for v in (mean, var, w, b))
    return (x - mean) / np.sqrt(var + eps) * w + b


def group_norm_sample(d: Draw) -> Call:
    groups, dtype = d.int(1, 2), d.pick(FLOATS)
    c = groups * 2
    x = d.x((d.int(1, 2), c, *d.shape(1, 2, 2)), dtype)
    return call(x, groups, d.x((c,), dtype, "small"), eps=0.1)


def group_norm(x, groups, w=1, eps=0.0):
    y = x.reshape(x.shape[0], groups, -1)
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + eps)
    return y.reshape(x.shape) * _channels(w, x)


def instance_norm_sample(d: Draw) -> Call:
    return call(d.x((d.int(1, 2), d.int(1, 3), *d.shape(1, 2, 2)), FLOATS), eps=0.1)


_LINEAR = ("linear", "bilinear", "trilinear")


def interpolate_sample(d: Draw) -> Call:
    rank = d.int(1, 3)
    x = d.x((1, 2, *(d.int(1, 4) for _ in range(rank))), FLOATS, "small")
    mode = d.pick(["nearest", "nearest-exact", _LINEAR[rank - 1], _LINEAR[rank - 1], "area"])
    more = {"align_corners": d.pick([None, True, False])} if mode in _LINEAR else {}
    if d.flag():
        return call(x, scale_factor=d.pick([1.0, 2.0, 3.0]), mode=mode, **more)
    return call(x, tuple(d.int(1, 6) for _ in range(rank)), mode=mode, **more)


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None):
    for axis in range(2, x.ndim):
        n = x.shape[axis]
        m = size[axis - 2] if size is not None else int(n * scale_factor)
        x = _resampled(x, axis, n, m, mode, align_corners)
    return x


def _resampled(x, axis, n, m, mode, corners):
    if mode == "nearest":
        return np.take(x, [i * n // m for i in range(m)], axis)
    if mode == "nearest-exact":
        return np.take(x, [(2 * i + 1) * n // (2 * m) for i in range(m)], axis)
    if mode == "area":
        parts = [np.take(x, range(i * n // m, -(-(i + 1) * n // m)), axis).mean(axis)
                 for i in range(m)]
        return np.stack(parts, axis)
    i = np.arange(m)
    at = i * (n - 1) / max(1, m - 1) if corners else np.clip((i + 0.5) * n / m - 0.5, 0, n - 1)
    low = np.floor(at).astype(int)
    part = (at - low).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    return (np.take(x, low, axis) * (1 - part)
            + np.take(x, np.minimum(low + 1, n - 1), axis) * part)


def rows(case: Any) -> dict[str, Any]:
    """The rows, made by the class of a row."""
    out = {"batch_norm": case(batch_norm_sample, batch_norm, 20),
           "group_norm": case(group_norm_sample, group_norm, 20),
           "instance_norm": case(instance_norm_sample,
                                 lambda x, eps: group_norm(x, x.shape[1], eps=eps), 20),
           "interpolate": case(interpolate_sample, interpolate, 10)}
    for rank in (1, 2, 3):
        out |= {f"conv{rank}d": case(conv_sample(rank), conv, 20),
                f"conv_transpose{rank}d": case(transpose_sample(rank), conv_transpose, 20),
                f"max_pool{rank}d": case(pool_sample(rank, NUMBERS, False), max_pool, 0),
                f"avg_pool{rank}d": case(pool_sample(rank, FLOATS, True), avg_pool, 8),
                f"adaptive_max_pool{rank}d": case(adaptive_sample(rank, NUMBERS),
                                                  adaptive("max"), 0),
                f"adaptive_avg_pool{rank}d": case(adaptive_sample(rank, FLOATS),
                                                  adaptive("mean"), 8)}
    return out
