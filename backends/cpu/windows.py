"""Which windows an operand of a contraction is made of."""

from __future__ import annotations

from collections.abc import Iterator

from tegg.ir.classes import ENode
from tegg.ir.neighbours import seen_through
from tegg.rewrite.view import View


def nodes_of(view: View, c: int, name: str) -> Iterator[ENode]:
    """The nodes of an op in a class, and in what it converts to another dtype."""
    for n in view.nodes[c]:
        if n.op.name == name:
            yield n
        elif n.op.name == "Cast":
            yield from (m for m in view.nodes[n.args[0]] if m.op.name == name)


def slides(view: View, c: int) -> bool:
    """Whether a value is one of windows, of several taps each."""
    seen: set[int] = set()
    todo = [c]
    while todo:
        c = todo.pop()
        if c not in seen:
            seen.add(c)
            below = [n for n in view.nodes[c] if seen_through(n)]
            if any(n.op.name == "Window" and n.attrs[1] > 1 for n in below):
                return True
            todo += [n.args[0] for n in below]
    return False
