"""Walking down through movement: which value is computed, and which variable indexes each axis."""

from __future__ import annotations

from string import ascii_letters

from tegg.ir.classes import ENode
from tegg.contraction import Axes
from tegg.dim import Shape
from tegg.rewrite.view import View


def variables(shape: Shape) -> Axes:
    """A variable for each axis of a shape; "" for an axis of size 1."""
    return tuple("" if n == 1 else ascii_letters[i] for i, n in enumerate(shape))


def regroup(axes: Axes, old: tuple, new: tuple) -> Axes | None:
    """Axes of size 1 come and go; None where a reshape does more (an axis is split or joined)."""
    if [d for d in old if d != 1] != [d for d in new if d != 1]:
        return None
    rest = (a for a in axes if a)
    return tuple("" if d == 1 else next(rest) for d in new)


def origin(c: int, index: Axes, view: View) -> tuple[int, Axes]:
    """Follow movement down to a value that is computed; ``index``: the variable of each axis."""
    seen = {c}  # a value and its permutation may be each other's operand
    while True:
        step = None
        for n in view.nodes[c]:
            if n.op.kind != "movement":
                return c, index
            below = _below(n, index, view.shape[n.args[0]], view.shape[c])
            if below is not None and n.args[0] not in seen and step is None:
                step = n.args[0], below
        if step is None:
            return c, index
        c, index = step
        seen.add(c)


def _below(n: ENode, index: Axes, old: tuple, new: tuple) -> Axes | None:
    """The variables of a movement's operand (of shape ``old``), given those of its result."""
    if n.op.name == "Expand":
        return tuple("" if d == 1 else a for a, d in zip(index, old))
    if n.op.name == "Permute":
        return tuple(index[n.attrs[0].index(i)] for i in range(len(old)))
    return regroup(index, new, old) if n.op.name == "Reshape" else None
