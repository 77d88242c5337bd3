"""Pools and adaptive pools against window-by-window loops in NumPy; errors; symbols."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tegg
from recorded import check, check_error, run
from spatial_reference import adaptive_places, pool_count, pool_places, pooled
from tegg.testing.strategies import array
from tegg.dtype import bool_, f16, f32, f64, i32, u8
from tegg.errors import ArgumentError, DTypeError, ShapeError

MAX = {1: tegg.max_pool1d, 2: tegg.max_pool2d, 3: tegg.max_pool3d}
AVG = {1: tegg.avg_pool1d, 2: tegg.avg_pool2d, 3: tegg.avg_pool3d}
ADAPTIVE = {(1, True): tegg.adaptive_avg_pool1d, (2, True): tegg.adaptive_avg_pool2d,
            (3, True): tegg.adaptive_avg_pool3d, (1, False): tegg.adaptive_max_pool1d,
            (2, False): tegg.adaptive_max_pool2d, (3, False): tegg.adaptive_max_pool3d}


@st.composite
def cases(draw, dilated):
    """sizes, kernel, stride, padding, dilation; padding at most half of the kernel."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    stride = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    dilation = tuple(draw(st.integers(1, 2)) if dilated else 1 for _ in range(rank))
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    sizes = tuple(draw(st.integers(max(1, (k - 1) * d + 1 - 2 * p), 7))
                  for k, d, p in zip(kernel, dilation, padding))
    return sizes, kernel, stride, padding, dilation


@given(case=cases(True), ceil_mode=st.booleans(), seed=st.integers(0, 99),
       dtype=st.sampled_from([f64, f32, f16, i32, u8, bool_]))
def test_max_pool(case, ceil_mode, seed, dtype):
    sizes, *rest = case
    x = array(np.random.default_rng(seed), (2, 2, *sizes), dtype, specials=True)
    places = [pool_places(n, *r, ceil_mode) for n, *r in zip(sizes, *rest)]
    lowest = -np.inf if dtype.is_float else False if dtype is bool_ else np.iinfo(dtype.numpy).min
    check(lambda x: MAX[len(sizes)](x, *rest, ceil_mode=ceil_mode),
          lambda x: pooled(x, places, lambda v, at: v.max(-1, initial=lowest)), x, exact=True)


@given(case=cases(False), ceil_mode=st.booleans(), include=st.booleans(), seed=st.integers(0, 99),
       dtype=st.sampled_from([f64, f32, f16]))
