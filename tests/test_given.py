"""What a compiler is made of is looked at when it is made, or stacked: errors say what is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest

import tegg
from tegg.errors import ArgumentError, BackendError
from tegg.extend import find_compiler, find_target


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
