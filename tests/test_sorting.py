"""sort, argsort, topk and searchsorted against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tegg
from axisops import cases, through_oracle, viewed, wide
from profiles import examples, few
from tegg.dtype import DTYPES
from tegg.errors import ArgumentError, ShapeError

NAN, INF = np.nan, np.inf


def order(x, axis, descending=False):
    """Python's own stable sort of every row: NaN is the largest, and reverse keeps ties."""
    rows = np.moveaxis(wide(x), axis, -1)
    flat = rows.reshape(-1, rows.shape[-1]) if rows.size else np.zeros((0, rows.shape[-1]))

    def one(row):
        return sorted(range(len(row)), key=lambda i: (row[i] != row[i], row[i] if row[i] == row[i]
                                                      else 0), reverse=descending)

    out = np.array([one(row) for row in flat], np.int64).reshape(rows.shape)
    return np.moveaxis(out, -1, axis)


@given(case=cases(most=6), descending=st.booleans())
@few
def test_stable_order_of_any_axis_dtype_and_view(case, descending):
    x, view, axis = case
    v = viewed(x, view)
    values, indices = through_oracle(
        lambda t: tuple(tegg.sort(viewed(t, view), axis, descending)), x)
    want = order(v, axis, descending)
    assert indices.dtype == np.int64 and values.dtype == x.dtype
    np.testing.assert_array_equal(indices, want)
    np.testing.assert_array_equal(wide(values), wide(np.take_along_axis(v, want, axis)))


@given(case=cases(low=1, most=6), largest=st.booleans(), data=st.data())
@few
def test_topk(case, largest, data):
    x, view, axis = case
    v = viewed(x, view)
    k = data.draw(st.integers(0, v.shape[axis]))
    values, indices = through_oracle(lambda t: tuple(viewed(t, view).topk(k, axis, largest)), x)
    want = np.take(order(v, axis, largest), range(k), axis)
    np.testing.assert_array_equal(indices, want)
    np.testing.assert_array_equal(wide(values), wide(np.take_along_axis(v, want, axis)))


SPECIALS = np.array([NAN, 0.0, -0.0, INF, -INF, 1e-40, -1e-40, 3, 3, NAN, -3, 0.0, 65504, 2 ** -24])


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("n", [14, 300])
def test_special_values_compiled(dtype, n):
    """By insertion and by radix: NaN of both signs last, zeros equal, ties in order."""
    with np.errstate(over="ignore"):
        x = np.resize(SPECIALS, n).astype(DTYPES[dtype].numpy)
    x[-1] = -x[0]  # the other NaN
    got = tegg.compile(lambda t: (t.argsort(), t.argsort(descending=True), t.topk(5).indices,
                                  t.topk(2, largest=False).indices))(x)
    up, down = order(x, 0), order(x, 0, True)
    for g, w in zip(got, (up, down, down[:5], up[:2])):
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@given(seed=st.integers(0, 999))
@settings(max_examples=examples(1), deadline=None)
def test_compiled_on_every_dtype(dtype, seed):
    rng = np.random.default_rng(seed)
    axis = int(rng.integers(-3, 3))
    shape = tuple(rng.choice([1, 3, 17, 90], 3))
    x = rng.integers(0, 255, shape) if dtype.name == "u8" else (
        rng.integers(-9, 9, shape) if rng.random() < 0.5 else rng.standard_normal(shape) * 1e4)
    x = x.astype(dtype.numpy)
    k = int(rng.integers(1, shape[axis] + 1))
    up, (top, at) = tegg.compile(lambda v: (v.argsort(axis), tuple(v.topk(k, axis))))(x)
    np.testing.assert_array_equal(up, order(x, axis))
    down = np.take(order(x, axis, True), range(k), axis)
    np.testing.assert_array_equal(at, down)
    np.testing.assert_array_equal(wide(top), wide(np.take_along_axis(x, down, axis)))


