"""Why a rule did not fire on a program: how far its left side matched, and what failed there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tegg.bits import value_of
from tegg.dtype import dtype
from tegg.errors import ArgumentError
from tegg.ir.graph import Graph
from tegg.rewrite.compiler import Stack
from tegg.rewrite.egraph import Saturated
from tegg.rewrite.matching import MOST_STEPS, Atom, Attempt, Matcher
from tegg.rewrite.provenance import Trace
from tegg.rewrite.rulefile import Rule
from tegg.rewrite.sexpr import short
from tegg.rewrite.tables import Value


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a rule did not fire. fired: how often it did. held: the terms that matched, as the rule
    file writes them, each with what it was found to be. failed: the term that did not; empty where
    all matched. because: why, in words.
    """

    rule: Rule
    fired: int
    held: tuple[tuple[str, str], ...]
    failed: str
    because: str

    def show(self) -> str:
        """The answer as text."""
        lines = [f"{self.rule.name} at {self.rule.place}: {self.rule.short_law}"]
        if self.fired:
            return "\n".join([*lines, f"it fired: {self.fired} matches"])
        lines += [f"  holds  {term}   {found}" for term, found in self.held]
        lines += [f"  fails  {self.failed}"] if self.failed else []
        return "\n".join([*lines, f"  {self.because}"])


def why_not(name: str, graph: Graph, done: Saturated, stacked: Stack) -> WhyNot:
    """The nearest match of a rule in a traced saturation of a graph.

    Raises ArgumentError for a rule that the stack does not have.
    """
    assert done.trace is not None, "explanations need saturate(..., trace=True)"
    rule = stacked.rules.get(name)
    if rule is None:
        raise ArgumentError(stacked.unknown_rule(name))
    home = next(s for s in stacked.rule_sets if rule in s.rules)
    if home.name in done.report.skipped:
        return WhyNot(rule, 0, (), "", f"its rule set {home.name} was skipped: "
                                       f"{done.report.skipped[home.name]}")
    fired = done.report.rules[name].matches
    matcher = Matcher(rule, done.trace.words, done.trace.tables)
    attempt = matcher.nearest()
    told = _Teller(graph, done.trace, stacked)
    held = tuple((short(a.written), told.found(a, attempt)) for a in attempt.held
                 if not a.head.startswith("_"))
    if attempt.failed is None:
        return WhyNot(rule, fired, held, "", told.late(home.header.phases[-1], done))
    because = told.because(attempt)
    if matcher.steps > MOST_STEPS:
        because += f"; the search ended after {MOST_STEPS} rows, and a nearer match may exist"
    return WhyNot(rule, fired, held, short(attempt.failed.written), because)


@dataclass(frozen=True, slots=True)
class _Teller:
    """Says in words what an attempt met."""

    graph: Graph
    trace: Trace
    stacked: Stack

    def found(self, atom: Atom, attempt: Attempt) -> str:
        """What a term that holds was found to be."""
        value = attempt.binding.get(atom.out) if atom.out else None
        return "" if value is None else f"is {self.value(value, atom)}"

    def value(self, value: Value, atom: Atom) -> str:
        word = self.trace.words.get(atom.head)
        if not isinstance(value, int) or (word is not None and word.out not in ("Tensor",
                                                                               "Buffer")):
            return repr(value)
        return self.cls(value)

    def cls(self, c: int) -> str:
        """A class by its forms, dtype and shape, and the names that the program gives it."""
        tables = self.trace.tables
        forms = sorted({name for name, out in tables.by_output if out == c
                        and name in self.stacked.table} - {"Full"})
        forms = [*(f"Full({value_of(int(r[0][2]), dtype(str(r[0][0])))})"
                   for r in tables.giving("Full", c)), *forms]
        shape = tables.by_inputs.get(("shape", (c,)), "?")
        kind = tables.by_inputs.get(("dtype", (c,)), "?")
        names = [s.name for i, s in enumerate(self.graph.inputs)
                 if any(r[0][0] == i for r in tables.giving("Input", c))]
        names += [n for n, node in self.graph.outputs.items()
                  if tables.by_inputs.get(("Node", (node.id,))) == c]
        called = f" ({', '.join(names)})" if names else ""
        return f"{' = '.join(forms) or 'a value'} {kind}[{shape}]{called}"

    def because(self, attempt: Attempt) -> str:
        """Why the failed term does not hold."""
        atom = attempt.failed
        assert atom is not None
        bound = attempt.binding
        word = self.trace.words.get(atom.head)
        if atom.head == "Const":
            c = bound.get(atom.out)
            what = f"; there it is {self.cls(int(c))}" if c is not None else ""
            return f"no constant {atom.args[0]} stands there{what}"
        if word is None:
            values = ", ".join(f"{a} is {bound[a]!r}" for a in atom.args
                               if isinstance(a, str) and a in bound)
            return f"the comparison does not hold: {values}"
        if word.kind == "op":
            c = bound.get(atom.out)
            if c is None:
                return f"the program holds no {atom.head}"
            rows = self.trace.tables.giving(atom.head, c)
            there = f"; there it is {self.cls(int(c))}"
            return (f"operands of {atom.head} are others{there}" if rows
                    else f"no {atom.head} stands there{there}")
        return self.fact(atom, bound)

    def fact(self, atom: Atom, bound: Mapping[str, Value]) -> str:
        """Why a relation or function has no row there."""
        rows = len(self.trace.tables.rows.get(atom.head, ()))
        stating = [r.name for r in self.stacked.rules.values()
                   if any(getattr(a, "head", "") == atom.head for a in r.actions)]
        by = [p.name for p in self.stacked.providers if atom.head in p.relations]
        source = (f"rules {', '.join(stating)}" if stating else
                  f"provider {', '.join(by)}" if by else "nothing in this stack")
        given = ", ".join(f"{a} = {self.arg(atom, i, bound[a])}"
                          for i, a in enumerate(atom.args) if isinstance(a, str) and a in bound)
        said = (f"nobody proved {atom.head}{f' for {given}' if given else ''}; it is stated by "
                f"{source}, {rows} times in this program")
        if not rows and stating:
            return f"{said}; ask why-not {stating[0]} next"
        return said + self.elsewhere(atom, bound)

    def elsewhere(self, atom: Atom, bound: Mapping[str, Value]) -> str:
        """The statement that differs in the fewest arguments, where most are the same."""
        places = [i for i, a in enumerate(atom.args) if isinstance(a, str) and a in bound]
        nearest, apart = None, len(places)
        for inputs, _ in self.trace.tables.rows.get(atom.head, ()):
            others = [i for i in places if inputs[i] != bound[str(atom.args[i])]]
            if len(others) < apart:
                nearest, apart = [(i, inputs[i]) for i in others], len(others)
        if nearest is None:
            return ""
        there = ", ".join(f"{atom.args[i]} = {self.arg(atom, i, v)}" for i, v in nearest)
        return f", nearest for {there}"

    def arg(self, atom: Atom, i: int, value: Value) -> str:
        word = self.trace.words[atom.head]
        return self.cls(int(value)) if word.args[i] in ("Tensor", "Buffer") else repr(value)

    def late(self, phase: str, done: Saturated) -> str:
        """The left side matches at the end, but the rule did not fire."""
        hit = next((p for p in done.report.phases if p.name == phase), None)
        if hit is None:
            return f"it matches, but phase {phase!r} did not run"
        if hit.hit:
            return f"it matches, but phase {phase!r} was stopped by {hit.hit}"
        return (f"it matches what later phases made; its own phase {phase!r} had ended by then: "
                f"give it a later 'phase:'")
