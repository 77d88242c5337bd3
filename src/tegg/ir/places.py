"""Where the values of a program lie, on a device whose memory is its own: copies at the borders.

Arguments and states lie on the host, weights and whatever an op computes on the device. Where an op
meets a value in the other place stands a copy, a node like any other: rules see it and cancel it,
extraction prices it, and a plan has a call for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tegg.ir.graph import Graph, Idiom, Node
from tegg.ir.op import Op


@dataclass(frozen=True, slots=True)
class Copies:
    """The rows of a device's copies, of kind ``copy``: ``inward`` from the host to the device,
    ``outward`` back. results: whether outputs are copied back; else they stay on the device."""

    inward: Op
    outward: Op
    results: bool = True


def copied(graph: Graph, copies: Copies | None) -> Graph:
    """The graph with copies wherever a value is wanted in another place than it lies in; the graph
    itself where a device has none. Copies that were recorded stay, and are met by their inverse."""
    return graph if copies is None else _Placing(graph, copies).graph


class _Placing:
    """A graph that is being written anew, node by node."""

    def __init__(self, graph: Graph, copies: Copies) -> None:
        self.copies = copies
        self.graph = Graph(graph.table, inputs=graph.inputs, facts=graph.facts)
        self._new: dict[int, Node] = {}    # a node of the old graph -> its node
        self._known: dict[tuple, Node] = {}
        live = {n.id for n in graph.reachable()}
        idioms = [i for i in graph.idioms if i.node.id in live]
        for n in graph.reachable([*graph.outputs.values(), *graph.updates.values(),
                                  *(a for i in idioms for a in i.args)]):
            new = self._node(n.op, tuple(self._operand(n.op, a) for a in n.args), n.attrs, n)
            self._new[n.id] = new
            if n.id in graph.scopes:
                self.graph.scopes[new.id] = graph.scopes[n.id]
        self.graph.outputs = {name: self._result(n, copies.results)
                              for name, n in graph.outputs.items()}
        self.graph.updates = {slot: self._result(n, True) for slot, n in graph.updates.items()}
        self.graph.idioms = [Idiom(self._new[i.node.id], i.op,
                                   tuple(self._operand(i.op, a) for a in i.args), i.attrs)
                             for i in idioms]

    def _node(self, op: Op, args: tuple[Node, ...], attrs: tuple, like: Node) -> Node:
        """A node of the new graph, hash-consed."""
        key = (op.name, tuple(a.id for a in args), attrs)
        if key not in self._known:
            node = Node(op, args, attrs, like.shape, like.dtype, len(self.graph.nodes))
            self.graph.nodes.append(node)
            self._known[key] = node
        return self._known[key]

    def _hosted(self, n: Node) -> bool:
        if n.op.name == "Input":
            return self.graph.inputs[n.attrs[0]].kind != "weight"
        return n.op is self.copies.outward

    def _operand(self, op: Op, old: Node) -> Node:
        """An operand where an op reads it."""
        n = self._new[old.id]
        wants_host = op is self.copies.inward
        if self._hosted(n) == wants_host:
            return n
        return self._node(self.copies.outward if wants_host else self.copies.inward, (n,), (), n)

    def _result(self, old: Node, home: bool) -> Node:
        n = self._new[old.id]
        return self._node(self.copies.outward, (n,), (), n) if home and not self._hosted(n) else n
