"""The dialect of C that the CPU backend prints: GNU C with vector extensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from tegg.backends.cexpr import Dialect
from tegg.backends.cfunction import print_function
from tegg.backends.cown import spellings, templates
from tegg.backends.cpu.near import NEAR
from tegg.backends.cpu.sorting import sort_indices
from tegg.backends.cpu.sorting_values import sort_values
from tegg.backends.spelling import OPS
from tegg.ir.code import Code
from tegg.ir.op import Op
from tegg.kernel.index import Algebra
from tegg.kernel.lower import Template
from tegg.kernel.loops import Function
from tegg.kernel.registers import Registers

_LEAST = 4   # lanes, which the headers are written for
BYTES = 32   # lanes of kernels that compute in bytes alone: a register of AVX2, two of NEON

_SCALAR = MappingProxyType({"f": "float", "d": "double", "i": "int32_t", "l": "int64_t",
                            "u": "uint8_t", "c": "int8_t", "b": "int"})
_VECTOR = MappingProxyType({"f": "vf", "d": "vd", "i": "vi", "l": "vl", "u": "vu", "c": "vc",
                            "b": "vb"})
_MEMORY = MappingProxyType({**_SCALAR, "h": "uint16_t", "g": "uint16_t", "b": "uint8_t"})


@dataclass(frozen=True, slots=True)
class C:
    """GNU C for vectors of ``width`` lanes, as lowering wants it. own: rows that bring their C.
    neon: whether registers are those of ARM, not of x86."""

    width: int = 16
    own: tuple[tuple[Op, Code], ...] = ()  # rows of third parties
    neon: bool = False

    @property
    def registers(self) -> Registers:
        return Registers(self.width, self.neon)

    @property
    def half(self) -> C | None:
        """The dialect with half as many lanes; None where a register has no more than four."""
        return replace(self, width=self.width // 2) if self.width > _LEAST else None

    @property
    def bytes(self) -> C:
        """The dialect with lanes of bytes, masks included."""
        return replace(self, width=BYTES)

    @property
    def native(self) -> frozenset[str]:
        return self.dialect.native

    @property
    def doubles(self) -> bool:
        return True

    @property
    def templates(self) -> Mapping[str, Template]:
        return {"ArgSort": sort_indices, "Sort": partial(sort_values, self.width),
                **templates(self.own)}

    @property
    def dialect(self) -> Dialect:
        ops = {**OPS, **NEAR, **spellings(self.own)}
        return Dialect(self.width, _SCALAR, _VECTOR, _MEMORY, ops, frozenset("fidl"),
                       frozenset("fi"), frozenset("g"))

    def function(self, algebra: Algebra, function: Function) -> str:
        return print_function(self.dialect, algebra, function)

    def launch(self, algebra: Algebra, function: Function) -> None:
        """A stage is a call: threads share its loops."""
