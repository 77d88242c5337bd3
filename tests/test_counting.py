"""one_hot and bincount against NumPy, and what cannot be."""

from __future__ import annotations

import numpy as np
import pytest

import tegg
from axisops import through_oracle
from tegg.errors import ArgumentError, ShapeError

INDEX = np.array([[0, 2, -1], [3, 1, 1]])


def test_one_hot():
    for run in (through_oracle, lambda f, x: tegg.compile(f)(x)):
        got = run(lambda i: tegg.one_hot(i, 3), INDEX)
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, INDEX[..., None] == np.arange(3))


def test_bincount():
    x, w = np.array([0, 3, 3, 9, -1], np.int32), np.array([1, 2, 4, 8, 16], np.float32)
    counted, weighed = tegg.compile(lambda x, w: (
        tegg.bincount(x, minlength=5), x.bincount(weights=w, minlength=4)))(x, w)
    np.testing.assert_array_equal(counted, [1, 0, 0, 2, 0])
    np.testing.assert_array_equal(weighed, np.array([1, 0, 0, 6], np.float32))


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda i: tegg.one_hot(i, 0), ArgumentError, "one_hot: num_classes is an int of at least 1 or "
     "a symbolic dim, not 0; a shape cannot depend on values"),
    (lambda i: tegg.one_hot(INDEX, 3), ShapeError, "one_hot: -1 is not one of 3 classes"),
    (lambda i: tegg.bincount(i[0]), ArgumentError,
     "bincount: minlength is an int of at least 1 or a symbolic dim, not None"),
    (lambda i: tegg.bincount(i, minlength=2), ShapeError, "bincount: takes one axis, not (2, 3)"),
    (lambda i: tegg.bincount(i[0], i, 2), ShapeError,
     "bincount: weights (2, 3) are not one for each of (3,)"),
    (lambda i: i.nonzero(), ArgumentError, "nonzero: the shape of its result depends on values")])
def test_errors(call, kind, text):
    with pytest.raises(kind) as e, tegg.Graph().recording():
        tegg.trace(call, (INDEX,))
    assert str(e.value).startswith(text)
