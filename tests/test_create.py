"""Creation functions, triangles and diagonals against NumPy; errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tegg
from recorded import check, check_error, run
from tegg.testing.strategies import array
from tegg.dtype import bool_, f32, f64, i32
from tegg.errors import ArgumentError, ShapeError

X = np.arange(6.0).reshape(2, 3)


def made(fn):
    """What a function without operands makes."""
    return run(lambda x: fn() + 0 if fn().dtype is not bool_ else fn(), X)


@given(start=st.integers(-9, 9), stop=st.integers(-9, 9), step=st.sampled_from([1, 2, 3, -1, -2]))
def test_arange(start, stop, step):
    np.testing.assert_array_equal(made(lambda: tegg.arange(start, stop, step)),
                                  np.arange(start, stop, step))
    scaled = [v / 4 for v in (start, stop, step)]
    got = made(lambda: tegg.arange(*scaled, dtype="f64"))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, np.arange(*scaled), atol=1e-6)


@given(start=st.floats(-9, 9), end=st.floats(-9, 9), steps=st.integers(0, 20))
def test_linspace(start, end, steps):
    got = made(lambda: tegg.linspace(start, end, steps, "f64"))
    np.testing.assert_allclose(got, np.linspace(start, end, steps), atol=1e-13)
    assert steps < 2 or (got[0], got[-1]) == (start, end)


def test_constants():
    assert made(lambda: tegg.full((2, 3), 7)).dtype == np.int64
    assert made(lambda: tegg.full((2,), True)).tolist() == [True, True]
    assert made(lambda: tegg.zeros(2, 0)).shape == (2, 0)
    np.testing.assert_array_equal(made(lambda: tegg.ones((2, 2), dtype="i32")), np.ones((2, 2)))
    np.testing.assert_array_equal(made(lambda: tegg.eye(3)), np.eye(3))
    np.testing.assert_array_equal(made(lambda: tegg.eye(2, 4, dtype="i32")), np.eye(2, 4))
    check(lambda x: tegg.full_like(x, 2.5), lambda x: np.full_like(x, 2.5), X)
    check(lambda x: tegg.zeros_like(x, "i32") + tegg.cast(tegg.ones_like(x), "i32"),
          lambda x: np.ones((2, 3), np.int32), X)


@given(n=st.integers(0, 4), m=st.integers(0, 4), k=st.integers(-5, 5), seed=st.integers(0, 9),
       dtype=st.sampled_from([f32, i32, bool_]))
def test_triangles(n, m, k, seed, dtype):
    x = array(np.random.default_rng(seed), (2, n, m), dtype, specials=True)
    check(lambda x: x.tril(k), lambda x: np.tril(x, k), x, exact=True)
    check(lambda x: x.triu(k), lambda x: np.triu(x, k), x, exact=True)


@given(shape=st.lists(st.integers(0, 4), min_size=2, max_size=4), k=st.integers(-4, 4),
       data=st.data())
def test_diagonals(shape, k, data):
    i, j = data.draw(st.permutations(range(len(shape))))[:2]
    x = array(np.random.default_rng(0), tuple(shape), f64, specials=True)
    check(lambda x: x.diagonal(k, i, j), lambda x: np.diagonal(x, k, i, j), x, exact=True)


def test_trace_and_diag():
    check(lambda x: x.trace(), np.trace, X)
    check(lambda x: x.diag(1), lambda x: np.diag(x, 1), X)
    for k in (-2, 0, 1):
        check(lambda x, k=k: x[0].diag(k), lambda x, k=k: np.diag(x[0], k), X)


@given(sizes=st.lists(st.integers(0, 3), min_size=1, max_size=3),
       indexing=st.sampled_from(["ij", "xy"]))
def test_meshgrid(sizes, indexing):
    axes = [np.arange(n) for n in sizes]
    got = run(lambda *xs: tegg.meshgrid(*xs, indexing=indexing), *axes)
    for a, b in zip([got] if len(sizes) == 1 else got, np.meshgrid(*axes, indexing=indexing)):
        np.testing.assert_array_equal(a, b)


def test_symbols():
    n = tegg.dim("n", 2, 8)
    x = np.arange(9.0).reshape(3, 3)
    by = {"dims": {"x": (n, n)}, "sizes": {"n": 3}}
    got = run(lambda x: (x.tril(), x.diagonal(), tegg.eye(n) * x, tegg.arange(n), tegg.zeros(n, 2),
                         tegg.arange(1, n), tegg.ones_like(x)), x, **by)
    want = (np.tril(x), np.diagonal(x), np.eye(3) * x, np.arange(3), np.zeros((3, 2)),
            np.arange(1, 3), np.ones((3, 3)))
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a, b)
    bad = {"x": (n, n)}
    check_error(lambda x: tegg.arange(n, 5), ShapeError, "arange: 5-n elements may be below 0; "
                                                         "write tegg.assume", x, dims=bad)
    check_error(lambda x: tegg.arange(0, n, 2), ArgumentError,
                "arange: a symbolic range has whole ends and step 1", x, dims=bad)
    check_error(lambda x: x.diagonal(1), ShapeError,
                "diagonal: a diagonal of symbolic axes needs one size and offset 0, not (n, n) and "
                "1", x, dims=bad)
    check_error(lambda x: tegg.eye(n - 3), ShapeError, "eye: a size of (n-3, n-3) is below 0, or "
                                                       "may be", x, dims=bad)


ERRORS = [
    (lambda x: tegg.zeros(2, -1), ShapeError, "zeros: a size of (2, -1) is below 0, or may be"),
    (lambda x: tegg.full((2,), "a"), ArgumentError,
     "full: the value is a number that f32 holds, not 'a'"),
    (lambda x: tegg.full_like(x > 0, 2), ArgumentError,
     "full_like: the value is a number that bool holds, not 2"),
    (lambda x: tegg.arange(0, 5, 0), ArgumentError,
     "arange: takes finite numbers and a step but 0, not 0, 5, 0"),
    (lambda x: tegg.linspace(0, 1, 3, "i32"), ArgumentError,
     "linspace: needs a float dtype, not i32"),
    (lambda x: tegg.linspace(0, 1, -1), ArgumentError,
     "linspace: steps is an int of at least 0, not -1"),
    (lambda x: x[0].tril(), ShapeError, "tril: needs at least two axes, not (3,)"),
    (lambda x: x.triu(0.5), ArgumentError, "triu: diagonal is an int, not 0.5"),
    (lambda x: x[0].diagonal(), ShapeError, "diagonal: needs at least two axes, not (3,)"),
    (lambda x: x.diagonal(0, 1, 1), ShapeError,
     "diagonal: dim1 and dim2 are one axis of (2, 3)"),
    (lambda x: x[0].trace(), ShapeError, "trace: takes two axes, not (3,)"),
    (lambda x: x.sum().diag(), ShapeError, "diag: takes one or two axes, not ()"),
    (lambda x: tegg.meshgrid(x), ShapeError, "meshgrid: takes 1-D tensors, not (2, 3)"),
    (lambda x: tegg.meshgrid(x[0], indexing="yx"), ArgumentError,
     "meshgrid: indexing is 'ij' or 'xy', not 'yx'"),
    (lambda x: tegg.meshgrid(), ArgumentError, "meshgrid: needs at least one tensor"),
]


@pytest.mark.parametrize(("fn", "kind", "text"), ERRORS)
def test_errors(fn, kind, text):
    check_error(fn, kind, text, X)
