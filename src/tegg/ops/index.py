"""Indexing: NumPy's basic indices, one integer array, and gathers along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tegg.dim import Dim, Poly, exact_div
from tegg.dtype import i64
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.movement import axis_of
from tegg.ops.spelling import spelled
from tegg.ops.value import Operand, Value, fail, graph_of, is_scalar, node_of, one, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


# ---- x[...]
def getitem(x: Operand, index: Any) -> Tensor:
    """x[index] as in NumPy: ints, slices with any step, ``...``, None, symbolic dims, and one
    integer array or tensor (beside it ints only where they stand next to it).

    Raises ShapeError for an index that is outside, or cannot be proven inside; ArgumentError for a
    bool mask, whose shape would depend on its values, and for more than one array.
    """
    graph, a = one("index", x)
    entries = _spelled_out(a, index if isinstance(index, tuple) else (index,))
    _check_arrays(entries)
    ranges = [_range(a.shape[i], e) for i, e in enumerate(e for e in entries if e is not None)]
    node = _sliced(graph, a, [r[:3] for r in ranges])
    for axis, (*_, turned) in enumerate(ranges):
        node = graph.op("Flip", node, axis) if turned else node
    return wrap(graph, _gathered_and_dropped(graph, node, entries))


def is_array(e: object) -> bool:
    return isinstance(e, (Value, list)) or (isinstance(e, np.ndarray) and e.ndim > 0)


def _spelled_out(a: Node, index: tuple) -> list:
    """One entry for each axis, and None for each new one."""
    rank, used = len(a.shape), sum(e is not None and e is not Ellipsis for e in index)
    dots = sum(e is Ellipsis for e in index)
    if dots > 1:
        fail(ArgumentError, "index: only one ... may stand in an index")
    if used > rank:
        fail(ShapeError, f"index: {used} indices for {show(a.shape)}")
    fill = [slice(None)] * (rank - used)
    out: list = []
    for e in index if dots else (*index, Ellipsis):
        out.extend(fill if e is Ellipsis else [e])
    return out


def _check_arrays(entries: list) -> None:
    arrays = [i for i, e in enumerate(entries) if is_array(e)]
    if len(arrays) > 1:
        fail(ArgumentError, "index: only one array at a time; index in two steps")
    ints = [i for i, e in enumerate(entries) if not (is_array(e) or e is None
                                                     or isinstance(e, slice))]
    if arrays and ints:
        both = sorted(arrays + ints)
        if both[-1] - both[0] >= len(both):
            fail(ArgumentError, "index: ints and an array with a slice between them; "
                                "index in two steps")


def _range(n: Dim, e: Any) -> tuple[Dim, Dim, int, bool]:
    """Start, stop and step of a forward slice, and whether it is then reversed."""
    if is_array(e):
        return 0, n, 1, False
    if isinstance(e, slice):
        return _slice_range(n, e)
    if isinstance(e, (bool, np.bool_)):
        fail(ArgumentError, "index: a bool mask has no shape before its values are known; "
                            "use tegg.where")
    if not (isinstance(e, Poly) or hasattr(e, "__index__")):
        fail(ArgumentError, f"index: takes ints, slices, None, ... and one array, not {e!r}")
    i = e if isinstance(e, Poly) else e.__index__()
    if isinstance(n, int) and isinstance(i, int) and not -n <= i < n:
        fail(ShapeError, f"index: {i} is outside an axis of {n}")
    start = _from_end(i, n)
    return start, start + 1, 1, False


def _from_end(i: Dim, n: Dim) -> Dim:
    """A negative int counts from the end."""
    return n + i if isinstance(i, int) and i < 0 else i


def _slice_range(n: Dim, s: slice) -> tuple[Dim, Dim, int, bool]:
    step = 1 if s.step is None else s.step
    if isinstance(step, bool) or not hasattr(step, "__index__") or step.__index__() == 0:
        fail(ShapeError, f"index: a slice step is an int other than 0, not {step!r}")
    step = step.__index__()
    bounds = [b if b is None or isinstance(b, Poly) else _int(b) for b in (s.start, s.stop)]
    if isinstance(n, int) and not any(isinstance(v, Poly) for v in bounds):
        r = range(*slice(bounds[0], bounds[1], step).indices(n))
        if not r:
            return 0, 0, 1, False
        return min(r[0], r[-1]), max(r[0], r[-1]) + 1, abs(step), step < 0
    if step > 0:
        start = 0 if bounds[0] is None else _from_end(bounds[0], n)
        return start, n if bounds[1] is None else _from_end(bounds[1], n), step, False
    top = n - 1 if bounds[0] is None else _from_end(bounds[0], n)
    stop = 0 if bounds[1] is None else _from_end(bounds[1], n) + 1
    skipped = _skipped(top + 1 - stop, -step)
    return stop + skipped, top + 1, -step, True


def _skipped(length: Dim, step: int) -> int:
    """How many elements a reversed slice leaves at its low end: (length - 1) mod step."""
    for rest in range(step):
        if exact_div(length - 1 - rest, step) is not None:
            return rest
    fail(ShapeError, f"index: a slice of {length} elements by steps of -{step} has no known size")


def _int(b: Any) -> int:
    if isinstance(b, bool) or not hasattr(b, "__index__"):
        fail(ArgumentError, f"index: a slice goes from int to int, not {b!r}")
    return b.__index__()


def _sliced(graph: Graph, a: Node, ranges: list) -> Node:
    if all(r == (0, n, 1) for r, n in zip(ranges, a.shape)):
        return a
    starts, stops, steps = zip(*ranges)
    return graph.op("Slice", a, starts, stops, steps)


def _gathered_and_dropped(graph: Graph, node: Node, entries: list) -> Node:
    """Gather by the array, drop the axes of ints, insert those of None."""
    axis = 0
    shape: list[Any] = []
    place: tuple[int, int, Any] | None = None
    for e in entries:
        if e is None:
            shape.append(1)
        elif is_array(e):
            place = (axis, len(shape), e)
            shape.append(None)
            axis += 1
        else:
            shape.extend([node.shape[axis]] if isinstance(e, slice) else [])
            axis += 1
    if place is None:
        return graph.reshape(node, tuple(shape))
    axis, at, array = place
    index = wrapped(graph, array, node.shape[axis])
    shape[at:at + 1] = index.shape
    return graph.reshape(graph.op("Gather", node, index, axis), tuple(shape))


# ---- gathers
def index_node(op: str, graph: Graph, index: Any) -> Node:
    if isinstance(index, list):
        index = np.asarray(index, np.int64)
    node = (graph.full(int(index), i64) if is_scalar(index) and not isinstance(index, Poly)
            else graph.size(index, i64) if isinstance(index, Poly) else node_of(op, graph, index))
    if node.dtype.kind != "int":
        fail(DTypeError, f"{op}: an index has an integer dtype, not {node.dtype.name}")
    return node


def wrapped(graph: Graph, index: Any, n: Dim) -> Node:
    """An index in which negative values count from the end; checked where it is a NumPy array."""
    if isinstance(index, list):
        index = np.asarray(index, np.int64)
    if isinstance(index, np.ndarray) and index.dtype.kind == "i" and isinstance(n, int):
        if index.size and not -n <= index.min() <= index.max() < n:
            bad = index.min() if index.min() < -n else index.max()
            fail(ShapeError, f"index: {bad} is outside an axis of {n}")
        if index.size and index.min() >= 0:
            return index_node("index", graph, index)
    node = index_node("index", graph, index)
    if node.dtype.name == "u8":
        return node
    node = graph.cast(node, i64)
    back = graph.broadcast("Add", node, graph.size(n, i64))
    return graph.select(graph.less(node, 0), back, node)


@spelled
def take(x: Operand, indices: Operand, dim: int | None = None) -> Tensor:
    """NumPy's take: x indexed along an axis by integers of any shape, which replaces the axis.

    Without an axis x is flattened. Negative indices count from the end; what is still outside
    raises ShapeError where it is a NumPy array, and is clamped to the axis where it is computed.
    """
    graph = graph_of("take", (x, indices))
    with graph.recording():
        _, a = one("take", x)
    if dim is None:
        a, dim = graph.reshape(a, (graph.count(a),)), 0
    axis = axis_of("take", dim, len(a.shape))
    return wrap(graph, graph.op("Gather", a, wrapped(graph, indices, a.shape[axis]), axis))


@spelled
def index_select(x: Operand, dim: int, index: Operand) -> Tensor:
    """PyTorch's index_select: rows of an axis by a 1-D integer index, clamped to its range."""
    graph = graph_of("index_select", (x, index))
    a, rows = node_of("index_select", graph, x), index_node("index_select", graph, index)
    if len(rows.shape) != 1:
        fail(ShapeError, f"index_select: the index has one axis, not {show(rows.shape)}")
    return wrap(graph, graph.op("Gather", a, rows, axis_of("index_select", dim, len(a.shape))))


