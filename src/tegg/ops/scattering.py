"""Writing by index: scatter and its kin. Every one gives a new tensor; x is not changed.

Order is fixed: where several values meet one place they are taken in ascending order along the
axis, so the last one wins, and sums are the same for any number of threads. Indices are not
negative (but in ``index_put``). One outside the axis raises ShapeError where the index is a NumPy
array; where it is computed its value is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegg.dim import Dim, Shape, product
from tegg.dtype import i64
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.index import index_node, listed, wrapped
from tegg.ops.movement import axis_of
from tegg.ops.reduce import reversed_order
from tegg.ops.public import public
from tegg.ops.value import (Operand, fail, graph_of, is_scalar, node_of, one, scalar_node,
                            weak_dtype, wrap)
from tegg.shape import broadcast, show

if TYPE_CHECKING:
    from tegg.tensor import Tensor

_MODES = {None: "last", "add": "add", "sum": "add", "max": "max", "amax": "max", "min": "min",
          "amin": "min"}


@public()
def scatter(x: Operand, dim: int, index: Operand, src: Operand,
            reduce: str | None = None) -> Tensor:
    """PyTorch's scatter: x with x[index[i, j], j] = src[i, j] for dim = 0, likewise on other axes.

    ``index`` has x's rank, along the other axes at most x's sizes, and nowhere more than src's.
    ``src`` is a scalar or has x's dtype. reduce: None (the last one wins), ``"add"``, ``"max"`` or
    ``"min"`` (PyTorch's ``"sum"``, ``"amax"``, ``"amin"`` too), which take in what stands in x.
    Raises ShapeError and DTypeError for operands that do not fit, ArgumentError for another reduce.

        tegg.compile(lambda x, i, s: tegg.scatter(x, 0, i, s))(
            np.zeros(3), np.array([2, 0]), np.array([5., 6]))  # [6, 0, 5]
    """
    return _scattered("scatter", x, dim, index, src, reduce)


@public()
def scatter_add(x: Operand, dim: int, index: Operand, src: Operand) -> Tensor:
    """``scatter`` with ``reduce="add"``: x[index[i, j], j] += src[i, j] for dim = 0."""
    return _scattered("scatter_add", x, dim, index, src, "add")


@public()
def scatter_reduce(x: Operand, dim: int, index: Operand, src: Operand, reduce: str) -> Tensor:
    """``scatter`` by PyTorch's name for ``reduce`` of ``"sum"``, ``"amax"`` or ``"amin"``."""
    return _scattered("scatter_reduce", x, dim, index, src, reduce)


def _scattered(op: str, x: Operand, dim: int, index: Any, src: Any, reduce: str | None) -> Tensor:
    mode = mode_of(op, reduce)
    graph = graph_of(op, (x, index, src))
    with graph.recording():
        _, a = one(op, x)
    axis = axis_of(op, dim, len(a.shape))
    at = _checked(op, graph, index, a.shape[axis])
    if len(at.shape) != len(a.shape):
        fail(ShapeError, f"{op}: x {show(a.shape)} and index {show(at.shape)} differ in rank")
    new = _source(op, graph, a, src)
    if new.shape:
        new = _cut(op, graph, new, at)
    other = (*a.shape[:axis], at.shape[axis], *a.shape[axis + 1:])
    if not _reaches(graph, other, at.shape):
        fail(ShapeError, f"{op}: the index {show(at.shape)} reaches beyond x {show(a.shape)} on "
                         f"another axis than {axis}")
    new = graph.expand(new, at.shape)
    low = (0,) * len(other)
    high = tuple(n - m for n, m in zip(other, at.shape))
    at, new = graph.pad(at, low, high, -1), graph.pad(new, low, high)
    return wrap(graph, _combined(graph, a, mode, lambda base, values, how: graph.idiom(
        "ScatterAlong", base, at, values, axis, how), new))


def _combined(graph: Graph, base: Node, mode: str, record, new: Node) -> Node:
    """A minimum is a maximum in the reversed order."""
    if mode != "min":
        return record(base, new, mode)
    return reversed_order(graph, record(reversed_order(graph, base), reversed_order(graph, new),
                                        "max"))


def mode_of(op: str, reduce: str | None) -> str:
    """A mode by any of its names."""
    if reduce not in _MODES:
        fail(ArgumentError, f"{op}: reduce is None, 'add', 'max' or 'min', not {reduce!r}")
    return _MODES[reduce]


def _checked(op: str, graph: Graph, index: Any, n: Dim) -> Node:
    """An index that does not count from the end; checked where it is an array."""
    if isinstance(index, (list, np.ndarray)) and isinstance(n, int):
        values = listed(op, index) if isinstance(index, list) else index
        if values.dtype.kind in "iu" and values.size and not (
                values.min() >= 0 and values.max() < n):
            bad = values.min() if values.min() < 0 else values.max()
            fail(ShapeError, f"{op}: index {bad} is outside an axis of {n}")
    return index_node(op, graph, index)


def _source(op: str, graph: Graph, a: Node, src: Any) -> Node:
    """What is written, in the dtype of what it is written to."""
    if is_scalar(src):
        return _scalar(op, graph, a, src)
    node = node_of(op, graph, src)
    if node.dtype is not a.dtype:
        fail(DTypeError, f"{op}: the source is {node.dtype.name} and x {a.dtype.name}; write "
                         f"src.cast({a.dtype.name!r})")
    return node


def _scalar(op: str, graph: Graph, a: Node, value: Any) -> Node:
    if weak_dtype(op, value, a.dtype) is not a.dtype:
        fail(DTypeError, f"{op}: {value!r} is no {a.dtype.name}")
    return scalar_node(op, graph, value, a.dtype)


def _reaches(graph: Graph, sizes: tuple[Dim, ...], wanted: tuple[Dim, ...]) -> bool:
    return len(sizes) == len(wanted) and all(
        graph.facts.nonnegative(n - m) for n, m in zip(sizes, wanted))


def _cut(op: str, graph: Graph, src: Node, index: Node) -> Node:
    """The part of a source that an index asks for."""
    if not _reaches(graph, src.shape, index.shape):
        fail(ShapeError, f"{op}: the index {show(index.shape)} reaches beyond the source "
                         f"{show(src.shape)}")
    for axis, n in enumerate(index.shape):
        src = graph.narrow(src, axis, 0, n)
    return src


# ---- whole rows
@public()
def index_add(x: Operand, dim: int, index: Operand, source: Operand, alpha: float = 1) -> Tensor:
    """PyTorch's index_add: x with alpha * source[i] added to row index[i] of an axis.

    ``index`` has one axis; ``source`` has x's dtype and shape, with the index's size on the axis.
    Raises ShapeError and DTypeError for operands that do not fit.

        tegg.compile(lambda x, i, s: tegg.index_add(x, 0, i, s))(
            np.zeros((3, 2)), np.array([1, 1]), np.ones((2, 2)))  # row 1 is [2, 2]
    """
    return _rows("index_add", x, dim, index, source, "add", alpha)


@public()
def index_copy(x: Operand, dim: int, index: Operand, source: Operand) -> Tensor:
    """PyTorch's index_copy: x with row index[i] of an axis replaced by source[i]; the last wins.
    Operands and errors as in ``index_add``."""
    return _rows("index_copy", x, dim, index, source, "last", 1)


def _rows(op: str, x: Operand, dim: int, index: Any, source: Any, mode: str,
          alpha: float) -> Tensor:
    graph = graph_of(op, (x, index, source))
    with graph.recording():
        _, a = one(op, x)
    axis = axis_of(op, dim, len(a.shape))
    at = _checked(op, graph, index, a.shape[axis])
    if len(at.shape) != 1:
        fail(ShapeError, f"{op}: the index has one axis, not {show(at.shape)}")
    new = _source(op, graph, a, source)
    want = (*a.shape[:axis], at.shape[0], *a.shape[axis + 1:])
    if tuple(map(graph.facts.canonical, new.shape)) != tuple(map(graph.facts.canonical, want)):
        fail(ShapeError, f"{op}: rows of axis {axis} of {show(a.shape)} by {show(at.shape)} need a "
                         f"source of {show(want)}, not {show(new.shape)}")
    if alpha != 1:
        factor = _scalar(op, graph, a, alpha)
        new = graph.broadcast("Mul", new, factor)
    return wrap(graph, graph.op("Scatter", a, at, new, axis, mode))


@public()
def index_put(x: Operand, indices: Sequence[Operand], values: Operand,
              accumulate: bool = False) -> Tensor:
    """PyTorch's index_put: x with x[indices] = values, or += where ``accumulate``, as NumPy's
    ``add.at``. One integer array or tensor for each of the leading axes, which broadcast; negative
    ones count from the end. ``values`` broadcast to the indices' shape and x's other axes. Several
    values for one place are taken in row-major order of the indices.

    Raises ArgumentError for a bool mask (use ``tegg.where``) and for no index or too many,
    ShapeError where values do not fit.

        tegg.compile(lambda x, i, v: tegg.index_put(x, (i,), v))(
            np.zeros(3), np.array([0, -1]), np.array([1., 2]))  # [1, 0, 2]
    """
    arrays = tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)
    graph = graph_of("index_put", (x, *arrays, values))
    with graph.recording():
        _, a = one("index_put", x)
    if not 1 <= len(arrays) <= len(a.shape):
        fail(ArgumentError, f"index_put: {len(arrays)} indices for {show(a.shape)}; it takes one "
                            f"for each of the leading axes")
    return put("index_put", graph, a, arrays, values, "add" if accumulate else "last")


