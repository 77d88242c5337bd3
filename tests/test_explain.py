"""Explanations: kernels with their runner-up and chain, and the nearest match of a rule."""

from __future__ import annotations

import pickle
from math import inf

import numpy as np
import pytest

import tegg
from tegg.errors import ArgumentError
from tegg.explain.explanation import explain
from tegg.explain import whynot
from tegg.explain.whynot import why_not
from tegg.planning.target import find
from tegg.rewrite import matching
from tegg.rewrite.compiler import Compiler, Generic, lowering, stack
from tegg.rewrite.egraph import saturate
from tegg.rewrite.rulefile import read_rules


def two_softmaxes() -> tegg.Graph:
    g = tegg.Graph()
    x, w = g.tensor((64, 256), name="x"), g.tensor((256, 256), name="w")
    (x.softmax(1) @ w).softmax(1).output("y")
    return g


def test_kernels_have_a_price_a_runner_up_and_a_chain():
    told = explain(two_softmaxes(), [Generic(), lowering(find("cpu"))], find("cpu"))
    assert told.gap == 0.0 and len(told.kernels) >= 2
    assert sum(k.seconds for k in told.kernels if not k.ahead) == pytest.approx(told.seconds)
    assert all(k.runner_up is not None and k.runner_up >= 0 for k in told.kernels)
    assert any(k.instead and k.runner_up < inf for k in told.kernels)
    rules = {s.rule for k in told.kernels for s in k.chain}
    assert {"softmax/div", "contraction/sum", "cpu/packed"} <= rules


def test_explain_of_a_compiled_program_and_of_a_loaded_one():
    run = two_softmaxes().compile([Generic()])
    text = run.explain()
    assert "runner-up" in text and "softmax/div: e / sum e => softmax(x)" in text
    loaded = pickle.loads(pickle.dumps(run)).explain()
    assert "phase algebra" in loaded and "runner-up" not in loaded


def asked(rule: str, graph: tegg.Graph, *compilers: Compiler, precision: str = "reals"):
    used = compilers or (Generic(),)
    done = saturate(graph, used, precision, trace=True)
    return why_not(rule, graph, done, stack(used))


def one(f, shape=(4, 8)) -> tegg.Graph:
    g = tegg.Graph()
    f(g.tensor(shape, name="x")).output("y")
    return g


WHY_NOT = [
    # the rule, the program, words of the answer
    ("sub/add", lambda x: x.sin(), "the program holds no Add"),
    ("softmax/div", lambda x: x.exp() / x.exp().sum(1, keepdims=True),
     "nobody proved soft-exp for e = Exp"),
    ("gelu/half-last", lambda x: x * (1.0 + (x * 0.5).erf()) * 0.5, "fails"),
    ("exp/exp-log", lambda x: x.log().exp(), "nobody proved positive"),
    ("layernorm/normalize", lambda x: x / ((x * x).mean(1, keepdims=True) + 1e-5).sqrt(),
     "0 times in this program; ask why-not layernorm/variance next"),
]


@pytest.mark.parametrize("rule, f, words", WHY_NOT)
def test_the_nearest_match(rule, f, words):
    told = asked(rule, one(f))
    assert not told.fired and words in told.show()


def test_a_search_that_ended_early_says_so(monkeypatch):
    monkeypatch.setattr(matching, "MOST_STEPS", 1)
    monkeypatch.setattr(whynot, "MOST_STEPS", 1)
    told = asked("sub/mark-expand", one(lambda x: x.sum(1, keepdims=True) + x + x.sum(0)))
    assert told.because.endswith("the search ended after 1 rows, and a nearer match may exist")


def test_a_runner_up_is_that_of_its_own_place():
    """Equal kernels have another second best where their neighbours are others."""
    g = tegg.Graph()
    x, z = g.tensor((64, 256), name="x"), g.tensor((64, 256), name="z")
    w, read = g.tensor((256, 2048), name="w"), x.softmax(1).output("read")
    (read @ w).output("a")
    (z @ w).output("b")
    told = explain(g, [Generic(), lowering(find("cpu"))], find("cpu"))
    first, second = [k for k in told.kernels if k.label == "CpuPacked"]
    assert first.seconds == second.seconds
    assert "CpuPacked+Softmax" in first.instead and "CpuPacked+Softmax" not in second.instead


def test_rules_are_told_by_phase():
    lines = one(lambda x: x.softmax(1)).compile([Generic()], cache=False).explain().splitlines()
    phases = [i for i, text in enumerate(lines) if text.startswith("phase ")]
    where = next(i for i, text in enumerate(lines) if text.startswith("  softmax/div: 1 matches"))
    assert lines[max(i for i in phases if i < where)].startswith("phase idioms:")


def test_a_constant_that_is_another():
    told = asked("neg/mul", one(lambda x: x * -2.0))
    assert "no constant -1.0 stands there; there it is Full(-2.0)" in told.because


def test_a_rule_that_fired():
    assert "it fired: 1 matches" in asked("sub/add", one(lambda x: x - x.sin())).show()


def test_a_rule_set_that_was_skipped():
    told = asked("softmax/div", one(lambda x: x.softmax(1)), precision="bitwise")
    assert told.because == ("its rule set fuse.softmax was skipped: class reals, "
                            "precision bitwise")


def test_a_rule_whose_phase_was_over():
    text = """\
;; Late.
;;
;; ruleset:  late
;; class:    reals
;; phase:    algebra
;; uses:     -
;; grows:    no
;; targets:  any

(ruleset late)

;; softmax(softmax(x)) has no law; this one is for its phase
(rewrite (Softmax (Softmax x k) k) (Softmax (Softmax x k) k)
         :ruleset late :name "late/softmax")
"""
    late = Compiler(read_rules(text, "late.egg", ("late",)))
    told = asked("late/softmax", one(lambda x: x.softmax(1).softmax(1)), Generic(), late)
    assert "its own phase 'algebra' had ended by then" in told.because


def test_a_comparison_that_fails():
    text = """\
;; Guarded by numbers.
;;
;; ruleset:  first
;; class:    reals
;; phase:    names
;; uses:     -
;; grows:    no
;; targets:  any

(ruleset first)

;; a sum along the first axis twice
(rewrite (SumReduce (SumReduce x k) k) (SumReduce x k) :when ((< k 1))
         :ruleset first :name "first/sum")
"""
    first = Compiler(read_rules(text, "first.egg", ("first",)))
    told = asked("first/sum", one(lambda x: x.sum(1, keepdims=True).sum(1, keepdims=True)),
                 Compiler("facts"), first)
    assert told.failed == "(< k 1)" and told.because == "the comparison does not hold: k is 1"


def test_a_rule_that_is_not_there():
    with pytest.raises(ArgumentError, match="did you mean 'sub/add'"):
        asked("sub/ad", one(lambda x: x.sin()))


def test_values_are_unchanged_by_explaining():
    run = two_softmaxes().compile([Generic()])
    x, w = np.random.default_rng(0).normal(size=(2, 256, 256)).astype(np.float32)
    before = run(x[:64], w)["y"]
    run.explain()
    assert np.array_equal(before, run(x[:64], w)["y"])
