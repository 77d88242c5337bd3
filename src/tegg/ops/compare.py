"""Comparisons, logic and ``where``. Operands broadcast as in NumPy; comparisons give bool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegg.dtype import bool_
from tegg.errors import DTypeError
from tegg.ir.graph import Graph, Node
from tegg.ops.public import public
from tegg.ops.value import Operand, exact, fail, graph_of, one, operands, primitive, wrap

if TYPE_CHECKING:
    from tegg.tensor import Tensor


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