def put(op: str, graph: Graph, a: Node, arrays: Sequence, values: Any, mode: str) -> Tensor:
    """a with values at the places of its leading axes that ``arrays`` name together."""
    flat, lead = _flat(graph, a, arrays)
    rest = a.shape[len(arrays):]
    new = _source(op, graph, a, values)
    fits = _broadcast(graph, new.shape, (*flat.shape, *rest))
    if len(fits) != len(flat.shape) + len(rest) or graph.facts.canonical(
            product(fits)) != graph.facts.canonical(product((*flat.shape, *rest))):
        fail(ShapeError, f"{op}: values {show(new.shape)} do not broadcast to "
                         f"{show((*flat.shape, *rest))}")
    count = product(flat.shape)
    new = graph.reshape(graph.expand(new, (*flat.shape, *rest)), (count, *rest))
    at = graph.reshape(flat, (count,))
    out = _combined(graph, graph.reshape(a, (lead, *rest)), mode, lambda base, to, how: graph.op(
        "Scatter", base, at, to, 0, how), new)
    return wrap(graph, graph.reshape(out, a.shape))


def _broadcast(graph: Graph, *shapes: Shape) -> Shape:
    try:
        return broadcast(list(shapes), graph.facts)
    except ShapeError as e:
        fail(ShapeError, f"index_put: {e}")


def _flat(graph: Graph, a: Node, arrays: Sequence) -> tuple[Node, Dim]:
    """The position in the flattened leading axes (-1 where an index lies outside), their size."""
    places = []
    for index, n in zip(arrays, a.shape):
        kind = getattr(getattr(index, "dtype", None), "kind", "i")
        if kind in ("bool", "b"):
            fail(ArgumentError, "index_put: a bool mask has no shape before its values are known; "
                                "use tegg.where")
        places.append(graph.cast(wrapped(graph, index, n), i64))
    _broadcast(graph, *(at.shape for at in places))
    flat: Node | None = None
    inside: Node | None = None
    for at, n in zip(places, a.shape):
        good = graph.broadcast("Mul", graph.less(-1, at), graph.less(at, graph.size(n, i64)))
        flat = at if flat is None else graph.add(graph.mul(flat, graph.size(n, i64)), at)
        inside = good if inside is None else graph.broadcast("Mul", inside, good)
    assert flat is not None and inside is not None
    return (graph.select(inside, flat, graph.full(-1, i64)),
            product(a.shape[:len(arrays)]))
