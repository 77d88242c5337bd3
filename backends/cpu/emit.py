"""The dialect of C that the CPU backend prints: GNU C with vector extensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tegg.backends.cexpr import Dialect
from tegg.backends.cfunction import print_function
from tegg.backends.cown import spellings, templates
from tegg.backends.cpu.sorting import sort_rows
from tegg.ir.code import Code
from tegg.ir.op import Op
from tegg.kernel.index import Algebra
from tegg.kernel.lower import Template
from tegg.kernel.loops import Function

_SCALAR = MappingProxyType({"f": "float", "d": "double", "i": "int32_t", "l": "int64_t",
                            "u": "uint8_t", "c": "int8_t", "b": "int"})
_VECTOR = MappingProxyType({"f": "vf", "d": "vd", "i": "vi", "l": "vl", "u": "vu", "c": "vc",
                            "b": "vi"})
_MEMORY = MappingProxyType({**_SCALAR, "h": "uint16_t", "g": "uint16_t", "b": "uint8_t"})

# Arithmetic that C spells alike for scalars and vectors.
_ARITHMETIC = {"Add": "({0} + {1})", "Mul": "({0} * {1})", "Sub": "({0} - {1})", "Neg": "(-{0})",
               "LessThan": "({0} < {1})", "LessEqual": "({0} <= {1})", "Equal": "({0} == {1})",
               "Select": "{v}sel({0}, {1}, {2})", "Maximum": "{v}max({0}, {1})",
               "Minimum": "{v}min({0}, {1})", "Mod": "{v}mod({0}, {1})", "Abs": "{v}abs({0})",
               "Relu": "{v}relu({0})"}
_FLOAT = {**{name: f"{{m}}{name.lower()}({{0}})" for name in (
    "Log2", "Exp2", "Sin", "Cos", "Sqrt", "Exp", "Log", "Sigmoid", "Tanh", "Erf")},
    "Floor": "{v}floor({0})",
    "Recip": "(1.0{f} / {0})", "Div": "({0} / {1})", "Rsqrt": "(1.0{f} / {m}sqrt({0}))",
    "Silu": "({0} * {m}sigmoid({0}))",
    "Gelu": "({0} * 0.5{f} * (1.0{f} + {m}erf({0} * 0.70710678118654752{f})))",
    # x/2 (1 + tanh y) = x sigmoid(2 y), with 2 sqrt(2/pi) multiplied into the polynomial
    "GeluTanh": "({0} * {m}sigmoid({0} * (1.5957691216057308{f} + "
                "0.071354816272600266{f} * ({0} * {0}))))"}
_INT = {"IntDiv": "{v}div({0}, {1})"}
_BOOL = {"Add": "{v}or({0}, {1})", "Mul": "{v}and({0}, {1})", "LessThan": "{v}less({0}, {1})",
         "LessEqual": "{v}less_equal({0}, {1})", "Equal": "{v}equal({0}, {1})",
         "Select": "{v}sel({0}, {1}, {2})", "Maximum": "{v}or({0}, {1})",
         "Minimum": "{v}and({0}, {1})", "Not": "{v}not({0})"}

OPS = MappingProxyType({
    **{(name, "float"): text for name, text in {**_ARITHMETIC, **_FLOAT}.items()},
    **{(name, "int"): text for name, text in {**_ARITHMETIC, **_INT}.items()},
    **{(name, "bool"): text for name, text in _BOOL.items()}})


_TEMPLATES: Mapping[str, Template] = MappingProxyType({"ArgSort": sort_rows})


@dataclass(frozen=True, slots=True)
class C:
    """GNU C for vectors of ``width`` lanes, as lowering wants it. own: rows that bring their C."""

    width: int = 16
    own: tuple[tuple[Op, Code], ...] = ()  # rows of third parties

    @property
    def native(self) -> frozenset[str]:
        return self.dialect.native

    @property
    def templates(self) -> Mapping[str, Template]:
        return {**_TEMPLATES, **templates(self.own)} if self.own else _TEMPLATES

    @property
    def dialect(self) -> Dialect:
        ops = {**OPS, **spellings(self.own)} if self.own else OPS
        return Dialect(self.width, _SCALAR, _VECTOR, _MEMORY, ops, frozenset("fidl"))

    def function(self, algebra: Algebra, function: Function) -> str:
        return print_function(self.dialect, algebra, function)
