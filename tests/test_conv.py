"""Convolutions and transposed convolutions against tap-by-tap loops in NumPy; errors; symbols."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tegg
from recorded import check, check_error, run
from spatial_reference import conv_transposed, convolved
from tegg.testing.strategies import array
from tegg.dtype import f16, f32, f64, i32
from tegg.errors import ArgumentError, ShapeError

CONV = {1: tegg.conv1d, 2: tegg.conv2d, 3: tegg.conv3d}
TRANSPOSED = {1: tegg.conv_transpose1d, 2: tegg.conv_transpose2d, 3: tegg.conv_transpose3d}


@st.composite
def cases(draw):
    """rank, x, weight's lead, kernel, stride, padding, dilation, groups."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    some = st.tuples(*[st.integers(1, 3)] * rank)
    kernel, stride, dilation = draw(some), draw(some), draw(st.tuples(*[st.integers(1, 2)] * rank))
    padding = draw(st.tuples(*[st.integers(0, 2)] * rank))
    groups, inner, outer = (draw(st.integers(1, 3)) for _ in range(3))
    sizes = tuple(draw(st.integers(max(1, (k - 1) * d + 1 - 2 * p), 7))
                  for k, d, p in zip(kernel, dilation, padding))
    return rank, (draw(st.integers(0, 2)), sizes), (inner, outer), kernel, stride, padding, \
        dilation, groups


@given(case=cases(), dtype=st.sampled_from([f64, f32, f16, i32]), seed=st.integers(0, 99))
def test_conv(case, dtype, seed):
    rank, (batch, sizes), (inner, outer), kernel, stride, padding, dilation, groups = case
    rng = np.random.default_rng(seed)
    x = array(rng, (batch, inner * groups, *sizes), dtype, "small")
    w = array(rng, (outer * groups, inner, *kernel), dtype, "small")
    check(lambda x, w: CONV[rank](x, w, None, stride, padding, dilation, groups),
          lambda x, w: convolved(x, w, stride, padding, padding, dilation, groups), x, w, slack=4)


@given(case=cases(), seed=st.integers(0, 99), more=st.integers(0, 2))
def test_conv_transpose(case, seed, more):
    rank, (batch, sizes), (inner, outer), kernel, stride, padding, dilation, groups = case
    rng = np.random.default_rng(seed)
    after = tuple(min(more, max(s, d) - 1) for s, d in zip(stride, dilation))
    padding = tuple(min(p, ((n - 1) * s + d * (k - 1) + a) // 2) for p, n, s, d, k, a in zip(
        padding, sizes, stride, dilation, kernel, after))
    x = array(rng, (batch, inner * groups, *sizes), f64, "small")
    w = array(rng, (inner * groups, outer, *kernel), f64, "small")
    check(lambda x, w: TRANSPOSED[rank](x, w, None, stride, padding, after, groups, dilation),
          lambda x, w: conv_transposed(x, w, stride, padding, after, dilation, groups), x, w)


@given(kernel=st.integers(1, 5), dilation=st.integers(1, 3), n=st.integers(1, 6))
def test_same_keeps_the_length(kernel, dilation, n):
    x, w = np.random.default_rng(0).normal(size=(1, 2, n)), np.ones((1, 2, kernel))
    total = (kernel - 1) * dilation
    check(lambda x, w: tegg.conv1d(x, w, padding="same", dilation=dilation),
          lambda x, w: convolved(x, w, (1,), (total // 2,), (total - total // 2,), (dilation,), 1),
          x, w)


def test_batch_may_be_missing_and_bias_is_added():
    rng = np.random.default_rng(0)
    x, w, b = rng.normal(size=(4, 6, 5)), rng.normal(size=(4, 2, 3, 3)), rng.normal(size=4)
    args = ((1, 1), (0, 0), (0, 0), (1, 1), 2)
    check(lambda x, w, b: tegg.conv2d(x, w, b, padding="valid", groups=2),
          lambda x, w, b: convolved(x[None], w, *args)[0] + b[:, None, None], x, w, b)
    check(lambda x, w, b: tegg.conv_transpose2d(x, w, b[:2].repeat(2), groups=2),
          lambda x, w, b: conv_transposed(x[None], w, (1, 1), (0, 0), (0, 0), (1, 1), 2)[0]
          + np.tile(b[:2], 2)[:, None, None], x, w, b)


def test_views_and_special_values():
    x = np.random.default_rng(0).normal(size=(2, 3, 5))
    x[0, 1, 2] = np.inf
    w = np.ones((1, 3, 2))
    got = run(lambda x, w: tegg.conv1d(x.flip(2)[:, :, ::2], w), x, w)
    np.testing.assert_allclose(got, convolved(x[:, :, ::-1][:, :, ::2], w, (1,), (0,), (0,), (1,),
                                              1))
    assert np.isinf(got).any()


@pytest.mark.parametrize("stride", [2, 3, 4])
def test_what_is_infinite_is_multiplied_by_no_zero(stride):
    x, w = np.full((1, 1, 2, 2), np.inf), np.ones((1, 1, 3, 3))
    assert not np.isnan(run(lambda x, w: tegg.conv_transpose2d(x, w, None, stride), x, w)).any()


def test_symbolic_batch_and_length():
    n, s = tegg.dim("n", 1, 8), tegg.dim("s", 4, 16)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 2, 6)), rng.normal(size=(2, 2, 3))
    got = run(lambda x: tegg.conv1d(x, w, padding=1), x, dims={"x": (n, None, s)},
              sizes={"n": 3, "s": 6})
    np.testing.assert_allclose(got, convolved(x, w, (1,), (1,), (1,), (1,), 1), atol=1e-12)
    v, u = rng.normal(size=(2, 2, 2)), rng.normal(size=(2, 2, 3))
    both = run(lambda x: [tegg.conv_transpose1d(x, k, None, 2) for k in (v, u)], x,
               dims={"x": (n, None, s)}, sizes={"n": 3, "s": 6})
    for got, k in zip(both, (v, u)):
        np.testing.assert_allclose(got, conv_transposed(x, k, (2,), (0,), (0,), (1,), 1),
                                   atol=1e-12)
    check_error(lambda x: tegg.conv1d(x, w, stride=2), ShapeError,
                "conv1d: windows 2 apart do not end at a known place of an axis of s; make its "
                "length a multiple of 2 (of a symbol)", x, dims={"x": (n, None, s)})
    even = {"x": (n, None, 2 * s)}
    got = run(lambda x: tegg.conv1d(x, w, stride=2, padding=1), np.tile(x, 2), dims=even,
              sizes={"n": 3, "s": 6})
    np.testing.assert_allclose(got, convolved(np.tile(x, 2), w, (2,), (1,), (1,), (1,), 1),
                               atol=1e-12)


