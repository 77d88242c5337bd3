"""Which rules of a stack run: what declares them to the engine, and what each phase needs of them.

It depends on the stack, the precision and what the target can do, and not on a program, so it is
worked out once for all programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256

from tegg.rewrite.compiler import PRECISIONS, Stack
from tegg.rewrite.declared import Declaration
from tegg.rewrite.pipeline import FACTS
from tegg.rewrite.providers import Fact, Provider, Reading, Standing
from tegg.rewrite.rulecheck import variable_sorts
from tegg.rewrite.rulefile import Rule, RuleSet
from tegg.rewrite.ruletext import GUARDS, rule_texts, variable
from tegg.rewrite.sexpr import Expr, List
from tegg.rewrite.vocabulary import Word, loaders, prelude


class Chosen:
    """The rule sets of a stack that run, and what declares them. Nothing changes it.

    active: phase -> the rule sets that run in it, for phases that have one of their own. needed:
    the same phases -> the providers of a relation that one of these reads, itself or by a constant.
    """

    def __init__(self, stack: Stack, traced: bool, precision: str,
                 features: Iterable[str]) -> None:
        self.stack, self.traced = stack, traced
        usual = loaders(op for op in stack.table.values() if not op.named)
        self.declarations = [Declaration(text) for text in (*prelude(stack.words), *usual)]
        self.sets: list[RuleSet] = []
        self.members: dict[str, list[str]] = {}  # rule set -> its egglog rule sets, one a rule
        self.owner: dict[str, str] = {}  # egglog rule set -> rule
        self.kept: dict[str, Word] = {}  # rule -> the relation that keeps its matches
        self.skipped: dict[str, str] = {}
        self.reads = {r: stack.words[r].args for p in stack.providers if isinstance(p, Reading)
                      for r in p.reads}  # with the sorts of their arguments
        self._choose(precision, features)
        self.active = {p.name: found for p in stack.phases if (found := self._sets_of(p.name))}
        self.needed = {name: self._providers(found) for name, found in self.active.items()}
        self._combined: dict[tuple[str, ...], str] = {}
        for found in self.active.values():
            self._combine(found)
        self._state()
        self._rules, self._stated = stack.rules, dict[str, int]()
        self._rounds: dict[tuple[str, int], tuple[str, tuple[str, ...]]] = {}

    def _choose(self, precision: str, features: Iterable[str]) -> None:
        """Every rule that may run at a precision, on a target with these features."""
        for s in self.stack.rule_sets:
            if s.header.kind not in PRECISIONS[precision]:
                self.skipped[s.name] = f"class {s.header.kind}, precision {precision}"
            elif not _runs_on(s.header.targets, features):
                self.skipped[s.name] = f"for {', '.join(s.header.targets)} only"
            else:
                self._choose_set(s)

    def _choose_set(self, s: RuleSet) -> None:
        self.sets.append(s)
        self.members[s.name] = []
        for rule in s.rules:
            name = f"run-{rule.name}"
            self.owner[name] = rule.name
            self.members[s.name].append(name)
            text = (self._tracing(rule, name) if self.traced
                    else self.stack.texts[rule.name].replace("{}", name))
            self.declarations.append(Declaration(f"(ruleset {name}) {text}", rule))

    def _tracing(self, rule: Rule, name: str) -> str:
        """The text of a rule that keeps its matches as rows of a relation."""
        sorts = variable_sorts(rule, self.stack.words)
        word = Word(f"match-{rule.name}", tuple(sorts.values()), "", "relation")
        self.kept[rule.name] = word
        self.declarations.append(Declaration(f"(relation {word.name} ({' '.join(word.args)}))"))
        also = f"({' '.join([word.name, *map(variable, sorts)])})"
        return " ".join(rule_texts(rule, self.stack.words, name, also))

    # ---- phases
    def _sets_of(self, phase: str) -> list[RuleSet]:
        """The rule sets that run in a phase; none where all of them run in every phase."""
        found = [s for s in self.sets if {phase, FACTS} & set(s.header.phases)]
        return found if any(phase in s.header.phases for s in found) else []

    def _providers(self, active: list[RuleSet]) -> list[Provider]:
        """Standing ones are left out: what they state is declared."""
        uses = {u for s in active for u in s.header.uses} | set(GUARDS)
        return [p for p in self.stack.providers
                if uses & set(p.relations) and not isinstance(p, Standing)]

    def _names(self, active: list[RuleSet], number: int) -> tuple[str, ...]:
        """The egglog rule sets of those that still may run in a round."""
        return tuple(r for s in active for r in self.members[s.name]
                     if s.header.grows is None or number < s.header.grows)

    def _combine(self, active: list[RuleSet]) -> None:
        """Declare one rule set for each choice of rules that rounds of a phase make."""
        for number in sorted({0, *(s.header.grows for s in active if s.header.grows is not None)}):
            names = self._names(active, number)
            if names and names not in self._combined:
                text = " ".join(names)  # stacks choose otherwise, and may share an engine
                name = self._combined[names] = f"runs-{sha256(text.encode()).hexdigest()[:16]}"
                self.declarations.append(Declaration(
                    f"(unstable-combined-ruleset {name} {text})"))

    def round(self, phase: str, number: int) -> tuple[str, tuple[str, ...]]:
        """What a round of a phase runs: a rule set of egglog's and those that it is made of."""
        known = self._rounds.get((phase, number))
        if known is None:
            names = self._names(self.active[phase], number)
            known = self._rounds[phase, number] = self._combined.get(names, ""), names
        return known

    def stated(self, rule: str) -> int:
        """How many terms and facts a match of a rule states."""
        if rule not in self._stated:
            actions = self._rules[rule].actions
            self._stated[rule] = sum(_stated(a, self.stack.words) for a in actions)
        return self._stated[rule]

    # ---- facts
    def _state(self) -> None:
        """Declare what holds of every program."""
        uses = {u for s in self.sets for u in s.header.uses} | set(GUARDS)
        for p in self.stack.providers:
            if isinstance(p, Standing) and uses & set(p.relations):
                self.declarations += [Declaration(_text(f), fact=True) for f in p.standing]


@lru_cache(maxsize=8)
def chosen(stack: Stack, traced: bool, precision: str, features: frozenset[str]) -> Chosen:
    """The rules of a stack that run at a precision, on a target with these features.

    traced: whether they keep their matches.
    """
    return Chosen(stack, traced, precision, features)


def _text(fact: Fact) -> str:
    """A fact of texts and numbers."""
    arguments = (f'"{a}"' if isinstance(a, str) else str(a) for a in fact[1:])
    return f"({' '.join([fact[0], *arguments])})"


def _stated(e: Expr, words: Mapping[str, Word]) -> int:
    """How many terms and facts an action states."""
    if not isinstance(e, List):
        return 0
    return (e.head in words or e.head == "Const") + sum(_stated(x, words) for x in e.items)


def _runs_on(targets: tuple[str, ...], features: Iterable[str]) -> bool:
    """Whether a target has one of the features that a rule set asks for; none asks for any."""
    levels = {name: int(level or 0) for name, _, level in (f.partition("=") for f in features)}

    def has(target: str) -> bool:
        name, _, level = target.partition(">=")
        return name in levels and levels[name] >= int(level or 0)

    return not targets or any(map(has, targets))
