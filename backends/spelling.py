"""How C-family source spells the elementwise ops; headers of each backend define the functions."""

from __future__ import annotations

from types import MappingProxyType

# Arithmetic that C spells alike for scalars and vectors.
_ARITHMETIC = {"Add": "({0} + {1})", "Mul": "({0} * {1})", "Sub": "({0} - {1})", "Neg": "(-{0})",
               "LessThan": "{v}less({0}, {1})", "LessEqual": "{v}less_equal({0}, {1})",
               "Equal": "{v}equal({0}, {1})", "Select": "{v}sel({0}, {1}, {2})",
               "Maximum": "{v}max({0}, {1})",
               "Minimum": "{v}min({0}, {1})", "Mod": "{v}mod({0}, {1})", "Abs": "{v}abs({0})",
               "Relu": "{v}relu({0})"}
_FLOAT = {"Held": "{0}", **{name: f"{{m}}{name.lower()}({{0}})" for name in (
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
