"""Where a kernel's results lie: the slots of its outputs, behind those of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tegg.ir.graph import Graph, Node


class Slots(NamedTuple):
    """live: the outputs that have elements. slots: the buffer of each of them. free: the slot of
    the first temporary. anchors: the products that the live outputs need, in order."""

    live: list[Node]
    slots: list[int]
    free: int
    anchors: list[Node]


def slots_of(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node] = ()) -> Slots:
    """Buffers of a fragment: inputs first, then all outputs, then temporaries."""
    live = [o for o in outputs if 0 not in tuple(map(graph.facts.canonical, o.shape))]
    used = {n.id for n in graph.reachable(live)} if live else set()
    first = max([len(graph.inputs)] + [n.attrs[0] + 1 for n in graph.reachable(outputs)
                                       if n.op.name == "Input"])
    return Slots(live, [first + i for i, o in enumerate(outputs) if o in live],
                 first + len(outputs), [a for a in anchors if a.id in used])