def embedding(index: Operand, weight: Operand) -> Tensor:
    """Rows of ``weight`` (n, d) by integers of any shape: (..., d). Indices outside are clamped."""
    graph = graph_of("embedding", (index, weight))
    table, rows = node_of("embedding", graph, weight), index_node("embedding", graph, index)
    if len(table.shape) != 2:
        fail(ShapeError, f"embedding: the table has two axes, not {show(table.shape)}")
    return wrap(graph, graph.op("Gather", table, rows, 0))


@spelled
def gather(x: Operand, dim: int, index: Operand) -> Tensor:
    """PyTorch's gather: out[i, j, k] = x[i, index[i, j, k], k] for dim = 1.

    ``index`` has x's rank, and along the other axes at most x's sizes. Indices outside are clamped.
    One Gather from x as a flat array, by index + the offsets of the other axes.
    """
    graph = graph_of("gather", (x, index))
    a, rows = node_of("gather", graph, x), graph.cast(index_node("gather", graph, index), i64)
    axis = axis_of("gather", dim, len(a.shape))
    if len(rows.shape) != len(a.shape):
        fail(ShapeError, f"gather: x {show(a.shape)} and index {show(rows.shape)} differ in rank")
    top = graph.size(a.shape[axis] - 1, i64)
    clamped = graph.idiom("Minimum", graph.idiom("Maximum", rows, graph.full(0, i64)), top)
    return wrap(graph, taken_along(graph, a, clamped, axis))


