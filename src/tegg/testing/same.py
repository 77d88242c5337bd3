"""Whether two nodes are one computation, word for word, once every op is written out."""

from __future__ import annotations

from tegg.ir.graph import Graph, Node
from tegg.rewrite.providers.dtypes import holds


def same(graph: Graph, a: Node, b: Node) -> bool:
    """Whether both are the same primitive ops of the same operands, and so the same bits.

    A cast of what was cast from a dtype whose every value it had is a cast of that. What is written
    out is recorded in the graph.
    """
    numbers: dict[tuple, int] = {}  # op, attributes and numbers of operands -> a number
    seen: dict[int, int] = {}

    def number(n: Node) -> int:
        if n.id not in seen:
            seen[n.id] = made(n)
        return seen[n.id]

    def made(n: Node) -> int:
        if n.op.expand:
            return number(graph.expansion(n.op.name, *n.args, *n.attrs))
        args = n.args
        if n.op.name == "Cast":
            x = _before(args[0])
            if x.dtype is n.dtype:
                return number(x)
            args = (x,)
        key = (n.op.name, n.attrs, n.dtype, *map(number, args))
        return numbers.setdefault(key, len(numbers))

    return number(a) == number(b)


def _before(x: Node) -> Node:
    """A value before it was cast to where all of its dtype's values are."""
    while x.op.name == "Cast" and holds(x.args[0].dtype, x.dtype):
        x = x.args[0]
    return x
