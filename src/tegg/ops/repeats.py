"""Tensors repeated and turned: repeat, tile, repeat_interleave, roll, rot90."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegg.dim import Dim, Poly, product
from tegg.dtype import i64
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.movement import axis_of, flatten, sizes_of, whole
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, one, wrap
from tegg.shape import items, several, show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


@public(keywords={"repeats": "sizes"})
def repeat(x: Operand, *sizes: Any) -> Tensor:
    """x one after the other ``sizes[i]`` times along each axis, as PyTorch's repeat and NumPy's
    tile; more sizes than axes make leading axes."""
    graph, a = one("repeat", x)
    times = sizes_of("repeat", sizes)
    if len(times) < len(a.shape):
        fail(ShapeError, f"repeat: {show(times)} has fewer sizes than {show(a.shape)} has axes")
    return wrap(graph, _repeated("repeat", graph, a, times))


def _repeated(op: str, graph: Graph, a: Node, times: Sequence[Dim]) -> Node:
    if not all(map(graph.facts.nonnegative, times)):
        fail(ShapeError, f"{op}: a number of {show(tuple(times))} is below 0, or may be")
    shape = (1,) * (len(times) - len(a.shape)) + a.shape
    apart = graph.reshape(a, tuple(n for s in shape for n in (1, s)))
    wide = graph.expand(apart, tuple(n for t, s in zip(times, shape) for n in (t, s)))
    return graph.reshape(wide, tuple(t * s for t, s in zip(times, shape)))


@public(keywords={"reps": "dims"})
def tile(x: Operand, *dims: Any) -> Tensor:
    """``repeat`` for which missing leading numbers are 1."""
    graph, a = one("tile", x)
    times = sizes_of("tile", dims)
    return wrap(graph, _repeated("tile", graph, a,
                                 (1,) * (len(a.shape) - len(times)) + tuple(times)))


@public()
def repeat_interleave(x: Operand, repeats: Any, dim: int | None = None) -> Tensor:
    """Each element of an axis ``repeats`` times in place, or as many times as a sequence of ints
    says; of the flattened x without ``dim``. NumPy's repeat."""
    if dim is None:
        return repeat_interleave(flatten(x), repeats, 0)
    graph, a = one("repeat_interleave", x)
    axis = axis_of("repeat_interleave", dim, len(a.shape))
    before, n, after = a.shape[:axis], a.shape[axis], a.shape[axis + 1:]
    if several(repeats):
        times = [whole("repeat_interleave", "a number of repeats", r, 0) for r in repeats]
        if len(times) != n:
            fail(ShapeError, f"repeat_interleave: {len(times)} numbers of repeats for axis {axis} "
                             f"of {show(a.shape)}")
        at = np.repeat(np.arange(len(times)), times)
        index = graph.weight(at, at.shape, i64, "constant")
        return wrap(graph, graph.op("Gather", a, index, axis) if n else a)
    k = whole("repeat_interleave", "repeats", repeats, 0)
    wide = graph.expand(graph.reshape(a, (*before, n, 1, *after)), (*before, n, k, *after))
    return wrap(graph, graph.reshape(wide, (*before, n * k, *after)))


@public(keywords={"shift": "shifts", "dim": "dims", "axis": "dims"})
def roll(x: Operand, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved ``shifts`` places along axes, those past the end to the start; of the
    flattened x without ``dims``. As NumPy's roll and PyTorch's."""
    graph, a = one("roll", x)
    if dims is None:
        flat = wrap(graph, graph.reshape(a, (product(a.shape),)))
        return wrap(graph, graph.reshape(roll(flat, shifts, 0).node, a.shape))
    by = items(shifts)
    axes = items(dims)
    if len(by) != len(axes):
        fail(ArgumentError, f"roll: {len(by)} shifts for {len(axes)} axes")
    for s, d in zip(by, axes):
        a = _rolled(graph, a, whole("roll", "a shift", s), axis_of("roll", d, len(a.shape)))
    return wrap(graph, a)


def _rolled(graph: Graph, a: Node, shift: int, axis: int) -> Node:
    n = a.shape[axis]
    if isinstance(n, Poly):
        if not graph.facts.nonnegative(n - abs(shift)):
            fail(ShapeError, f"roll: an axis of {n} may be shorter than the shift {shift}; write "
                             f"tegg.assume({n - abs(shift)} >= 0)")
        tail: Dim = shift if shift > 0 else n + shift
    else:
        tail = shift % n if n else 0
    if tail == 0:
        return a
    return graph.concat([graph.narrow(a, axis, n - tail, tail),
                         graph.narrow(a, axis, 0, n - tail)], axis)


@public(keywords={"axes": "dims"})
def rot90(x: Operand, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """x turned k times by 90 degrees in the plane of two axes, from the first to the second."""
    graph, a = one("rot90", x)
    if len(tuple(dims)) != 2:
        fail(ArgumentError, f"rot90: dims are two axes, not {dims!r}")
    i, j = (axis_of("rot90", d, len(a.shape)) for d in dims)
    if i == j:
        fail(ShapeError, f"rot90: {tuple(dims)} are one axis of {show(a.shape)}")
    turns = whole("rot90", "k", k) % 4
    for axis in ((), (j,), (i, j), (i,))[turns]:
        a = graph.op("Flip", a, axis)
    order = list(range(len(a.shape)))
    if turns % 2:
        order[i], order[j] = j, i
    return wrap(graph, graph.permute(a, tuple(order)))
