"""Workloads over windows: convolutions, pools and resampling, at the sizes of a ResNet."""

from __future__ import annotations

import itertools

import numpy as np

from suite import Workload, f32


def _np_conv(x, w, b, stride, padding, groups):
    """Tap by tap, each a product."""
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    n, k = x.shape[0], w.shape[2]
    size = (x.shape[2] - k) // stride + 1
    y = np.zeros((n, groups, w.shape[0] // groups, size * size), x.dtype)
    v = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    for i, j in itertools.product(range(k), range(k)):
        here = x[:, :, i:i + stride * (size - 1) + 1:stride, j:j + stride * (size - 1) + 1:stride]
        y += v[..., i, j] @ here.reshape(n, groups, w.shape[1], -1)
    return np.maximum(y.reshape(n, w.shape[0], size, size) + b[:, None, None], 0)


def _conv(name, about, n, c, size, out, k, stride=1, padding=0, groups=1) -> Workload:
    args = (stride, padding, 1, groups)
    return Workload(
        f"conv_{name}", f"relu(conv2d), {about}",
        lambda r: dict(x=f32(r, n, c, size, size),
                       w=f32(r, out, c // groups, k, k, scale=(c // groups * k * k) ** -0.5),
                       b=f32(r, out)),
        lambda t, x, w, b: t.relu(t.conv2d(x, w, b, *args)),
        lambda _, x, w, b: _np_conv(x, w, b, stride, padding, groups),
        lambda t, x, w, b: t.relu(t.nn.functional.conv2d(x, w, b, *args)), ("w", "b"),
        flops=2.0 * n * (size // stride) ** 2 * out * c // groups * k * k)


def _np_pool(x, k, stride, padding, fill, reduce):
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)], constant_values=fill)
    views = np.lib.stride_tricks.sliding_window_view(x, (k, k), (2, 3))[:, :, ::stride, ::stride]
    return reduce(views, (4, 5))


def _np_bilinear(x, size):
    for axis in (2, 3):
        n = x.shape[axis]
        at = np.clip((np.arange(size) + 0.5) * n / size - 0.5, 0, None)
        low = at.astype(int)
        w = (at - low).astype(x.dtype)
        w = w[:, None] if axis == 2 else w
        x = x.take(low, axis) * (1 - w) + x.take(np.minimum(low + 1, n - 1), axis) * w
    return x


def _np_adaptive(x, size):
    """Parts of one axis after the other, each from floor to ceiling."""
    for axis in (2, 3):
        n = x.shape[axis]
        x = np.stack([x.take(range(i * n // size, -(-(i + 1) * n // size)), axis).mean(axis)
                      for i in range(size)], axis)
    return x


def _padded(mode, numpys) -> Workload:
    return Workload(f"pad_{mode}", f"pad {mode} by 2, 8 x 32 x 64 x 64",
                    lambda r: dict(x=f32(r, 8, 32, 64, 64)),
                    lambda t, x: t.pad(x, (2, 2, 2, 2), mode),
                    lambda _, x: np.pad(x, [(0, 0), (0, 0), (2, 2), (2, 2)], numpys),
                    lambda t, x: t.nn.functional.pad(x, (2, 2, 2, 2), mode), bytes=_MILLION * 2)


_MILLION = 8 * 32 * 64 * 64 * 4.0  # bytes

WINDOWS = (
    _conv("3x3", "3 x 3, 8 x 64 x 56 x 56 -> 64", 8, 64, 56, 64, 3, padding=1),
    _conv("1x1", "1 x 1, 8 x 64 x 56 x 56 -> 64", 8, 64, 56, 64, 1),
    _conv("stride2", "3 x 3 stride 2, 8 x 64 x 56 x 56 -> 128", 8, 64, 56, 128, 3, 2, 1),
    _conv("depthwise", "3 x 3 depthwise, 8 x 64 x 56 x 56", 8, 64, 56, 64, 3, padding=1,
          groups=64),
    Workload("max_pool", "max_pool2d 3 stride 2, 8 x 32 x 64 x 64",
             lambda r: dict(x=f32(r, 8, 32, 64, 64)), lambda t, x: t.max_pool2d(x, 3, 2, 1),
             lambda _, x: _np_pool(x, 3, 2, 1, -np.inf, np.max),
             lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1), bytes=_MILLION * 1.25),
    Workload("avg_pool", "avg_pool2d 3, 8 x 32 x 64 x 64",
             lambda r: dict(x=f32(r, 8, 32, 64, 64)), lambda t, x: t.avg_pool2d(x, 3, 1, 1),
             lambda _, x: _np_pool(x, 3, 1, 1, 0, np.mean),
             lambda t, x: t.nn.functional.avg_pool2d(x, 3, 1, 1), bytes=_MILLION * 2),
    Workload("adaptive_pool", "adaptive_avg_pool2d 1, 8 x 32 x 64 x 64",
             lambda r: dict(x=f32(r, 8, 32, 64, 64)), lambda t, x: t.adaptive_avg_pool2d(x, 1),
             lambda _, x: x.mean((2, 3), keepdims=True),
             lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1), bytes=_MILLION),
    Workload("bilinear", "bilinear, 8 x 32 x 32 x 32 -> 64 x 64",
             lambda r: dict(x=f32(r, 8, 32, 32, 32)),
             lambda t, x: t.interpolate(x, 64, mode="bilinear"),
             lambda _, x: _np_bilinear(x, 64),
             lambda t, x: t.nn.functional.interpolate(x, size=64, mode="bilinear"),
             bytes=_MILLION * 1.25),
    Workload("nearest", "nearest, 8 x 32 x 32 x 32 -> 64 x 64",
             lambda r: dict(x=f32(r, 8, 32, 32, 32)), lambda t, x: t.interpolate(x, 64),
             lambda _, x: x.repeat(2, 2).repeat(2, 3),
             lambda t, x: t.nn.functional.interpolate(x, size=64), bytes=_MILLION * 1.25),
    Workload("adaptive_uneven", "adaptive_avg_pool2d 7, 8 x 32 x 64 x 64",
             lambda r: dict(x=f32(r, 8, 32, 64, 64)), lambda t, x: t.adaptive_avg_pool2d(x, 7),
             lambda _, x: _np_adaptive(x, 7),
             lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 7), bytes=_MILLION),
    Workload("bilinear_uneven", "bilinear, 8 x 32 x 64 x 64 -> 97 x 97",
             lambda r: dict(x=f32(r, 8, 32, 64, 64)),
             lambda t, x: t.interpolate(x, 97, mode="bilinear"),
             lambda _, x: _np_bilinear(x, 97),
             lambda t, x: t.nn.functional.interpolate(x, size=97, mode="bilinear"),
             bytes=_MILLION * 3.3),
    _padded("reflect", "reflect"), _padded("replicate", "edge"), _padded("circular", "wrap"),
)
