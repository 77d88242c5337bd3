"""Keep the coarsest e-node of an idiom where nobody else reads the idiom's inner values.

Without this every inner value of every softmax, norm and product is a place where a kernel may
end: forty times the candidates, for covers that are hardly better (0.2 % on an encoder layer).
"""

from __future__ import annotations

from tegg.ir.classes import ENode
from tegg.extract.prune import Nodes, live


def coarsened(nodes: Nodes, rank: dict[int, int], wanted: tuple[int, ...]) -> Nodes:
    """The e-nodes that stay; ``nodes`` is acyclic and ``rank`` orders it."""
    nodes = {c: list(ns) for c, ns in nodes.items()}
    still = _without_inputs(nodes, rank)
    while True:
        readers = _readers(nodes, rank, wanted)
        changed = False
        several = [c for c, ns in nodes.items() if len(ns) > 1]
        for c in sorted(several, key=rank.__getitem__, reverse=True):
            for coarse in list(nodes[c]):
                if len(nodes[c]) > 1 and coarse.op.named and coarse in nodes[c]:
                    hidden = _hidden(c, coarse, nodes, rank, still, readers, wanted)
                    if hidden:
                        nodes[c] = [n for n in nodes[c] if n not in hidden]
                        changed = True
        if not changed:
            return nodes
        nodes = live(nodes, wanted)


def _readers(nodes: Nodes, rank: dict[int, int], wanted: tuple[int, ...]) -> dict[int, set[int]]:
    """Who computes with a class, movement seen through: it is never stored, and hides nothing.

    A wanted class counts as a reader of its own.
    """
    readers: dict[int, set[int]] = {c: {c} if c in wanted else set() for c in nodes}
    for c in sorted(nodes, key=rank.__getitem__, reverse=True):
        seen = readers[c] if all(n.op.kind == "movement" for n in nodes[c]) else (c,)
        for n in nodes[c]:
            for a in n.args:
                readers[a].update(seen)
    return readers


def _without_inputs(nodes: Nodes, rank: dict[int, int]) -> set[int]:
    """Classes made of constants alone. They have readers everywhere and hide nothing."""
    still: set[int] = set()
    for c in sorted(nodes, key=rank.__getitem__):
        if any(n.op.name != "Input" and still.issuperset(n.args) for n in nodes[c]):
            still.add(c)
    return still


def _hidden(c: int, coarse: ENode, nodes: Nodes, rank: dict[int, int], still: set[int],
            readers: dict[int, set[int]], wanted: tuple[int, ...]) -> list[ENode]:
    """The e-nodes of a class whose way to the operands of ``coarse`` nobody else looks at."""
    inside: list[tuple[ENode, set[int]]] = []
    for fine in nodes[c]:
        # templates compete, whatever one of them reads past
        if fine is not coarse and not (fine.op.template and coarse.op.template):
            between = _between(coarse, fine, nodes, rank, still)
            both = fine.op.named and _between(fine, coarse, nodes, rank, still) is not None
            if between is not None and not both:
                inside.append((fine, between))
    # What such a row means goes through all pairs of positions: that is worth nobody's reading.
    while inside and not coarse.op.same_bits:
        union = set().union(*(between for _, between in inside))
        seen = {i for i in union if i in wanted or not readers[i] <= union | {c}
                and any(n.op.kind != "movement" for n in nodes[i])}
        if not seen:
            break
        inside = [(fine, between) for fine, between in inside if not between & seen]
    return [fine for fine, _ in inside]


def _between(coarse: ENode, fine: ENode, nodes: Nodes, rank: dict[int, int],
             still: set[int]) -> set[int] | None:
    """Classes between ``fine`` and the operands of ``coarse``; None where it reads past them, or
    where a kernel of its own may compute one of them."""
    stop = set(coarse.args) | still
    floor = min((rank[a] for a in coarse.args), default=0)
    inside: set[int] = set()
    todo = [a for a in fine.args if a not in stop]
    while todo:
        i = todo.pop()
        if i in inside:
            continue
        if rank[i] < floor or any(n.op.name == "Input" or n.op.kind == "kernel"
                                  for n in nodes[i]):
            return None
        inside.add(i)
        todo.extend(a for n in nodes[i] for a in n.args if a not in stop)
    return inside
