"""Provenance: which rule made an e-node, from what, back to the nodes that were recorded.

A traced saturation keeps each match of each rule as a row of its own (``Trace``). From those rows,
``Derivations`` chains forward from what was recorded and what providers stated, so that every
derivation is well-founded: no fact stands on itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tegg.ir.classes import EClasses, ENode
from tegg.rewrite.encode import Codec
from tegg.rewrite.matching import Matcher, flatten
from tegg.rewrite.rulefile import Rule
from tegg.rewrite.sexpr import Expr, List
from tegg.rewrite.tables import Tables, Value
from tegg.rewrite.vocabulary import PRIMITIVES, Word

Key = tuple[str, tuple[Value, ...]]  # a row: a word and what it was given


@dataclass(frozen=True, slots=True)
class Trace:
    """What a traced saturation kept. matches: rule -> bindings of its variables, one a match."""

    tables: Tables
    words: Mapping[str, Word]
    codec: Codec
    rules: Mapping[str, Rule]
    matches: Mapping[str, list[dict[str, Value]]]


@dataclass(frozen=True, slots=True)
class Step:
    """One application of a rule: what it stated, and what that stands on."""

    rule: Rule
    states: tuple[Key, ...]
    premises: tuple[Key, ...]


@dataclass(slots=True)
class Derivations:
    """For each fact that a rule stated, the first step that did."""

    trace: Trace
    classes: EClasses
    steps: dict[Key, Step] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)  # class of EClasses -> of the tables

    def __post_init__(self) -> None:
        everything = Tables(
            {name: [*rows, *self.trace.tables.subsumed[name]]
             for name, rows in self.trace.tables.rows.items()}, {})
        self._chain(_Reader(self.trace, everything))
        self._number(everything)

    def chain(self, c: int, n: ENode) -> list[Step]:
        """The steps that made an e-node of a class, in an order in which they can be taken.

        Empty for what was recorded as it is.
        """
        key = self._key(n)
        done: dict[Key, Step] = {}
        self._collect(key, done, set())
        return list(dict.fromkeys(done.values()))

    def _collect(self, key: Key | None, done: dict[Key, Step], open_: set[Key]) -> None:
        if key is None or key in open_ or key not in self.steps:
            return
        open_.add(key)
        step = self.steps[key]
        for p in step.premises:
            self._collect(p, done, open_)
        done[key] = step

    def _key(self, n: ENode) -> Key | None:
        if any(a not in self.numbers for a in n.args):
            return None
        attrs = (self.trace.codec.encode(kind, v) for (_, kind), v in zip(n.op.attrs, n.attrs))
        return n.op.name, (*(self.numbers[a] for a in n.args), *attrs)

    def _chain(self, reader: _Reader) -> None:
        """Forward from what no rule stated, a step as soon as all of its premises stand."""
        waiting = [step for step in reader.steps() if step.states]
        stated = {k for step in waiting for k in step.states}
        given = set(reader.recorded(self.classes))
        known = given | {p for step in waiting for p in step.premises if p not in stated}
        while waiting:
            left = []
            for step in waiting:
                if all(p in known for p in step.premises):
                    for k in step.states:
                        if k not in known:
                            known.add(k)
                            self.steps[k] = step
                else:
                    left.append(step)
            if len(left) == len(waiting):
                return
            waiting = left

    def _number(self, tables: Tables) -> None:
        """Which class of the tables each class of the results is."""
        self.numbers = {c: int(tables.by_inputs["Node", (i,)])
                        for i, c in self.classes.of.items()}
        changed = True
        while changed:
            changed = False
            for c, nodes in self.classes.nodes.items():
                if c in self.numbers:
                    continue
                found = next((tables.by_inputs[k] for n in nodes
                              if (k := self._key(n)) in tables.by_inputs), None)
                if found is not None:
                    self.numbers[c], changed = int(found), True


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads matches back as steps over rows."""

    trace: Trace
    tables: Tables

    def steps(self) -> Iterator[Step]:
        for name, bindings in self.trace.matches.items():
            rule = self.trace.rules[name]
            for binding in bindings:
                found = next(Matcher(rule, self.trace.words, self.tables).matches(binding), None)
                if found is not None:
                    premises = tuple(dict.fromkeys(self.premises(rule, found)))
                    yield Step(rule, tuple(k for k in self.states(rule, found)
                                           if k not in premises), premises)

    def recorded(self, classes: EClasses) -> Iterator[Key]:
        """The rows of what the user recorded, idioms included."""
        graph = classes.graph
        recorded = [*((n.op, n.args, n.attrs) for n in graph.nodes),
                    *((i.op, i.args, i.attrs) for i in graph.idioms)]
        for op, args, attrs in recorded:
            numbers = [self.tables.by_inputs.get(("Node", (a.id,))) for a in args]
            if None not in numbers:
                given = tuple(v for v in numbers if v is not None)
                raw = tuple(self.trace.codec.encode(kind, v)
                            for (_, kind), v in zip(op.attrs, attrs))
                yield op.name, (*given, *raw)
                if op.commutative:
                    yield op.name, (*given[::-1], *raw)

    def premises(self, rule: Rule, binding: Mapping[str, Value]) -> Iterator[Key]:
        """The rows that a match stands on; numbers, shapes and constants need no reason."""
        for atom in flatten(rule):
            if atom.head in (*PRIMITIVES, "=", "Const", "shape", "dtype"):
                continue
            values = tuple(a if isinstance(a, int) else a[1:] if a.startswith('"') else binding[a]
                           for a in atom.args)
            key = atom.head, values
            if key not in self.tables.by_inputs:
                key = atom.head, (values[1], values[0], *values[2:])
            yield key

    def states(self, rule: Rule, binding: Mapping[str, Value]) -> Iterator[Key]:
        """The rows that a match stated."""
        for action in rule.actions:
            if isinstance(action, List) and action.head not in ("subsume", "set", "panic"):
                made: list[Key] = []
                terms: Iterable[Expr] = action.items[1:] if action.head == "union" else (action,)
                for term in terms:
                    self._term(term, binding, made)
                yield from made

    def _term(self, e: Expr, binding: Mapping[str, Value], made: list[Key]) -> Value | None:
        """The value of a term of the right side; the rows that it needs are put in ``made``."""
        if not isinstance(e, List):
            return (binding[e.text] if e.is_name else e.string if e.is_string else int(e.text))
        if e.head == "Const":
            return None
        values = [self._term(x, binding, made) for x in e.items[1:]]
        key = self._row(e.head, values)
        if key is None:
            return None
        if e.head not in ("shape", "dtype"):
            made.append(key)
        return self.tables.by_inputs[key]

    def _row(self, head: str, values: list[Value | None]) -> Key | None:
        """The row of a word with some arguments; a constant's class (None) may be any."""
        if None not in values:
            key = head, tuple(v for v in values if v is not None)
            word = self.trace.words.get(head)
            if key not in self.tables.by_inputs and word is not None and word.commutative:
                key = head, (key[1][1], key[1][0], *key[1][2:])
            return key if key in self.tables.by_inputs else None
        for inputs, _ in self.tables.rows.get(head, ()):
            if all(v is None or v == i for v, i in zip(values, inputs)):
                return head, inputs
        return None
