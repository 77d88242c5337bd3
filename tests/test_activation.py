"""Activations, exponentials, circular functions and tests of floats against NumPy; errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tegg
from recorded import check, check_error, run
from profiles import few
from tegg.testing.strategies import FLOATS, SPECIALS, array, shapes
from tegg.dtype import f32, f64
from tegg.errors import ArgumentError, DTypeError, ShapeError


def where_below(below):
    """x above 0, another formula of x (as float64) below."""
    return lambda x: np.where(x <= 0, below(x.astype(float)), x).astype(x.dtype)


def wide(f):
    """A formula that is worked out in float64."""
    return lambda x: np.asarray(f(x.astype(float))).astype(x.dtype)


LINEAR = {  # no rounding to speak of
    "relu6": lambda x: np.clip(x, 0, 6), "hardtanh": lambda x: np.clip(x, -1, 1),
    "isinf": np.isinf, "isfinite": np.isfinite, "leaky_relu": where_below(lambda x: 0.01 * x),
    "hardshrink": lambda x: np.where(abs(x) <= 0.5, 0, x).astype(x.dtype),
}
CURVES = {
    "elu": where_below(np.expm1), "celu": where_below(np.expm1),
    "selu": lambda x: where_below(lambda x: 1.6732632423543772 * np.expm1(x))(x)
    * x.dtype.type(1.0507009873554805),
    "hardsigmoid": wide(lambda x: np.clip(x + 3, 0, 6) / 6),
    "hardswish": wide(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "softplus": wide(lambda x: np.logaddexp(x, 0)),
    "logsigmoid": wide(lambda x: -np.logaddexp(-x, 0)),
    "softsign": wide(lambda x: x / (1 + abs(x))),
    "mish": wide(lambda x: x * np.tanh(np.logaddexp(x, 0))),
    "softshrink": wide(lambda x: np.where(x > 0.5, x - 0.5, np.where(x < -0.5, x + 0.5, x * 0))),
    "tanhshrink": wide(lambda x: x - np.tanh(x)),
    "log10": np.log10, "log1p": np.log1p, "expm1": np.expm1, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
}


@pytest.mark.parametrize("name", [*LINEAR, *(c for c in CURVES if c != "tan")])
@given(shape=shapes, dtype=st.sampled_from(FLOATS), seed=st.integers(0, 99))
@few
def test_unary(name, shape, dtype, seed):
    x = array(np.random.default_rng(seed), shape, dtype, "small")
    check(getattr(tegg, name), LINEAR.get(name) or CURVES[name], x, slack=2)


EPS = {"f16": 2.0 ** -10, "bf16": 2.0 ** -7, "f32": 2.0 ** -23, "f64": 2.0 ** -52}


@given(shape=shapes, dtype=st.sampled_from(FLOATS), seed=st.integers(0, 99))
@few
def test_tan_is_as_exact_as_the_cosine(shape, dtype, seed):
    x = array(np.random.default_rng(seed), shape, dtype, "small")
    wide = x.astype(np.longdouble)
    error = np.abs(run(tegg.tan, x) - np.tan(wide)) * np.abs(np.cos(wide))
    assert np.all(error <= 8 * EPS[dtype.name] * (1 + np.abs(np.tan(wide))))


@pytest.mark.parametrize("name", [*LINEAR, *(c for c in CURVES if c not in ("tan", "softshrink",
                                                                          "mish", "hardswish",
                                                                          "softsign"))])
@pytest.mark.parametrize("dtype", [f32, f64])
def test_special_values(name, dtype):
    x = np.array([*SPECIALS, 2, -2, 3, -3, 20, -20, 80, -80, 1e-5, -1e-5], dtype.numpy)
    check(getattr(tegg, name), LINEAR.get(name) or CURVES[name], x)


RELATIVE = ("log1p", "expm1", "sinh", "asinh", "atanh", "asin", "atan", "acos")


@pytest.mark.parametrize("dtype", [f32, f64])
@pytest.mark.parametrize("name", RELATIVE)
def test_small_values_keep_their_digits(name, dtype):
    size = 10.0 ** np.linspace(-9, -0.01, 400)
    x = np.concatenate([size, -size]).astype(dtype.numpy)
    want = CURVES[name](x.astype(np.longdouble))
    got = run(getattr(tegg, name), x)
    assert np.max(np.abs((got - want) / want)) < 8 * np.finfo(dtype.numpy).eps


def test_compiled_keeps_the_digits():
    x = np.concatenate([10.0 ** np.linspace(-9, 1.5, 500), -10.0 ** np.linspace(-9, -0.01, 500)])
    x = x.astype(np.float32)
    names = ("log1p", "expm1", "sinh", "asinh", "atan", "softplus", "elu", "mish", "tan")
    got = tegg.compile(lambda x: {n: getattr(tegg, n)(x) for n in names})(x)
    for name in names:
        want = CURVES[name](x.astype(float))
        error = np.abs(got[name] - want) / np.maximum(np.abs(want), 1e-35)
        if name == "tan":
            error *= np.abs(np.cos(x.astype(float)))
        assert error.max() < 3e-6, name


def test_arguments_of_activations():
    x = np.linspace(-4, 4, 33)
    check(lambda x: tegg.elu(x, 0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), x)
    check(lambda x: tegg.celu(x, 2), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)), x)
    check(lambda x: tegg.softplus(x, 2, 3),
          lambda x: np.where(2 * x > 3, x, np.logaddexp(2 * x, 0) / 2), x)
    check(lambda x: tegg.threshold(x, 1, -9), lambda x: np.where(x > 1, x, -9), x)
    check(lambda x: tegg.leaky_relu(x, 2), lambda x: np.where(x > 0, x, 2 * x), x)
    check(lambda x: tegg.glu(x[:32].reshape(2, 4, 4), 1),
          lambda x: (v := x[:32].reshape(2, 4, 4))[:, :2] / (1 + np.exp(-v[:, 2:])), x)
    rows = x[:30].reshape(2, 3, 5)
    weight = np.array([0.1, 0.2, 0.3])
    check(tegg.prelu, lambda x, w: np.where(x > 0, x, x * w[:, None]), rows, weight)
    check(lambda x: tegg.prelu(x, 0.25), lambda x: np.where(x > 0, x, x / 4), rows)
    check(lambda x: tegg.nan_to_num(x, 1, 2, 3), lambda x: np.nan_to_num(x, nan=1, posinf=2,
                                                                         neginf=3),
          np.array(SPECIALS))
    for kind in (np.float32, np.float64, np.int32):
        check(tegg.nan_to_num, np.nan_to_num,
              np.array(SPECIALS if kind is not np.int32 else [1, 2], kind), exact=True)


PAIRS = [v.ravel() for v in np.meshgrid([*SPECIALS, 2, -2, 1e-9, 40], [*SPECIALS, 3, -3, 1e-9])]


@pytest.mark.parametrize("dtype", [f32, f64])
def test_pairs(dtype):
    x, y = (v.astype(dtype.numpy) for v in PAIRS)
    with np.errstate(all="ignore"):
        check(tegg.atan2, np.arctan2, x, y)
        np.testing.assert_array_equal(np.signbit(run(tegg.atan2, x, y))[~np.isnan(x + y)],
                                      np.signbit(np.arctan2(x, y))[~np.isnan(x + y)])
        check(tegg.logaddexp, np.logaddexp, x, y)


def test_lerp_reaches_its_ends():
    x, y = np.float32([1e8, 1, -3]), np.float32([1, 1e8, 7])
    check(lambda x, y: tegg.lerp(x, y, 1.0), lambda x, y: y, x, y, exact=True)
    check(lambda x, y: tegg.lerp(x, y, 0.25), lambda x, y: x + (y - x) / 4, x, y)


@pytest.mark.parametrize(("fn", "kind", "text"), [
    (lambda x: tegg.elu(tegg.cast(x, "i32")), DTypeError,
     "elu: needs a float dtype, not i32; write x.cast('f32')"),
    (lambda x: tegg.atan2(tegg.cast(x, "i32"), 1), DTypeError, "atan2: needs a float dtype"),
    (lambda x: tegg.logaddexp(tegg.cast(x, "i32"), 1), DTypeError, "logaddexp: needs a float"),
    (lambda x: tegg.celu(x, 0), ArgumentError, "celu: alpha cannot be 0"),
    (lambda x: tegg.softplus(x, 0), ArgumentError, "softplus: beta cannot be 0"),
    (lambda x: tegg.glu(x), ShapeError, "glu: axis -1 of (2, 3) has no two halves"),
    (lambda x: tegg.prelu(x, x[0, :2]), ShapeError,
     "prelu: a weight for each channel of (2, 3), or one, is 1-D, not (2,)"),
    (lambda x: tegg.lerp(tegg.cast(x, "i32"), 1, 1), DTypeError, "lerp: needs a float dtype"),
])
def test_errors(fn, kind, text):
    check_error(fn, kind, text, np.ones((2, 3)))


def test_integers_and_infinities():
    x = np.arange(-3, 9, dtype=np.int32)
    check(tegg.relu6, lambda x: np.clip(x, 0, 6), x, exact=True)
    check(tegg.isfinite, np.isfinite, x, exact=True)
    check(tegg.isinf, np.isinf, x, exact=True)
