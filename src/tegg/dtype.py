"""The dtypes: their names, NumPy types, kinds, and the promotion that binary ops apply."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from tegg.errors import DTypeError

Kind = Literal["float", "int", "bool"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type. Compare with ``is``; there is one object per name."""

    name: str
    kind: Kind
    itemsize: int  # bytes of one element
    rank: int      # place in the promotion order of its kind

    @property
    def numpy(self) -> np.dtype:
        """The NumPy type of arrays of it."""
        return _numpy(self.name)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    def __repr__(self) -> str:
        return f"tegg.{self.name}"

    def __reduce__(self) -> tuple:
        return (dtype, (self.name,))


f32 = DType("f32", "float", 4, 1)
f64 = DType("f64", "float", 8, 2)
f16 = DType("f16", "float", 2, 0)
bf16 = DType("bf16", "float", 2, 0)
u8 = DType("u8", "int", 1, 0)
i8 = DType("i8", "int", 1, 0)
i32 = DType("i32", "int", 4, 1)
i64 = DType("i64", "int", 8, 2)
bool_ = DType("bool", "bool", 1, 0)

DTYPES = {d.name: d for d in (f32, f64, f16, bf16, u8, i8, i32, i64, bool_)}


@cache
def _numpy(name: str) -> np.dtype:
    if name == "bf16":  # its type is of another package, which few programs need
        from ml_dtypes import bfloat16
        return np.dtype(bfloat16)
    return np.dtype(name if name == "bool" else f"{name[0]}{DTYPES[name].itemsize}")


_BY_NUMPY = {d.numpy: d for d in DTYPES.values() if d is not bf16}


def dtype(value: Any) -> DType:
    """The DType for a DType, a tegg name (``"f32"``), or anything that NumPy takes as a dtype.

    Big-endian types map to their native DType. Raises DTypeError for types that tegg lacks.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in DTYPES:
        return DTYPES[value]
    found = _known(value)
    if found is None:
        _BY_NUMPY[bf16.numpy] = bf16  # NumPy knows its name from here on
        found = _known(value)
    if found is None:
        raise DTypeError(f"tegg has no dtype {value!r}; it has {', '.join(DTYPES)}")
    return found


def _known(value: Any) -> DType | None:
    try:
        return None if value is None else _BY_NUMPY.get(np.dtype(value).newbyteorder("="))
    except TypeError:
        return None


def widens(source: DType, to: DType) -> bool:
    """Whether a cast makes a float wider, and so loses nothing. (float16 and bfloat16 are no wider
    than each other.)"""
    return source.is_float and to.is_float and source.itemsize < to.itemsize


def promote(a: DType, b: DType) -> DType:
    """The dtype in which two operands meet.

    As in NumPy inside one kind (f16 with bf16 meet in f32, u8 with i8 in i32); bool joins any
    kind. Float with integer is refused: such a mixture is a bug more often than a wish.
    """
    if a is b:
        return a
    if a.kind == "bool":
        return b
    if b.kind == "bool":
        return a
    if a.kind != b.kind:
        raise DTypeError(f"{a.name} and {b.name} do not mix; write x.cast({a.name!r}) or "
                         f"x.cast({b.name!r}) on one of them")
    if a.rank != b.rank:
        return a if a.rank > b.rank else b
    return f32 if a.kind == "float" else i32
