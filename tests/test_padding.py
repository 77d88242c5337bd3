"""Pad modes against NumPy's; errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tegg
from recorded import check, check_error, run
from tegg.testing.strategies import array
from tegg.dtype import bool_, f16, f32, i32
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.ir.oracle import evaluate

NUMPY = {"reflect": "reflect", "replicate": "edge", "edge": "edge", "circular": "wrap",
         "wrap": "wrap"}


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3), data=st.data(),
       mode=st.sampled_from(sorted(NUMPY)), dtype=st.sampled_from([f32, f16, i32, bool_]),
       seed=st.integers(0, 99), flat=st.booleans())
def test_modes(sizes, data, mode, dtype, seed, flat):
    x = array(np.random.default_rng(seed), tuple(sizes), dtype, specials=True)
    most = {"reflect": -1, "edge": 3, "replicate": 3}.get(mode, 0)
    pairs = [(data.draw(st.integers(0, n + most)), data.draw(st.integers(0, n + most)))
             for n in sizes]
    widths = [w for p in reversed(pairs) for w in p] if flat else pairs
    check(lambda x: tegg.pad(x, widths, mode), lambda x: np.pad(x, pairs, NUMPY[mode]), x,
          exact=True)


@pytest.mark.parametrize(("shape", "by"), (((2, 40, 20), "Gather"), ((2, 20, 300), "Flip")))
def test_long_rows_are_joined_of_what_is_reflected_and_short_ones_gathered(shape, by):
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    traced = tegg.trace(lambda x: tegg.pad(x, (3, 1, 0, 2), "reflect"), (x,))
    ops = {n.op.name for n in traced.graph.nodes}
    assert ops & {"Gather", "Flip"} == {by}
    f = tegg.compile(lambda x: tegg.pad(x, (3, 1, 0, 2), "reflect"))
    np.testing.assert_array_equal(f(x), np.pad(x, ((0, 0), (0, 2), (3, 1)), "reflect"))


def test_symbols():
    s = tegg.dim("s", 3, 16)
    x = np.arange(5.0)
    for mode, name in NUMPY.items():
        got = run(lambda x, mode=mode: x.pad((2, 1), mode), x, dims={"x": (s,)}, sizes={"s": 5})
        np.testing.assert_array_equal(got, np.pad(x, (2, 1), name))
    check_error(lambda x: x.pad((3, 0), "reflect"), ShapeError,
                "pad: an axis of s is too short for a width of 3 with mode 'reflect', or may be; "
                "(s,)", x, dims={"x": (s,)})


@pytest.mark.parametrize(("fn", "kind", "text"), [
    (lambda x: x.pad((1, 1), "mirror"), ArgumentError,
     "pad: mode is one of 'constant', 'reflect', 'replicate', 'circular', 'edge', 'wrap', not "
     "'mirror'"),
    (lambda x: x.pad((1, 1), 0.5), ArgumentError, "not 0.5; write value=0.5"),
    (lambda x: x.pad((1, 1), value="a"), ArgumentError,
     "pad: the value is a Python number, not 'a'"),
    (lambda x: (x > 0).pad((1, 1), value=2), DTypeError, "pad: 2 is no bool"),
    (lambda x: x.pad((4, 0), "circular"), ShapeError,
     "pad: an axis of 3 is too short for a width of 4 with mode 'circular', or may be; (2, 3)"),
    (lambda x: x[:, :0].pad((1, 0), "edge"), ShapeError,
     "pad: an axis of 0 is too short for a width of 1 with mode 'replicate', or may be; (2, 0)"),
    (lambda x: x.pad((-1, 0), "edge"), ShapeError, "pad: an axis of 3 is too short"),
])
def test_errors(fn, kind, text):
    check_error(fn, kind, text, np.ones((2, 3)))


def test_bools():
    g = tegg.Graph()
    g.tensor((2,), "bool").pad((1, 1), value=True).output("y")
    assert evaluate([g.outputs["y"]], {0: np.zeros(2, bool)})[0].tolist() == [True, 0, 0, True]


def test_compiled():
    x = np.random.default_rng(0).normal(size=(2, 9, 21)).astype(np.float32)

    def f(x):
        return tuple(x.pad((3, 2, 1, 4), m) for m in NUMPY)

    for got, mode in zip(tegg.compile(f)(x), NUMPY.values()):
        np.testing.assert_array_equal(got, np.pad(x, [(0, 0), (1, 4), (3, 2)], mode))
