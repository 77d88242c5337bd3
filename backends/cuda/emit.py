"""The dialect of C that the CUDA backend prints: one thread's work, in scalars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tegg.backends.cexpr import Dialect
from tegg.backends.csimt import launch, print_kernel
from tegg.backends.spelling import OPS
from tegg.kernel.code import Launch
from tegg.kernel.index import Algebra
from tegg.kernel.loops import Function
from tegg.kernel.lower import Template

_SCALAR = MappingProxyType({"f": "float", "d": "double", "i": "int32_t", "l": "int64_t",
                            "u": "uint8_t", "c": "int8_t", "b": "int"})
_MEMORY = MappingProxyType({**_SCALAR, "h": "uint16_t", "g": "uint16_t", "b": "uint8_t"})
# Signed sums may not overflow in C++, so integers go through functions that wrap.
_OPS = MappingProxyType({**OPS, **{(name, "int"): f"{{v}}{name.lower()}({', '.join(args)})"
                                   for name, args in (("Add", ("{0}", "{1}")), ("Neg", ("{0}",)),
                                                      ("Mul", ("{0}", "{1}")),
                                                      ("Sub", ("{0}", "{1}")))}})
_TEMPLATES: Mapping[str, Template] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CudaC:
    """CUDA C, as lowering wants it. ``width``: values of 32 bits in the widest access."""

    width: int = 4

    @property
    def native(self) -> frozenset[str]:
        return self.dialect.native

    @property
    def templates(self) -> Mapping[str, Template]:
        return _TEMPLATES

    @property
    def dialect(self) -> Dialect:
        return Dialect(self.width, _SCALAR, _SCALAR, _MEMORY, _OPS)

    def function(self, algebra: Algebra, function: Function) -> str:
        return print_kernel(self.dialect, algebra, function)

    def launch(self, algebra: Algebra, function: Function) -> Launch:
        return launch(self.dialect, algebra, function)
