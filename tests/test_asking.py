"""Providers that fail, or state what is none of their facts, are told by name."""

from __future__ import annotations

import numpy as np
import pytest

import tegg
from tegg.errors import RuleError, ShapeError
from tegg.rewrite.rulefile import read_rules

RULES = """\
;; Doubles.
;;
;; ruleset:  double
;; class:    reals
;; phase:    names
;; uses:     told
;; grows:    no
;; targets:  any

(ruleset double)

;; 2 x  =>  x + x      for what is told
(rewrite (Mul x (Const 2.0)) (Add x x) :when ((told x k t))
         :ruleset double :name "double/told")
"""


class Telling:
    """States what it is given."""

    name = "telling"
    relations = {"told": ("Tensor", "i64", "String")}

    def __init__(self, facts):
        self.given = facts

    def facts(self, view):
        return self.given() if callable(self.given) else self.given


def compiled(facts):
    stack = tegg.Generic(), tegg.Compiler(read_rules(RULES, "double.egg"),
                                          providers=[Telling(facts)])
    return tegg.compile(lambda x: x * 2.0, *stack, cache=False)(np.ones(3, np.float32))


def fails():
    raise KeyError("boom")


def refuses():
    raise ShapeError("no such shape")


@pytest.mark.parametrize("facts, words", [
    (fails, r"provider 'telling' fails at .*test_asking.py:\d+: KeyError: 'boom'; its facts\(view\) "
            r"gives tuples of a relation and its arguments"),
    (None, "provider 'telling' fails at .*: TypeError: 'NoneType' object is not iterable"),
    ([3], "provider 'telling' states 3, which its relations .* do not declare"),
    ([()], r"provider 'telling' states \(\), which its relations"),
    (["told"], "provider 'telling' states 'told', which its relations"),
    ([("told", 0)], r"provider 'telling' states \('told', 0\), which its relations"),
    ([("told", -1, 0, "")], "-1 stands where a Tensor is needed, a class of the view"),
    ([("told", 10 ** 6, 0, "")], "1000000 stands where a Tensor is needed"),
    ([("told", None, 0, "")], "None stands where a Tensor is needed"),
    ([("told", 0, 0.5, "")], "0.5 stands where a i64 is needed, an int of 64 bits"),
    ([("told", 0, 2 ** 63, "")], "9223372036854775808 stands where a i64 is needed"),
    ([("told", 0, True, "")], "True stands where a i64 is needed"),
    ([("told", 0, 0, 'a"b')], "'a\"b' stands where a String is needed, a text without quotes"),
    ([("told", 0, 0, ("a", "b"))], r"\('a', 'b'\) stands where a String is needed"),
    ([("told", 0, 0, 3)], "3 stands where a String is needed"),
])
def test_what_is_no_fact(facts, words):
    with pytest.raises(RuleError, match=words):
        compiled(facts)


def test_what_is_one():
    for fact in (("told", np.int64(0), np.int32(-1), [1, 2]), ["told", 0, -2 ** 63, "a b"]):
        np.testing.assert_array_equal(compiled([fact]), 2)


def test_errors_of_ours_stay():
    with pytest.raises(ShapeError, match="no such shape"):
        compiled(refuses)
