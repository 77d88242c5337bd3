"""Numbers in rules: the listed primitives, as the engine computes them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType


def _quotient(a: int, b: int) -> int:
    """Rounded towards 0. Raises ZeroDivisionError: there the engine finds no match."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ARITHMETIC: Mapping[str, Callable[..., int]] = MappingProxyType({
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _quotient,
    "%": lambda a, b: a - b * _quotient(a, b), "min": min, "max": max, "abs": abs})
COMPARISONS: Mapping[str, Callable[..., bool]] = MappingProxyType({
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "!=": operator.ne})


def arity(name: str) -> int:
    """How many numbers a primitive takes."""
    return 1 if name == "abs" else 2
