"""Every rule states what is true in NumPy, fires on its own left side, and needs its guards."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from profiles import examples
from shipped import COMPILERS, STACK
from tegg.dtype import DTYPES
from tegg.rewrite.rulefile import read_rules
from tegg.testing.instance import instance
from tegg.testing.soundness import Claim, check_rule, relations
from tegg.testing.workbench import guard_needed, guards_of, live, reads_memory

HOME = {r.name: (r, s) for s in STACK.rule_sets for r in s.rules}


@pytest.mark.parametrize("name", HOME)
@settings(max_examples=examples(25))
@given(rng=st.randoms(use_true_random=True))
def test_both_sides_mean_the_same(name, rng):
    check_rule(*HOME[name], STACK, rng)


@pytest.mark.parametrize("name", [n for n, (r, _) in HOME.items() if not reads_memory(r)])
def test_it_fires_on_its_own_left_side(name):
    assert live(HOME[name][0], STACK, COMPILERS).problem == ""


GUARDS = [(name, i) for name, (rule, _) in HOME.items() for i in guards_of(rule)]


@pytest.mark.parametrize("name, guard", GUARDS, ids=[f"{n}-{i}" for n, i in GUARDS])
def test_its_guard_is_needed(name, guard):
    assert guard_needed(*HOME[name], STACK, guard).problem == ""


def test_false_facts_and_relations_without_a_meaning_are_caught():
    rule, home = HOME["sub/mark"]
    made = instance(rule, STACK.table, relations(STACK), (DTYPES["f32"],), Random(0))
    claim = Claim(rule, home.header, made, relations(STACK), ())
    with pytest.raises(AssertionError, match=r"is not .*: what odd means is said in words, which "
                                             r"no test reads; say it in terms above its"):
        claim.words("odd", (rule.query[0].items[1],))


def test_a_relation_that_nothing_can_draw_is_named():
    rule, _ = HOME["cpu/rows"]
    with pytest.raises(AssertionError, match="cpu-rows has no strategy in tegg.testing.guards"):
        instance(rule, STACK.table, relations(STACK), (DTYPES["f32"],), Random(0))


MUTANTS = [
    ("fuse/sub", "(Sub a b)", "(Sub b a)"),
    ("algebra/identity", "(Add x (Const -0.0)) x", "(Add x (Const 0.0)) x"),
    ("fuse/layernorm", "(LayerNorm x g b k eps)", "(LayerNorm x b g k eps)"),
    ("fuse/softmax", "(SumReduce e k) s))) (soft-exp", "(SumReduce e j) s))) (soft-exp"),
    ("fuse/gelu", "(Const 0.5)) f))", "(Const 0.25)) f))"),
    ("algebra/full", "(Pad (Full d s v) a b v)", "(Pad (Full d s v) a b w)"),
    ("algebra/move", "(Flip (Flip x k) k)", "(Flip (Flip x k) j)"),
    ("fuse/cos", "(Const -2.0)", "(Const -1.0)"),
    ("half/bf16", '(union (Store t) (StoreAs "bf16" t))', '(union (Store t) (StoreAs "f16" t))'),
    ("half/bf16", "rounds 2^-8", "rounds 2^-10"),
    ("half/f16", "rounds 2^-11", "rounds 2^-13"),
    ("half/f16", '(StoreAs "f16" t)))\n', '(StoreAs "i8" t)))\n'),
    ("fuse/attention", "(Attention x v i s)", "(Attention p v i s)"),
    ("fuse/softmax", "(Softmax (Reshape x s) j)", "(Softmax (Reshape x s) k)"),
    ("lower/cpu", "(CpuRows x y i s v a)", "(Neg (CpuRows x y i s v a))"),
]


@pytest.mark.parametrize("path, old, new", MUTANTS, ids=[f"{m[0]}-{i}" for i, m in enumerate(MUTANTS)])
def test_a_wrong_rule_is_caught(path, old, new):
    home = next(s for s in STACK.rule_sets if s.name == path.replace("/", "."))
    assert old in home.text
    wrong = read_rules(home.text.replace(old, new), home.file, tuple(path.split("/")))
    with pytest.raises(AssertionError, match="is not"):
        for rule in wrong.rules:
            for seed in range(60):
                check_rule(rule, wrong, STACK, Random(seed))
