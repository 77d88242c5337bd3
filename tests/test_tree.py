"""Nested values: taken apart and put together again."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tegg.errors import ArgumentError
from tegg.tree import flatten, unflatten

Point = namedtuple("Point", "x y")
leaf = st.builds(np.array, st.integers(0, 9))
plain = st.one_of(leaf, st.none(), st.integers(), st.text(max_size=3))
trees = st.recursive(plain, lambda t: st.one_of(
    st.lists(t, max_size=3), st.tuples(t, t), st.builds(Point, t, t),
    st.dictionaries(st.text(max_size=3), t, max_size=3)), max_leaves=8)


def is_leaf(x):
    return isinstance(x, np.ndarray)


@given(trees)
def test_round_trip(value):
    leaves, tree = flatten(value, is_leaf)
    again = unflatten(tree, [v for _, v in leaves])
    assert repr(again) == repr(value) and type(again) is type(value)
    assert tree.leaves == len(leaves) and hash(tree) == hash(flatten(again, is_leaf)[1])


@given(trees, trees)
def test_structures_tell_values_apart(a, b):
    same = flatten(a, is_leaf)[1] == flatten(b, is_leaf)[1]
    blank = lambda v: repr(unflatten(v[1], ["*"] * len(v[0])))
    assert same == (blank(flatten(a, is_leaf)) == blank(flatten(b, is_leaf)))


def test_equal_numbers_of_two_types_are_two_values():
    one, true = flatten(1, is_leaf)[1], flatten(True, is_leaf)[1]
    assert one != true and flatten(1.0, is_leaf)[1] != one
    assert flatten(0.0, is_leaf)[1] != flatten(-0.0, is_leaf)[1]
    assert flatten(float("nan"), is_leaf)[1] == flatten(float("nan"), is_leaf)[1]


def test_paths():
    value = {"a": (np.array(1), [np.array(2)]), "b": np.array(3)}
    assert [p for p, _ in flatten(value, is_leaf, "x")[0]] == ["x.a.0", "x.a.1.0", "x.b"]


def test_what_is_neither_array_nor_value():
    with pytest.raises(ArgumentError) as e:
        flatten({"a": [{1, 2}]}, is_leaf)
    assert str(e.value) == ("a.0: a set is neither an array nor a value that can be compared; pass "
                            "NumPy arrays, numbers, strings, or tuples, lists and dicts of them")
