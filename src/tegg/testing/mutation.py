"""Mutants of rules: small edits that make a law another one, which a checker of rules must catch.

The edits are those that authors make by mistake: a guard forgotten, operands swapped, a constant,
an axis, a variable or a sign that is another, an op mistaken for its sibling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tegg.errors import RuleError
from tegg.ir.op import OpTable
from tegg.rewrite.compiler import Stack
from tegg.rewrite.rulecheck import check_rule_form, variable_sorts
from tegg.rewrite.rulefile import Rule, RuleSet
from tegg.rewrite.sexpr import Expr, List, Symbol, is_float, short
from tegg.rewrite.vocabulary import Word
from tegg.testing.terms import leaves

KINDS = ("guard", "operands", "constant", "attribute", "variable", "sign", "op")
FRESH = "other"  # a variable that no rule uses: where it stands, anything may
SIBLINGS = (("Add", "Sub"), ("Mul", "Div"), ("Add", "Mul"), ("SumReduce", "MaxReduce"),
            ("Exp", "Exp2"), ("Log", "Log2"), ("Sin", "Cos"), ("Maximum", "Minimum"),
            ("Sqrt", "Rsqrt"), ("Recip", "Neg"), ("LessThan", "LessEqual"), ("Sum", "Mean"),
            ("SumReduce", "Mean"), ("Softmax", "LogSoftmax"), ("Gelu", "GeluTanh"),
            ("first-half", "second-half"), ("Normalize", "RmsNormalize"))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule with one edit. kind: one of KINDS; edit: what was changed into what."""

    rule: Rule
    kind: str
    edit: str

    @property
    def key(self) -> str:
        """A name that stays the same as long as the rule and the edit do."""
        return f"{self.rule.name}: {self.kind}: {self.edit}"


def mutants(rule: Rule, home: RuleSet, stacked: Stack) -> Iterator[Mutant]:
    """The mutants of a rule that the format admits, each once.

    Left out is what an edit of the text alone leaves the same: other names of variables, and what
    states nothing.
    """
    seen = {_text(rule)}
    counts: dict[tuple[str, str], int] = {}  # the same edit may be made in several places
    for mutant in _all(rule, stacked):
        text = _text(mutant.rule)
        if text in seen or states_nothing(mutant.rule):
            continue
        seen.add(text)
        try:
            check_rule_form(mutant.rule, home.header.kind, stacked.words)
        except RuleError:
            continue
        told = mutant.kind, mutant.edit
        counts[told] = counts.get(told, 0) + 1
        again = f" ({counts[told]})" if counts[told] > 1 else ""
        yield replace(mutant, edit=mutant.edit + again)


def _text(rule: Rule) -> str:
    """A rule with its variables numbered in the order in which they stand."""
    names: dict[str, str] = {}

    def text(e: Expr) -> str:
        if isinstance(e, List):
            return f"({' '.join([e.head, *map(text, e.items[1:])])})"
        return names.setdefault(e.text, f"?{len(names)}") if e.is_name else e.text

    return " ".join(map(text, (*rule.query, *rule.actions)))


def states_nothing(rule: Rule) -> bool:
    """Whether all that a rule states is what it matched."""
    matched = {str(f) for f in rule.query}

    def empty(action: Expr) -> bool:
        if not isinstance(action, List):
            return False
        if action.head == "union":
            a, b = map(str, action.items[1:])
            return a == b or f"(= {a} {b})" in matched
        return str(action) in matched

    return all(map(empty, rule.actions))


def _all(rule: Rule, stacked: Stack) -> Iterator[Mutant]:
    def made(query: tuple[Expr, ...], actions: tuple[Expr, ...]) -> Rule:
        return Rule(rule.name, rule.law, query, actions, rule.place)

    for i in droppable(rule):
        left = tuple(f for j, f in enumerate(rule.query) if j != i)
        yield Mutant(made(left, rule.actions), "guard", f"without {rule.query[i]}")
    editor = _Editor(stacked.table, stacked.words, variable_sorts(rule, stacked.words),
                     repeated(rule.query))
    for i, fact in enumerate(rule.query):
        for e, kind, edit in editor.left(fact):
            yield Mutant(made((*rule.query[:i], e, *rule.query[i + 1:]), rule.actions), kind, edit)
    for i, action in enumerate(rule.actions):
        for e, kind, edit in editor.right(action):
            yield Mutant(made(rule.query, (*rule.actions[:i], e, *rule.actions[i + 1:])), kind,
                         edit)


def droppable(rule: Rule) -> list[int]:
    """Facts of a query without which every variable is still bound: they only test."""
    out = []
    for i, fact in enumerate(rule.query):
        others = [f for j, f in enumerate(rule.query) if j != i]
        bound = {str(v) for f in others for v in leaves(f)}
        if others and isinstance(fact, List) and {str(v) for v in leaves(fact)} <= bound:
            out.append(i)
    return out


def repeated(query: tuple[Expr, ...]) -> set[str]:
    """Variables that stand more than once on a left side: each time is a condition."""
    found = [str(v) for f in query for v in leaves(f)]
    return {v for v in found if found.count(v) > 1}


Edit = tuple[Expr, str, str]  # the new expression, the kind of the edit, the edit in words


