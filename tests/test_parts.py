"""Tensors taken apart, repeated and turned, against NumPy; errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tegg
from recorded import check, check_error, run
from tegg.errors import ArgumentError, ShapeError


@st.composite
def placed(draw, least=0):
    """An array and one of its axes."""
    shape = tuple(draw(st.lists(st.integers(least, 5), min_size=1, max_size=3)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return np.arange(np.prod(shape)).reshape(shape), axis


def same(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)


def several(fn, x):
    out = run(fn, x)
    return out if isinstance(out, list) else [out]


@given(case=placed(1), size=st.integers(1, 6))
def test_split_and_chunk(case, size):
    x, axis = case
    n = x.shape[axis]
    same(several(lambda x: x.split(size, axis), x),
         np.split(x, range(size, n, size), axis))
    each = -(-n // size)
    same(several(lambda x: x.chunk(size, axis), x), np.split(x, range(each, n, each), axis))
    same(several(lambda x: x.split((1, n - 1), axis), x), np.split(x, [1], axis))
    same(several(lambda x: x.tensor_split(size, axis), x), np.array_split(x, size, axis))
    same(several(lambda x: x.tensor_split((1, size), axis), x), np.array_split(x, [1, size], axis))
    same(several(lambda x: x.unbind(axis), x), list(np.moveaxis(x, axis, 0)))


@given(case=placed(), times=st.integers(0, 3), lead=st.integers(1, 2))
def test_repeats(case, times, lead):
    x, axis = case
    sizes = (lead, *[times] * x.ndim)
    check(lambda x: x.repeat(sizes), lambda x: np.tile(x, sizes), x, exact=True)
    check(lambda x: x.tile(times), lambda x: np.tile(x, times), x, exact=True)
    check(lambda x: x.repeat_interleave(times, axis), lambda x: np.repeat(x, times, axis), x,
          exact=True)
    check(lambda x: x.repeat_interleave(times), lambda x: np.repeat(x, times), x, exact=True)
    many = list(range(x.shape[axis]))
    check(lambda x: x.repeat_interleave(many, axis), lambda x: np.repeat(x, many, axis), x,
          exact=True)


@given(case=placed(), shift=st.integers(-7, 7))
def test_roll(case, shift):
    x, axis = case
    check(lambda x: x.roll(shift, axis), lambda x: np.roll(x, shift, axis), x, exact=True)
    check(lambda x: x.roll(shift), lambda x: np.roll(x, shift), x, exact=True)
    check(lambda x: x.roll((shift, 1), (axis, 0)), lambda x: np.roll(x, (shift, 1), (axis, 0)), x,
          exact=True)


@given(k=st.integers(-5, 5), axes=st.permutations([0, 1, 2]))
def test_rot90(k, axes):
    x = np.arange(24).reshape(2, 3, 4)
    check(lambda x: x.rot90(k, axes[:2]), lambda x: np.rot90(x, k, axes[:2]), x, exact=True)


def test_unflatten():
    x = np.arange(24).reshape(2, 12)
    check(lambda x: x.unflatten(1, (3, -1)), lambda x: x.reshape(2, 3, 4), x)


def test_symbols():
    n = tegg.dim("n", 3, 8)
    x = np.arange(5.0)
    got = run(lambda x: (*x.split((2, n - 2)), x.roll(2), x.roll(-1, 0), x.repeat(2, 3)), x,
              dims={"x": (n,)}, sizes={"n": 5})
    same(got, [x[:2], x[2:], np.roll(x, 2), np.roll(x, -1), np.tile(x, (2, 3))])
    bad = {"x": (n,)}
    check_error(lambda x: x.split(2), ShapeError,
                "split: axis 0 of (n,) is symbolic, so the number of pieces is not known; give "
                "their sizes to split", x, dims=bad)
    check_error(lambda x: x.roll(4, 0), ShapeError,
                "roll: an axis of n may be shorter than the shift 4; write tegg.assume(n-4 >= 0)",
                x, dims=bad)


ERRORS = [
    (lambda x: x.split(0), ArgumentError, "split: split_size is an int of at least 1, not 0"),
    (lambda x: x.split((1, 2)), ShapeError,
     "split: sizes (1, 2) do not add up to axis 0 of (2, 3)"),
    (lambda x: x.chunk(0), ArgumentError, "chunk: chunks is an int of at least 1, not 0"),
    (lambda x: x.tensor_split(0), ArgumentError,
     "tensor_split: sections is an int of at least 1, not 0"),
    (lambda x: x.unbind(2), ShapeError, "unbind: axis 2 is outside a tensor of rank 2"),
    (lambda x: x.repeat(2), ShapeError, "repeat: (2,) has fewer sizes than (2, 3) has axes"),
    (lambda x: x.repeat(2, -1), ShapeError, "repeat: a number of (2, -1) is below 0, or may be"),
    (lambda x: x.repeat_interleave(-1), ArgumentError,
     "repeat_interleave: repeats is an int of at least 0, not -1"),
    (lambda x: x.repeat_interleave([1], 1), ShapeError,
     "repeat_interleave: 1 numbers of repeats for axis 1 of (2, 3)"),
    (lambda x: x.roll((1, 2), 0), ArgumentError, "roll: 2 shifts for 1 axes"),
    (lambda x: x.rot90(1, (0,)), ArgumentError, "rot90: dims are two axes, not (0,)"),
    (lambda x: x.rot90(1, (1, -1)), ShapeError, "rot90: (1, -1) are one axis of (2, 3)"),
    (lambda x: x.unflatten(1, (2, -1)), ShapeError, "unflatten: axis 1 of (2, 3) is not (2, -1)"),
]


@pytest.mark.parametrize(("fn", "kind", "text"), ERRORS)
def test_errors(fn, kind, text):
    check_error(fn, kind, text, np.ones((2, 3)))
