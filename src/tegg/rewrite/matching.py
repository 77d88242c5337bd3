"""Matching a rule's left side against tables: every match, or how far the best attempt came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tegg.bits import bits_of
from tegg.dtype import DType, dtype
from tegg.rewrite.arithmetic import ARITHMETIC, COMPARISONS
from tegg.rewrite.rulefile import Rule
from tegg.rewrite.sexpr import Expr, List, Symbol, is_float
from tegg.rewrite.tables import Tables, Value
from tegg.rewrite.vocabulary import PRIMITIVES, Word

Binding = Mapping[str, Value]

MOST_STEPS = 200_000  # rows that one search may try


@dataclass(frozen=True, slots=True)
class Atom:
    """One flat term of a pattern. args: variables and literals; out: the variable of its value.

    written: the term as the rule file has it.
    """

    head: str
    args: tuple[str | int, ...]
    out: str
    written: Expr


@dataclass(frozen=True, slots=True)
class Attempt:
    """How far a search came: the atoms that held, what they bound, and the atom that did not."""

    held: tuple[Atom, ...]
    binding: Binding
    failed: Atom | None


def flatten(rule: Rule) -> tuple[Atom, ...]:
    """The left side as flat atoms, a term before the terms inside of it."""
    made: list[Atom] = []
    fresh = iter(range(1 << 30))

    def name_of(e: Expr) -> str | int:
        if isinstance(e, List):
            out = f"_{next(fresh)}"
            place(e, out)
            return out
        return e.text if e.is_name else f'"{e.string}' if e.is_string else int(e.text)

    def place(e: List, out: str) -> None:
        if e.head == "Const":
            made.append(Atom("Const", (str(e.items[1]),), out, e))
            return
        if e.head in PRIMITIVES:  # computed from what is known by then
            made.append(Atom(e.head, tuple(map(name_of, e.items[1:])), out, e))
            return
        at = len(made)
        made.append(Atom("", (), "", e))  # its place, before those inside
        made[at] = Atom(e.head, tuple(map(name_of, e.items[1:])), out, e)

    for fact in rule.query:
        assert isinstance(fact, List)
        if fact.head == "=":
            left, right = fact.items[1:]
            if isinstance(left, List):
                left, right = right, left
            if isinstance(left, Symbol) and left.is_name and isinstance(right, List):
                place(right, left.text)
            else:
                made.append(Atom("=", (name_of(left), name_of(right)), "", fact))
        else:
            place(fact, "")
    return tuple(made)


class Matcher:
    """Searches tables for matches of one rule."""

    def __init__(self, rule: Rule, words: Mapping[str, Word], tables: Tables) -> None:
        self.atoms, self.words, self.tables = flatten(rule), words, tables
        self.steps = 0
        self.best = Attempt((), {}, self.atoms[0] if self.atoms else None)

    def matches(self, known: Binding | None = None) -> Iterator[Binding]:
        """Every binding under which all atoms hold, within MOST_STEPS rows."""
        return self._from(0, dict(known or {}))

    def nearest(self, known: Binding | None = None) -> Attempt:
        """The attempt that came farthest; its ``failed`` is None where there is a match."""
        found = next(self.matches(known), None)
        return self.best if found is None else Attempt(self.atoms, found, None)

    def _from(self, i: int, binding: dict[str, Value]) -> Iterator[Binding]:
        if i == len(self.atoms):
            yield binding
            return
        if i > len(self.best.held) or (i == 0 and not self.best.binding):
            self.best = Attempt(self.atoms[:i], binding, self.atoms[i])
        for extended in self._one(self.atoms[i], binding):
            yield from self._from(i + 1, extended)

    def _one(self, atom: Atom, binding: dict[str, Value]) -> Iterator[dict[str, Value]]:
        """The bindings that one more atom leaves."""
        if atom.head == "Const":
            yield from self._constant(atom, binding)
        elif atom.head in COMPARISONS or atom.head == "=":
            a, b = (self._value(x, binding) for x in atom.args)
            if a is not None and b is not None and (
                    a == b if atom.head == "=" else COMPARISONS[atom.head](a, b)):
                yield binding
        elif atom.head in ARITHMETIC:
            yield from self._arithmetic(atom, binding)
        else:
            yield from self._rows(atom, binding)

    def _value(self, x: str | int, binding: Binding) -> Value | None:
        if isinstance(x, int):
            return x
        return x[1:] if x.startswith('"') else binding.get(x)

    def _arithmetic(self, atom: Atom, binding: dict[str, Value]) -> Iterator[dict[str, Value]]:
        values = [self._value(x, binding) for x in atom.args]
        if all(isinstance(v, int) for v in values):
            with suppress(ZeroDivisionError):
                done = ARITHMETIC[atom.head](*values)
                if binding.get(atom.out, done) == done:
                    yield {**binding, atom.out: done}

    def _rows(self, atom: Atom, binding: dict[str, Value]) -> Iterator[dict[str, Value]]:
        out = binding.get(atom.out) if atom.out else None
        tables = self.tables
        rows = (tables.rows.get(atom.head, []) if out is None
                else tables.giving(atom.head, out))
        word = self.words.get(atom.head)
        for inputs, output in rows:
            self.steps += 1
            if self.steps > MOST_STEPS:
                return
            orders = [inputs]
            if word is not None and word.commutative:
                orders.append((inputs[1], inputs[0], *inputs[2:]))
            for order in orders:
                extended = self._unify(atom, order, output, binding)
                if extended is not None:
                    yield extended

    def _unify(self, atom: Atom, inputs: tuple[Value, ...], output: Value,
               binding: dict[str, Value]) -> dict[str, Value] | None:
        made = dict(binding)
        pairs = [*zip(atom.args, inputs), *([(atom.out, output)] if atom.out else [])]
        for x, value in pairs:
            known = self._value(x, made)
            if known is None:
                made[str(x)] = value
            elif known != value:
                return None
        return made

    def _constant(self, atom: Atom, binding: dict[str, Value]) -> Iterator[dict[str, Value]]:
        """A Full of the value, of any shape and of any dtype of its kind."""
        cls = binding.get(atom.out)
        rows = (self.tables.rows["Full"] if cls is None else self.tables.giving("Full", cls))
        for inputs, output in rows:
            if inputs[2] == constant_bits(str(atom.args[0]), dtype(str(inputs[0]))):
                yield {**binding, atom.out: output}


def constant_bits(text: str, kind: DType) -> int | None:
    """The pattern of a constant of a rule in a dtype, or None where its kind is another."""
    if text in ("true", "false"):
        return bits_of(text == "true", kind) if kind.kind == "bool" else None
    if is_float(text):
        return bits_of(float(text), kind) if kind.is_float else None
    if kind.kind != "int" or (text.startswith("-") and kind.name == "u8"):
        return None
    return bits_of(int(text), kind)
