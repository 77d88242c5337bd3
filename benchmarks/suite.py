"""The workloads: what each computes, in tegg, NumPy and PyTorch, on the same arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

EPS = 1e-5
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Workload:
    """``make`` draws the inputs; ``tegg``, ``numpy`` and ``torch`` take (library, inputs...).

    weights: names of the inputs that a model would hold, bound once. bytes: compulsory traffic.
    """

    name: str
    about: str
    make: Callable[[np.random.Generator], Arrays]
    tegg: Callable[..., Any]
    numpy: Callable[..., Any]
    torch: Callable[..., Any]
    weights: tuple[str, ...] = ()
    bytes: float = 0.0
    flops: float = 0.0

    def inputs(self) -> Arrays:
        return self.make(np.random.default_rng(len(self.name)))


def f32(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Normally distributed float32."""
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def _np_gelu_erf(h):
    return h * 0.5 * (1 + _erf(h / math.sqrt(2)))


def _np_gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def _np_gelu_erf(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + _erf(x / math.sqrt(2)))


def _np_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _np_layernorm(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + EPS) * g + b


def _np_attention(q, k, v):
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    return _np_softmax(s) @ v


_ROWS = 4 * 2**20 * 4  # bytes of 4096 x 1024 float32

SUITE = (
    Workload("ew_gelu", "gelu_tanh(x*a+b)-x, 4096 x 1024",
             lambda r: dict(x=f32(r, 4096, 1024), a=f32(r, 1024), b=f32(r, 1024)),
             lambda t, x, a, b: t.gelu(x * a + b, approximate="tanh") - x,
             lambda _, x, a, b: _np_gelu(x * a + b) - x,
             lambda t, x, a, b: t.nn.functional.gelu(x * a + b, approximate="tanh") - x,
             bytes=2 * _ROWS),
    Workload("ew_gelu_erf", "gelu_erf(x*a+b)-x, 4096 x 1024",
             lambda r: dict(x=f32(r, 4096, 1024), a=f32(r, 1024), b=f32(r, 1024)),
             lambda t, x, a, b: t.gelu(x * a + b) - x,
             lambda _, x, a, b: _np_gelu_erf(x * a + b) - x,
             lambda t, x, a, b: t.nn.functional.gelu(x * a + b) - x, bytes=2 * _ROWS),
    Workload("softmax", "softmax of the rows of 4096 x 1024",
             lambda r: dict(x=f32(r, 4096, 1024, scale=3)),
             lambda t, x: t.softmax(x, -1), lambda _, x: _np_softmax(x),
             lambda t, x: t.softmax(x, -1), bytes=2 * _ROWS),
    Workload("layernorm", "layernorm(x+r)*g+b, 4096 x 1024",
             lambda r: dict(x=f32(r, 4096, 1024), r=f32(r, 4096, 1024), g=f32(r, 1024),
                            b=f32(r, 1024)),
             lambda t, x, r, g, b: t.layer_norm(x + r, (1024,), g, b, EPS),
             lambda _, x, r, g, b: _np_layernorm(x + r, g, b),
             lambda t, x, r, g, b: t.nn.functional.layer_norm(x + r, (1024,), g, b, EPS),
             bytes=3 * _ROWS),
    Workload("rmsnorm", "rmsnorm(x)*g, 2048 x 2048",
             lambda r: dict(x=f32(r, 2048, 2048), g=f32(r, 2048)),
             lambda t, x, g: t.rms_norm(x, (2048,), g, EPS),
             lambda _, x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * g,
             lambda t, x, g: t.nn.functional.rms_norm(x, (2048,), g, EPS), bytes=2 * _ROWS),
    Workload("matmul_1024", "1024 x 1024 @ 1024 x 1024",
             lambda r: dict(x=f32(r, 1024, 1024), w=f32(r, 1024, 1024)),
             lambda t, x, w: x @ w, lambda _, x, w: x @ w, lambda t, x, w: x @ w,
             ("w",), flops=2 * 2.0**30),
    Workload("mlp", "128 x 1024 -> gelu_tanh 4096 -> 1024",
             lambda r: dict(x=f32(r, 128, 1024), w1=f32(r, 1024, 4096, scale=0.03),
                            b1=f32(r, 4096), w2=f32(r, 4096, 1024, scale=0.03),
                            b2=f32(r, 1024)),
             lambda t, x, w1, b1, w2, b2: t.gelu(x @ w1 + b1, approximate="tanh") @ w2 + b2,
             lambda _, x, w1, b1, w2, b2: _np_gelu(x @ w1 + b1) @ w2 + b2,
             lambda t, x, w1, b1, w2, b2:
                 t.nn.functional.gelu(x @ w1 + b1, approximate="tanh") @ w2 + b2,
             ("w1", "b1", "w2", "b2"), flops=2.0 * 2 * 128 * 1024 * 4096),
    Workload("attention", "softmax(q k^T / 8) v, 12 heads of 128 x 64",
             lambda r: {n: f32(r, 1, 12, 128, 64) for n in "qkv"},
             lambda t, q, k, v: t.scaled_dot_product_attention(q, k, v),
             lambda _, q, k, v: _np_attention(q, k, v),
             lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
             flops=12 * 4.0 * 128 * 128 * 64),
    Workload("tiny", "(x+y)*z on 8 elements: the overhead of a call",
             lambda r: {n: f32(r, 8) for n in "xyz"},
             lambda t, x, y, z: (x + y) * z, lambda _, x, y, z: (x + y) * z,
             lambda t, x, y, z: (x + y) * z),
)


def _erf(x: np.ndarray) -> np.ndarray:
    """erf for the NumPy column; math.erf would measure Python."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (
        -1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - poly * np.exp(-x * x))
