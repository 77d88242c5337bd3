"""The rows of an e-graph as plain tables: what matching and explanations read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tegg.rewrite.engine import Engine
from tegg.rewrite.vocabulary import Word

Value = int | str  # a class (or buffer) by number, an i64, or a text
Row = tuple[tuple[Value, ...], Value]  # what a function was given, and what it gives


@dataclass(slots=True)
class Tables:
    """Every row of some words at one moment. Classes are numbers, valid for these tables only.

    subsumed: rows that rules replaced; they match nothing more, but were there.
    """

    rows: dict[str, list[Row]]
    subsumed: dict[str, list[Row]]
    by_output: dict[tuple[str, Value], list[Row]] = field(default_factory=dict)
    by_inputs: dict[tuple[str, tuple[Value, ...]], Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, rows in self.rows.items():
            for row in rows:
                self.by_output.setdefault((name, row[1]), []).append(row)
                self.by_inputs[name, row[0]] = row[1]

    def giving(self, name: str, output: Value) -> list[Row]:
        """The rows of a word with one output."""
        return self.by_output.get((name, output), [])


def read_tables(engine: Engine, words: Mapping[str, Word], extra: Iterable[Word] = ()) -> Tables:
    """The rows of a vocabulary (without primitives), of the names of nodes, and of ``extra``."""
    wanted = [w for w in (*words.values(), NODE, *extra) if w.kind != "primitive"]
    numbers: dict[object, int] = {}

    def plain(sort: str, value: object) -> Value:
        if sort in ("Tensor", "Buffer"):
            return numbers.setdefault(value, len(numbers))
        return engine.text_of(value) if sort == "String" else engine.int_of(value)

    rows: dict[str, list[Row]] = {}
    subsumed: dict[str, list[Row]] = {}
    for w in wanted:
        rows[w.name], subsumed[w.name] = [], []
        for inputs, output, old in engine.rows(w.name):
            row = (tuple(map(plain, w.args, inputs)), plain(w.out, output) if w.out else 0)
            (subsumed if old else rows)[w.name].append(row)
    return Tables(rows, subsumed)


NODE = Word("Node", ("i64",), "Tensor", "name")
