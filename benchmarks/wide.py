"""What models are made of besides large products: each said once, for tegg and for PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """``fn(f, *inputs, *weights)``, where f has the functions of a library by PyTorch's names."""

    name: str
    about: str
    inputs: Arrays
    weights: Arrays
    fn: Callable[..., Any]


class Functions:
    """The functions of several modules, the first that has one."""

    def __init__(self, *modules: Any) -> None:
        self.modules = modules

    def __getattr__(self, name: str) -> Any:
        return getattr(next(m for m in self.modules if hasattr(m, name)), name)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed float32 of half the usual size."""
    rng = np.random.default_rng([seed, *shape])
    return (rng.standard_normal(shape, np.float32) * np.float32(0.5)).astype(np.float32)


def _conv(name: str, channels: int, size: int, filters: int, taps: int, images: int = 1,
          **how: int) -> Case:
    """A convolution of square images; ``how`` as ``conv2d`` takes it."""
    groups = how.get("groups", 1)
    about = f"{images} x {channels} x {size} x {size} to {filters}, {taps} x {taps} taps" + "".join(
        f", {k} {v}" for k, v in how.items() if k != "padding")
    return Case(name, about, (drawn(images, channels, size, size),),
                (drawn(filters, channels // groups, taps, taps),),
                lambda f, x, w: f.conv2d(x, w, **how))


def _depthwise(channels: int, size: int, taps: int, stride: int = 1) -> Case:
    return _conv(f"depthwise_{taps}x{taps}_{size}" + f"_s{stride}" * (stride > 1), channels, size,
                 channels, taps, padding=taps // 2, groups=channels, stride=stride)


def _product(name: str, x: tuple[int, ...], y: tuple[int, ...]) -> Case:
    return Case(name, f"{x} @ {y}", (drawn(*x), drawn(*y, seed=1)), (), lambda f, x, y: x @ y)


def _of(name: str, about: str, fn: Callable[..., Any], *inputs: np.ndarray) -> Case:
    return Case(name, about, inputs, (), fn)


def _covariance(f, x):
    centred = x - x.mean(0)
    return centred.permute(1, 0) @ centred / (x.shape[0] - 1)


def _variation(f, x):
    return (f.abs(x[:, :, 1:] - x[:, :, :-1]).mean()
            + f.abs(x[:, :, :, 1:] - x[:, :, :, :-1]).mean())


def _shuffled(f, x, w):
    y = f.conv2d(x, w, padding=1)
    return y.reshape(1, 3, 2, 2, 180, 240).permute(0, 1, 4, 2, 5, 3).reshape(1, 3, 360, 480)


def _shifted_windows(f, x, wq, wo, bias):
    """Attention of Swin's in windows of 7 x 7, shifted by 3, of 3 heads of 32."""
    h = f.roll(f.layer_norm(x, (96,)), (-3, -3), (1, 2))
    h = h.reshape(1, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(64, 49, 96)
    q, k, v = (f.linear(h, wq).reshape(64, 49, 3, 3, 32).permute(2, 0, 3, 1, 4)[i]
               for i in range(3))
    h = f.softmax(q @ k.permute(0, 1, 3, 2) * 32 ** -0.5 + bias, -1) @ v
    h = f.linear(h.permute(0, 2, 1, 3).reshape(64, 49, 96), wo)
    h = h.reshape(1, 8, 8, 7, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(1, 56, 56, 96)
    return x + f.roll(h, (3, 3), (1, 2))


def _sliding(f, q, k, v):
    """Attention of blocks of 32 queries to the block before and their own."""
    k, v = (f.pad(x, (0, 0, 32, 0)) for x in (k, v))
    k, v = (f.stack([x[:, :, 32 * i:32 * i + 64] for i in range(16)], 2) for x in (k, v))
    scores = q.reshape(1, 8, 16, 32, 64) @ k.permute(0, 1, 2, 4, 3)
    return f.softmax(scores * 0.125, -1) @ v


def _norm(f, x, g, b):
    return x * g[None, :, None, None] + b[None, :, None, None]


def _inverted(f, x, w1, g1, b1, w2, w3, g3, b3):
    h = f.relu6(_norm(f, f.conv2d(x, w1), g1, b1))
    h = f.relu6(_norm(f, f.conv2d(h, w2, padding=1, groups=len(w2)), g1, b1))
    return x + _norm(f, f.conv2d(h, w3), g3, b3)


def _convnext(f, x, w, g, b, w1, b1, w2, b2):
    h = f.conv2d(x, w, padding=3, groups=96).permute(0, 2, 3, 1)
    h = f.gelu(f.linear(f.layer_norm(h, (96,), g, b), w1, b1))
    return x + f.linear(h, w2, b2).permute(0, 3, 1, 2)


def _squeezed(f, x, w1, b1, w2, b2):
    h = f.linear(f.relu(f.linear(x.mean((2, 3)), w1, b1)), w2, b2)
    return x * f.sigmoid(h)[:, :, None, None]


def _up(f, x, y, w):
    x = f.interpolate(x, scale_factor=2, mode="bilinear")
    return f.relu(f.conv2d(f.cat([x, y], 1), w, padding=1))


def _diffusion(f, x, g, b, w):
    return x + f.conv2d(f.silu(f.group_norm(x, 32, g, b)), w, padding=1)


def _cell(f, x, h, c, w, u):
    i, o, n, k = (f.linear(x, w) + f.linear(h, u)).reshape(32, 4, 256).permute(1, 0, 2)
    c = f.sigmoid(o) * c + f.sigmoid(i) * f.tanh(n)
    return f.sigmoid(k) * f.tanh(c)


def _rotated(f, x, c, s):
    a, b = x[..., ::2], x[..., 1::2]
    return f.stack([a * c - b * s, b * c + a * s], -1).reshape(8, 128, 64)


def _pendulum(f, x, v):
    """Eight steps by the method of Runge and Kutta, written out."""
    def speed(x, v):
        return v, -f.sin(x) - 0.1 * v

    for _ in range(8):
        a, b = speed(x, v)
        c, d = speed(x + 0.05 * a, v + 0.05 * b)
        e, g = speed(x + 0.05 * c, v + 0.05 * d)
        h, i = speed(x + 0.1 * e, v + 0.1 * g)
        x = x + 0.1 / 6 * (a + 2 * c + 2 * e + h)
        v = v + 0.1 / 6 * (b + 2 * d + 2 * g + i)
    return f.stack([x, v])


def _lorenz(f, x, y, z):
    """Forty steps by Euler's method, written out."""
    for _ in range(40):
        x, y, z = (x + 0.1 * (y - x), y + 0.01 * (x * (28 - z) - y), z + 0.01 * (x * y - 2.5 * z))
    return f.stack([x, y, z])


def _recurrent(f, x, w, u):
    """Twenty steps of an LSTM, written out."""
    h = c = f.zeros_like(x[:, 0])
    for t in range(20):
        i, o, n, k = (f.linear(x[:, t], w) + f.linear(h, u)).reshape(16, 4, 64).permute(1, 0, 2)
        c = f.sigmoid(o) * c + f.sigmoid(i) * f.tanh(n)
        h = f.sigmoid(k) * f.tanh(c)
    return h


def _forward(f, seen, change):
    """The likelihood of what a hidden Markov model shows at forty times, written out."""
    a = seen[:, 0]
    for t in range(1, 40):
        a = f.logsumexp(a[:, :, None] + change, 1) + seen[:, t]
    return f.logsumexp(a, 1)


def _trained_norm(f, x, g, b):
    """Batch norm by the statistics of the batch."""
    centred = x - x.mean((0, 2, 3))[:, None, None]
    return _norm(f, centred, g * f.rsqrt((centred ** 2).mean((0, 2, 3)) + 1e-5), b)


_IMAGES = np.random.default_rng(0).integers(0, 255, (8, 224, 224, 3), dtype=np.uint8)
_ROWS, _WIDE = (4096, 1024), (2048, 2048)

WIDE = (
    _depthwise(32, 112, 3), _depthwise(96, 112, 3, 2), _depthwise(960, 7, 3),
    _depthwise(240, 28, 5), _depthwise(96, 56, 7),
    _conv("pointwise_112", 32, 112, 64, 1), _conv("pointwise_14", 256, 14, 512, 1),
    _conv("pointwise_56_s2", 256, 56, 512, 1, stride=2),
    _conv("grouped_28", 256, 28, 256, 3, padding=1, groups=32),
    _conv("dilated_28", 256, 28, 256, 3, padding=2, dilation=2),
    _conv("stem_7x7", 3, 224, 64, 7, padding=3, stride=2),
    _conv("patches_16", 3, 224, 768, 16, stride=16),
    _conv("to_3_channels", 64, 256, 3, 3, padding=1),
    _conv("conv3x3_8_images", 64, 56, 64, 3, 8, padding=1),
    _conv("conv3x3_8_small_images", 512, 7, 512, 3, 8, padding=1),
    Case("transposed_conv", "1 x 128 x 28 x 28 to 64, 4 x 4 taps, stride 2",
         (drawn(1, 128, 28, 28),), (drawn(128, 64, 4, 4),),
         lambda f, x, w: f.conv_transpose2d(x, w, stride=2, padding=1)),
    Case("transposed_conv_3x3", "8 x 64 x 28 x 28 to 32, 3 x 3 taps, stride 2",
         (drawn(8, 64, 28, 28),), (drawn(64, 32, 3, 3),),
         lambda f, x, w: f.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)),
    _of("gradient_of_images", "of 8 x 32 x 28 x 28 by 32 filters of 3 x 3",
        lambda f, d, w: f.conv_transpose2d(d, w, padding=1), drawn(8, 32, 28, 28),
        drawn(32, 32, 3, 3)),
    _of("gradient_of_filters", "of 32 filters of 3 x 3, by the same images",
        lambda f, x, d: f.conv2d(x.permute(1, 0, 2, 3), d.permute(1, 0, 2, 3), padding=1),
        drawn(8, 32, 28, 28), drawn(8, 32, 28, 28)),
    Case("conv1d", "1 x 384 x 3000 to 384, 3 taps, stride 2", (drawn(1, 384, 3000),),
         (drawn(384, 384, 3),), lambda f, x, w: f.conv1d(x, w, padding=1, stride=2)),
    _product("products_of_4x4_by_vectors", (10000, 4, 4), (10000, 4, 1)),
    _product("products_of_64x64", (100, 64, 64), (100, 64, 64)),
    _product("tall_by_16x16", (100000, 16), (16, 16)), _product("depth_8", (1024, 8), (8, 1024)),
    _of("gram", "x.T @ x of 2000 x 256", lambda f, x: x.permute(1, 0) @ x, drawn(2000, 256)),
    _of("gram_1024", "x.T @ x of 1024 x 1024", lambda f, x: x.permute(1, 0) @ x, drawn(1024, 1024)),
    _of("covariance", "of the columns of 2000 x 256", _covariance, drawn(2000, 256)),
    Case("linear_8_rows", "8 x 1024 to 4096", (drawn(8, 1024),), (drawn(4096, 1024),),
         lambda f, x, w: f.linear(x, w)),
    _of("sum_of_channels", "sum of 32 x 64 x 28 x 28 over all but 64",
        lambda f, x: x.sum((0, 2, 3)), drawn(32, 64, 28, 28)),
    _of("sum_of_columns", "sums of the columns of 2048 x 2048", lambda f, x: x.sum(0),
        drawn(*_WIDE)),
    _of("largest_of_columns", "maxima of the same", lambda f, x: f.amax(x, 0), drawn(*_WIDE)),
    _of("variance_of_columns", "variances of the same", lambda f, x: f.var(x, 0), drawn(*_WIDE)),
    _of("centred_batch", "8 x 4096 x 64 less its means over 4096",
        lambda f, x: x - x.mean(1)[:, None], drawn(8, 4096, 64)),
    _of("product_of_rows", "products of the rows of 2048 x 2048", lambda f, x: f.prod(x, 1),
        drawn(*_WIDE) * np.float32(0.02) + 1),
    _of("sum_of_int64", "sums of the rows of 1024 x 1024", lambda f, x: x.sum(1),
        (drawn(1024, 1024) * 100).astype(np.int64)),
    _of("variance_of_float64", "variances of the rows of 512 x 1024", lambda f, x: f.var(x, 1),
        drawn(512, 1024).astype(np.float64)),
    _of("counted", "how many of each row of 2048 x 2048 are positive",
        lambda f, x: (x > 0).sum(1), drawn(*_WIDE)),
    _of("bool_and", "two of 1024 x 1024", lambda f, x, y: x & y, drawn(1024, 1024) > 0,
        drawn(1024, 1024, seed=1) > 0),
    _of("maximum_of_bytes", "two of 1024 x 1024", lambda f, x, y: f.maximum(x, y),
        *(np.abs(drawn(1024, 1024, seed=i) * 80).astype(np.uint8) for i in (0, 1))),
    _of("total_variation", "3 x 512 x 512", _variation, drawn(1, 3, 512, 512)),
    _of("trace_of_product", "512 x 512, the sum of x * y.T",
        lambda f, x, y: (x * y.permute(1, 0)).sum(), drawn(512, 512), drawn(512, 512, seed=1)),
    _of("sum_of_short_rows", "sums of 100000 rows of 32", lambda f, x: x.sum(-1),
        drawn(100000, 32)),
    _of("softmax_of_short_rows", "softmax of 100000 rows of 10", lambda f, x: f.softmax(x, -1),
        drawn(100000, 10)),
    _of("softmax_of_columns", "softmax of the columns of 1024 x 1024, as rows",
        lambda f, x: f.softmax(x.permute(1, 0), -1), drawn(1024, 1024)),
    _of("norm_of_channels", "layer norm of the channels of 4 x 96 x 56 x 56, last",
        lambda f, x: f.layer_norm(x.permute(0, 2, 3, 1), (96,)), drawn(4, 96, 56, 56)),
    _of("group_norm", "group norm of 64 x 128 x 128, 32 groups", lambda f, x: f.group_norm(x, 32),
        drawn(1, 64, 128, 128)),
    _of("concatenated_channels", "two of 64 x 112 x 112", lambda f, x, y: f.cat([x, y], 1),
        drawn(1, 64, 112, 112), drawn(1, 64, 112, 112, seed=1)),
    _of("stacked_rows", "two of 2048 x 1024", lambda f, x, y: f.stack([x, y], 1),
        drawn(2048, 1024), drawn(2048, 1024, seed=1)),
    _of("joined_rows", "rows of 1024 beside rows of 512, 1024 times",
        lambda f, x, y: f.cat([x, y], 1), drawn(1024, 1024), drawn(1024, 512)),
    _of("turned_above", "512 x 512 turned, above as many rows",
        lambda f, x, y: f.cat([x.permute(1, 0), y], 0), drawn(512, 512), drawn(512, 512, seed=1)),
    _of("rolled", "8 x 56 x 56 x 96 along two axes", lambda f, x: f.roll(x, (-3, -3), (1, 2)),
        drawn(8, 56, 56, 96)),
    _of("reflected", "4 x 16 x 64 x 64, two on each side",
        lambda f, x: f.pad(x, (2, 2, 2, 2), "reflect"), drawn(4, 16, 64, 64)),
    _of("pairs", "two of 1024 x 1024, element by element", lambda f, x, y: f.stack([x, y], 2),
        drawn(1024, 1024), drawn(1024, 1024, seed=1)),
    _of("rotary_pairs", "rotary embedding of pairs, 8 x 128 x 64", _rotated, drawn(8, 128, 64),
        drawn(128, 32), drawn(128, 32, seed=1)),
    _of("twice_the_size", "8 x 32 x 64 x 64, each pixel four times",
        lambda f, x: f.interpolate(x, scale_factor=2, mode="nearest"), drawn(8, 32, 64, 64)),
    _of("transposed", "2048 x 2048", lambda f, x: x.permute(1, 0).reshape(-1), drawn(*_WIDE)),
    _of("quarter_turn", "2048 x 2048", lambda f, x: f.rot90(x).reshape(-1), drawn(*_WIDE)),
    _of("turned", "8 x 64 x 56 x 56, channels last", lambda f, x: x.permute(0, 2, 3, 1).reshape(-1),
        drawn(8, 64, 56, 56)),
    _of("remainder", "x % 0.3, 1024 x 1024", lambda f, x: f.remainder(x, 0.3), drawn(1024, 1024)),
    _of("quotient", "x // 7 of int32, 1024 x 1024", lambda f, x: x // 7,
        (drawn(1024, 1024) * 1000).astype(np.int32)),
    _of("power", "x ** y, 1024 x 1024", lambda f, x, y: x ** y,
        np.abs(drawn(1024, 1024)), drawn(1024, 1024, seed=1)),
    _of("sine_of_float64", "512 x 1024", lambda f, x: f.sin(x),
        drawn(512, 1024).astype(np.float64)),
    _of("logarithm", "log, 4096 x 1024", lambda f, x: f.log(x), np.abs(drawn(*_ROWS)) + 0.1),
    _of("rounded", "round(x * 255) within 0 .. 255, 4096 x 1024",
        lambda f, x: f.clip(f.round(x * 255), 0, 255), np.abs(drawn(*_ROWS))),
    _of("pixels", "8 x 224 x 224 x 3 bytes to float32, channels first",
        lambda f, x: (x.float() / 255 - 0.45).permute(0, 3, 1, 2) * 4.0, _IMAGES),
    Case("pixel_shuffle", "32 x 180 x 240 to 12 filters, 3 x 3 taps, to twice the size",
         (drawn(1, 32, 180, 240),), (drawn(12, 32, 3, 3),), _shuffled),
    Case("channels_last", "64 x 56 x 56 to 64, 3 x 3 taps, stored channels last",
         (drawn(4, 64, 56, 56),), (drawn(64, 64, 3, 3),),
         lambda f, x, w: f.conv2d(x, w, padding=1).permute(0, 2, 3, 1).reshape(-1)),
    Case("shifted_windows", "attention of Swin's at 56 x 56 x 96, windows of 7 x 7",
         (drawn(1, 56, 56, 96),), (drawn(288, 96), drawn(96, 96), drawn(3, 49, 49)),
         _shifted_windows),
    _of("sliding_window", "attention of 8 heads of 64, 512 queries in blocks of 32", _sliding,
        *(drawn(1, 8, 512, 64, seed=i) for i in range(3))),
    Case("inverted_residual", "MobileNetV2's at 24 x 56 x 56", (drawn(1, 24, 56, 56),),
         (drawn(144, 24, 1, 1), drawn(144), drawn(144), drawn(144, 1, 3, 3),
          drawn(24, 144, 1, 1), drawn(24), drawn(24)), _inverted),
    Case("convnext_block", "ConvNeXt's at 96 x 56 x 56", (drawn(1, 96, 56, 56),),
         (drawn(96, 1, 7, 7), drawn(96), drawn(96), drawn(384, 96), drawn(384), drawn(96, 384),
          drawn(96)), _convnext),
    Case("squeeze_excite", "256 x 28 x 28", (drawn(1, 256, 28, 28),),
         (drawn(16, 256), drawn(16), drawn(256, 16), drawn(256)), _squeezed),
    Case("unet_up", "two of 64 x 64 x 64, one half the size", (drawn(1, 64, 32, 32),
         drawn(1, 64, 64, 64)), (drawn(64, 128, 3, 3),), _up),
    Case("diffusion_block", "group norm, SiLU, 3 x 3 taps at 320 x 32 x 32",
         (drawn(1, 320, 32, 32),), (drawn(320), drawn(320), drawn(320, 320, 3, 3)), _diffusion),
    Case("lstm_cell", "32 x 256", (drawn(32, 256), drawn(32, 256, seed=1), drawn(32, 256, seed=2)),
         (drawn(1024, 256), drawn(1024, 256, seed=1)), _cell),
    Case("recurrent", "20 steps of an LSTM, 16 x 64", (drawn(16, 20, 64),),
         (drawn(256, 64) / 2, drawn(256, 64, seed=1) / 2), _recurrent),
    _of("markov", "a hidden Markov model of 10 states, 32 sequences of 40", _forward,
        drawn(32, 40, 10), drawn(10, 10)),
    _of("trained_norm", "batch norm of 32 x 64 x 28 x 28 by its own statistics", _trained_norm,
        drawn(32, 64, 28, 28), drawn(64), drawn(64, seed=1)),
    Case("pendulum", "8 steps of Runge and Kutta, 512 x 512",
         (drawn(512, 512), drawn(512, 512, seed=1)), (), _pendulum),
    Case("lorenz", "40 steps of Euler, 512 x 512",
         tuple(drawn(512, 512, seed=i) for i in range(3)), (), _lorenz),
)
