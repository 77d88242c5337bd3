"""Keys of plans: what is alike has one, in every process, and nothing else has it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

import tegg
from tegg.rewrite.identity import made_of, state, written
from tegg.rewrite.rulefile import read_rules

RULES = """\
;; Doubles.
;;
;; ruleset:  double
;; class:    reals
;; phase:    names
;; uses:     small
;; grows:    no
;; targets:  any

(ruleset double)

;; 2 x  =>  x + x      for what is small
(rewrite (Mul x (Const 2.0)) (Add x x) :when ((small x))
         :ruleset double :name "double/small")
"""


@dataclass(frozen=True)
class Small:
    """Tells of classes of at most so many elements."""

    most: int
    name = "small"
    relations = {"small": ("Tensor",)}

    def facts(self, view):
        return [("small", c) for c, s in view.shape.items() if s[0] <= self.most]


class Slotted:
    __slots__ = ("kept", "later")

    def __init__(self, kept):
        self.kept = kept


def compiler(most):
    return tegg.Compiler(read_rules(RULES, "double.egg"), providers=[Small(most)], name="d",
                         cost={"Mul": 1000})


def test_a_plan_is_of_what_its_providers_hold():
    """A product, which is dear, is a sum only where the provider says so."""
    x = np.ones(5, np.float32)

    def source(most):
        run = tegg.compile(lambda x: x * 2.0, tegg.Generic(), compiler(most))
        np.testing.assert_array_equal(run(x), 2)
        return run.source()

    assert source(5) == source(6) != source(4) == source(3)


@pytest.mark.parametrize("a, b", [
    (Small(3), Small(4)), (Slotted(1), Slotted(2)), (Slotted(np.zeros(5000)), Slotted(
        np.eye(5000, 1)[:, 0])), (Slotted({"a": 1}), Slotted({"a": 2})), (Slotted(len), Slotted(max)),
    (Slotted(partial(max, 1)), Slotted(partial(max, 2))), (Slotted([{1, 2}]), Slotted([{1, 3}])),
    (Slotted(lambda x=1: x), Slotted(lambda x=2: x))])
def test_what_differs_has_another_key(a, b):
    assert made_of(a) != made_of(b)
    assert made_of(a) == made_of(a)


def test_what_cannot_be_looked_into_is_like_nothing():
    assert state(object()) != state(object())
    thing = object()
    assert state(thing) != state(thing)  # another may lie there next


def closing(array):
    return lambda x: x + array


def test_functions_differ_by_what_they_close_over():
    a, b = np.zeros(5000), np.zeros(5000)
    assert written(closing(a)) == written(closing(b))
    b[2500] = 1
    assert written(closing(a)) != written(closing(b))


def test_a_key_is_the_same_in_another_process():
    program = "from tegg.rewrite.compiler import *; from tegg.planning.target import find; " \
              "print([c.identity() for c in (lowering(find('cpu')), Bf16(), Fp16(), Tf32())])"
    one, two = (subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                               check=True).stdout for _ in range(2))
    assert one == two != ""
