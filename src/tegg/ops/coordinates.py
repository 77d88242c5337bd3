"""Elements and slices by whole coordinates, as in ONNX: gather_nd, scatter_nd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tegg.errors import ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.getitem import getitem
from tegg.ops.index import index_node, listed
from tegg.ops.movement import whole
from tegg.ops.public import public
from tegg.ops.scattering import mode_of, put
from tegg.ops.value import Operand, fail, graph_of, one, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


@public()
def gather_nd(x: Operand, indices: Operand, batch_dims: int = 0) -> Tensor:
    """The elements or slices of x that stand at coordinates: out[p] = x[indices[p]] for every
    place p of ``indices`` but along its last axis, whose k numbers are one coordinate.

    They name the first k axes of x after ``batch_dims`` leading ones, which both share and which
    go together: out[b, p] = x[b, indices[b, p]]. Negative numbers count from the end. One outside
    raises ShapeError where it is a NumPy array, and is clamped to its axis where it is computed.
    Formula: ONNX GatherND.
    """
    graph = graph_of("gather_nd", (x, indices))
    with graph.recording():
        _, a = one("gather_nd", x)
        batch = whole("gather_nd", "batch_dims", batch_dims, 0)
        columns, lead = _columns("gather_nd", graph, a, indices, batch)
        canon = graph.facts.canonical
        if tuple(map(canon, a.shape[:batch])) != tuple(map(canon, lead[:batch])):
            fail(ShapeError, f"gather_nd: the first {batch} axes of x {show(a.shape)} and of the "
                             f"places {show(lead)} differ")
        own = [wrap(graph, graph.reshape(graph.iota(n), (n, *[1] * (len(lead) - i - 1))))
               for i, n in enumerate(lead[:batch])]
        return getitem(wrap(graph, a), (*own, *columns))


@public()
def scatter_nd(x: Operand, indices: Operand, updates: Operand,
               reduce: str | None = None) -> Tensor:
    """x with x[indices[p]] = updates[p] for every place p of ``indices`` but along its last axis,
    whose k numbers are one coordinate in the first k axes of x.

    ``updates`` has x's dtype, or is a scalar, and broadcasts to the places and x's other axes.
    reduce: None (the last one in row-major order wins), ``"add"``, ``"max"`` or ``"min"``, which
    take in what stands in x. Negative numbers count from the end. One outside raises ShapeError
    where it is a NumPy array; where it is computed its update is dropped. Raises ArgumentError for
    another reduce. Formula: ONNX ScatterND.
    """
    mode = mode_of("scatter_nd", reduce)
    graph = graph_of("scatter_nd", (x, indices, updates))
    with graph.recording():
        _, a = one("scatter_nd", x)
        columns, _ = _columns("scatter_nd", graph, a, indices, 0)
    return put("scatter_nd", graph, a, columns, updates, mode)


def _columns(op: str, graph: Graph, a: Node, indices: Any, batch: int) -> tuple[list, tuple]:
    """The numbers of all coordinates, one array or tensor for each axis that they name; the shape
    of the places. An array stays one, so that its values are seen."""
    if isinstance(indices, list):
        indices = listed(op, indices)
    at = indices if isinstance(indices, np.ndarray) else index_node(op, graph, indices)
    rank = len(at.shape)
    if rank <= batch or not isinstance(at.shape[-1], int) or not (
            1 <= at.shape[-1] <= len(a.shape) - batch):
        beside = f" beside {batch} of a batch" if batch else ""
        fail(ShapeError, f"{op}: the last axis of the indices {show(at.shape)} holds coordinates, "
                         f"of 1 to {len(a.shape) - batch} numbers for x {show(a.shape)}{beside}")
    lead = at.shape[:-1]
    if isinstance(at, np.ndarray):
        return [at[..., i] for i in range(at.shape[-1])], lead
    return [wrap(graph, graph.reshape(graph.narrow(at, rank - 1, i, 1), lead))
            for i in range(at.shape[-1])], lead
