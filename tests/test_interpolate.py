"""interpolate against formulas in NumPy; errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tegg
from recorded import check, check_error, run
from spatial_reference import adaptive_places, pooled
from tegg.testing.strategies import array
from tegg.dtype import f16, f32, f64, i32
from tegg.errors import ArgumentError, DTypeError, ShapeError


def nearest(x, sizes, ratios, shift):
    for axis, (m, r) in enumerate(zip(sizes, ratios), 2):
        step = np.float32(x.shape[axis] / m if r is None else r)
        at = np.floor((np.arange(m, dtype=np.float32) + np.float32(shift)) * step).astype(int)
        x = np.take(x, np.minimum(at, x.shape[axis] - 1), axis)
    return x


def linear(x, sizes, ratios, corners):
    for axis, (m, r) in enumerate(zip(sizes, ratios), 2):
        n = x.shape[axis]
        i = np.arange(m)
        at = (i * ((n - 1) / (m - 1) if m > 1 else 0) if corners else
              np.maximum((i + 0.5) * (n / m if r is None else r) - 0.5, 0))
        at = np.minimum(at, n - 1)
        moved = np.moveaxis(x, axis, -1)
        flat = moved.reshape(-1, n)
        rows = [np.interp(at, np.arange(n), row) for row in flat]
        x = np.moveaxis(np.array(rows).reshape(*moved.shape[:-1], m), -1, axis)
    return x


spatial = st.lists(st.integers(1, 6), min_size=1, max_size=3)


@given(sizes=spatial, data=st.data(), exact=st.booleans(), seed=st.integers(0, 99),
       dtype=st.sampled_from([f64, f32, f16, i32]))
def test_nearest(sizes, data, exact, seed, dtype):
    x = array(np.random.default_rng(seed), (1, 2, *sizes), dtype)
    wanted = tuple(data.draw(st.integers(1, 13)) for _ in sizes)
    mode = "nearest-exact" if exact else "nearest"
    check(lambda x: tegg.interpolate(x, wanted, mode=mode),
          lambda x: nearest(x, wanted, [None] * len(sizes), exact / 2), x, exact=True)


@given(sizes=spatial, data=st.data(), corners=st.booleans(), seed=st.integers(0, 99),
       dtype=st.sampled_from([f64, f32, f16]))
def test_linear(sizes, data, corners, seed, dtype):
    x = array(np.random.default_rng(seed), (1, 2, *sizes), dtype, "small")
    wanted = tuple(data.draw(st.integers(1, 13)) for _ in sizes)
    mode = ("linear", "bilinear", "trilinear")[len(sizes) - 1]
    check(lambda x: tegg.interpolate(x, wanted, mode=mode, align_corners=corners),
          lambda x: linear(x, wanted, [None] * len(sizes), corners), x, slack=4)


@given(factors=st.tuples(*[st.sampled_from([1, 2, 3.0, 0.5, 0.7, 1.6])] * 2),
       mode=st.sampled_from(["nearest", "bilinear"]))
def test_scale_factors(factors, mode):
    x = np.random.default_rng(0).normal(size=(1, 2, 5, 7))
    sizes, ratios = [int(n * f) for n, f in zip((5, 7), factors)], [1 / f for f in factors]
    check(lambda x: tegg.interpolate(x, scale_factor=factors, mode=mode),
          lambda x: (nearest(x, sizes, ratios, 0) if mode == "nearest" else
                     linear(x, sizes, ratios, False)), x)


def test_area_and_symbols():
    x = np.random.default_rng(0).normal(size=(2, 2, 5, 7))
    check(lambda x: tegg.interpolate(x, (2, 3), mode="area"),
          lambda x: pooled(x, [adaptive_places(5, 2), adaptive_places(7, 3)],
                           lambda v, at: v.mean(-1)), x)
    n, s = tegg.dim("n", 1, 8), tegg.dim("s", 1, 16)
    got = run(lambda x: tegg.interpolate(x, scale_factor=(2, 3)), x,
              dims={"x": (n, None, s, None)}, sizes={"n": 2, "s": 5})
    np.testing.assert_array_equal(got, x.repeat(2, 2).repeat(3, 3))
    bad = {"x": (n, None, s, None)}
    check_error(lambda x: tegg.interpolate(x, 4), ShapeError,
                "interpolate: an axis of s needs a known size above 0, or mode 'nearest' with a "
                "whole scale factor", x, dims=bad)
    check_error(lambda x: tegg.interpolate(x, scale_factor=1.5), ShapeError,
                "interpolate: an axis of s takes a whole scale factor, not 1.5", x, dims=bad)


X = np.ones((1, 2, 4, 4))
ERRORS = [
    (lambda x: tegg.interpolate(x), ArgumentError,
     "interpolate: give size or scale_factor, and one of them only"),
    (lambda x: tegg.interpolate(x, 2, mode="cubic"), ArgumentError,
     "interpolate: mode is one of 'nearest', 'nearest-exact', 'linear', 'bilinear', 'trilinear', "
     "'area', not 'cubic'"),
    (lambda x: tegg.interpolate(x, 2, mode="linear"), ShapeError,
     "interpolate: mode 'linear' takes 3 axes, not (1, 2, 4, 4)"),
    (lambda x: tegg.interpolate(x[0, 0], 2), ShapeError,
     "interpolate: mode 'nearest' takes 3 to 5 axes, not (4, 4)"),
    (lambda x: tegg.interpolate(x, 2, align_corners=True), ArgumentError,
     "interpolate: align_corners says nothing to mode 'nearest'"),
    (lambda x: tegg.interpolate(x, (1, 2, 3)), ArgumentError,
     "interpolate: 3 sizes for 2 spatial axes"),
    (lambda x: tegg.interpolate(x, 0), ArgumentError,
     "interpolate: a size is an int of at least 1, not 0"),
    (lambda x: tegg.interpolate(x, scale_factor=-1), ArgumentError,
     "interpolate: a scale factor is a number above 0, not -1"),
    (lambda x: tegg.interpolate(x, scale_factor=0.1), ShapeError,
     "interpolate: scale factor 0.1 leaves nothing of (1, 2, 4, 4)"),
    (lambda x: tegg.interpolate(tegg.cast(x, "i32"), 2, mode="bilinear"), DTypeError,
     "interpolate: needs a float dtype, not i32; write x.cast('f32')"),
]


@pytest.mark.parametrize(("fn", "kind", "text"), ERRORS)
def test_errors(fn, kind, text):
    check_error(fn, kind, text, X)


def test_compiled():
    x = np.random.default_rng(0).normal(size=(2, 3, 9, 11)).astype(np.float32)

    def f(x):
        return (tegg.interpolate(x, scale_factor=2, mode="bilinear"), tegg.interpolate(x, (5, 20)),
                tegg.interpolate(x, (13, 4), mode="bilinear", align_corners=True))

    for got, want in zip(tegg.compile(f)(x), run(f, x)):
        np.testing.assert_allclose(got, want, atol=1e-6)
