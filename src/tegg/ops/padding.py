"""Padding: a constant, or the tensor's own values reflected, repeated or wrapped around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tegg.dim import Dim, Poly, Shape, hint
from tegg.dtype import i64
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.movement import sizes_of
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, is_scalar, one, scalar_node, weak_dtype, wrap
from tegg.shape import items, show

if TYPE_CHECKING:
    from tegg.tensor import Tensor

Mode = str
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "replicate",
          "circular": "circular", "edge": "replicate", "wrap": "circular"}
# Elements of a row from which what is reflected is sooner joined to it than gathered with it (with
# AVX-512: 224 gathered, 256 alike, 512 joined). A join takes C compilers several times as long.
_LONG = 256


@public(keywords={"pad": "widths", "pad_width": "widths", "constant_values": "value"})
def pad(x: Operand, widths: Sequence, mode: Mode = "constant",
        value: float | bool | None = None) -> Tensor:
    """x with something around it.

    ``widths``: PyTorch's flat tuple (before, after of the last axis, then of the one before it,
    ...), or NumPy's pair (before, after) for each axis. They are at least 0 and may be symbolic.
    ``mode``: ``"constant"`` for ``value`` (of bools True or False; by default 0, or False);
    ``"reflect"`` for the elements mirrored at the outermost one, which is not repeated;
    ``"replicate"`` (NumPy's ``"edge"``) for the outermost one; ``"circular"`` (``"wrap"``) for the
    other end. Any dtype. Raises ShapeError for widths that do not fit, and where an axis is too
    short to be reflected (width < size) or wrapped (width <= size).

    >>> tegg.pad(x, (1, 1, 2, 0), "reflect")   # (3, 8, 8)
    Tensor((3, 10, 10), f32, ...)
    """
    graph, a = one("pad", x)
    if not isinstance(mode, str) or mode not in _MODES:
        remedy = f"; write value={mode!r}" if is_scalar(mode) else ""
        fail(ArgumentError, f"pad: mode is one of {', '.join(map(repr, _MODES))}, not {mode!r}"
                            f"{remedy}")
    low, high = _widths(a.shape, widths)
    if mode == "constant":
        if value is None:
            value = False if a.dtype.kind == "bool" else 0
        _check_value(graph, a, value)
        return wrap(graph, graph.pad(a, low, high, value))
    for axis, (before, after) in enumerate(zip(low, high)):
        if (before, after) != (0, 0):
            a = _around(graph, a, axis, before, after, _MODES[mode])
    return wrap(graph, a)


def _check_value(graph: Graph, a: Node, value: float | bool) -> None:
    if not is_scalar(value) or isinstance(value, Poly):
        fail(ArgumentError, f"pad: the value is a Python number, not {value!r}")
    if weak_dtype("pad", value, a.dtype) is not a.dtype:
        fail(DTypeError, f"pad: {value!r} is no {a.dtype.name}")
    scalar_node("pad", graph, value, a.dtype)  # in range


def _widths(shape: Shape, widths: Sequence) -> tuple[Shape, Shape]:
    rank = len(shape)
    widths = items(widths)
    if all(isinstance(w, (tuple, list, np.ndarray)) for w in widths) and len(widths) == rank:
        pairs = [sizes_of("pad", items(w)) for w in widths]
    else:
        flat = sizes_of("pad", widths)
        pairs = [flat[i:i + 2] for i in range(0, len(flat), 2)][::-1]
        pairs = [(0, 0)] * (rank - len(pairs)) + pairs
    if len(pairs) != rank or any(len(p) != 2 for p in pairs):
        fail(ShapeError, f"pad: {widths} does not give widths before and after the axes "
                         f"of {show(shape)}")
    return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)


def _around(graph: Graph, a: Node, axis: int, before: Dim, after: Dim, mode: str) -> Node:
    """One axis with its own values before and after it."""
    n = a.shape[axis]
    need = {"reflect": 1, "replicate": 0, "circular": 0}[mode]
    for width in (before, after):
        room = n - 1 if mode == "replicate" else n - need - width
        if not (graph.facts.nonnegative(width) and graph.facts.nonnegative(room)):
            fail(ShapeError, f"pad: an axis of {n} is too short for a width of {width} with mode "
                             f"{mode!r}, or may be; {show(a.shape)}")

    if mode == "replicate":
        at = graph.broadcast("Add", graph.iota(before + n + after, i64), graph.size(-before, i64))
        return graph.op("Gather", a, at, axis)  # indices outside are clamped
    if mode == "reflect" and hint(a.shape[-1]) < _LONG:
        return graph.op("Gather", a, _reflected(graph, n, before, before + n + after), axis)
    if mode == "reflect":
        ends = [graph.op("Flip", graph.narrow(a, axis, start, width), axis)
                for start, width in ((1, before), (n - 1 - after, after))]
    else:
        ends = [graph.narrow(a, axis, n - before, before), graph.narrow(a, axis, 0, after)]
    return graph.concat([ends[0], a, ends[1]], axis)


def _reflected(graph: Graph, n: Dim, before: Dim, total: Dim) -> Node:
    """(total,): which of n elements each of the wider axis is, |n-1 - |n-1 - i|| from its start."""
    def distance(v: Node) -> Node:
        left = graph.broadcast("Add", graph.mul(v, -1), graph.size(n - 1, i64))
        return graph.idiom("Abs", left)

    at = graph.broadcast("Add", graph.iota(total, i64), graph.size(-before, i64))
    return distance(distance(at))
