"""A look at the e-graph as plain data: what fact providers read, and freezing keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from tegg.ir.classes import ENode
from tegg.dim import Shape
from tegg.dtype import DType
from tegg.rewrite.encode import Codec
from tegg.rewrite.engine import Engine
from tegg.ir.graph import InputSpec
from tegg.ir.op import ATTR_SORTS, Op, OpTable


T = TypeVar("T")


@dataclass(slots=True)
class View:
    """The classes of an e-graph at one moment. A class is an int: the same in later views of one
    e-graph, but for what rules united meanwhile, which goes on as one of them.

    nodes: class -> e-nodes, those that rules subsumed left out. shape and dtype: of the classes
    that have one. names: what finds the classes of names. forms: class -> storage forms that stand
    in one class with its plain Store. narrow: classes whose plain Store rules subsumed. weights:
    slots of inputs that are bound once; most: what no element of some of them exceeds. classes:
    all of them, also what is read and has no e-nodes but subsumed ones. enodes: how many there are,
    those too. stated: relation -> a class of which, as its first argument, it is stated -> the
    others, dims as texts, where a provider ``reads`` it. kept: what those who look at one e-graph
    again and again keep from view to view.
    """

    table: OpTable
    codec: Codec
    nodes: dict[int, list[ENode]]
    shape: dict[int, Shape]
    dtype: dict[int, DType]
    names: Callable[[], dict[int, int]]
    forms: dict[int, frozenset[str]]
    narrow: frozenset[int]
    weights: frozenset[int] = frozenset()
    most: Mapping[int, float] = field(default_factory=dict)
    classes: Collection[int] = ()
    enodes: int = 0
    stated: dict[str, dict[int, set[tuple]]] = field(default_factory=dict)
    kept: dict[Any, Any] = field(default_factory=dict)
    _having: dict[str, list[tuple[int, ENode]]] = field(default_factory=dict)
    _found: dict[Callable[[View], Any], Any] = field(default_factory=dict)

    @property
    def of(self) -> dict[int, int]:
        """Id of a node of the graph (or of a name that loading gave) -> class. To be asked for
        before rules run again."""
        return self.names()

    def having(self, op: str) -> Sequence[tuple[int, ENode]]:
        """Every class with an e-node of an op, and that e-node."""
        if not self._having:
            for c, nodes in self.nodes.items():
                for n in nodes:
                    self._having.setdefault(n.op.name, []).append((c, n))
        return self._having.get(op, ())

    def found(self, find: Callable[[View], T]) -> T:
        """What a function finds in this view: it is called once, whoever asks."""
        if find not in self._found:
            self._found[find] = find(self)
        return self._found[find]


class _Once(dict):
    """Each key's value, made when it is first asked for."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key):
        value = self[key] = self._make(key)
        return value


class _Numbers(dict):
    """Each key's number, in the order in which they are first asked for."""

    __slots__ = ()

    def __missing__(self, key):
        value = self[key] = len(self)
        return value


class Reader:
    """Reads an e-graph out into views; what does not change is read once.

    A value that the engine still shows for a class has the number and the type that it had, so that
    types are asked for by value, e-nodes are made once, and names are not asked for at all until
    somebody wants them: most rows are theirs.
    reads: relations that views hold as well, with the sorts of their arguments.
    """

    def __init__(self, engine: Engine, table: OpTable, codec: Codec,
                 inputs: Sequence[InputSpec],
                 reads: Mapping[str, Sequence[str]] = MappingProxyType({})) -> None:
        self.engine, self.table, self.codec, self.reads = engine, table, codec, reads
        self.weights = frozenset(i for i, s in enumerate(inputs) if s.kind == "weight")
        self.most = {i: s.most for i, s in enumerate(inputs) if s.most is not None}
        self._attributes = {kind: _Once(_reader(engine, codec, kind)) for kind in ATTR_SORTS}
        self._ids = _Numbers()  # the engine's value for a class -> the class
        self._made: dict[str, dict[tuple, ENode]] = {op: {} for op in table}
        self._types: dict[int, tuple[Shape, DType]] = {}
        self._kept: dict[Any, Any] = {}

    def look(self) -> View:
        """The e-graph as it is now."""
        ids, enodes = self._ids, 0
        nodes: dict[int, list[ENode]] = {}
        for op in self.table.values():  # rows of one at a time: there are many
            found = self.engine.rows(op.name)
            enodes += len(found)
            if found:
                self._read(op, found, nodes)
        rows = {name: self.engine.rows(name) for name in (*self.reads, "Store", "StoreAs")}
        forms = _forms(rows, ids, self.engine.text_of)
        narrow = frozenset(ids[i[0]] for i, _, subsumed in rows["Store"] if subsumed)
        stated = {name: self._stated(sorts, rows[name]) for name, sorts in self.reads.items()}
        classes = dict.fromkeys(nodes)
        classes.update(dict.fromkeys(a for ns in nodes.values() for n in ns for a in n.args))
        for more in (forms, narrow, *stated.values()):
            classes.update(dict.fromkeys(more))
        view = View(self.table, self.codec, nodes, {}, {}, lambda: self._names(classes), forms,
                    narrow, self.weights, self.most, classes.keys(), enodes, stated, self._kept)
        self._type(view)
        return view

    def _read(self, op: Op, rows: list, nodes: dict[int, list[ENode]]) -> None:
        """The e-nodes of one op."""
        ids, made = self._ids, self._made[op.name]
        for inputs, output, subsumed in rows:
            if not subsumed:
                row, c = tuple(inputs), ids[output]
                node = made.get(row)
                if node is None:
                    node = made[row] = self._node(op, row)
                if c in nodes:
                    nodes[c].append(node)
                else:
                    nodes[c] = [node]

    def _node(self, op: Op, row: tuple) -> ENode:
        """What a row says."""
        attrs = [self._attributes[kind][x] for (_, kind), x in zip(op.attrs, row[op.arity:])]
        return ENode(op, tuple([self._ids[x] for x in row[:op.arity]]), tuple(attrs))

    def _stated(self, sorts: Sequence[str], rows: list) -> dict[int, set[tuple]]:
        """What a relation is stated of."""
        read = [{"Tensor": self._ids.__getitem__, "i64": self.engine.int_of,
                 "String": self.engine.text_of}[s] for s in sorts[1:]]
        found: dict[int, set[tuple]] = {}
        for (c, *others), _, _ in rows:
            found.setdefault(self._ids[c], set()).add(tuple(f(x) for f, x in zip(read, others)))
        return found

    def _type(self, view: View) -> None:
        """Shape and dtype of the classes of a view."""
        ask, known = self.engine.lookup, self._types
        shapes, dtypes = self._attributes["shape"], self._attributes["dtype"]
        values: list[Any] = []
        for c in view.classes:
            if c in known:
                view.shape[c], view.dtype[c] = known[c]
                continue
            values = values or list(self._ids)
            shape, dtype = ask("shape", values[c]), ask("dtype", values[c])
            if shape is not None:
                view.shape[c] = shapes[shape]
            if dtype is not None:
                view.dtype[c] = dtypes[dtype]
            if shape is not None and dtype is not None:
                known[c] = view.shape[c], view.dtype[c]

    def _names(self, classes: Collection[int]) -> dict[int, int]:
        """Name -> class of a view, of classes that it has."""
        return {self.engine.int_of(inputs[0]): c for inputs, output, _ in self.engine.rows("Node")
                if (c := self._ids.get(output)) is not None and c in classes}


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
