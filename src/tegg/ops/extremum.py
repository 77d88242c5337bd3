"""Where the largest and the smallest value stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegg.dim import upper_bound
from tegg.dtype import DType, i32, i64
from tegg.errors import ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.movement import axis_of
from tegg.ops.reduce import finished, reversed_order
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, one, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor

_LONG = 1 << 15                  # elements of a row that is too long to be read twice
_PART, _LEAST = 1 << 13, 1 << 9  # elements of a part, at most and at least


@public()
def argmax(x: Operand, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index (i64) of the largest value along an axis, the first one of equals. NaN counts as
    the largest, as in NumPy and PyTorch. Without an axis: the index into x flattened.

    The shape is x's without the axis (with size 1 for ``keepdim``). Raises ShapeError for an empty
    axis, or one outside. Formula: the least i with x[i] = max x.

        tegg.compile(lambda x: tegg.argmax(x, 1))(np.array([[1., 3, 3]]))  # [1]
    """
    return _arg("argmax", x, dim, keepdim, lambda graph, a: a)


@public()
def argmin(x: Operand, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index (i64) of the smallest value along an axis, the first one of equals; else as
    ``argmax``, NaN included: the first NaN wins.

        tegg.compile(lambda x: tegg.argmin(x, 1))(np.array([[2., 1, 1]]))  # [1]
    """
    return _arg("argmin", x, dim, keepdim, reversed_order)


def _arg(op: str, x: Operand, dim: int | None, keepdim: bool, order) -> Tensor:
    graph, a = one(op, x)
    shape = a.shape
    if dim is None:
        a, axis = graph.reshape(a, (graph.count(a),)), 0
    else:
        axis = axis_of(op, dim, len(shape))
    if a.shape[axis] == 0:
        fail(ShapeError, f"{op}: an axis of {show(shape)} is empty, and has no {op[3:]}imum")
    found = _index_of_largest(graph, order(graph, a), axis)
    if dim is None:
        return wrap(graph, graph.reshape(found, (1,) * len(shape) if keepdim else ()))
    return finished(graph, found, (axis,), keepdim)


def _index_of_largest(graph: Graph, a: Node, axis: int) -> Node:
    """That of one long row is looked for in its first part that holds the maximum: nothing else is
    read twice."""
    n = a.shape[axis]
    size = _part(n) if isinstance(n, int) and graph.count(a) == n else 0
    if not size:
        return _first_of_largest(graph, a, axis)
    parts = graph.reshape(a, (n // size, size))
    part = _first_of_largest(graph, graph.op("MaxReduce", parts, 1), 0)
    within = _first_of_largest(graph, graph.op("Gather", parts, graph.reshape(part, (1,)), 0), 1)
    return graph.reshape(graph.add(graph.mul(part, size), within),
                         tuple(1 for _ in a.shape))


def _part(n: int) -> int:
    """Into how long parts a row of n is cut: the longest that a first cache holds, of whole
    vectors; 0 for a row that is short, or that nothing fitting divides."""
    if n < _LONG:
        return 0
    return next((k for k in range(_PART, _LEAST - 1, -16) if n % k == 0), 0)


def _first_of_largest(graph: Graph, a: Node, axis: int) -> Node:
    """Two maxima: of the values, then of the distance to the end where the value is that."""
    n = a.shape[axis]
    top = upper_bound(n)
    index: DType = i32 if top is not None and top < 2 ** 31 else i64
    hit = graph.idiom("Equal", a, graph.op("MaxReduce", a, axis))
    if a.dtype.is_float:
        hit = graph.add(hit, graph.idiom("Not", graph.idiom("Equal", a, a)))  # or it is NaN
    at = graph.reshape(graph.iota(n, index), tuple(
        n if i == axis else 1 for i in range(len(a.shape))))
    last = graph.size(n - 1, index)
    to_end = graph.add(graph.mul(at, -1), last)
    found = graph.op("MaxReduce", graph.select(hit, to_end, graph.full(0, index)), axis)
    return graph.cast(graph.add(graph.mul(found, -1), last), i64)
