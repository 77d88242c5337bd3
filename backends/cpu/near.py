"""Functions of which few bits are wanted: rows of the op table, and how C spells them."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType

from tegg.dtype import DType, f32
from tegg.errors import DTypeError
from tegg.ir.op import OPS, Op

_COST = MappingProxyType({"Sigmoid": 7.0, "Silu": 8.0, "GeluTanh": 10.0, "Gelu": 15.0})
_SPELLED = MappingProxyType({"Sigmoid": "near_sigmoid", "Silu": "near_silu",
                             "GeluTanh": "near_gelu_tanh", "Gelu": "near_gelu"})
_TOLERANCE = 76.0  # times what a test of a row grants, which is 2^-12

NEAR = MappingProxyType({(f"Near{name}", "float"): f"{{m}}{spelled}({{0}})"
                         for name, spelled in _SPELLED.items()})


@cache
def near_rows() -> tuple[Op, ...]:
    """The rows: each means what the op means that it is near to."""
    return tuple(Op(f"Near{name}", "elementwise", 1, OPS[name].shape, _single, OPS[name].meaning,
                    domains=OPS[name].domains, cost=cost, tolerance=_TOLERANCE,
                    doc=f"{name}, up to 2^-12 of it") for name, cost in _COST.items())


def _single(d: list[DType], attrs: tuple) -> DType:
    if d[0] is not f32:
        raise DTypeError(f"is of f32, not {d[0].name}; write a Cast")
    return f32