@dataclass(frozen=True, slots=True)
class _Editor:
    """Every single edit of an expression of a rule."""

    table: OpTable
    words: Mapping[str, Word]
    sorts: Mapping[str, str]
    repeated: set[str]

    # ---- the two sides
    def left(self, fact: Expr) -> Iterator[Edit]:
        """Edits of a fact: a repeated variable may become a free one."""
        if not isinstance(fact, List):
            return
        if fact.head == "=":
            for e, kind, edit in self.inside(fact.items[2], "", self.loosened):
                yield _with(fact, 2, e), kind, edit
        else:
            yield from self.inside(fact, "", self.loosened)

    def right(self, action: Expr) -> Iterator[Edit]:
        """Edits of an action: a variable may become another of its sort."""
        if not isinstance(action, List) or action.head in ("subsume", "panic"):
            return
        if action.head == "union":
            for e, kind, edit in self.inside(action.items[2], "Tensor", self.replaced):
                yield _with(action, 2, e), kind, edit
        elif action.head == "set":
            for e, kind, edit in self.inside(action.items[2], "String", self.replaced):
                yield _with(action, 2, e), kind, edit
        else:
            yield from self.inside(action, "", self.replaced)

    def loosened(self, e: Symbol, sort: str) -> Iterator[Edit]:
        if e.text in self.repeated:
            yield Symbol(FRESH, e.place), _kind(sort), f"{e} may be anything"

    def replaced(self, e: Symbol, sort: str) -> Iterator[Edit]:
        for other, its in self.sorts.items():
            if its == sort and other != e.text:
                yield Symbol(other, e.place), _kind(sort), f"{e} is {other}"

    # ---- inside of an expression
    def inside(self, e: Expr, sort: str,
               variables: Callable[[Symbol, str], Iterator[Edit]]) -> Iterator[Edit]:
        if isinstance(e, Symbol):
            if e.is_name:
                yield from variables(e, sort)
            else:
                yield from _literal(e)
            return
        if e.head == "Const":
            yield from _constant(e)
            return
        yield from self.whole(e)
        word = self.words.get(e.head)
        sorts = word.args if word is not None else ("i64",) * (len(e.items) - 1)
        for i, (item, its) in enumerate(zip(e.items[1:], sorts), 1):
            for new, kind, edit in self.inside(item, its, variables):
                yield _with(e, i, new), kind, edit

    def whole(self, e: List) -> Iterator[Edit]:
        """Edits of an op as a whole: operands in another order, a sign, a sibling."""
        word = self.words.get(e.head)
        if word is None:
            return
        for i in range(1, len(e.items)):
            for j in range(i + 1, len(e.items)):
                if word.args[i - 1] == word.args[j - 1] and str(e.items[i]) != str(e.items[j]) \
                        and not (word.commutative and j == 2):
                    swapped = _with(_with(e, i, e.items[j]), j, e.items[i])
                    yield swapped, "operands", f"{short(swapped)}"
        if word.kind == "op":
            minus = List((Symbol("Neg", e.place), e), e.place, e.end)
            yield minus, "sign", f"-{short(e)}"
        if e.head == "Neg":
            yield e.items[1], "sign", f"{short(e)} without its sign"
        for other in _siblings(e.head):
            if self.fits(other, word):
                yield _with(e, 0, Symbol(other, e.place)), "op", f"{other} for {short(e)}"

    def fits(self, other: str, word: Word) -> bool:
        found = self.words.get(other)
        return found is not None and found.args == word.args


def _with(e: List, i: int, item: Expr) -> List:
    return List((*e.items[:i], item, *e.items[i + 1:]), e.place, e.end)


def _siblings(head: str) -> list[str]:
    return [b if a == head else a for a, b in SIBLINGS if head in (a, b)]


def _kind(sort: str) -> str:
    return "variable" if sort in ("Tensor", "Buffer") else "attribute"


def _literal(e: Symbol) -> Iterator[Edit]:
    """Another number for a number, another dtype for a dtype."""
    if e.is_int:
        for n in (int(e.text) + 1, int(e.text) - 1):
            yield Symbol(str(n), e.place), "attribute", f"{e} is {n}"
    elif e.is_string:
        for name in ("i32", "f32", "bf16"):
            yield Symbol(f'"{name}"', e.place), "attribute", f"{e} is {name}"


def _constant(e: List) -> Iterator[Edit]:
    """Another value, and the other sign."""
    text = str(e.items[1])
    if text in ("true", "false"):
        values = ["false" if text == "true" else "true"]
    elif is_float(text):
        values = [str(float(text) + 1.0), str(float(text) * 0.5), str(float(text) * 1.001)]
    else:
        values = [str(int(text) + 1), str(int(text) - 1)]
    for value in values:
        if float_text(value) != float_text(text):
            new = Symbol(value, e.items[1].place)
            yield _with(e, 1, new), "constant", f"{text} is {value}"
    if text not in ("true", "false", "0"):
        new = Symbol(text[1:] if text.startswith("-") else f"-{text}", e.items[1].place)
        yield _with(e, 1, new), "sign", f"{text} is {new}"


def float_text(text: str) -> str:
    """A number as written once: -0.0 stays apart from 0.0."""
    return repr(float(text)) if is_float(text) else text
