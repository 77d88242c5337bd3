"""Which windows an operand of a contraction is made of."""

from __future__ import annotations

from collections.abc import Iterator

from tegg.ir.classes import ENode
from tegg.rewrite.view import View


def nodes_of(view: View, c: int, name: str) -> Iterator[ENode]:
    """The nodes of an op in a class, and in what it converts to another dtype."""
    for n in view.nodes[c]:
        if n.op.name == name:
            yield n
        elif n.op.name == "Cast":
            yield from (m for m in view.nodes[n.args[0]] if m.op.name == name)
