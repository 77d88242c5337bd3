"""Where extrema stand, against NumPy; and the product over axes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tegg
from axisops import agree, cases, through_oracle, viewed, wide
from profiles import examples, few
from tegg.errors import ShapeError

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@given(data=st.data())
@few
def test_first_of_ties_on_any_axis_and_view(name, data):
    x, view, axis = data.draw(cases(low=1))
    keep = data.draw(st.booleans())
    dim = data.draw(st.sampled_from([axis, None]))
    got = through_oracle(lambda t: getattr(tegg, name)(viewed(t, view), dim, keep), x)
    want = getattr(np, name)(wide(viewed(x, view)), axis=dim, keepdims=keep)
    assert got.dtype == np.int64 and got.shape == np.shape(want)
    np.testing.assert_array_equal(got, want)


@settings(max_examples=examples(6))
@given(n=st.sampled_from([32768, 40000, 65520, 50021]), seed=st.integers(0, 99),
       dtype=st.sampled_from(["f4", "f8", "i4", "u1", "bool"]), data=st.data())
def test_one_long_row_is_looked_through_once(n, seed, dtype, data):
    """Ties within a part and beyond it, NaN, rows that are infinite; 50021 has no parts."""
    rng = np.random.default_rng(seed)
    x = (rng.integers(0, 200, n) > 198).astype(dtype) if dtype == "bool" else (
        rng.integers(0, 2 ** 7, n).astype(dtype))
    at = data.draw(st.lists(st.integers(0, n - 1), max_size=3))
    if x.dtype.kind == "f":
        x[at] = data.draw(st.sampled_from([NAN, INF, -INF, 500.0]))
        x = data.draw(st.sampled_from([x, np.full_like(x, -INF)]))
    got = tegg.compile(lambda t: (t.argmax(), t.reshape(1, n, 1).argmin(1, keepdim=True)))(x)
    assert got[0] == np.argmax(x) and got[1].shape == (1, 1, 1)
    assert got[1].item() == np.argmin(x)


def test_parts_of_a_long_row_are_gathered():
    def plan(n: int) -> str:
        x = np.zeros(n, np.float32)
        return tegg.compile(lambda t: t.argmax(), cache=False).program(x).plan.show()

    assert "Gather" in plan(40000) and "Gather" not in plan(50021) + plan(4096)


SPECIALS = [[1, 3, 3], [NAN, 9, NAN], [9, NAN, NAN], [-INF, -INF], [INF, NAN], [-0.0, 0.0],
            [0.0, -0.0], [5.0]]


def test_special_values_compiled():
    fn = tegg.compile(lambda t: (t.argmax(), t.argmin(0)))
    for x in SPECIALS:
        x = np.array(x)
        high, low = fn(x)
        assert (high, low) == (np.argmax(x), np.argmin(x)), x


@given(seed=st.integers(0, 99))
@settings(max_examples=examples(4), deadline=None)
def test_compiled(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, (4, 5, 33)).astype(np.float32)
    x[rng.random(x.shape) < 0.02] = NAN
    fn = tegg.compile(lambda t: [getattr(u, n)(d) for u in (t, t.cast("i32").T, t[..., ::-2])
                                 for n in ("argmax", "argmin") for d in (0, 1, -1, None)])
    whole = np.nan_to_num(x)  # NaN as an integer is undefined
    got = fn(whole)
    want = [getattr(np, n)(u, d) for u in (whole, whole.astype(np.int32).T, whole[..., ::-2])
            for n in ("argmax", "argmin") for d in (0, 1, -1, None)]
    for g, w in zip(got, want):
        np.testing.assert_array_equal(g, w)
    np.testing.assert_array_equal(tegg.compile(lambda t: t.argmax(1))(x), np.argmax(x, 1))


def test_symbolic_axis():
    graph = tegg.Graph()
    t = graph.tensor((3, tegg.dim("n", 1, 50)))
    t.argmax(1).output("a")
    t.argmin().output("b")
    t.prod(1).output("c")
    program = graph.compile([tegg.Generic()])
    for n in (1, 31):
        x = np.random.default_rng(n).uniform(0.7, 1.3, (3, n)).astype(np.float32)
        got = program(x)
        np.testing.assert_array_equal(got["a"], x.argmax(1))
        assert got["b"] == x.argmin()
        agree(got["c"], np.prod(x, 1))


@pytest.mark.parametrize(("call", "text"), [
    (lambda t: tegg.argmax(t, 1), "argmax: an axis of (2, 0) is empty, and has no maximum"),
    (lambda t: tegg.argmin(t), "argmin: an axis of (2, 0) is empty, and has no minimum"),
    (lambda t: tegg.argmin(t, 5), "argmin: axis 5 is outside a tensor of rank 2")])
def test_errors(call, text):
    with pytest.raises(ShapeError) as e:
        tegg.trace(call, (np.zeros((2, 0), np.float32),))
    assert str(e.value).startswith(text)


# ---- prod
@given(data=st.data())
@few
def test_prod_on_any_axes(data):
    x, view, axis = data.draw(cases())
    x = np.clip(wide(x), -2, 2).astype(x.dtype) if wide(x).dtype.kind == "f" else x
    dim = data.draw(st.sampled_from([axis, None, (0, -1)]))
    v = viewed(x, view)
    if dim == (0, -1) and v.ndim == 1:
        dim = 0
    got = through_oracle(lambda t: tegg.prod(viewed(t, view), dim, True), x)
    to = np.float64 if wide(x).dtype.kind == "f" else np.int64
    with np.errstate(all="ignore"):
        want = np.prod(v.astype(to), axis=dim, keepdims=True)
    agree(got, want, scale=8)


def test_prod_compiled():
    x = np.random.default_rng(0).uniform(0.5, 1.5, (5, 40)).astype(np.float32)
    i = (x * 9).astype(np.int32)
    got = tegg.compile(lambda x, i: (x.prod(1), x.prod(0), x.prod(), i.prod(1), (i > 4).prod(0),
                                     x.cast("f16").prod(0)))(x, i)
    want = (np.prod(x, 1), np.prod(x, 0), np.prod(x), np.prod(i, 1), np.prod(i > 4, 0),
            np.prod(x.astype(np.float16).astype(np.float32), 0))
    for g, w in zip(got, want):
        agree(g, np.asarray(w), scale=4)
