"""The kit of tests: what holds passes, and a target, a rule or a row that is wrong is caught."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.target import Cpu

import tegg
from tegg.ir.op import OPS, Op
from tegg.rewrite.compiler import Compiler, Generic
from tegg.rewrite.rulefile import read_rules
from tegg.testing import check_backend, check_compilers, check_drawn, check_egraph
from tegg.testing.strategies import row_calls

FILE = """;; Halves.
;;
;; ruleset:  halves
;; class:    reals
;; phase:    names
;; uses:     -
;; grows:    no
;; targets:  any

(ruleset halves)

;; 2 x  =>  x + x
(rewrite (Mul x (Const {})) (Add x x)
         :ruleset halves :name "halves/twice")
"""


def test_the_cpu():
    report = check_backend(Cpu(), examples=8)
    assert {"Add", "Cast", "Softmax", "SumReduce", "CumSum", "ArgSort"} <= report.rows
    assert report.programs == 8 and report.views == 16 and report.classes > 100
    assert str(report).startswith(f"cpu: {len(report.rows)} rows, 8 programs")


class Wrong(Cpu):
    """A CPU that computes another function in place of one op."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__()
        self.language = WrongC(self.language.width, name, text)


class WrongC(C):
    half = bytes = None  # no other number of lanes

    def __init__(self, width: int, name: str, text: str) -> None:
        super().__init__(width)
        object.__setattr__(self, "wrong", (name, text))

    @property
    def dialect(self):
        right = super().dialect
        name, text = self.wrong
        return replace(right, ops={**right.ops, (name, "float"): text})


@pytest.mark.parametrize("name, text, said", [
    ("Mul", "({0} * {1} + 0.25{f})", r"Mul\(.*\) of f32 gives"),
    ("Maximum", "({0} + {1})", r"Maximum\(.*\) of f32 gives .* \(\d+ of 75 elements differ\)"),
])
def test_a_wrong_spelling_is_caught(name, text, said):
    with pytest.raises(AssertionError, match=said):
        check_backend(Wrong(name, text), examples=2)


def test_a_wrong_row_along_an_axis_is_made_small():
    softmax = replace(OPS["Softmax"], meaning=lambda a, t, s, d: np.zeros(s, d.numpy))
    with pytest.raises(AssertionError, match=r"Softmax\(0,\) of f32 on \[-?\d+\.\d+\]: "):
        check_drawn(Cpu(), {"Softmax": softmax, **{k: v for k, v in OPS.items() if k != "Softmax"}},
                    tegg.f32, 4, 0, {"Softmax": row_calls(softmax, tegg.f32)})


def test_rules_that_hold():
    good = Compiler(read_rules(FILE.format("2.0"), "halves.egg", ("halves",)))
    report = check_compilers(good, examples=3)
    assert report.rules == ["halves/twice"] and report.programs == 3
    assert str(report).startswith("1 rules, 2 checks; ")


def test_a_false_rule_is_caught():
    bad = Compiler(read_rules(FILE.format("3.0"), "halves.egg", ("halves",)))
    with pytest.raises(AssertionError, match="halves/twice: sound: .*is not reals") as e:
        check_compilers(bad, examples=3)
    assert "import tegg" in str(e.value)


def test_every_class_of_a_graph():
    g = tegg.Graph()
    n = tegg.dim("n", min=1, max=9)
    x = g.tensor((n, 4))
    (x * tegg.sigmoid(x) + x).softmax(-1).output("y")
    assert len(check_egraph(g, Generic()).classes.nodes) > 5
    bad = Compiler(read_rules(FILE.format("3.0"), "halves.egg", ("halves",)))
    h = tegg.Graph()
    y = h.tensor((3,))
    (y * 3).output("y")
    with pytest.raises(AssertionError, match="is off its class"):
        check_egraph(h, (Generic(), bad))


def test_without_hypothesis_the_extra_is_named():
    code = ("import sys; sys.modules['hypothesis'] = None\n"
            "import tegg.testing\n"
            "tegg.testing.check_egraph\n"
            "try: tegg.testing.check_backend\n"
            "except tegg.ArgumentError as e: print(e)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ("what tegg.testing draws needs Hypothesis, which is not installed; "
                           "pip install 'tegg[testing]'\n")


def test_an_unknown_name_of_the_kit():
    with pytest.raises(AttributeError, match="'tegg.testing' has no attribute 'check_all'"):
        getattr(tegg.testing, "check_all")  # noqa: B009
    assert "check_backend" in dir(tegg.testing)


def test_c_that_is_not_what_its_row_means_is_caught():
    def twice(text):
        return Compiler(ops=[Op("Twice", "elementwise", 1, OPS["Neg"].shape, OPS["Neg"].dtype,
                                lambda a, t, s, d: a[0] + a[0], domains=("any",),
                                code=(tegg.Code(float=text, int="({0} + {0})"),))], name="twice")

    report = check_compilers(twice("({0} + {0})"), examples=1)
    assert report.rows == ["Twice"] and str(report).startswith("0 rules, 1 rows in C, 0 checks")
    with pytest.raises(AssertionError, match=r"Twice\(.*\) of \w+ gives .* elements differ"):
        check_compilers(twice("({0})"), examples=1)
