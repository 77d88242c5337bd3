"""The dtypes: their names, NumPy types, kinds, and the promotion that binary ops apply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np

from tegg.errors import DTypeError

Kind = Literal["float", "int", "bool"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type. Compare with ``is``; there is one object per name."""

    name: str
    kind: Kind
    numpy: np.dtype
    rank: int  # place in the promotion order of its kind

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    def __repr__(self) -> str:
        return f"tegg.{self.name}"

    def __reduce__(self) -> tuple:
        return (dtype, (self.name,))


f32 = DType("f32", "float", np.dtype(np.float32), 1)
f64 = DType("f64", "float", np.dtype(np.float64), 2)
f16 = DType("f16", "float", np.dtype(np.float16), 0)
bf16 = DType("bf16", "float", np.dtype(ml_dtypes.bfloat16), 0)
u8 = DType("u8", "int", np.dtype(np.uint8), 0)
i8 = DType("i8", "int", np.dtype(np.int8), 0)
i32 = DType("i32", "int", np.dtype(np.int32), 1)
i64 = DType("i64", "int", np.dtype(np.int64), 2)
bool_ = DType("bool", "bool", np.dtype(np.bool_), 0)

DTYPES = {d.name: d for d in (f32, f64, f16, bf16, u8, i8, i32, i64, bool_)}
_BY_NUMPY = {d.numpy: d for d in DTYPES.values()}


def dtype(value: Any) -> DType:
    """The DType for a DType, a tegg name (``"f32"``), or anything that NumPy takes as a dtype.

    Big-endian types map to their native DType. Raises DTypeError for types that tegg lacks.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in DTYPES:
        return DTYPES[value]
    try:
        found = None if value is None else _BY_NUMPY.get(np.dtype(value).newbyteorder("="))
    except TypeError:
        found = None
    if found is None:
        raise DTypeError(f"tegg has no dtype {value!r}; it has {', '.join(DTYPES)}")
    return found


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
