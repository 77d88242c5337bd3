"""A look at the e-graph as plain data: what fact providers read, and freezing keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
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
    whose plain Store rules subsumed. weights: slots of inputs that are bound once. stated: relation
    of one Tensor -> the classes of which it is stated, where a provider ``reads`` it.
    """

    table: OpTable
    codec: Codec
    nodes: dict[int, list[ENode]]
    shape: dict[int, Shape]
    dtype: dict[int, DType]
    of: dict[int, int]
    forms: dict[int, frozenset[str]]
    narrow: frozenset[int]
    weights: frozenset[int] = frozenset()
    stated: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def having(self, op: str) -> Iterable[tuple[int, ENode]]:
        """Every class with an e-node of an op, and that e-node."""
        return ((c, n) for c, nodes in self.nodes.items() for n in nodes if n.op.name == op)


class _Once(dict):
    """Each key's value, made when it is first asked for."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key):
        value = self[key] = self._make(key)
        return value


def look(engine: Engine, table: OpTable, codec: Codec,
         weights: frozenset[int] = frozenset(), reads: Collection[str] = ()) -> View:
    """Read an e-graph out into a view. ``reads``: relations of one Tensor."""
    rows = engine.rows([*table, *reads, "Node", "shape", "dtype", "Store", "StoreAs"])
    ids = _Once(lambda _: len(ids))
    attributes = {kind: _Once(_reader(engine, codec, kind)) for kind in ATTR_SORTS}
    nodes: dict[int, list[ENode]] = {}
    for op in table.values():
        arity, of = op.arity, [attributes[kind] for _, kind in op.attrs]
        for inputs, output, subsumed in rows[op.name]:
            if not subsumed:
                args = tuple([ids[x] for x in inputs[:arity]])
                attrs = tuple([values[x] for values, x in zip(of, inputs[arity:])])
                nodes.setdefault(ids[output], []).append(ENode(op, args, attrs))
    shapes, dtypes = attributes["shape"], attributes["dtype"]
    return View(
        table, codec, nodes,
        {ids[i[0]]: shapes[o] for i, o, _ in rows["shape"]},
        {ids[i[0]]: dtypes[o] for i, o, _ in rows["dtype"]},
        {engine.int_of(i[0]): ids[o] for i, o, _ in rows["Node"]},
        _forms(rows, ids, engine.text_of),
        frozenset(ids[i[0]] for i, _, subsumed in rows["Store"] if subsumed), weights,
        {name: frozenset(ids[i[0]] for i, _, _ in rows[name]) for name in reads})


def _reader(engine: Engine, codec: Codec, kind: str) -> Callable[[Any], Any]:
    """What decodes attributes of a kind."""
    raw = engine.text_of if ATTR_SORTS[kind] == "String" else engine.int_of
    return lambda value: codec.decode(kind, raw(value))


def _forms(rows: dict, ids: dict, text_of) -> dict[int, frozenset[str]]:
    stored: dict[object, list] = {}
    for inputs, output, _ in rows["Store"]:
        stored.setdefault(output, []).append(ids[inputs[0]])
    forms: dict[int, frozenset[str]] = {}
    for inputs, output, _ in rows["StoreAs"]:
        for c in stored.get(output, ()):
            forms[c] = forms.get(c, frozenset()) | {text_of(inputs[0])}
    return forms