def test_computed_operands_and_uses():
    """A sort of what is computed, read by what is computed after it."""
    x = np.random.default_rng(0).standard_normal((6, 50)).astype(np.float32)

    def fn(t):
        s = tegg.sort((t * 2).softmax(1), 1)
        return {"sum": s.values.cumsum(1), "again": s.indices.argsort(1), "flip": s.values[:, ::-1],
                "top": (t + 1).T.topk(2, 0).values * 3}

    got = tegg.compile(fn)(x)
    e = np.exp(2 * x - (2 * x).max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(got["sum"], np.sort(p, 1).cumsum(1), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(got["again"], np.argsort(np.argsort(p, 1), 1))
    np.testing.assert_allclose(got["flip"], np.sort(p, 1)[:, ::-1], rtol=1e-4)
    np.testing.assert_allclose(got["top"], -np.sort(-(x + 1).T, 0)[:2] * 3, rtol=1e-6)


def test_long_rows_use_wide_digits():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(20_000).astype(np.float32)
    i = rng.integers(-2 ** 62, 2 ** 62, 20_000)
    got = tegg.compile(lambda x, i: (x.argsort(), i.argsort(descending=True), x.topk(100).indices,
                                     i.topk(19_000).indices))(x, i)
    down = np.argsort(-i, kind="stable")
    for g, w in zip(got, (np.argsort(x, kind="stable"), down,
                          np.argsort(-x, kind="stable")[:100], down[:19_000])):
        np.testing.assert_array_equal(g, w)


def test_symbolic_sizes():
    graph, n, m = tegg.Graph(), tegg.dim("n", 4, 200), tegg.dim("m", 1, 50)
    t = graph.tensor((m, n))
    t.sort(1).indices.output("s")
    t.topk(3, 1).values.output("k")
    t.argsort(0).output("c")
    t.topk(n - 3, 1).indices.output("most")
    program = graph.compile([tegg.Generic()])
    for shape in ((1, 4), (7, 130)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        got = program(x)
        np.testing.assert_array_equal(got["s"], np.argsort(x, 1, kind="stable"))
        np.testing.assert_array_equal(got["k"], -np.sort(-x, 1)[:, :3])
        np.testing.assert_array_equal(got["c"], np.argsort(x, 0, kind="stable"))
        np.testing.assert_array_equal(got["most"], np.argsort(-x, 1, kind="stable")[:, :-3])


def test_empty_axes():
    got = tegg.compile(lambda t: (*t.sort(0), *t.topk(0, 1), t.argsort(1)))(
        np.zeros((0, 3), np.float32))
    assert [g.shape for g in got] == [(0, 3), (0, 3), (0, 0), (0, 0), (0, 3)]


# ---- searchsorted
@given(data=st.data(), right=st.booleans())
@few
def test_searchsorted(data, right):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    n = data.draw(st.integers(0, 9))
    s = np.sort(rng.integers(0, 6, n).astype(np.float64))
    if n and data.draw(st.booleans()):
        s[-1] = NAN
    v = rng.choice([*range(-1, 7), NAN, INF, -INF], (3, 4))
    got = through_oracle(lambda s, v: tegg.searchsorted(s, v, right), s, v)
    np.testing.assert_array_equal(got, np.searchsorted(s, v, "right" if right else "left"))


def test_searchsorted_compiled():
    s, v = np.arange(0, 50, 2).astype(np.int32), np.arange(-3, 60).astype(np.int32)
    got = tegg.compile(lambda s, v: tegg.searchsorted(s, v))(s, v)
    np.testing.assert_array_equal(got, np.searchsorted(s, v))


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda t: tegg.sort(t, 2), ShapeError, "sort: axis 2 is outside a tensor of rank 2"),
    (lambda t: tegg.argsort(t, -3), ShapeError, "argsort: axis -3 is outside a tensor of rank 2"),
    (lambda t: tegg.topk(t, 2.0), ArgumentError,
     "topk: k is an int or a symbolic dim, not 2.0"),
    (lambda t: tegg.topk(t, 4), ShapeError,
     "topk: k = 4 is not between 0 and the size 3 of axis 1 of (2, 3) for certain"),
    (lambda t: tegg.searchsorted(t, t), ShapeError,
     "searchsorted: the sorted sequence has one axis, not (2, 3)")])
def test_errors(call, kind, text):
    with pytest.raises(kind) as e:
        tegg.trace(call, (np.zeros((2, 3), np.float32),))
    assert str(e.value).startswith(text)


@pytest.mark.parametrize(("bounds", "text"), [
    ((0, 9), "searchsorted: a sequence of n may be empty; give its symbols a lower bound"),
    ((1,), "searchsorted: n has no upper bound; give its symbols one: tegg.dim(name, min, max)")])
def test_searchsorted_needs_bounds(bounds, text):
    graph = tegg.Graph()
    t = graph.tensor((tegg.dim("n", *bounds),))
    with pytest.raises(ShapeError) as e:
        tegg.searchsorted(t, t)
    assert str(e.value).startswith(text)


def orders(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows in which the first elements come early, late, often and everywhere."""
    few_values = rng.integers(-3, 3, n)
    return {"random": rng.permutation(n) - n // 2, "ascending": np.arange(n) - n // 2,
            "descending": np.arange(n)[::-1] - n // 3, "equal": np.zeros(n, int),
            "ties": few_values, "one apart": np.where(np.arange(n) == n - 1, -9, few_values),
            "wide": rng.integers(-2 ** 31, 2 ** 31 - 1, n)}


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i64", "i32", "u8", "bool"])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_first_of_long_rows(dtype, axis):
    rng = np.random.default_rng(7)
    with np.errstate(all="ignore"):
        x = np.stack(list(orders(2500, rng).values())).astype(tegg.dtype(dtype).numpy)
    if dtype[0] == "f":
        x[0, ::90], x[4, 5::60], x[4, ::70] = np.nan, np.inf, -0.0
    x = np.ascontiguousarray(x if axis else x.T)
    kept = (0, 10, 600)
    got = tegg.compile(lambda t: {f"{k} {largest}": t.topk(k, axis, largest).indices
                                  for k in kept for largest in (True, False)})(x)
    wide = x.astype(np.float64) if dtype != "i64" else x
    for largest in (True, False):
        keys = -wide if largest and dtype != "i64" else ~x if largest else wide
        want = (np.lexsort((keys, ~np.isnan(x)), axis) if largest and dtype[0] == "f" else
                np.argsort(keys, axis, kind="stable"))  # NaN is the largest
        for k in kept:
            np.testing.assert_array_equal(got[f"{k} {largest}"], np.take(want, range(k), axis),
                                          err_msg=f"{k} {largest}")
