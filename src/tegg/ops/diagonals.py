"""Diagonals and triangles of matrices: diagonal, trace, diag, tril, triu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegg.dim import Dim, Poly
from tegg.dtype import i64
from tegg.errors import ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.movement import axis_of, whole
from tegg.ops.public import public
from tegg.ops.reduce import sum as sum_over
from tegg.ops.value import Operand, fail, one, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


def below(graph: Graph, rows: Dim, columns: Dim, relation: str, diagonal: int) -> Node:
    """(rows, columns): whether column - row is in ``relation`` (Equal, LessEqual) to diagonal."""
    row = graph.reshape(graph.add(graph.iota(rows, i64), diagonal), (rows, 1))
    return graph.idiom(relation, graph.iota(columns, i64), row)


def _triangle(op: str, x: Operand, diagonal: int, lower: bool) -> Tensor:
    graph, a = one(op, x)
    if len(a.shape) < 2:
        fail(ShapeError, f"{op}: needs at least two axes, not {show(a.shape)}")
    diagonal = whole(op, "diagonal", diagonal)
    rows, columns = a.shape[-2:]
    inside = below(graph, rows, columns, "LessEqual", diagonal if lower else diagonal - 1)
    zero = graph.full(0, a.dtype)
    return wrap(graph, graph.select(inside, a, zero) if lower else graph.select(inside, zero, a))


@public(keywords={"k": "diagonal"})
def tril(x: Operand, diagonal: int = 0) -> Tensor:
    """The lower triangles of the last two axes, 0 elsewhere: what has column - row <= diagonal."""
    return _triangle("tril", x, diagonal, True)


@public(keywords={"k": "diagonal"})
def triu(x: Operand, diagonal: int = 0) -> Tensor:
    """The upper triangles of the last two axes, 0 elsewhere: what has column - row >= diagonal."""
    return _triangle("triu", x, diagonal, False)


@public(keywords={"axis1": "dim1", "axis2": "dim2"})
def diagonal(x: Operand, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements whose index in dim2 is that in dim1 plus offset: a last axis in place of both.

    Symbolic axes need offset 0 and one size. Raises ShapeError for less than two axes."""
    graph, a = one("diagonal", x)
    if len(a.shape) < 2:
        fail(ShapeError, f"diagonal: needs at least two axes, not {show(a.shape)}")
    i, j = (axis_of("diagonal", d, len(a.shape)) for d in (dim1, dim2))
    if i == j:
        fail(ShapeError, f"diagonal: dim1 and dim2 are one axis of {show(a.shape)}")
    return wrap(graph, diagonal_of("diagonal", graph, a, i, j, whole("diagonal", "offset", offset)))


def diagonal_of(op: str, graph: Graph, a: Node, i: int, j: int, offset: int) -> Node:
    """The diagonal of axes i and j as the last axis."""
    rest = [k for k in range(len(a.shape)) if k not in (i, j)]
    a = graph.permute(a, (*rest, i, j))
    lead, (n, m) = a.shape[:-2], a.shape[-2:]
    if isinstance(n, Poly) or isinstance(m, Poly):
        if graph.facts.canonical(n) != graph.facts.canonical(m) or offset:
            fail(ShapeError, f"{op}: a diagonal of symbolic axes needs one size and offset 0, not "
                             f"{show((n, m))} and {offset}")
        count: Dim = n
    else:
        count = max(0, min(n + min(offset, 0), m - max(offset, 0)))
        if count == 0:
            return graph.narrow(graph.reshape(a, (*lead, n * m)), -1, 0, 0)
        a = graph.narrow(graph.narrow(a, -2, max(-offset, 0), count), -1, max(offset, 0), count)
    flat = graph.reshape(a, (*lead, count * count))
    none = (0,) * len(lead)
    flat = graph.pad(flat, (*none, 0), (*none, count))  # rows of count + 1: the diagonal is first
    rows = graph.reshape(flat, (*lead, count, count + 1))
    return graph.reshape(graph.narrow(rows, -1, 0, 1), (*lead, count))


@public(only_method=True)
def trace(x: Operand) -> Tensor:
    """The sum of the diagonal of a matrix (two axes)."""
    graph, a = one("trace", x)
    if len(a.shape) != 2:
        fail(ShapeError, f"trace: takes two axes, not {show(a.shape)}")
    return sum_over(wrap(graph, diagonal_of("trace", graph, a, 0, 1, 0)), -1)


@public(keywords={"k": "diagonal"})
def diag(x: Operand, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix; or of a 1-D tensor the square matrix that has it there, else 0."""
    graph, a = one("diag", x)
    k = whole("diag", "diagonal", diagonal)
    if len(a.shape) == 2:
        return wrap(graph, diagonal_of("diag", graph, a, 0, 1, k))
    if len(a.shape) != 1:
        fail(ShapeError, f"diag: takes one or two axes, not {show(a.shape)}")
    n = a.shape[0] + abs(k)
    low = (k,) if k > 0 else (0,)
    row = graph.pad(a, low, (abs(k) - low[0],))
    return wrap(graph, graph.select(below(graph, n, n, "Equal", k), row, graph.full(0, a.dtype)))