X, W, V = np.ones((1, 4, 5, 5)), np.ones((6, 2, 3, 3)), np.ones((4, 3, 3, 3))
ERRORS = [
    (lambda x, w, v: tegg.conv2d(x[0, 0], w), ShapeError,
     "conv2d: takes (batch, channels, 2 spatial axes) or the same without the batch, not (5, 5)"),
    (lambda x, w, v: tegg.conv2d(x, w[0]), ShapeError,
     "conv2d: the weight is (out, in / groups, 2 kernel sizes), not (2, 3, 3)"),
    (lambda x, w, v: tegg.conv2d(x, w), ShapeError,
     "conv2d: (1, 4, 5, 5) and weight (6, 2, 3, 3) do not fit: 4 channels in 1 group of 2 that "
     "give 6"),
    (lambda x, w, v: tegg.conv2d(x, w, groups=0), ArgumentError,
     "conv2d: groups is an int of at least 1, not 0"),
    (lambda x, w, v: tegg.conv2d(x, w, stride=0, groups=2), ArgumentError,
     "conv2d: stride is an int of at least 1, or 2 of them, not 0"),
    (lambda x, w, v: tegg.conv2d(x, w, stride=(1, 1, 1), groups=2), ArgumentError,
     "conv2d: stride is an int of at least 1, or 2 of them, not (1, 1, 1)"),
    (lambda x, w, v: tegg.conv2d(x, w, padding=-1, groups=2), ArgumentError,
     "conv2d: padding is an int of at least 0, or 2 of them, not -1"),
    (lambda x, w, v: tegg.conv2d(x, w, padding="full", groups=2), ArgumentError,
     "conv2d: padding is 'same', 'valid' or widths, not 'full'"),
    (lambda x, w, v: tegg.conv2d(x, w, padding="same", stride=2, groups=2), ArgumentError,
     "conv2d: padding='same' needs stride 1, not (2, 2)"),
    (lambda x, w, v: tegg.conv2d(x, w, dilation=3, groups=2), ShapeError,
     "conv2d: a kernel of 7 (3 with dilation 3) does not fit an axis of 5, padding included; "
     "(1, 4, 5, 5)"),
    (lambda x, w, v: tegg.conv2d(x, w, w[0, 0, 0], groups=2), ShapeError,
     "conv2d: the bias has shape (3,), not (6,)"),
    (lambda x, w, v: tegg.conv2d(x, w[:, :, :0], groups=2), ArgumentError,
     "conv2d: a kernel size is an int of at least 1, or 2 of them, not (0, 3)"),
    (lambda x, w, v: tegg.conv_transpose2d(x, v[0]), ShapeError,
     "conv_transpose2d: the weight is (in, out / groups, 2 kernel sizes), not (3, 3, 3)"),
    (lambda x, w, v: tegg.conv_transpose2d(x, w), ShapeError,
     "conv_transpose2d: (1, 4, 5, 5) and weight (6, 2, 3, 3) do not fit: the weight has 6 input "
     "channels in 1 groups"),
    (lambda x, w, v: tegg.conv_transpose2d(x, v, groups=0), ArgumentError,
     "conv_transpose2d: groups is an int of at least 1, not 0"),
    (lambda x, w, v: tegg.conv_transpose2d(x, v, groups=True), ArgumentError,
     "conv_transpose2d: groups is an int, not True"),
    (lambda x, w, v: tegg.conv_transpose2d(x, v, output_padding=1), ArgumentError,
     "conv_transpose2d: output_padding (1, 1) must be below the stride (1, 1) or the dilation "
     "(1, 1)"),
    (lambda x, w, v: tegg.conv_transpose2d(x[:, :, :1], v, padding=2), ShapeError,
     "conv_transpose2d: padding 2 leaves nothing of an axis of 3"),
]