def taken_along(graph: Graph, a: Node, index: Node, axis: int) -> Node:
    """a at ``index`` along an axis; the index lies inside, and has a's sizes on the other axes."""
    if len(a.shape) == 1:
        return graph.op("Gather", a, index, 0)
    flat: Node | None = None
    stride: Dim = 1
    for i in reversed(range(len(a.shape))):
        here = index if i == axis else _places(graph, a, index, i)
        step = here if stride == 1 else graph.mul(here, graph.size(stride, i64))
        flat = step if flat is None else graph.add(flat, step)
        stride = stride * a.shape[i]
    assert flat is not None
    return graph.op("Gather", graph.reshape(a, (graph.count(a),)), flat, 0)


def _places(graph: Graph, a: Node, rows: Node, axis: int) -> Node:
    """0, 1, 2, ... along an axis of the index, which must not reach beyond x's."""
    n = rows.shape[axis]
    if not graph.facts.nonnegative(a.shape[axis] - n):
        fail(ShapeError, f"gather: the index {show(rows.shape)} reaches beyond {show(a.shape)} "
                         f"on axis {axis}")
    return graph.reshape(graph.iota(n), tuple(n if j == axis else 1 for j in range(len(a.shape))))


@spelled
def take_along_dim(x: Operand, indices: Operand, dim: int) -> Tensor:
    """``gather`` by NumPy's order of arguments (``take_along_axis``)."""
    return gather(x, dim, indices)
