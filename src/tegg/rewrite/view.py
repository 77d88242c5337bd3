"""A look at the e-graph as plain data: what fact providers read, and freezing keeps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tegg.ir.classes import ENode
from tegg.dim import Shape
from tegg.dtype import DType
from tegg.rewrite.encode import Codec
from tegg.rewrite.engine import Engine
from tegg.ir.op import ATTR_SORTS, OpTable


@dataclass(slots=True)
class View:
    """The classes of an e-graph at one moment. A class is an int, valid for this view only.

    nodes: class -> e-nodes, those that rules subsumed left out. shape and dtype: of the classes
    that have one. of: id of a node of the graph (or of a name that loading gave) -> class.
    forms: class -> storage forms that stand in one class with its plain Store. narrow: classes
    whose plain Store rules subsumed.
    """

    table: OpTable
    codec: Codec
    nodes: dict[int, list[ENode]]
    shape: dict[int, Shape]
    dtype: dict[int, DType]
    of: dict[int, int]
    forms: dict[int, frozenset[str]]
    narrow: frozenset[int]

    def having(self, op: str) -> Iterable[tuple[int, ENode]]:
        """Every class with an e-node of an op, and that e-node."""
        return ((c, n) for c, nodes in self.nodes.items() for n in nodes if n.op.name == op)


def look(engine: Engine, table: OpTable, codec: Codec) -> View:
    """Read an e-graph out into a view."""
    rows = engine.rows([*table, "Node", "shape", "dtype", "Store", "StoreAs"])
    ids: dict[object, int] = {}
    attributes: dict[object, object] = {}

    def cls(value) -> int:
        return ids.setdefault(value, len(ids))

    def attribute(kind: str, value) -> Any:
        key = (kind, value)
        if key not in attributes:
            raw = engine.text_of(value) if ATTR_SORTS[kind] == "String" else engine.int_of(value)
            attributes[key] = codec.decode(kind, raw)
        return attributes[key]

    nodes: dict[int, list[ENode]] = {}
    for op in table.values():
        kinds = [kind for _, kind in op.attrs]
        for inputs, output, subsumed in rows[op.name]:
            if not subsumed:
                args = tuple(map(cls, inputs[:op.arity]))
                attrs = tuple(map(attribute, kinds, inputs[op.arity:]))
                nodes.setdefault(cls(output), []).append(ENode(op, args, attrs))
    return View(
        table, codec, nodes,
        {cls(i[0]): attribute("shape", o) for i, o, _ in rows["shape"]},
        {cls(i[0]): attribute("dtype", o) for i, o, _ in rows["dtype"]},
        {engine.int_of(i[0]): cls(o) for i, o, _ in rows["Node"]},
        _forms(rows, cls, lambda v: engine.text_of(v)),
        frozenset(cls(i[0]) for i, _, subsumed in rows["Store"] if subsumed))


def _forms(rows: dict, cls, text_of) -> dict[int, frozenset[str]]:
    stored: dict[object, list] = {}
    for inputs, output, _ in rows["Store"]:
        stored.setdefault(output, []).append(cls(inputs[0]))
    forms: dict[int, frozenset[str]] = {}
    for inputs, output, _ in rows["StoreAs"]:
        for c in stored.get(output, ()):
            forms[c] = forms.get(c, frozenset()) | {text_of(inputs[0])}
    return forms
