"""What a compiler is made of is looked at when it is made, or stacked: errors say what is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest

import tegg
from tegg.errors import ArgumentError, BackendError, TeggError
from tegg.extend import find_compiler, find_target
from tegg.ir.code import ATTRIBUTES, KINDS
from tegg.ir.op import ATTR_SORTS, OPS
from tegg.rewrite.rulefile import read_rules
from tegg.testing import check_backend


class Told:
    """A provider of what it is given."""

    def __init__(self, relations, name="told"):
        self.relations, self.name = relations, name

    def facts(self, view):
        return []


@dataclass
class Unhashable:
    name: str = "u"
    relations: tuple = ()

    def facts(self, view):
        return []


@pytest.mark.parametrize("given, words", [
    ({"name": 3}, "name= of a compiler is a text, not 3"),
    ({"rules": 3}, "rules= of a compiler takes several, as in rules=[...], not 3"),
    ({"ops": 3}, "ops= of a compiler takes several, as in ops=[...], not 3"),
    ({"ops": tegg.extend.OPS["Add"]}, "ops= of a compiler takes several, as in ops=[...], not Add"),
    ({"providers": 3}, "providers= of a compiler takes several, as in providers=[...], not 3"),
    ({"providers": [3]}, "providers= of compiler '' takes objects with name, relations and"),
    ({"providers": [Unhashable()]}, "provider 'u' of compiler '' has no hash, so it cannot be told "
                                    "from others; write @dataclass(frozen=True)"),
    ({"providers": [Told(["a"])]}, "provider 'told' of compiler '' has the relations ['a']; a name"),
    ({"providers": [Told({}, None)]}, "provider None of compiler '' has the relations {}; a name"),
    ({"providers": [Told({"a b": ()})]}, "provider 'told' of compiler '' declares a relation 'a b'"),
    ({"providers": [Told({"a": "Tensor"})]}, "declares 'a' with the sorts 'Tensor'; they are a tuple "
                                             "of Tensor, String, i64"),
    ({"providers": [Told({"a": ("Int",)})]}, "declares 'a' with the sorts ('Int',); they are"),
    ({"phases": [1]}, "phases= of a compiler is a dict, not [1]"),
    ({"phases": {"algebra": 3}}, "compiler '' says 3 of the phase 'algebra'; settings are a dict"),
    ({"phases": {"algebra": {"rounds": "x"}}}, "limit rounds='x' of phase 'algebra' is not "),
    ({"phases": {"mine": {"after": "algbra"}}}, "compiler '' says that its phase 'mine' runs after "
                                                "'algbra', which is none of algebra, names"),
    ({"phases": {"a": {"after": "bb"}}}, "a phase of its own comes behind one that was named before"),
    ({"cost": 3}, "cost= of a compiler is a dict, not 3"),
    ({"cost": {3: 1}}, "cost= of compiler '' gives 3 1; a cost is a number of operations, 0 or"),
    ({"target": "cpu"}, "target= of compiler '' has no name, features, rules"),
])
def test_what_a_compiler_is_not_made_of(given, words):
    with pytest.raises((ArgumentError, BackendError), match=re.escape(words)):
        tegg.compile(lambda x: x + 1, tegg.Generic(), tegg.Compiler(**given), cache=False)(
            np.ones(3, np.float32))


def test_costs_of_numpy_are_numbers():
    assert tegg.Compiler(cost={"Add": np.float32(3), "Mul": np.int64(2)}).cost == {"Add": 3, "Mul": 2}


def test_names_are_texts():
    with pytest.raises(ArgumentError, match="compilers are found by name, a text, not 3"):
        find_compiler(3)
    with pytest.raises(BackendError, match="a device is named by a text, such as 'cpu', not 3"):
        find_target(3)


ROW = {"name": "Hyp", "kind": "elementwise", "arity": 2, "shape": tegg.extend.OPS["Add"].shape,
       "dtype": tegg.extend.OPS["Div"].dtype, "domains": ("any", "any"), "cost": 1,
       "meaning": lambda arrays, attrs, shape, dtype: np.hypot(*arrays)}
RULES = """\
;; Hypotenuses.
;;
;; ruleset:  hyp
;; class:    reals
;; phase:    names
;; uses:     -
;; grows:    no
;; targets:  any

