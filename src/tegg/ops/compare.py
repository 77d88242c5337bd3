"""Comparisons, logic and ``where``. Operands broadcast as in NumPy; comparisons give bool."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tegg.dtype import bool_
from tegg.errors import DTypeError
from tegg.ir.graph import Graph, Node
from tegg.ops.public import public
from tegg.ops.value import Operand, exact, fail, graph_of, one, operands, primitive, wrap

if TYPE_CHECKING:
    from tegg.tensor import Tensor


# The largest finite number of each float dtype.
_LARGEST = {"f16": 65504.0, "bf16": (2 - 2.0 ** -7) * 2.0 ** 127,
            "f32": (2 - 2.0 ** -23) * 2.0 ** 127, "f64": sys.float_info.max}


@public("less")
def lt(x: Operand, y: Operand) -> Tensor:
    """x < y; False where either is NaN."""
    return primitive("LessThan", x, y)


@public("greater")
def gt(x: Operand, y: Operand) -> Tensor:
    """x > y; False where either is NaN."""
    graph, (a, b) = operands("gt", x, y)
    return wrap(graph, graph.broadcast("LessThan", b, a))


@public("less_equal")
def le(x: Operand, y: Operand) -> Tensor:
    """x <= y; False where either is NaN."""
    return exact("LessEqual", x, y)


@public("greater_equal")
def ge(x: Operand, y: Operand) -> Tensor:
    """x >= y; False where either is NaN."""
    graph, (a, b) = operands("ge", x, y)
    return wrap(graph, graph.idiom("LessEqual", b, a))


@public("equal")
def eq(x: Operand, y: Operand) -> Tensor:
    """x == y; False where either is NaN."""
    return exact("Equal", x, y)


@public("not_equal")
def ne(x: Operand, y: Operand) -> Tensor:
    """x != y; True where either is NaN."""
    return logical_not(eq(x, y))


@public()
def isnan(x: Operand) -> Tensor:
    """Whether each element is NaN. Any dtype."""
    return ne(x, x)


def _among_floats(op: str, x: Operand, test: Callable[[Graph, Node], Node], else_: bool) -> Tensor:
    graph, a = one(op, x)
    return wrap(graph, test(graph, a) if a.dtype.is_float else graph.full(else_, bool_, a.shape))


@public()
def isinf(x: Operand) -> Tensor:
    """Whether each element is infinite. Any dtype."""
    return _among_floats("isinf", x, lambda g, a: g.idiom(
        "Equal", g.idiom("Abs", a), g.full(math.inf, a.dtype)), False)


@public()
def isfinite(x: Operand) -> Tensor:
    """Whether each element is neither infinite nor NaN. Any dtype."""
    return _among_floats("isfinite", x, lambda g, a: g.less(g.idiom("Abs", a), math.inf), True)


@public()
def nan_to_num(x: Operand, nan: float = 0.0, posinf: float | None = None,
               neginf: float | None = None) -> Tensor:
    """x with other numbers in place of NaN and the infinities, which by default become the largest
    and the lowest number of the dtype. Integers and bools stay as they are."""
    graph, a = one("nan_to_num", x)
    if not a.dtype.is_float:
        return wrap(graph, a)
    largest = _LARGEST[a.dtype.name]
    high, low = largest if posinf is None else posinf, -largest if neginf is None else neginf
    infinite = graph.idiom("Equal", graph.idiom("Abs", a), graph.full(math.inf, a.dtype))
    limit = graph.select(graph.less(a, 0), graph.full(low, a.dtype), graph.full(high, a.dtype))
    out = graph.select(infinite, limit, a)
    return wrap(graph, graph.select(isnan(wrap(graph, a)).node, graph.full(nan, a.dtype), out))


def _truth(op: str, x: Operand) -> tuple[Graph, Node]:
    graph, a = one(op, x)
    if a.dtype is not bool_:
        fail(DTypeError, f"{op}: needs bool, not {a.dtype.name}; write (x != 0)")
    return graph, a


@public()
def logical_not(x: Operand) -> Tensor:
    """not x, of bools. Raises DTypeError for anything else."""
    graph, a = _truth("logical_not", x)
    return wrap(graph, graph.idiom("Not", a))


@public()
def logical_and(x: Operand, y: Operand) -> Tensor:
    """x and y, of bools. Raises DTypeError for anything else."""
    graph, (a, b) = operands("logical_and", x, y)
    return wrap(graph, graph.mul(_truth("logical_and", wrap(graph, a))[1], b))


@public()
def logical_or(x: Operand, y: Operand) -> Tensor:
    """x or y, of bools. Raises DTypeError for anything else."""
    graph, (a, b) = operands("logical_or", x, y)
    return wrap(graph, graph.add(_truth("logical_or", wrap(graph, a))[1], b))


@public()
def logical_xor(x: Operand, y: Operand) -> Tensor:
    """Either x or y, of bools. Raises DTypeError for anything else."""
    graph, (a, b) = operands("logical_xor", x, y)
    return ne(wrap(graph, _truth("logical_xor", wrap(graph, a))[1]), wrap(graph, b))


@public(method=False)
def where(condition: Operand, x: Operand, y: Operand) -> Tensor:
    """x where ``condition`` holds, y elsewhere; all three broadcast.

    Raises DTypeError where the condition is not bool, or x and y do not meet in a dtype.
    """
    graph = graph_of("where", (condition, x, y))
    with graph.recording():
        _, test = _truth("where", condition)
        _, (a, b) = operands("where", x, y)
    return wrap(graph, graph.select(test, a, b))
