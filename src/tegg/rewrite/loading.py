"""Loading: a graph becomes rows of relations, from which one rule for each op makes terms."""

from __future__ import annotations

from tegg.errors import RuleError
from tegg.ir.graph import Graph, Node
from tegg.ir.op import Op
from tegg.rewrite.declared import Declaration
from tegg.rewrite.encode import Codec
from tegg.rewrite.engine import Conflict, Engine, Row
from tegg.rewrite.vocabulary import Loader, loader, loaders


class Loading:
    """The rows of a graph: one a node, commutative operands in canonical order.

    A named op of floats may round otherwise than its expansion: bitwise keeps the expansion,
    unless the row says that both have the same bits. count: how many nodes there are.
    """

    def __init__(self, graph: Graph, codec: Codec, precision: str) -> None:
        self._codec = codec
        live = {n.id: n for n in graph.reachable()}
        self._idioms = [i for i in graph.idioms if i.node.id in live
                        and (precision != "bitwise" or i.op.same_bits or not i.node.dtype.is_float)]
        live.update((n.id, n) for i in self._idioms for n in graph.reachable(i.args))
        self.count = len(live)
        self._constant: set[int] = set()
        self._loaders: dict[Op, Loader] = {}
        self._rows: dict[str, list[Row]] = {}  # by relation
        for n in sorted(live.values(), key=lambda n: n.id):
            self._add(n)

    def _add(self, n: Node) -> None:
        if n.op.name == "Full" or (n.args and all(a.id in self._constant for a in n.args)):
            self._constant.add(n.id)
        encode = self._codec.encode
        attrs = (encode(kind, v) for (_, kind), v in zip(n.op.attrs, n.attrs))
        made = self._loaders.setdefault(n.op, loader(n.op))
        self._rows.setdefault(made.relation, []).append(
            (n.op.name, *(a.id for a in self._ordered(n.op, n.args)), *attrs, n.id,
             encode("shape", n.shape), n.dtype.name))

    @property
    def declarations(self) -> list[Declaration]:
        """The relations and rules that the ops of the graph are loaded by."""
        return [Declaration(text) for text in loaders(self._loaders)]

    def load(self, engine: Engine) -> None:
        """Insert the rows, make the terms, and unite idioms with what they were recorded for."""
        engine.insert(self._rows)
        sets = " ".join(made.ruleset for made in self._loaders.values())
        engine.run(f"(unstable-combined-ruleset loading {sets})")
        engine.run_rules("loading")
        for i in self._idioms:
            self._unite(engine, i.node, self._term(i.op, i.args, i.attrs))

    def _unite(self, engine: Engine, node: Node, term: str) -> None:
        try:
            engine.run(f"(union (Node {node.id}) {term})")
        except Conflict:
            raise RuleError(f"the idiom {term} was recorded for {node!r}, which has another shape "
                            f"or dtype; correct the expansion of its op") from None

    def _term(self, op: Op, args: tuple[Node, ...], attrs: tuple) -> str:
        """An op over loaded nodes, as text."""
        nodes = " ".join(f"(Node {a.id})" for a in self._ordered(op, args))
        return f"({op.name} {nodes} {self._codec.attrs(op, attrs)})"

    def _ordered(self, op: Op, args: tuple[Node, ...]) -> tuple[Node, ...]:
        """Operands as rules look for them: a plain one, then an Expand, then a constant."""
        if not op.commutative:
            return args
        return tuple(sorted(args, key=lambda a: (a.id in self._constant, a.op.name == "Expand",
                                                 a.id)))
