"""Constants as the 64-bit patterns that attributes carry: equal bits are equal constants."""

from __future__ import annotations

import struct

import numpy as np

from tegg.dtype import DType


def bits_of(value: float, dtype: DType) -> int:
    """The 64-bit pattern that a Full carries: of the float64, or of the int64."""
    if dtype.is_float:
        return int.from_bytes(struct.pack("<d", float(value)), "little", signed=True)
    if dtype.kind == "bool":
        return int(bool(value))
    wrapped = int(value) & (1 << 8 * dtype.itemsize) - 1  # integers wrap, as in C
    signed = np.iinfo(dtype.numpy).min < 0 and wrapped >> (8 * dtype.itemsize - 1)
    return wrapped - (1 << 8 * dtype.itemsize) if signed else wrapped


def float_of(bits: int) -> float:
    """The float64 of a 64-bit pattern."""
    return struct.unpack("<d", struct.pack("<q", bits))[0]


def value_of(bits: int, dtype: DType) -> float | int | bool:
    """The value of a Full's pattern."""
    if dtype.is_float:
        return float_of(bits)
    return bool(bits) if dtype.kind == "bool" else bits
