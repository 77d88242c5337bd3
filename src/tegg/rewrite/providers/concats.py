"""Concatenations, read off the Selects over Pads that spell them, and halves of an axis."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from tegg.bits import value_of
from tegg.ir.classes import ENode
from tegg.contraction import Axes
from tegg.dim import Dim, exact_div
from tegg.rewrite.providers import Fact
from tegg.rewrite.providers.walk import origin, variables
from tegg.rewrite.view import View


class Concats:
    """``(concat e x y k)``: e is x, then y, along axis k.

    ``(first-half s a b o k)``: a slice a, b, o of a tensor of shape s takes the first half of its
    last axis, k, and all of the others; ``(second-half s a b o k)``: the second half.
    """

    name = "concats"
    relations = MappingProxyType({
        "concat": ("Tensor", "Tensor", "Tensor", "i64"),
        "first-half": ("String",) * 4 + ("i64",), "second-half": ("String",) * 4 + ("i64",)})

    def facts(self, view: View) -> Iterable[Fact]:
        for c, n in view.having("Select"):
            yield from (("concat", c, *parts) for parts in _concats(n, c, view))
        slices = {(view.shape[n.args[0]], *n.attrs) for _, n in view.having("Slice")}
        for shape, starts, stops, steps in slices:
            half = exact_div(shape[-1], 2) if shape else None
            if half is not None and set(steps) == {1}:
                zeros = (0,) * len(shape)
                if (starts, stops) == (zeros, (*shape[:-1], half)):
                    yield ("first-half", shape, starts, stops, steps, len(shape) - 1)
                if (starts, stops) == ((*zeros[:-1], half), shape):
                    yield ("second-half", shape, starts, stops, steps, len(shape) - 1)


def _concats(n: ENode, c: int, view: View) -> Iterable[tuple[int, int, int]]:
    """``(x, y, axis)`` where a Select takes x, padded behind, below x's size, else y behind it."""
    condition, first, second = n.args
    for p in _pads(first, view):
        for q in _pads(second, view):
            axis = _joined(p, q, view)
            if axis is not None:
                size = view.shape[p.args[0]][axis]
                if _below(condition, variables(view.shape[c]), axis, size, view):
                    yield p.args[0], q.args[0], axis


def _pads(c: int, view: View) -> list[ENode]:
    return [n for n in view.nodes[c] if n.op.name == "Pad"]


def _joined(p: ENode, q: ENode, view: View) -> int | None:
    """The axis along which p's operand leaves behind it just the room for q's."""
    (low, high, _), (low2, high2, _) = p.attrs, q.attrs
    moved = [i for i, d in enumerate(low2) if d != 0]
    if len(moved) != 1 or any(d != 0 for d in (*low, *high2)):
        return None
    (k,) = moved
    x, y = view.shape[p.args[0]], view.shape[q.args[0]]
    fits = low2[k] == x[k] and all(h == (y[i] if i == k else 0) for i, h in enumerate(high))
    return k if fits else None


def _below(condition: int, index: Axes, axis: int, size: Dim, view: View) -> bool:
    """Whether a condition says: the position along an axis is below a size."""
    c, index = origin(condition, index, view)
    wanted = variables((2,) * (axis + 1))[axis]
    for n in view.nodes[c]:
        if n.op.name == "LessThan":
            position, at = origin(n.args[0], index, view)
            counts = any(m.op.name == "Iota" for m in view.nodes[position])
            if counts and at == (wanted,) and _is_size(n.args[1], size, view):
                return True
    return False


def _is_size(c: int, size: Dim, view: View) -> bool:
    """Whether every element of a class is a size."""
    if any(n.op.name == "Full" and value_of(n.attrs[2], view.dtype[c]) == size
           for n in view.nodes[c]):
        return True
    below, _ = origin(c, variables(view.shape[c]), view)
    return any(n.op.name == "Size" and n.attrs[1] == (size,) for n in view.nodes[below])
