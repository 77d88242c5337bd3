"""Along which axes neighbours of a value lie side by side where it is read: where vectors do.

A value that is stored lies in row-major order, and what moves its elements moves these axes. What
computes with several operands has those along which vectors of all of them can be read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tegg.ir.demand import axis_of

Axes = frozenset[int]


class Shapes(Protocol):
    """The shape of each class."""

    def __getitem__(self, c: int, /) -> Sequence[int]: ...


VECTOR = 4  # neighbours that are worth a vector: masks pay from a quarter of the lanes
_NEAR = 2   # elements from one to the next: two vectors and a shuffle; what is further is gathered


def stored(shape: Sequence[int]) -> Axes:
    """Of a value in memory: the last axis, and those before axes of size 1."""
    return frozenset(i for i, n in enumerate(_after(shape)) if n == 1)


def axes_beside(c: int, node, shapes: Shapes, known: Mapping[int, Axes]) -> Axes:
    """Of the value ``c`` of a node. ``known``: those of its operands that are not stored."""
    shape = shapes[c]
    below = [known[a] if a in known else stored(shapes[a]) for a in node.args]
    if node.op.kind == "movement":
        return _moved(node, shape, shapes[node.args[0]], *below)
    if node.op.kind == "source":
        return frozenset(range(len(shape)))
    if node.op.kind == "elementwise":
        return frozenset.intersection(*below)
    if node.op.kind == "reduce":
        return below[0] - {axis_of(node) % max(1, len(shape))}
    if node.op.kind == "composite" and tuple(shapes[node.args[0]]) == tuple(shape):
        return below[0]
    return stored(shape)


Beside = dict[tuple, tuple[Any, Axes]]  # of a node above operands that lie so or so


def axes_of_body(body: Mapping[int, Any], shapes: Shapes, known: Beside) -> dict[int, Axes]:
    """Of what a kernel computes, operands before users. Only reductions ask: where there is none,
    nothing is worked out. ``known``: what was found before of nodes of these shapes."""
    found: dict[int, Axes] = {}
    if any(n.op.kind in ("reduce", "composite") for n in body.values()):
        for c, node in body.items():
            key = (id(node), *[found.get(a) for a in node.args])
            if key not in known:  # the node lives on, so that its id is its own
                known[key] = node, axes_beside(c, node, shapes, found)
            found[c] = known[key][1]
    return found


def seen_through(node) -> bool:
    """Whether a value lies as its one operand does, moved at most."""
    return node.op.kind in ("movement", "elementwise") and len(node.args) == 1


def beside_of(c: int, nodes: Mapping[int, Sequence], shapes: Shapes) -> Axes:
    """Of a class, whose ``nodes`` are ways to read it: what is moved, or made of one element each,
    is read where that lies."""
    return _read(c, nodes, shapes, {})


def _read(c: int, nodes: Mapping[int, Sequence], shapes: Shapes, found: dict[int, Axes]) -> Axes:
    """Of a class, and of those that it is read through, into ``found``."""
    if c not in found:
        found[c] = frozenset()  # where a value is moved in a circle
        for n in nodes[c]:
            if seen_through(n):
                _read(n.args[0], nodes, shapes, found)
                found[c] |= axes_beside(c, n, shapes, found)
            else:
                found[c] |= stored(shapes[c])
    return found[c]


def _moved(node, shape: Sequence[int], there: Sequence[int], axes: Axes) -> Axes:
    """Of what a movement makes of an operand of the shape ``there``."""
    name, attrs = node.op.name, node.attrs
    if name == "Permute":
        return frozenset(i for i, p in enumerate(attrs[0]) if p in axes)
    if name == "Expand":
        return axes | {i for i, n in enumerate(there) if n == 1}
    if name == "Reshape":
        steps = [n for i, n in enumerate(_after(there)) if i in axes]
        return frozenset(i for i, n in enumerate(_after(shape)) if n in steps)
    if name == "Slice":
        return frozenset(i for i in axes if attrs[2][i] <= _NEAR)
    if name == "Window":
        at, _, stride, dilation = attrs
        own = {i for i, step in ((at, stride), (at + 1, dilation)) if step <= _NEAR}
        return frozenset(i + (i > at) for i in axes if i != at) | (own if at in axes else set())
    return axes


def _after(shape: Sequence[int]) -> list[int]:
    """How many elements one step along each axis passes, in row-major order."""
    return [math.prod(shape[i + 1:]) for i in range(len(shape))]