@pytest.mark.parametrize(("fn", "kind", "text"), ERRORS)
def test_errors(fn, kind, text):
    check_error(fn, kind, text, X, W, V)


def test_symbolic_channels_are_refused():
    c = tegg.dim("c", 1, 8)
    check_error(lambda x, w: tegg.conv2d(x, w), ShapeError, "conv2d: channels cannot be symbolic",
                X, V, dims={"x": (None, c, None, None)})


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups", "k"), [
    (1, 1, 1, 1, 3), (2, 1, 1, 1, 3), (1, 0, 1, 1, 1), (1, 1, 1, 4, 3), (1, 2, 2, 2, 3),
    (2, 3, 1, 1, 7)])
def test_compiled(stride, padding, dilation, groups, k):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 4, 11, 13)).astype(np.float32)
    w = (rng.normal(size=(8, 4 // groups, k, k)) / k).astype(np.float32)
    got = tegg.compile(lambda x: tegg.conv2d(x, w, None, stride, padding, dilation, groups))(x)
    pair = tuple((v, v) for v in (stride, padding, dilation))
    want = convolved(x.astype(float), w, pair[0], pair[1], pair[1], pair[2], groups)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_the_gradient_of_a_weight_is_read_along_places():
    """Windows are one after the other along their taps too, but only three."""
    rng = np.random.default_rng(0)
    x, d = (rng.normal(size=(4, c, 14, 13)).astype(np.float32) for c in (5, 6))
    f = tegg.compile(lambda x, d: tegg.conv2d(x.transpose(0, 1), d.transpose(0, 1), padding=1))
    want = convolved(x.astype(float).transpose(1, 0, 2, 3), d.transpose(1, 0, 2, 3), (1, 1), (1, 1),
                     (1, 1), (1, 1), 1)
    np.testing.assert_allclose(f(x, d), want, atol=1e-3)
    read = set(re.findall(r"k0_b[01]_\w+(?=\()", f.source()))
    assert read and all(name.endswith(("_k", "_k_left")) for name in read), read


def multiplied(stride, k, padding, more):
    """Products that a transposed convolution of (1, 2, 6, 6) to 3 channels is recorded with."""
    g = tegg.Graph()
    y = tegg.conv_transpose2d(g.tensor((1, 2, 6, 6)), g.tensor((2, 3, k, k)), None, stride, padding,
                              more)
    return sum(g.count(n) for n in g.reachable([y.node]) if n.op.name == "Mul")


def test_transposed_convolutions_multiply_by_no_zeros():
    """But those around; where phases are many, more of these."""
    every = 2 * 3 * 6 * 6
    assert multiplied(2, 3, 1, 1) == every * 3 * 3
    assert multiplied(2, 2, 0, 0) == every * 2 * 2
    assert multiplied(2, 4, 1, 0) == every * 4 * 4
    assert multiplied(1, 3, 1, 0) == every * 3 * 3
    assert multiplied(3, 1, 0, 2) == every
    assert multiplied(4, 4, 0, 0) == every * 4 * 4
    assert multiplied(4, 3, 0, 1) == every * 3 * 3
    assert multiplied(4, 7, 2, 0) == 2 * 3 * 7 * 7 * 7 * 7


@pytest.mark.parametrize(("stride", "k", "padding", "more"), [(2, 2, 0, 0), (2, 4, 1, 1),
                                                             (2, 3, 1, 1), (1, 3, 1, 0),
                                                             (2, 1, 0, 1), (3, 5, 1, 0),
                                                             (4, 7, 3, 2), (8, 16, 4, 0)])
def test_compiled_transposed(stride, k, padding, more):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 4, 5, 6)).astype(np.float32)
    w = rng.normal(size=(4, 3, k, k)).astype(np.float32)
    got = tegg.compile(lambda x: tegg.conv_transpose2d(x, w, None, stride, padding, more))(x)
    pairs = ((v, v) for v in (stride, padding, more, 1))
    np.testing.assert_allclose(got, conv_transposed(x.astype(float), w, *pairs, 1), atol=1e-4)
