"""How far the results of a device may be from the oracle's, and in which words they are."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from tegg.dtype import DType

# Of a whole program, relative to its largest value: many roundings, sums in another order.
PROGRAM = MappingProxyType({"f64": 1e-10, "f32": 2e-5, "f16": 5e-3, "bf16": 4e-2})
# Of one op, relative to each value: a few units in the last place.
UNIT = MappingProxyType({"f64": 4e-15, "f32": 4e-7, "f16": 1e-3, "bf16": 8e-3})
TINY = MappingProxyType({"f64": 1e-300, "f32": 1.2e-38, "f16": 6e-5, "bf16": 1.2e-38})


def close(got: np.ndarray, want: np.ndarray, dtype: DType, slack: float = 1.0) -> str | None:
    """Why two results differ, or None. Floats relative to the largest finite value of the whole."""
    assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, got.dtype, want.shape)
    if not dtype.is_float:
        return None if np.array_equal(got, want) else f"{got!r} is not {want!r}"
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(np.isnan(a), np.isnan(b)) or not np.array_equal(
            a[np.isinf(b)], b[np.isinf(b)]) or not np.isfinite(a[finite]).all():
        return f"NaN or inf differ: {got!r} is not {want!r}"
    scale = 1 + np.abs(b[finite]).max(initial=0)
    worst = np.abs(a[finite] - b[finite]).max(initial=0) / scale
    return None if worst <= PROGRAM[dtype.name] * slack else f"off by {worst:.3g} of {scale:.3g}"


def wrong(got: np.ndarray, want: np.ndarray, dtype: DType, slack: float = 1.0,
          size: np.ndarray | float = 0.0) -> np.ndarray:
    """Which elements differ. Errors are relative to each element and to ``size``."""
    if not dtype.is_float:
        return got != want
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return ~((a == b) | (np.isnan(a) & np.isnan(b))
                 | (np.abs(a - b) <= UNIT[dtype.name] * slack * (np.abs(b) + size)
                    + TINY[dtype.name]))
