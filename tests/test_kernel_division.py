"""Quotients and remainders of integers: all pairs of bytes, and what is near the ends of 32 bits."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import check
from tegg.testing.draw import Draw

ENDS = np.array([0, 1, 2, 3, 7, 10, 1 << 16, 46341, (1 << 24) + 1, (1 << 30) + 1, (1 << 31) - 2,
                 (1 << 31) - 1], np.int64)


def _pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    if dtype in ("u8", "i8"):
        every = np.arange(256, dtype=np.uint8)
        every = every if dtype == "u8" else every.view(np.int8)
        return np.repeat(every, 256), np.tile(every, 256)
    ends = np.concatenate([ENDS, -ENDS, [-1 << 31]])
    rng = np.random.default_rng(0)
    drawn = rng.integers(-1 << 31, 1 << 31, (2, 40000)) >> rng.integers(0, 31, (2, 40000))
    near = drawn[0] // np.where(drawn[1] == 0, 1, drawn[1]) * drawn[1]  # whole multiples
    kind = np.int32 if dtype == "i32" else np.int64
    return (np.concatenate([np.repeat(ends, len(ends)), drawn[0], near - 1, near]).astype(kind),
            np.concatenate([np.tile(ends, len(ends)), *[drawn[1]] * 3]).astype(kind))


@pytest.mark.parametrize("width", (4, 8, 16))
@pytest.mark.parametrize("dtype", ("u8", "i8", "i32", "i64"))
def test_quotients_and_remainders(dtype, width) -> None:
    a, b = _pairs(dtype)
    g = Draw()
    x, y = (g.x(len(a), dtype=dtype) for _ in range(2))
    code = check(g, [g.op("IntDiv", x, y), g.op("Mod", x, y)], inputs={0: a, 1: b}, width=width)
    assert "_div(" in code.source and "_mod(" in code.source
