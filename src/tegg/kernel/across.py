"""What lies across the rows that a kernel works through: channels that lie apart, of which each
place is normalised, before patches or images become sequences; results that are turned at last.

Lanes along a row would gather it, once for each pass over it, and few of a cache line's elements
would be of use before it is gone. It is turned by a stage of its own, in tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tegg.dim import Shape, hint, product
from tegg.ir.graph import Graph, Node
from tegg.kernel.domain import Write
from tegg.kernel.value import reachable

_LEAST = 16       # elements of a row, and of what lies side by side: a cache line of them
_WORTH = 1 << 14  # elements for which a stage is worth its start
_CHEAP = ("source", "movement", "elementwise")

Written = Callable[[Node], Sequence[Write]]  # how a node would be written row by row


def operands(graph: Graph, outputs: Sequence[Node], written: Written) -> Iterator[Node]:
    """Operands of whole rows that lie across them, where what is read or written beside lies along
    them: else lanes go across too."""
    nodes = graph.reachable(outputs)
    for shape in _rows(nodes) if _permuted(nodes) else ():
        found = {n: _lies(written(n)) for n in _operands(nodes, shape) if n not in outputs}
        if "along" in found.values() or any(o.shape == shape and o.op.kind != "movement"
                                            for o in outputs):
            yield from (n for n, how in found.items() if how == "across")


def results(graph: Graph, outputs: Sequence[Node], written: Written) -> Iterator[tuple[Node, Node]]:
    """Outputs that are moved, and what is moved to them and computed from whole rows, along which
    operands lie."""
    for o in outputs:
        source = o
        while source.op.kind == "movement":
            (source,) = source.args
        below = graph.reachable([source])
        if (_permuted(graph.reachable([o])) and source is not o and source.shape in _rows(below)
                and not any(n.op.kind == "scan" or n.op.staged for n in below)
                and any(_lies(written(n)) == "along" for n in _operands(below, source.shape))):
            yield o, source


def _permuted(nodes: Sequence[Node]) -> bool:
    """Whether anything could lie across at all, which takes a look at each operand to see."""
    return any(n.op.name == "Permute" for n in nodes)


def _rows(nodes: Sequence[Node]) -> list[Shape]:
    """Shapes whose rows, along the last axis, are taken as a whole."""
    return list(dict.fromkeys(
        shape for n in nodes if _of_rows(n) and hint((shape := _reduced(n))[-1]) >= _LEAST
        and hint(product(shape)) >= _WORTH))


def _reduced(n: Node) -> Shape:
    """The shape of what is reduced, over other axes first or not."""
    (a, *_) = n.args
    while a.op.kind == "reduce":
        (a,) = a.args
    return a.shape


def _of_rows(n: Node) -> bool:
    axis = next((i for i, (name, _) in enumerate(n.op.attrs) if name == "axis"), None)
    return (n.op.kind in ("reduce", "composite", "scan") and axis is not None
            and n.attrs[axis] == len(n.args[0].shape) - 1)


def _operands(nodes: Sequence[Node], shape: Shape) -> Iterator[Node]:
    """What is computed with, lies in memory or is moved, and is cheap to write down."""
    used = {a.id for n in nodes if n.op.kind != "movement" for a in n.args}
    cheap: set[int] = set()
    for n in nodes:
        if n.op.kind in _CHEAP and all(a.id in cheap for a in n.args):
            cheap.add(n.id)
            if n.id in used and n.shape == shape and (
                    n.op.kind == "movement" or n.op.name == "Input"):
                yield n


def _lies(writes: Sequence[Write]) -> str:
    """``"across"`` or ``"along"`` the rows that are written; neither where not all is read."""
    found = {"across" if lies_across(w) else "along" if _lies_along(w) else "" for w in writes}
    return found.pop() if len(found) == 1 else ""


def _lies_along(w: Write) -> bool:
    return any(x.attr.form.coefficient(w.vars[-1]) in (1, -1) and x.deps >= set(w.vars)
               for x in reachable([w.value]) if x.op == "load")


def lies_across(w: Write) -> bool:
    """Whether what is written row by row is read down columns, of which neighbours lie side by
    side."""
    *outer, last = w.vars
    forms = [x.attr.form for x in reachable([w.value]) if x.op == "load"]
    return (all(f.coefficient(last) not in (0, 1, -1) for f in forms)
            and any(f.coefficient(u) in (1, -1) and hint(u.extent) >= _LEAST
                    for f in forms for u in outer))
