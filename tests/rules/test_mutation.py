"""The checker is checked: of mutants of the shipped rules, it catches those that are wrong."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from random import Random

import pytest
from shipped import STACK

from tegg.rewrite.rulefile import read_rules
from tegg.testing.mutation import KINDS, mutants, states_nothing
from tegg.testing.score import Score, all_mutants, score

REVIEWED = {key: why for part in tomllib.loads(
    Path(__file__).with_name("survivors.toml").read_text()).values() for key, why in part.items()}
SAMPLE = 1  # mutants of each rule
# All of them: benchmarks/results/mutation.json.
SETS = [pytest.param(s, id=s.name) for s in STACK.rule_sets]


@cache
def every():
    return all_mutants(STACK.rule_sets, STACK)


def told(found: Score) -> str:
    return "\n".join(v.mutant.key for v in found.verdicts if v.outcome == "survives")


def test_a_sample_is_caught():
    pytest.importorskip("z3")
    by_rule: dict[str, list] = {}
    for m in every():
        by_rule.setdefault(m[0].rule.name, []).append(m)
    rng = Random("mutants")
    rules = rng.sample(sorted(by_rule), len(by_rule) // 8)  # all of them in the long profile
    found = score([m for r in rules for m in rng.sample(by_rule[r], min(SAMPLE, len(by_rule[r])))],
                  STACK, REVIEWED)
    assert found.caught >= 0.95, told(found)


@pytest.mark.long
@pytest.mark.parametrize("home", SETS)
def test_all_of_a_rule_set_are_caught(home):
    pytest.importorskip("z3")
    found = score(all_mutants([home], STACK), STACK, REVIEWED)
    assert found.caught >= 0.95, told(found)


def test_the_reviewed_ones_are_mutants_still():
    keys = {m.key for m, _ in every()}
    assert set(REVIEWED) <= keys, set(REVIEWED) - keys


def test_mutants_of_every_kind():
    assert {m.kind for m, _ in every()} == set(KINDS)
    assert len({m.key for m, _ in every()}) > 1000


FILE = """\
;; A rule set of a test.
;;
;; ruleset:  mine
;; class:    reals
;; phase:    algebra
;; uses:     positive
;; grows:    no
;; targets:  any

(ruleset mine)

;; a law
({rule} :ruleset mine :name "mine/rule")
"""


def edits(rule: str) -> set[str]:
    mine = read_rules(FILE.format(rule=rule), "mine.egg", ("mine",))
    return {m.edit for m in mutants(mine.rules[0], mine, STACK)}


def test_edits_of_a_rule():
    found = edits("rewrite (Sub (Flip (Flip x k) k) (Const 2.0)) (Neg x)")
    assert {"k may be anything", "2.0 is 3.0", "2.0 is -2.0", "x is _e",
            "(Neg x) without its sign", "(Sub (Const 2.0) (Flip (Flip x k) k))",
            "Add for (Sub (Flip (Flip x k) k) (Const 2.0))"} <= found


def test_guards_are_dropped_unless_they_bind():
    assert "without (positive x)" in edits("rewrite (Exp (Log x)) x :when ((positive x))")
    assert not any(e.startswith("without") for e in edits(
        "rule ((= e (Flip x k)) (= s (shape x))) ((union e (Reshape x s)))"))


def test_no_mutant_states_nothing_or_renames():
    assert not any(states_nothing(m.rule) for m, _ in every())
    assert "(Add y (Sin x))" not in edits("rewrite (Add (Sin x) y) (Add (Sin x) (Neg y))")
