"""Arrays of the bundle: drawn the same on every machine from a seed, and dtypes without NumPy's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

TYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "uint16", "u8": "uint8",
         "i8": "int8", "i32": "int32", "i64": "int64", "bool": "bool"}


def numpy_type(dtype: str) -> np.dtype:
    """How a dtype lies in memory; bf16 as its bits."""
    return np.dtype(TYPES[dtype])


def drawn(spec: Mapping[str, Any]) -> np.ndarray:
    """The array of a spec: ``shape``, ``dtype``, ``seed``, and ``low`` and ``high``. Integer
    arithmetic decides it, so every machine draws the same bits."""
    return _drawn(tuple(spec["shape"]), spec["dtype"], spec["seed"], spec["low"], spec["high"])


@lru_cache(maxsize=4)  # other plans of a workload take the same
def _drawn(shape: tuple[int, ...], dtype: str, seed: int, low: float, high: float) -> np.ndarray:
    n = math.prod(shape)
    with np.errstate(over="ignore"):
        x = np.arange(n, dtype=np.uint64) + np.uint64(seed * 1_000_003 + 1)
        x *= np.uint64(0x9E3779B97F4A7C15)
        x ^= x >> np.uint64(30)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
    unit = (x >> np.uint64(40)).astype(np.float64) / 2.0**24
    values = low + unit * (high - low)
    if dtype in ("i64", "i32", "i8", "u8", "bool"):
        values = np.floor(values)
    out = encoded(values, dtype).reshape(shape)
    out.flags.writeable = False
    return out


def encoded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Values as a dtype lies in memory."""
    if dtype != "bf16":
        return values.astype(numpy_type(dtype))
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def decoded(array: np.ndarray, dtype: str) -> np.ndarray:
    """Values that can be computed with."""
    if dtype != "bf16":
        return array
    return (array.astype(np.uint32) << 16).view(np.float32)


def places(count: int, most: int) -> np.ndarray:
    """Which elements of a large result are compared: spread over all of it, the same always."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).astype(np.int64))


def difference(got: np.ndarray, want: np.ndarray) -> float:
    """The largest error against the largest magnitude; infinite where specials differ."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if got.shape != want.shape or not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return math.inf
    if not finite.any():
        return 0.0
    error = np.abs(got[finite] - want[finite])
    return math.inf if np.isnan(error).any() else float(
        error.max() / max(np.abs(want[finite]).max(), 1e-30))