def test_avg_pool(case, ceil_mode, include, seed, dtype):
    sizes, kernel, stride, padding, _ = case
    x = array(np.random.default_rng(seed), (2, 2, *sizes), dtype)
    places = [pool_places(n, k, s, p, 1, ceil_mode)
              for n, k, s, p in zip(sizes, kernel, stride, padding)]

    def mean(v, at):
        counted = (math.prod(map(pool_count, sizes, kernel, stride, padding, at)) if include
                   else v.shape[-1])
        return v.sum(-1) / counted

    check(lambda x: AVG[len(sizes)](x, kernel, stride, padding, ceil_mode, include),
          lambda x: pooled(x, places, mean), x)


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 1), (2, 3), (3, 1), (3, 2), (4, 3)])
def test_what_hangs_over_never_counts(kernel, stride, include):
    for n in range(2, 8):
        for p in range(max(0, -(-(kernel - n) // 2)), kernel // 2 + 1):
            x = np.arange(1.0, n + 1).reshape(1, 1, n)
            places = pool_places(n, kernel, stride, p, 1, True)
            want = [x[0, 0, at].sum() / (pool_count(n, kernel, stride, p, i) if include
                                         else len(at)) for i, at in enumerate(places)]
            got = run(lambda x: tegg.avg_pool1d(x, kernel, stride, p, True, include), x)  # noqa: B023
            np.testing.assert_allclose(got[0, 0], want)


@given(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=3), data=st.data(),
       mean=st.booleans(), seed=st.integers(0, 99))
def test_adaptive_pool(sizes, data, mean, seed):
    wanted = tuple(data.draw(st.integers(1, 9)) for _ in sizes)
    x = array(np.random.default_rng(seed), (1, 2, *sizes), f64, specials=not mean)
    places = [adaptive_places(n, m) for n, m in zip(sizes, wanted)]
    check(lambda x: ADAPTIVE[len(sizes), mean](x, wanted if len(wanted) > 1 else wanted[0]),
          lambda x: pooled(x, places, lambda v, at: v.mean(-1) if mean else v.max(-1)), x)


def test_defaults_and_other_forms():
    x = np.random.default_rng(0).normal(size=(3, 6, 4))
    halves = x.reshape(3, 3, 2, 2, 2)
    check(lambda x: tegg.max_pool2d(x, 2), lambda x: halves.max((2, 4)), x)  # no batch axis
    check(lambda x: tegg.avg_pool2d(x, (2, 2), divisor_override=3),
          lambda x: halves.sum((2, 4)) / 3, x)
    check(lambda x: tegg.adaptive_avg_pool2d(x, (None, 1)), lambda x: x.mean(2, keepdims=True), x)
    assert np.isnan(run(lambda x: tegg.max_pool1d(x, 2), np.array([[[np.nan, 1, 2, 3]]]))[0, 0, 0])


def test_symbols():
    n, s = tegg.dim("n", 1, 8), tegg.dim("s", 1, 16)
    x = np.random.default_rng(0).normal(size=(3, 2, 8))
    by = {"dims": {"x": (n, None, 2 * s)}, "sizes": {"n": 3, "s": 4}}
    pairs = x.reshape(3, 2, 4, 2)
    np.testing.assert_allclose(run(lambda x: tegg.max_pool1d(x, 2), x, **by), pairs.max(-1))
    np.testing.assert_allclose(run(lambda x: tegg.avg_pool1d(x, 2, ceil_mode=True), x, **by),
                               pairs.mean(-1))
    np.testing.assert_allclose(run(lambda x: tegg.adaptive_avg_pool1d(x, 1), x, **by),
                               x.mean(-1, keepdims=True))
    np.testing.assert_allclose(
        run(lambda x: tegg.avg_pool1d(x, 3, 1, 1, count_include_pad=False), x, **by),
        pooled(x, [pool_places(8, 3, 1, 1, 1, False)], lambda v, at: v.mean(-1)))
    bad = {"x": (n, None, s)}
    check_error(lambda x: tegg.max_pool1d(x, 1, 2, ceil_mode=True), ShapeError,
                "max_pool1d: ceil_mode on an axis of s needs a known size", x, dims=bad)
    check_error(lambda x: tegg.adaptive_max_pool1d(x, 3), ShapeError,
                "adaptive_max_pool1d: s elements do not divide into 3 parts for every size", x,
                dims=bad)


X = np.ones((1, 2, 5, 5))
ERRORS = [
    (lambda x: tegg.max_pool2d(x, 0), ArgumentError,
     "max_pool2d: kernel_size is an int of at least 1, or 2 of them, not 0"),
    (lambda x: tegg.max_pool2d(x, 2, 0), ArgumentError,
     "max_pool2d: stride is an int of at least 1, or 2 of them, not 0"),
    (lambda x: tegg.max_pool2d(x, 6), ShapeError,
     "max_pool2d: a kernel of 6 does not fit an axis of 5, padding included; (1, 2, 5, 5)"),
    (lambda x: tegg.max_pool2d(x, 2, padding=2), ArgumentError,
     "max_pool2d: padding (2, 2) is more than half of the kernel (2, 2)"),
    (lambda x: tegg.max_pool3d(x[0], 2), ShapeError,
     "max_pool3d: takes (batch, channels, 3 spatial axes) or the same without the batch, not "
     "(2, 5, 5)"),
    (lambda x: tegg.avg_pool2d(tegg.cast(x, "i32"), 2), DTypeError,
     "avg_pool2d: needs a float dtype, not i32; write x.cast('f32')"),
    (lambda x: tegg.avg_pool2d(x, 2, divisor_override=0), ArgumentError,
     "avg_pool2d: divisor_override is an int but 0, not 0"),
    (lambda x: tegg.adaptive_avg_pool2d(x, (1, 2, 3)), ArgumentError,
     "adaptive_avg_pool2d: output_size is one size or 2, not (1, 2, 3)"),
    (lambda x: tegg.adaptive_avg_pool2d(x, 0), ArgumentError,
     "adaptive_avg_pool2d: output_size is an int of at least 1, or 1 of them, not 0"),
    (lambda x: tegg.adaptive_avg_pool2d(x[:, :, :0], 1), ShapeError,
     "adaptive_avg_pool2d: an axis of (1, 2, 0, 5) is empty"),
]


@pytest.mark.parametrize(("fn", "kind", "text"), ERRORS)
def test_errors(fn, kind, text):
    check_error(fn, kind, text, X)


def test_compiled():
    x = np.random.default_rng(0).normal(size=(2, 3, 9, 11)).astype(np.float32)

    def pools(x):
        return (tegg.max_pool2d(x, 3, 2, 1), tegg.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
                tegg.adaptive_avg_pool2d(x, 4), tegg.adaptive_max_pool2d(x, (2, 11)))

    for got, want in zip(tegg.compile(pools)(x), run(pools, x)):
        np.testing.assert_allclose(got, want, atol=1e-6)
