"""``x[...]``: NumPy's basic and advanced indices, as slices, flips, and one gather."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tegg.dim import Dim, Poly, exact_div, product
from tegg.dtype import bool_, i64
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.index import clamped, listed, wrapped
from tegg.ops.value import Operand, Value, fail, one, wrap
from tegg.shape import broadcast, show

if TYPE_CHECKING:
    from tegg.tensor import Tensor

Range = tuple[Dim, Dim, int, bool]  # start, stop and step of a forward slice; then reversed or not


def getitem(x: Operand, index: Any) -> Tensor:
    """x[index] as in NumPy: ints, slices with any step, ``...``, None, symbolic dims, and arrays or
    tensors of integers, which broadcast together.

    The axes of arrays become one place of the result: where the first of them stands if all of
    them (and ints) stand side by side, else in front. Raises ShapeError for an index that is
    outside, or cannot be proven inside; ArgumentError for a bool mask, whose shape would depend on
    its values. What a computed index leaves outside is clamped to the axis.
    """
    graph, a = one("index", x)
    given = index if isinstance(index, tuple) else (index,)
    entries = _spelled_out(a, tuple(listed("index", e) if isinstance(e, list) else e
                                    for e in given))
    axes = [e for e in entries if e is not None]
    ranges = [_range(n, e) for n, e in zip(a.shape, axes)]
    node = _sliced(graph, a, [r[:3] for r in ranges])
    for axis, (*_, turned) in enumerate(ranges):
        node = graph.op("Flip", node, axis) if turned else node
    if any(map(is_array, axes)):
        node, at = _gathered(graph, node, axes)
        return wrap(graph, _placed(graph, node, at, entries, _apart(given)))
    return wrap(graph, graph.reshape(node, _kept(node, entries)))


def is_array(e: object) -> bool:
    """Whether an entry of an index is an advanced one."""
    return isinstance(e, Value) or (isinstance(e, np.ndarray) and e.ndim > 0)


def _spelled_out(a: Node, index: tuple) -> list:
    """One entry for each axis, and None for each new one."""
    rank, used = len(a.shape), sum(e is not None and e is not Ellipsis for e in index)
    dots = sum(e is Ellipsis for e in index)
    if any(map(_is_mask, index)):
        fail(ArgumentError, "index: a bool mask has no shape before its values are known; "
                            "use tegg.where")
    if dots > 1:
        fail(ArgumentError, "index: only one ... may stand in an index")
    if used > rank:
        fail(ShapeError, f"index: {used} indices for {show(a.shape)}")
    fill = [slice(None)] * (rank - used)
    out: list = []
    for e in index if dots else (*index, Ellipsis):
        out.extend(fill if e is Ellipsis else [e])
    return out


def _is_mask(e: object) -> bool:
    return (isinstance(e, (bool, np.bool_)) or (isinstance(e, np.ndarray) and e.dtype.kind == "b")
            or (isinstance(e, Value) and getattr(e, "dtype", None) is bool_))


def _kept(node: Node, entries: list) -> tuple[Dim, ...]:
    """The shape without the axes of ints, and with those of None."""
    sizes = iter(node.shape)
    shape: list[Dim] = []
    for e in entries:
        if e is None:
            shape.append(1)
        else:
            n = next(sizes)
            shape += [n] if isinstance(e, slice) else []
    return tuple(shape)


# ---- one axis
def _range(n: Dim, e: Any) -> Range:
    if is_array(e):
        return 0, n, 1, False
    if isinstance(e, slice):
        return _slice_range(n, e)
    if not (isinstance(e, Poly) or hasattr(e, "__index__")):
        _no_index(e)
    i = e if isinstance(e, Poly) else _int(e)
    if isinstance(n, int) and isinstance(i, int) and not -n <= i < n:
        fail(ShapeError, f"index: {i} is outside an axis of {n}")
    start = _from_end(i, n)
    return start, start + 1, 1, False


def _no_index(e: Any) -> NoReturn:
    fail(ArgumentError, f"index: takes ints, slices, None, ... and arrays of integers, not {e!r}")


def _from_end(i: Dim, n: Dim) -> Dim:
    """A negative int counts from the end."""
    return n + i if isinstance(i, int) and i < 0 else i


def _slice_range(n: Dim, s: slice) -> Range:
    step = 1 if s.step is None else s.step
    if isinstance(step, (bool, Poly)) or not hasattr(step, "__index__") or _int(step) == 0:
        fail(ShapeError, f"index: a slice step is an int other than 0, not {step!r}")
    step = _int(step)
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
    try:
        return int(b.__index__())
    except (AttributeError, TypeError):  # a NumPy array has the method, and may refuse
        _no_index(b)


def _sliced(graph: Graph, a: Node, ranges: list) -> Node:
    if all(r == (0, n, 1) for r, n in zip(ranges, a.shape)):
        return a
    starts, stops, steps = zip(*ranges)
    return graph.op("Slice", a, starts, stops, steps)


# ---- arrays
def _gathered(graph: Graph, node: Node, axes: list) -> tuple[Node, int]:
    """The axes of ints dropped and those of arrays gathered; how many axes stand before theirs."""
    node = graph.reshape(node, tuple(n for n, e in zip(node.shape, axes) if not _is_int(e)))
    axes = [e for e in axes if not _is_int(e)]
    arrays = [i for i, e in enumerate(axes) if is_array(e)]
    if len(arrays) == 1:
        (at,) = arrays
        index = wrapped(graph, axes[at], node.shape[at])
        return graph.op("Gather", node, index, at), at
    rest = [i for i, e in enumerate(axes) if not is_array(e)]
    node = graph.permute(node, (*arrays, *rest))
    sizes = node.shape[:len(arrays)]
    parts = [wrapped(graph, axes[i], n) for i, n in zip(arrays, sizes)]
    node = graph.reshape(node, (product(sizes), *node.shape[len(arrays):]))
    return graph.op("Gather", node, _flat(graph, parts, sizes), 0), 0


def _is_int(e: object) -> bool:
    return not (is_array(e) or isinstance(e, slice))


def _flat(graph: Graph, parts: list[Node], sizes: tuple[Dim, ...]) -> Node:
    """Several indices as one into the axes that are made one."""
    try:
        shape = broadcast([p.shape for p in parts], graph.facts)
    except ShapeError as e:
        fail(ShapeError, f"index: the arrays' {e}")
    flat: Node | None = None
    stride: Dim = 1
    for p, n in zip(reversed(parts), reversed(sizes)):
        here = clamped(graph, graph.cast(p, i64), n)
        step = here if stride == 1 else graph.mul(here, graph.size(stride, i64))
        flat = step if flat is None else graph.add(flat, step)
        stride = stride * n
    assert flat is not None
    return graph.expand(flat, shape)


def _apart(given: tuple) -> bool:
    """Whether something stands between arrays and ints, be it an ellipsis of no axes."""
    places = [i for i, e in enumerate(given)
              if not (e is None or e is Ellipsis or isinstance(e, slice))]
    return places[-1] - places[0] >= len(places)


def _placed(graph: Graph, node: Node, at: int, entries: list, apart: bool) -> Node:
    """The arrays' axes, which start at ``at``, where NumPy puts them; new axes for None."""
    first = next(i for i, e in enumerate(entries) if not (e is None or isinstance(e, slice)))
    before = [] if apart else entries[:first]
    after = [e for e in entries[len(before):] if e is None or isinstance(e, slice)]
    plain = sum(e is not None for e in (*before, *after))
    wide, want = len(node.shape) - plain, sum(e is not None for e in before)
    others = [i for i in range(len(node.shape)) if not at <= i < at + wide]
    node = graph.permute(node, (*others[:want], *range(at, at + wide), *others[want:]))
    sizes = iter(node.shape)
    shape = [1 if e is None else next(sizes) for e in (*before, *[0] * wide, *after)]
    return graph.reshape(node, tuple(shape))
