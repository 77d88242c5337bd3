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
        dtype = d.pick(FLOATS)
        x = d.x((d.int(1, 2), 2, *(d.int(1, 3) for _ in range(rank))), dtype, "small")
        w = d.x((2, d.int(1, 2), *(d.int(2, 3) for _ in range(rank))), dtype, "small")
        room = min((n - 1) + k for n, k in zip(x.shape[2:], w.shape[2:])) > 2
        return call(x, w, stride=d.int(1, 2), padding=d.int(0, int(room)))
    return sample


def conv_transpose(x, w, stride, padding):
    full = [(n - 1) * stride + k for n, k in zip(x.shape[2:], w.shape[2:])]
    out = np.zeros((x.shape[0], w.shape[1], *full), x.dtype)
    for at in itertools.product(*map(range, x.shape[2:])):
        cut = tuple(slice(i * stride, i * stride + k) for i, k in zip(at, w.shape[2:]))
        out[(slice(None), slice(None), *cut)] += np.einsum(
            "nc,co...->no...", x[(slice(None), slice(None), *at)], w)
    return out[(slice(None), slice(None), *(slice(padding, n - padding) for n in full))] if (
        padding) else out


# ---- pools
def pool_sample(rank: int, dtypes: Any, dilated: bool):
    def sample(d: Draw) -> Call:
        x = d.x((d.int(1, 2), d.int(1, 2), *(d.int(3, 5) for _ in range(rank))), dtypes)
        more = {"dilation": d.int(1, 2)} if dilated else {}
        return call(x, d.int(2, 2), d.int(1, 3), d.int(0, 1), **more)
    return sample


def max_pool(x, kernel, stride, padding, dilation):
    rank = x.ndim - 2
    low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * rank], constant_values=low)
    axes = tuple(range(2, x.ndim))
    return over(x, (kernel,) * rank, (stride,) * rank, (dilation,) * rank, x.shape[1],
                lambda p: p.max(axes))


def avg_pool(x, kernel, stride, padding):
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * rank])
    axes = tuple(range(2, x.ndim))
    return over(x, (kernel,) * rank, (stride,) * rank, (1,) * rank, x.shape[1],
                lambda p: p.mean(axes))


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


def interpolate_sample(d: Draw) -> Call:
    size = (d.int(1, 6), d.int(1, 6))
    return call(d.x((1, 2, d.int(1, 4), d.int(1, 4)), FLOATS, "small"), size,
                mode=d.pick(["nearest", "bilinear"]))


def interpolate(x, size, mode):
    for axis, m in zip((2, 3), size):
        n = x.shape[axis]
        if mode == "nearest":
            x = np.take(x, [i * n // m for i in range(m)], axis)
            continue
        at = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, n - 1)
        part = (at - low).reshape(-1, *(1,) * (3 - axis))
        x = np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part
    return x


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
                f"max_pool{rank}d": case(pool_sample(rank, NUMBERS, True), max_pool, 0),
                f"avg_pool{rank}d": case(pool_sample(rank, FLOATS, False), avg_pool, 8),
                f"adaptive_max_pool{rank}d": case(adaptive_sample(rank, NUMBERS),
                                                  adaptive("max"), 0),
                f"adaptive_avg_pool{rank}d": case(adaptive_sample(rank, FLOATS),
                                                  adaptive("mean"), 8)}
    return out