(ruleset hyp)

;; sqrt(a a + b b)  =>  hyp(a, b)
(rewrite (Sqrt (Add (Mul a a) (Mul b b))) (Hyp a b)
         :ruleset hyp :name "hyp/sqrt")
"""


def code(text, functions=""):
    return (tegg.Code(float=text, functions=functions),)


def hypotenuse(**given):
    op = tegg.Op(**{**ROW, "code": code("__builtin_hypotf({0}, {1})"), **given})
    stack = tegg.Generic(), tegg.Compiler(read_rules(RULES, "hyp.egg"), ops=[op],
                                          cost={"Sqrt": 1000})
    x = np.ones(3, np.float32)
    return tegg.compile(lambda x, y: (x * x + y * y).sqrt(), *stack, cache=False)(x, x)


@pytest.mark.parametrize("given, words", [
    ({"name": "hy pot"}, "op 'hy pot' of compiler 'hyp' is named so that no rule can say it"),
    ({"name": "Const"}, "brings an op 'Const', which is a word of rules; give it another name"),
    ({"kind": "fast"}, "is of kind 'fast'; kinds are source, movement"),
    ({"arity": "2"}, "has the arity '2'; it is how many tensors it takes"),
    ({"attrs": (("k", "float"),)}, "has the attributes (('k', 'float'),); they are pairs of a name "),
    ({"shape": None}, "has no function shape=; OPS['Add'].shape is one"),
    ({"dtype": "f32"}, "has no function dtype=; OPS['Add'].dtype is one"),
    ({"meaning": None}, "has no function meaning=; OPS['Add'].meaning is one"),
    ({"cost": float("nan")}, "has the cost nan; a cost is a number of operations, 0 or more"),
    ({"code": tegg.Code()}, "write code=(tegg.Code(...),)"),
    ({"code": code("{0} + {2}")}, "has the expression '{0} + {2}', where {2} stands for nothing; "
                                  "there are {0} {1} {v} {m} {f}, and a brace of C is written twice"),
    ({"code": code("{0")}, "has the expression '{0', whose braces do not fit (expected '}'"),
    ({"dtype": lambda d, a: 1 / 0}, "has a dtype rule that fails for f32: ZeroDivisionError"),
    ({"dtype": lambda d, a: 1 / 0, "code": ()}, "the row of op 'Hyp' fails for Hyp(0, 1): "
                                                "ZeroDivisionError: division by zero; shape= takes"),
    ({"shape": lambda s: s[0]}, "the row of op 'Hyp' fails for Hyp(0, 1): TypeError"),
    ({"shape": lambda s, a, f: None}, "gives Hyp(0, 1) the shape None and dtype tegg.f32; it gives"),
    ({"code": code("{v}nowhere({0}, {1})",
                   "float sf_nowhere(float, float); vf vf_nowhere(vf, vf);")},
     "compiled kernels cannot be loaded"),
])
def test_what_no_row_is_made_of(given, words):
    with pytest.raises(TeggError, match=re.escape(words)):
        hypotenuse(**given)


def test_words_for_rows_are_those_of_the_table():
    assert set(ATTRIBUTES) == set(ATTR_SORTS)
    assert {op.kind for op in OPS.values()} <= set(KINDS)


def test_targets_are_objects_of_their_class():
    class Mine:
        name = "mine"

    with pytest.raises(BackendError, match=r"target= of compiler 'm' is the class Mine; write Mine\(\)"):
        tegg.compile(lambda x: x, tegg.Compiler(name="m", target=Mine))(np.ones(3, np.float32))
    with pytest.raises(BackendError, match="what check_backend is given has no name, features"):
        check_backend("cpu")
