"""Gathers along an axis, by integers that are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tegg.bits import value_of
from tegg.dim import Dim, Poly, upper_bound
from tegg.dtype import i64
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ir.ordering import taken_along
from tegg.ops.movement import axis_of
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, graph_of, is_scalar, node_of, one, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


def index_node(op: str, graph: Graph, index: Any) -> Node:
    if isinstance(index, list):
        index = listed(op, index)
    if isinstance(index, (float, np.floating)):
        fail(DTypeError, f"{op}: an index is an integer, not {index!r}")
    node = (graph.full(int(index), i64) if is_scalar(index) and not isinstance(index, Poly)
            else graph.size(index, i64) if isinstance(index, Poly) else node_of(op, graph, index))
    if node.dtype.kind != "int":
        fail(DTypeError, f"{op}: an index has an integer dtype, not {node.dtype.name}")
    return node


def listed(op: str, index: list) -> np.ndarray:
    """A list of indices as an array."""
    try:
        made = np.asarray(index)
    except ValueError:
        fail(ArgumentError, f"{op}: {index!r} is no array of integers")
    return made if made.size else made.astype(np.int64)


def clamped(graph: Graph, index: Node, n: Dim) -> Node:
    """An index limited to an axis of ``n``."""
    low = graph.idiom("Maximum", index, graph.full(0, index.dtype))
    return graph.idiom("Minimum", low, graph.size(n - 1, index.dtype))


def _seen(graph: Graph, node: Node) -> np.ndarray | None:
    """The values of an index that are known while recording: of a constant or a weight, moved."""
    while node.op.name in ("Reshape", "Permute", "Expand", "Flip"):
        (node,) = node.args
    if node.op.name == "Full":
        return np.asarray(value_of(node.attrs[2], node.dtype))
    source = graph.inputs[node.attrs[0]].source if node.op.name == "Input" else None
    return source if source is None or isinstance(source, np.ndarray) else np.asarray(source.data)


def checked(op: str, graph: Graph, node: Node, n: Dim, low: Dim = 0) -> Node:
    """An index; ShapeError where a value that is known already is not in low .. n-1."""
    values, top = _seen(graph, node), upper_bound(n)
    if values is not None and values.size:
        first, last = int(values.min()), int(values.max())
        most = upper_bound(-1 * low)  # how far an index may be below 0
        below = most is not None and -first > most
        if below or (top is not None and last >= top):
            fail(ShapeError, f"{op}: {first if below else last} is outside an axis of {n}")
    return node


def wrapped(graph: Graph, index: Any, n: Dim) -> Node:
    """An index in which negative values count from the end; checked where it is a NumPy array."""
    if isinstance(index, list):
        index = listed("index", index)
    node = checked("index", graph, index_node("index", graph, index), n, -1 * n)
    seen = _seen(graph, node)
    if node.dtype.name == "u8" or (isinstance(index, np.ndarray) and seen is not None
                                   and seen.size and seen.min() >= 0):
        return node
    node = graph.cast(node, i64)
    back = graph.broadcast("Add", node, graph.size(n, i64))
    return graph.select(graph.less(node, 0), back, node)


@public(keywords={"index": "indices"})
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


@public()
def index_select(x: Operand, dim: int, index: Operand) -> Tensor:
    """PyTorch's index_select: rows of an axis by a 1-D integer index.

    An index outside raises ShapeError where its value is known while recording (a constant or a
    weight), and is clamped to the axis where it is computed.
    """
    graph = graph_of("index_select", (x, index))
    a, rows = node_of("index_select", graph, x), index_node("index_select", graph, index)
    if len(rows.shape) != 1:
        fail(ShapeError, f"index_select: the index has one axis, not {show(rows.shape)}")
    axis = axis_of("index_select", dim, len(a.shape))
    checked("index_select", graph, rows, a.shape[axis])
    return wrap(graph, graph.op("Gather", a, rows, axis))


@public(method=False, keywords={"input": "index"})
def embedding(index: Operand, weight: Operand) -> Tensor:
    """Rows of ``weight`` (n, d) by integers of any shape: (..., d).

    An index outside raises ShapeError where its value is known while recording (a constant or a
    weight), and is clamped to 0 .. n-1 where it is computed.
    """
    graph = graph_of("embedding", (index, weight))
    table, rows = node_of("embedding", graph, weight), index_node("embedding", graph, index)
    if len(table.shape) != 2:
        fail(ShapeError, f"embedding: the table has two axes, not {show(table.shape)}")
    checked("embedding", graph, rows, table.shape[0])
    return wrap(graph, graph.op("Gather", table, rows, 0))


@public()
def gather(x: Operand, dim: int, index: Operand) -> Tensor:
    """PyTorch's gather: out[i, j, k] = x[i, index[i, j, k], k] for dim = 1.

    ``index`` has x's rank, and along the other axes at most x's sizes. An index outside raises
    ShapeError where its value is known while recording (a constant or a weight), and is clamped to
    the axis where it is computed. One Gather from x as a flat array, by index + the offsets of the
    other axes.
    """
    graph = graph_of("gather", (x, index))
    a, given = node_of("gather", graph, x), index_node("gather", graph, index)
    rows = graph.cast(given, i64)
    axis = axis_of("gather", dim, len(a.shape))
    if len(rows.shape) != len(a.shape):
        fail(ShapeError, f"gather: x {show(a.shape)} and index {show(rows.shape)} differ in rank")
    checked("gather", graph, given, a.shape[axis])
    for i, n in enumerate(rows.shape):
        if i != axis and not graph.facts.nonnegative(a.shape[i] - n):
            fail(ShapeError, f"gather: the index {show(rows.shape)} reaches beyond "
                             f"{show(a.shape)} on axis {i}")
    return wrap(graph, taken_along(graph, a, clamped(graph, rows, a.shape[axis]), axis))



@public("take_along_axis")
def take_along_dim(x: Operand, indices: Operand, dim: int) -> Tensor:
    """``gather`` by NumPy's order of arguments (``take_along_axis``)."""
    return gather(x, dim, indices)
