"""The workloads of the GPU: what each computes, in tegg and PyTorch, and as NumPy in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Workload:
    """``tegg`` and ``torch`` take (library, arrays...), ``numpy`` takes arrays of float64.

    inputs: (shape, dtype) each. bytes: what must be read and written. flops: of products.
    """

    name: str
    about: str
    inputs: Sequence[tuple[tuple[int, ...], str]]
    tegg: Callable[..., Any]
    torch: Callable[..., Any]
    numpy: Callable[..., np.ndarray]
    tolerance: float
    bytes: float = 0.0
    flops: float = 0.0


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _layer_norm(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) * g + b


def _causal(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    return _softmax(np.where(np.tri(s.shape[-1], dtype=bool), s, -np.inf)) @ v


_R, _C = 16384, 2048
_ROWS = 4.0 * _R * _C


def _attention(name: str, batch: int, heads: int, length: int, size: int, dtype: str,
               tolerance: float) -> Workload:
    shape, all_heads = (batch, heads, length, size), batch * heads
    return Workload(name, f"causal, {batch} x {heads} heads of {length} x {size}, {dtype}",
                    ((shape, dtype),) * 3,
                    lambda t, q, k, v: t.scaled_dot_product_attention(q, k, v, is_causal=True),
                    lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(
                        q, k, v, is_causal=True), _causal, tolerance,
                    4.0 * (4 if dtype == "f32" else 2) * all_heads * length * size,
                    2.0 * all_heads * length**2 * size)


def _product(name: str, m: int, n: int, k: int, dtype: str, tolerance: float) -> Workload:
    size = 4 if dtype == "f32" else 2
    return Workload(name, f"{m} x {k} @ {k} x {n}, {dtype}", (((m, k), dtype), ((k, n), dtype)),
                    lambda t, x, w: x @ w, lambda t, x, w: x @ w, lambda x, w: x @ w, tolerance,
                    float(size) * (m * k + k * n + m * n), 2.0 * m * n * k)


WORKLOADS = (
    Workload("ew_gelu", f"gelu_tanh(x*a+b)-x, {_R} x {_C}",
             (((_R, _C), "f32"), ((_C,), "f32"), ((_C,), "f32")),
             lambda t, x, a, b: t.gelu(x * a + b, approximate="tanh") - x,
             lambda t, x, a, b: t.nn.functional.gelu(x * a + b, approximate="tanh") - x,
             lambda x, a, b: _gelu(x * a + b) - x, 1e-5, 2 * _ROWS),
    Workload("softmax", f"softmax of rows, {_R} x {_C}", (((_R, _C), "f32"),),
             lambda t, x: t.softmax(x, -1), lambda t, x: t.softmax(x, -1), _softmax, 1e-5,
             2 * _ROWS),
    Workload("layernorm", f"layernorm(x+r)*g+b, {_R} x {_C}",
             (((_R, _C), "f32"), ((_R, _C), "f32"), ((_C,), "f32"), ((_C,), "f32")),
             lambda t, x, r, g, b: t.layer_norm(x + r, (_C,), g, b, 1e-5),
             lambda t, x, r, g, b: t.nn.functional.layer_norm(x + r, (_C,), g, b, 1e-5),
             lambda x, r, g, b: _layer_norm(x + r, g, b), 1e-5, 3 * _ROWS),
    Workload("rmsnorm", f"rmsnorm(x)*g, {_R} x {_C}", (((_R, _C), "f32"), ((_C,), "f32")),
             lambda t, x, g: t.rms_norm(x, (_C,), g, 1e-5),
             lambda t, x, g: t.nn.functional.rms_norm(x, (_C,), g, 1e-5),
             lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g, 1e-5,
             2 * _ROWS),
    Workload("sum_all", f"the sum of {_R} x {_C}", (((_R, _C), "f32"),), lambda t, x: x.sum(),
             lambda t, x: x.sum(), lambda x: np.asarray(x.sum()), 1e-2, _ROWS),
    Workload("transpose", f"x.T + 0, {_R} x {_C}", (((_R, _C), "f32"),), lambda t, x: x.T + 0.0,
             lambda t, x: x.T.contiguous(), lambda x: x.T, 0.0, 2 * _ROWS),
    _product("matmul_f32_4096", 4096, 4096, 4096, "f32", 1e-5),
    _product("matmul_f16_4096", 4096, 4096, 4096, "f16", 2e-3),
    _product("matmul_f16_8192", 8192, 8192, 8192, "f16", 2e-3),
    _product("matmul_bf16_4096", 4096, 4096, 4096, "bf16", 2e-2),
    _product("decode_f16_1x4096", 1, 4096, 4096, "f16", 2e-3),
    _product("deep_f16_64", 64, 64, 65536, "f16", 5e-3),
    Workload("mlp_f16", "512 x 1024 -> gelu_tanh 4096 -> 1024, f16",
             (((512, 1024), "f16"), ((1024, 4096), "f16"), ((4096, 1024), "f16")),
             lambda t, x, a, b: t.gelu(x @ a, approximate="tanh") @ b,
             lambda t, x, a, b: t.nn.functional.gelu(x @ a, approximate="tanh") @ b,
             lambda x, a, b: _gelu(x @ a) @ b, 5e-3, 2.0 * (2 * 512 * 1024 + 2 * 4096 * 1024),
             2.0 * 2 * 512 * 1024 * 4096),
    _attention("attention_f16", 4, 16, 2048, 64, "f16", 5e-3),
    _attention("attention_bf16_128", 4, 16, 2048, 128, "bf16", 4e-2),
    _attention("attention_f32", 4, 16, 1024, 64, "f32", 2e-5),
    _attention("attention_short", 8, 12, 128, 32, "f32", 2e-5),
    Workload("tiny", "(x+y)*z on 1024 elements: the overhead of a run", (((1024,), "f32"),) * 3,
             lambda t, x, y, z: (x + y) * z, lambda t, x, y, z: (x + y) * z,
             lambda x, y, z: (x + y) * z, 1e-6, 16 * 1024.0),
)


def cases() -> Iterator[Any]:
    """The workloads as cases of the bundle, where tegg is installed."""
    import tegg
    from cases import Case, Input
    for w in WORKLOADS:
        yield Case(f"bench_{w.name}", "workloads", _of(w, tegg, len(w.inputs)),
                   [Input(shape, dtype) for shape, dtype in w.inputs], w.tolerance, big=True)


def _of(w: Workload, library: Any, count: int) -> Callable[..., Any]:
    """The function with as many parameters as it has arrays."""
    return {1: lambda x: w.tegg(library, x), 2: lambda x, y: w.tegg(library, x, y),
            3: lambda x, y, z: w.tegg(library, x, y, z),
            4: lambda x, y, z, u: w.tegg(library, x, y, z, u)}[count]
