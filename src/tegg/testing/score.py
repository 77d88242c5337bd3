"""The mutation score: how many mutants of rules the checker catches, and why others survive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tegg.errors import ArgumentError
from tegg.ir.graph import Node
from tegg.rewrite.compiler import Stack
from tegg.rewrite.rulefile import RuleSet
from tegg.testing.exact import exactly
from tegg.testing.mutation import KINDS, Mutant, mutants
from tegg.testing.same import same
from tegg.testing.smt import proven
from tegg.testing.soundness import Claim, Unsound, check_rule, draw_instance, relations
from tegg.testing.values import Run, draw_runs
from tegg.testing.workbench import SOUND_DRAWS

PROOFS = 5  # graphs on which a survivor must be proven true
OUTCOMES = ("caught", "proven", "reviewed", "survives")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant. outcome: ``caught``, ``proven`` true for every value, ``reviewed``
    by a person, or ``survives``; why: what the checker, or the person, says."""

    mutant: Mutant
    outcome: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """Verdicts on many mutants. Those that are proven or reviewed differ in the text alone."""

    verdicts: tuple[Verdict, ...]

    def count(self, outcome: str, kind: str = "") -> int:
        return sum(v.outcome == outcome and kind in ("", v.mutant.kind) for v in self.verdicts)

    @property
    def caught(self) -> float:
        """The share of the mutants that differ in meaning that was caught."""
        differ = self.count("caught") + self.count("survives")
        return self.count("caught") / differ if differ else 1.0

    def table(self) -> list[list[str]]:
        """Rows of text: kind, mutants, and how many of each outcome."""
        rows = [[kind, str(sum(v.mutant.kind == kind for v in self.verdicts)),
                 *(str(self.count(o, kind)) for o in OUTCOMES)] for kind in KINDS]
        return [*rows, ["all", str(len(self.verdicts)), *(str(self.count(o)) for o in OUTCOMES)]]


def all_mutants(sets: Iterable[RuleSet], stacked: Stack) -> list[tuple[Mutant, RuleSet]]:
    """Every mutant of every rule of rule sets, with its rule set."""
    return [(m, s) for s in sets for rule in s.rules for m in mutants(rule, s, stacked)]


def score(found: Sequence[tuple[Mutant, RuleSet]], stacked: Stack,
          reviewed: Mapping[str, str], seed: int = 0) -> Score:
    """Check mutants as rules are checked. reviewed: key of a mutant -> why it is no other law."""
    return Score(tuple(verdict(m, home, stacked, reviewed, seed) for m, home in found))


def verdict(mutant: Mutant, home: RuleSet, stacked: Stack, reviewed: Mapping[str, str],
            seed: int = 0) -> Verdict:
    """What the checker makes of one mutant."""
    try:
        for i in range(SOUND_DRAWS):
            check_rule(mutant.rule, home, stacked, Random(f"{seed} {i}"))
    except AssertionError as e:
        return Verdict(mutant, "caught", str(e).splitlines()[0])
    if mutant.key in reviewed:
        return Verdict(mutant, "reviewed", reviewed[mutant.key])
    true = holds(mutant, home, stacked, seed)
    return Verdict(mutant, "proven" if true else "survives")


def holds(mutant: Mutant, home: RuleSet, stacked: Stack, seed: int = 0) -> bool:
    """Whether all that a mutant states is proven, on graphs that it matches."""
    for i in range(PROOFS):
        rng = Random(f"{seed} proof {i}")
        made = draw_instance(mutant.rule, home, stacked, rng)
        claim = _Proof(mutant.rule, home.header, made, relations(stacked),
                       draw_runs(made, home.header))
        try:
            for action in mutant.rule.actions:
                claim.action(action)
        except Unsound:
            return False
    return True


class _Proof(Claim):
    """Claims that are proven for every value instead of checked for some.

    Raises Unsound for what is not proven, which may be true all the same.
    """

    def equal(self, a: Node, b: Node, run: Run) -> None:
        if 0 in run.shape(a) or same(self.made.graph, a, b):
            return
        graph, inputs = self.made.graph, [n for n, _ in self.made.inputs]
        reals = self.header.kind not in ("bitwise", "facts")
        if reals and exactly(graph, a, b, run.arrays, run.sizes):
            return
        try:
            true = proven(graph, a, b, inputs, self.header.kind, run.sizes)
        except ArgumentError:  # without a solver
            true = False
        if not true:
            raise self.fail(f"{a} and {b} are not proven equal")

    def words(self, head: str, items: tuple) -> None:
        raise self.fail(f"{head} is said in words, of which there is no proof")

    def action(self, action) -> None:
        if action.head == "set":
            raise self.fail("a fact about a shape or dtype, of which there is no proof")
        super().action(action)
