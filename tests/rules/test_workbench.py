"""Seeded false rules of each kind are refused, with a program that shows why."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from one_rule import FILE, findings

import tegg
from tegg.errors import RuleError
from tegg.rewrite.compiler import Compiler, Generic
from tegg.rewrite.egraph import saturate
from tegg.rewrite.rulefile import read_rules

FALSE = {
    "wrong sign": ("rewrite (Neg (Sub a b)) (Sub a b)", "reals", "-"),
    "swapped operands": ("rewrite (Sub a b) (Sub b a)", "reals", "-"),
    "wrong axis": ("rewrite (SumReduce (SumReduce x j) k) (SumReduce (SumReduce x j) j)",
                   "reals", "-"),
    "missing guard": ("rewrite (Sqrt (Mul x x)) x", "reals", "-"),
    "only of the reals": ("rewrite (Add a (Add b c)) (Add (Add a b) c)", "bitwise", "-"),
    "another constant": ("rewrite (Mul x (Const 2.0)) (Mul x (Const 3.0))", "reals", "-"),
}


@pytest.mark.parametrize("what", FALSE)
def test_a_false_rule_is_refused(what):
    problem = findings(*FALSE[what])["sound"]
    assert problem.rule == "mine/rule" and "mine.egg:13:1" in problem.problem


@pytest.mark.parametrize("what", ["wrong sign", "only of the reals"])
def test_its_counterexample_is_a_program(what):
    program = findings(*FALSE[what])["sound"].program
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         check=True).stdout
    left, right = out.splitlines()
    assert left.startswith("left ") and right.startswith("right ")
    assert left.split(maxsplit=1)[1] != right.split(maxsplit=1)[1]


def test_a_counterexample_is_small():
    program = findings(*FALSE["wrong sign"])["sound"].program
    assert "(), tegg." in program  # scalars, of simple values
    assert all(w in program for w in ("np.array(0.0,", "np.array(1.0,")) or "-1.0" in program


def test_a_rule_that_cannot_fire():
    relation = (";; (doubled e x) means (= e (Add x x))\n(relation doubled (Tensor Tensor))\n\n"
                ";; of softmaxes only\n(rule ((= e (Add x x)) (= x (Softmax y k))) ((doubled e x)) "
                ":ruleset mine :name \"mine/mark\")\n")
    problem = findings("rule ((doubled e x)) ((union e (Mul x (Const 2.0))))", "reals", "doubled",
                       relation)["live"].problem
    assert "never fired on 20 graphs of its own left side" in problem


def test_a_guard_that_is_not_needed():
    problem = findings("rewrite (Maximum x x) x :when ((positive x))", uses="positive")["guard"]
    assert "holds without its guard (positive x)" in problem.problem


def test_a_rule_that_grows_for_ever():
    problem = findings("rewrite (Sin x) (Neg (Sin (Neg x)))")["growth"].problem
    assert "was stopped by" in problem and "the rule that grew most is mine/rule" in problem


def test_a_rule_with_a_shape_error():
    problem = findings("rewrite (SumReduce x k) x")["sound"].problem
    assert "shapes or dtypes differ" in problem


def test_a_rule_that_makes_two_constants_one():
    text = FILE.format(rule="rewrite (Add x (Const 1.0)) (Const 5.0)", kind="reals",
                       uses="-", phase="algebra", relation="")
    mine = Compiler(read_rules(text, "mine.egg", ("mine",)))
    g = tegg.Graph()
    one = g.full(1.0, tegg.f32, (2,))
    g.outputs["z"] = g.op("Add", one, g.full(1.0, tegg.f32, (2,)))
    with pytest.raises(RuleError, match=r"rules put the constants \S+ and \S+ in one class; what "
                                        r"stated a value of that class: .*mine/rule"):
        saturate(g, [Generic(), mine])


def test_a_good_rule():
    assert findings("rewrite (Maximum x x) x", "bitwise") == {}


def test_a_runaway_rule_set_stops_and_what_there_is_is_used():
    text = FILE.format(rule="rewrite (Sin x) (Neg (Sin (Neg x)))", kind="reals", uses="-",
                       phase="names", relation="")
    g = tegg.Graph()
    g.tensor((3,), name="x").sin().output("y")
    with pytest.warns(tegg.LimitWarning, match=r"phase names of the rules was stopped by rounds 24; "
                                               r"the rule that grew most is mine/rule, by \d+ "
                                               r"e-nodes in the last round; the program "):
        run = g.compile([Generic(), Compiler(read_rules(text, "mine.egg", ("mine",)))],
                        cache=False)
    x = np.linspace(-3, 3, 3, dtype=np.float32)
    np.testing.assert_allclose(run(x)["y"], np.sin(x), rtol=1e-6)


def test_a_law_of_numbers_that_fails_where_two_sizes_coincide():
    program = findings("rewrite (Equal (Size d n) (Size d m)) (Const false) :when ((!= n m) "
                       "(int-type d))", uses="int-type")["sound"].program
    assert "tegg.dim(" in program
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         check=True).stdout
    assert out.splitlines() == ["left  True", "right False"]


def test_a_guard_that_nobody_proves():
    relation = ";; (alone a) means (= a (Neg a))\n(relation alone (Tensor))\n"
    with pytest.raises(RuleError, match=r"mine.egg:15:33: nobody proves \(alone x\), which guards "
                                        r"rule 'mine/rule': no rule of the stack states alone, and "
                                        r"no provider; stack what does"):
        findings("rewrite (Maximum x x) x :when ((alone x))", uses="alone", relation=relation)


def test_a_left_side_that_holds_itself():
    found = findings("rule ((= y (Neg x)) (= x (Neg y))) ((union x (Relu y)))")
    assert set(found) == {"sound", "live"}
    assert all("stands inside of its own term" in f.problem for f in found.values())
