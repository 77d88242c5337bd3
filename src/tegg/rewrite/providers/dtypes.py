"""Facts about dtypes: their kinds, and which hold all values of which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import MappingProxyType

import numpy as np

from tegg.dtype import DTYPES, DType
from tegg.rewrite.providers import Fact
from tegg.rewrite.view import View


class DTypes:
    """``(float-type d)``; ``(int-type d)``; ``(signed-int-type d)``; ``(widens a b)``: every value
    of dtype a, -0.0 and NaN included, survives a cast to b and back."""

    name = "dtypes"
    relations = MappingProxyType({"float-type": ("String",), "int-type": ("String",),
                                  "signed-int-type": ("String",), "widens": ("String", "String")})

    @property
    def standing(self) -> tuple[Fact, ...]:
        """All of them."""
        return tuple(_facts())

    def facts(self, view: View) -> Iterable[Fact]:
        return self.standing


def _facts() -> Iterator[Fact]:
    for d in DTYPES.values():
        if d.is_float:
            yield ("float-type", d.name)
        elif d.kind == "int":
            yield ("int-type", d.name)
            if np.issubdtype(d.numpy, np.signedinteger):
                yield ("signed-int-type", d.name)
        for wider in DTYPES.values():
            if wider is not d and holds(d, wider):
                yield ("widens", d.name, wider.name)


def holds(a: DType, b: DType) -> bool:
    """Whether b has every value of a."""
    if a is b or a.kind == "bool":
        return True
    if a.is_float != b.is_float or b.kind == "bool":
        return a.kind == "int" and b.is_float and _bits(a) <= _mantissa(b)
    if a.is_float:
        return _mantissa(a) <= _mantissa(b) and _exponent(a) <= _exponent(b)
    lo, hi = (np.iinfo(d.numpy) for d in (a, b))
    return lo.min >= hi.min and lo.max <= hi.max


def _bits(d: DType) -> int:
    """Bits that the magnitude of an integer needs."""
    return int(np.iinfo(d.numpy).max).bit_length()


def _mantissa(d: DType) -> int:
    """Significant bits of a float, the hidden one included."""
    return {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}[d.name]


def _exponent(d: DType) -> int:
    return {"f64": 11, "f32": 8, "f16": 5, "bf16": 8}[d.name]
