"""Tensors taken apart along an axis: split, chunk, tensor_split, unbind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tegg.dim import Dim, Poly
from tegg.errors import ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.movement import axis_of, sizes_of, whole
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, one, wrap
from tegg.shape import several, show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


def _pieces(op: str, graph: Graph, a: Node, axis: int, sizes: Sequence[Dim],
            ) -> tuple[Tensor, ...]:
    out, start = [], 0
    for n in sizes:
        out.append(wrap(graph, graph.narrow(a, axis, start, n)))
        start = start + n  # type: ignore[assignment]
    return tuple(out)


def _length(op: str, a: Node, axis: int) -> int:
    n = a.shape[axis]
    if isinstance(n, Poly):
        fail(ShapeError, f"{op}: axis {axis} of {show(a.shape)} is symbolic, so the number of "
                         f"pieces is not known; give their sizes to split")
    return n


@public(keywords={"split_size_or_sections": "split_size"})
def split(x: Operand, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of an axis, as in PyTorch: each of ``split_size`` but for a shorter last one, or of
    the sizes in a sequence, which add up to the axis. (NumPy's split takes a number of pieces: that
    is ``chunk``.) Sizes in a sequence may be symbolic."""
    graph, a = one("split", x)
    axis = axis_of("split", dim, len(a.shape))
    if several(split_size):
        sizes = sizes_of("split", (tuple(split_size),))
        total: Dim = 0
        for n in sizes:
            total = total + n
        if graph.facts.canonical(total) != graph.facts.canonical(a.shape[axis]) or not all(
                map(graph.facts.nonnegative, sizes)):
            fail(ShapeError, f"split: sizes {show(sizes)} do not add up to axis {axis} of "
                             f"{show(a.shape)}")
        return _pieces("split", graph, a, axis, sizes)
    size, n = whole("split", "split_size", split_size, 1), _length("split", a, axis)
    return _pieces("split", graph, a, axis,
                   [min(size, n - i) for i in range(0, n, size)] or [0])


@public()
def chunk(x: Operand, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of one size, ceil(n / chunks), but for a shorter last one."""
    _, a = one("chunk", x)
    axis = axis_of("chunk", dim, len(a.shape))
    count, n = whole("chunk", "chunks", chunks, 1), _length("chunk", a, axis)
    return split(x, max(1, -(-n // count)), axis)


@public("array_split", keywords={"indices_or_sections": "sections"})
def tensor_split(x: Operand, sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """``sections`` pieces whose sizes differ by at most one, the longer ones first; or the pieces
    between the places in a sequence. NumPy's array_split."""
    graph, a = one("tensor_split", x)
    axis = axis_of("tensor_split", dim, len(a.shape))
    n = _length("tensor_split", a, axis)
    if several(sections):
        ends = [slice(0, whole("tensor_split", "a place", s)).indices(n)[1] for s in sections]
        sizes = [max(0, b - s) for s, b in zip([0, *ends], [*ends, n])]
        starts = [0, *ends]
        return tuple(wrap(graph, graph.narrow(a, axis, min(s, n - k), k))
                     for s, k in zip(starts, sizes))
    count = whole("tensor_split", "sections", sections, 1)
    return _pieces("tensor_split", graph, a, axis,
                   [n // count + (i < n % count) for i in range(count)])


@public()
def unbind(x: Operand, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, without it."""
    graph, a = one("unbind", x)
    axis = axis_of("unbind", dim, len(a.shape))
    rest = (*a.shape[:axis], *a.shape[axis + 1:])
    return tuple(wrap(graph, graph.reshape(graph.narrow(a, axis, i, 1), rest))
                 for i in range(_length("unbind", a, axis)))
