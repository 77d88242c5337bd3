"""Sums, products and extrema so far, against NumPy's accumulations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tegg
from axisops import VIEWS, agree, cases, through_oracle, viewed, wide
from profiles import examples, few
from tegg.testing.strategies import FLOATS, array
from tegg.dtype import DTYPES, f32
from tegg.errors import DTypeError, ShapeError

INF, NAN = np.inf, np.nan


def summed(ufunc):
    """An accumulation in float64 or i64, as NumPy promotes."""
    def reference(x, axis):
        to = np.float64 if np.issubdtype(wide(x).dtype, np.floating) else np.int64
        return ufunc.accumulate(x.astype(to), axis=axis)
    return reference


def extreme(ufunc):
    def reference(x, axis):
        return ufunc.accumulate(wide(x), axis=axis)
    return reference


REFERENCE = {"cumsum": summed(np.add), "cumprod": summed(np.multiply),
             "cummax": extreme(np.maximum), "cummin": extreme(np.minimum),
             "logcumsumexp": summed(np.logaddexp)}


def gradual(x):
    """Values whose products stay in range."""
    return np.clip(wide(x), -1.5, 1.5).astype(x.dtype)


@pytest.mark.parametrize("name", REFERENCE)
@given(data=st.data())
@few
def test_any_axis_dtype_and_view(name, data):
    x, view, axis = data.draw(cases(FLOATS if name == "logcumsumexp" else
                                    tuple(DTYPES.values())))
    if name != "cummax" and name != "cummin" and wide(x).dtype.kind == "f":
        x = gradual(x)
    got = through_oracle(lambda t: getattr(tegg, name)(viewed(t, view), axis), x)
    with np.errstate(all="ignore"):
        want = REFERENCE[name](viewed(x, view), axis)
    if name in ("cummax", "cummin"):
        assert got.dtype == x.dtype
    agree(got, want, scale=8)


@pytest.mark.parametrize(("name", "x", "want"), [
    ("cumsum", [1, NAN, 2], [1, NAN, NAN]), ("cumsum", [INF, 1, -INF], [INF, INF, NAN]),
    ("cumsum", [-0.0, -0.0], [-0.0, -0.0]), ("cumsum", [], []), ("cumsum", [3], [3]),
    ("cumprod", [2, 0, INF], [2, 0, NAN]), ("cumprod", [-1, -1, -1], [-1, 1, -1]),
    ("cummax", [1, NAN, 2], [1, NAN, NAN]), ("cummax", [-INF, -INF, 0], [-INF, -INF, 0]),
    ("cummin", [1, NAN, -2], [1, NAN, NAN]), ("cummin", [2, 2, 1], [2, 2, 1]),
    ("logcumsumexp", [-INF, -INF, 0], [-INF, -INF, 0]), ("logcumsumexp", [INF, 1], [INF, INF]),
    ("logcumsumexp", [1000, 1000], [1000, 1000 + np.log(2)]),
    ("logcumsumexp", [0, NAN, 0], [0, NAN, NAN])])
def test_special_values(name, x, want):
    x = np.array(x, np.float64)
    fn = getattr(tegg, name)
    for got in (through_oracle(fn, x), tegg.compile(fn)(x)):
        np.testing.assert_allclose(got, np.array(want), rtol=1e-12)


def test_integers_are_exact_and_wrap():
    x = np.array([2 ** 62, 2 ** 62, 5], np.int64)
    want = np.cumsum(x)
    assert (through_oracle(tegg.cumsum, x) == want).all()
    assert (tegg.compile(tegg.cumsum)(x) == want).all()
    small = np.array([200, 100, 7], np.uint8)
    got = tegg.compile(lambda t: (t.cumsum(), t.cumsum(dtype="u8"), t.cumprod(dtype="u8")))(small)
    for g, w in zip(got, ([200, 300, 307], [200, 44, 51], [200, 32, 224])):
        assert g.tolist() == w


def test_f32_accumulates_in_float64():
    x = np.full(100_000, 0.1, np.float32)
    got = tegg.compile(tegg.cumsum)(x)
    np.testing.assert_allclose(got, np.cumsum(x.astype(np.float64)), rtol=1e-7)


@given(data=st.data())
@settings(max_examples=examples(4), deadline=None)
def test_compiled_with_producers_and_consumers(data):
    """Elementwise work before and after, views, and scans of scans, in one program."""
    x = array(np.random.default_rng(data.draw(st.integers(0, 99))), (3, 4, 37), f32, "small")
    axis = data.draw(st.integers(-3, 2))
    view = data.draw(st.sampled_from(VIEWS))

    def fn(t, m=tegg):
        v = viewed(t, view)
        out = {}
        for name in REFERENCE:
            f = (lambda u, n=name: getattr(m, n)(u, axis)) if m is tegg else (
                lambda u, n=name: REFERENCE[n](u, axis))
            out[name] = f(v * 0.5) * v + 1
        twice = m.cumsum(m.cumsum(v, axis), axis)
        out["twice"], out["turned"] = twice, twice[::-1]
        out["summed"] = twice.sum(0)
        return out

    got, want = tegg.compile(fn)(x), fn(x.astype(np.float64), np)
    for name, w in want.items():
        agree(got[name], w, name, scale=40)


def test_long_rows():
    x = np.random.default_rng(0).standard_normal((2, 70_001)).astype(np.float32)
    got = tegg.compile(lambda t: {n: getattr(tegg, n)(t, 1) for n in (
        "cumsum", "cummax", "logcumsumexp")})(x)
    for name, value in got.items():
        agree(value, REFERENCE[name](x, 1), name, scale=8)


def test_symbolic_axis():
    n = tegg.dim("n", 1, 40)
    graph = tegg.Graph()
    t = graph.tensor((n, 3))
    for name in ("cumsum", "cumprod", "cummin", "logcumsumexp"):
        getattr(t, name)(0).output(name)
    program = graph.compile([tegg.Generic()])
    for size in (1, 7, 40):
        x = np.random.default_rng(size).uniform(0.5, 1.5, (size, 3)).astype(np.float32)
        got = program(x)
        for name in ("cumsum", "cumprod", "cummin", "logcumsumexp"):
            agree(got[name], REFERENCE[name](x, 0), name, scale=8)


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda t: tegg.cumsum(t), ShapeError, "cumsum: (2, 3) has 2 axes; say which one: dim=0"),
    (lambda t: tegg.cummax(t, 2), ShapeError,
     "cummax: axis 2 is outside a tensor of rank 2"),
    (lambda t: tegg.logcumsumexp(t.cast("i32"), 0), DTypeError,
     "logcumsumexp: needs a float dtype, not i32; write x.cast('f32')")])
def test_errors(call, kind, text):
    with pytest.raises(kind) as e:
        tegg.trace(call, (np.zeros((2, 3), np.float32),))
    assert str(e.value).startswith(text)


def test_products_need_a_bound():
    graph = tegg.Graph()
    t = graph.tensor((tegg.dim("n"),))
    with pytest.raises(ShapeError) as e:
        t.cumprod(0)
    assert str(e.value).startswith(
        "cumprod: a product over an axis of n, which has no upper bound; give its symbols one: "
        "tegg.dim(name, min, max)")


def test_bitwise_precision_has_the_scan_too():
    x = np.random.default_rng(0).standard_normal(50_000).astype(np.float32)
    got = tegg.compile(tegg.cumsum, precision="bitwise")(x)
    agree(got, REFERENCE["cumsum"](x, 0), scale=8)
