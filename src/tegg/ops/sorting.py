"""Sorting along an axis: stable, with NaN as the largest value, as PyTorch has it.

Every function raises ShapeError for an axis outside the tensor. -0.0 and 0.0 are equal. Any axis
may be symbolic; how many values ``topk`` keeps must be at most its size for certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tegg.dim import Dim, Poly, upper_bound
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.expand import logical_not
from tegg.ir.graph import Graph, Node
from tegg.ir.ordering import below
from tegg.ops.movement import axis_of
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, one, operands, wrap
from tegg.shape import as_int, show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


class Sorted(NamedTuple):
    """What sort and topk give: values, and the indices at which they stood."""

    values: Tensor
    indices: Tensor


@public()
def argsort(x: Operand, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices (i64, of x's shape) that sort an axis. Always stable, whatever ``stable`` says:
    equal values stay in their order, descending too. NaN comes last, and first in descending order.

    Formula: i stands at the place that counts the elements before it: those that are smaller, and
    equal ones with a smaller index.

        tegg.compile(lambda x: tegg.argsort(x))(np.array([3., 1, 2]))  # [1, 2, 0]
    """
    graph, a = one("argsort", x)
    axis = axis_of("argsort", dim, len(a.shape))
    return wrap(graph, _order(graph, a, axis, a.shape[axis], descending))


@public()
def sort(x: Operand, dim: int = -1, descending: bool = False, stable: bool = True) -> Sorted:
    """``(values, indices)`` of an axis in order, as PyTorch; NumPy's ``sort`` is its ``values``.
    Both have x's shape, the indices are i64. Order, NaN and ties as in ``argsort``.

        values, indices = tegg.sort(x, 0)
    """
    graph, a = one("sort", x)
    axis = axis_of("sort", dim, len(a.shape))
    return _sorted(graph, a, axis, a.shape[axis], descending)


@public()
def topk(x: Operand, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True) -> Sorted:
    """``(values, indices)`` of the k largest (or smallest) values of an axis, in order; the axis
    gets size k. Always sorted, whatever ``sorted`` says; of equal values the first ones are kept.
    NaN counts as the largest. Only what can be among the k is sorted.

    Raises ArgumentError where k is no size, ShapeError where it is not at most the axis.

        values, indices = tegg.topk(x, 5)
    """
    graph, a = one("topk", x)
    axis = axis_of("topk", dim, len(a.shape))
    if not isinstance(k, Poly):
        whole = as_int(k)
        if whole is None:
            fail(ArgumentError, f"topk: k is an int or a symbolic dim, not {k!r}")
        k = whole
    n = a.shape[axis]
    if not (graph.facts.nonnegative(k) and graph.facts.nonnegative(n - k)):
        fail(ShapeError, f"topk: k = {k} is not between 0 and the size {n} of axis {axis} of "
                         f"{show(a.shape)} for certain")
    return _sorted(graph, a, axis, k, largest)


def _order(graph: Graph, a: Node, axis: int, kept: Dim, descending: bool) -> Node:
    return graph.idiom("ArgSort", a, axis, (kept,), int(bool(descending)))


def _sorted(graph: Graph, a: Node, axis: int, kept: Dim, descending: bool) -> Sorted:
    index = _order(graph, a, axis, kept, descending)
    values = graph.idiom("Sort", a, axis, (kept,), int(bool(descending)))
    return Sorted(wrap(graph, values), wrap(graph, index))


@public(keywords={"input": "values", "a": "sorted_sequence", "v": "values"})
def searchsorted(sorted_sequence: Operand, values: Operand, right: bool = False) -> Tensor:
    """Where values would be inserted into a sorted 1-D tensor to keep it sorted: i64, of the shape
    of ``values``. Before equal elements, or after them for ``right``. NaN is the largest value.

    A binary search. Raises ShapeError where the sequence has another rank, or a symbolic size
    without an upper bound.

        tegg.compile(lambda s, v: tegg.searchsorted(s, v))(np.array([1., 2, 4]), np.array([3.]))
    """
    graph, (s, v) = operands("searchsorted", sorted_sequence, values)
    if len(s.shape) != 1:
        fail(ShapeError, f"searchsorted: the sorted sequence has one axis, not {show(s.shape)}")
    n = s.shape[0]
    top = upper_bound(n)
    if top is None:
        fail(ShapeError, f"searchsorted: {n} has no upper bound; give its symbols one: "
                         f"tegg.dim(name, min, max)")
    at = graph.expand(graph.full(0, "i64"), v.shape)
    if top == 0:
        return wrap(graph, at)
    if not graph.facts.nonnegative(n - 1):
        fail(ShapeError, f"searchsorted: a sequence of {n} may be empty; give its symbols a lower "
                         f"bound")
    step = 1 << (top.bit_length() - 1)
    while step:
        further = graph.add(at, step)
        element = graph.op("Gather", s, graph.add(further, -1), 0)
        before = (logical_not(graph, (below(graph, v, element),), ()) if right else
                  below(graph, element, v))
        inside = graph.less(further, graph.size(n + 1, further.dtype))
        at = graph.select(graph.mul(before, inside), further, at)
        step //= 2
    return wrap(graph, at)
