"""scatter and its kin against NumPy loops; order, bounds and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tegg
from axisops import agree, through_oracle
from profiles import examples, few
from tegg.testing.strategies import array
from tegg.dtype import DTYPES, f32, f64, i32
from tegg.errors import ArgumentError, DTypeError, ShapeError


def scattered(x, axis, index, src, reduce=None):
    """One element after the other; outside is dropped. Sums of integers wrap."""
    out = x.copy()
    for at in np.ndindex(index.shape):
        to = list(at)
        to[axis] = int(index[at])
        if not 0 <= to[axis] < x.shape[axis]:
            continue
        to = tuple(to)
        new = src[at] if np.ndim(src) else src
        with np.errstate(over="ignore"):
            out[to] = (new if reduce is None else out[to] + new if reduce == "add" else
                       max(out[to], new) if reduce == "max" else min(out[to], new))
    return out


@st.composite
def scatters(draw, dtypes=(f64, f32, i32)):
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    axis = draw(st.integers(0, rank - 1))
    small = tuple(draw(st.integers(0, 5 if i == axis else n)) for i, n in enumerate(shape))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    dtype = draw(st.sampled_from(dtypes))
    larger = tuple(n + draw(st.integers(0, 1)) for n in small)
    index = rng.integers(-1, shape[axis] + 1, small)
    return (array(rng, shape, dtype), axis, index, array(rng, larger, dtype),
            draw(st.sampled_from([None, "add", "max", "min"])))


@given(case=scatters())
@few
def test_scatter(case):
    x, axis, index, src, reduce = case
    got = through_oracle(lambda x, i, s: tegg.scatter(x, axis - x.ndim, i, s, reduce),
                         x, index, src)
    agree(got, scattered(x, axis, index, src, reduce))


@given(case=scatters(tuple(DTYPES.values())))
@settings(max_examples=examples(4), deadline=None)
def test_compiled(case):
    x, axis, index, src, reduce = case
    reduce = None if x.dtype == bool else reduce
    fn = tegg.compile(lambda x, i, s: (tegg.scatter(x, axis, i, s, reduce),
                                       tegg.scatter(x.flip(), axis, i + 0, s[..., ::-1][..., ::-1], reduce)))
    got = fn(x, index, src)
    agree(got[0], scattered(x, axis, index, src, reduce), scale=4)
    agree(got[1], scattered(np.flip(x), axis, index, src, reduce), scale=4)


def test_names_and_scalars():
    x, i = np.zeros((2, 3), np.float32), np.array([[0, 1, 0], [1, 1, 1]])
    s = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    got = tegg.compile(lambda x, i, s: (
        x.scatter_add(0, i, s), x.scatter(0, i, 7), x.scatter_reduce(0, i, s, "amax"),
        x.scatter_reduce(1, i, s, reduce="sum"), x.scatter_reduce(0, i, s, "amin")))(x, i, s)
    want = (scattered(x, 0, i, s, "add"), scattered(x, 0, i, 7), scattered(x, 0, i, s, "max"),
            scattered(x, 1, i, s, "add"), scattered(x, 0, i, s, "min"))
    for g, w in zip(got, want):
        agree(g, w)


def test_scatter_inverts_a_sort():
    x = np.random.default_rng(0).standard_normal((40, 70)).astype(np.float32)

    def fn(t):
        s = tegg.sort(t, 0)
        return t.scatter(0, s.indices, s.values), s.indices.scatter(
            0, s.indices, tegg.sort(s.indices, 0).values)

    back, ranks = tegg.compile(fn)(x)
    np.testing.assert_array_equal(back, x)
    np.testing.assert_array_equal(ranks, np.argsort(np.argsort(x, 0), 0))


def test_whole_rows():
    rng = np.random.default_rng(0)
    x, s = array(rng, (5, 4), f32), array(rng, (3, 4), f32)
    i = np.array([4, 0, 4])
    got = tegg.compile(lambda x, i, s: (x.index_add(0, i, s, alpha=2), x.index_copy(0, i, s),
                                        tegg.index_add(x.T, 1, i, s.T)))(x, i, s)
    add, copy, turned = x.copy(), x.copy(), x.copy()
    np.add.at(add, i, 2 * s)
    copy[i] = s
    np.add.at(turned, i, s)
    for g, w in zip(got, (add, copy, turned.T)):
        agree(g, w)


@given(seed=st.integers(0, 999), accumulate=st.booleans(), both=st.booleans())
@few
def test_index_put(seed, accumulate, both):
    rng = np.random.default_rng(seed)
    x = array(rng, (4, 3, 2), f64)
    i, j = rng.integers(-4, 4, (5, 1)), rng.integers(-3, 3, (2,))
    at = (i, j) if both else (i,)
    v = array(rng, (5, 2, 2) if both else (5, 1, 1, 2), f64)
    got = through_oracle(lambda x, v, *at: tegg.index_put(x, at, v, accumulate), x, v, *at)
    want = x.copy()
    if accumulate:
        np.add.at(want, at, v)
    else:
        want[at] = v
    agree(got, want)


def test_index_put_drops_what_lies_outside():
    x, i = np.zeros((3, 3), np.float32), np.array([0, 5, -9, 2])
    got = tegg.compile(lambda x, i: tegg.index_put(x, (i, i + 0), 1.0))(x, i)
    np.testing.assert_array_equal(got, np.diag([1, 0, 1]).astype(np.float32))


def test_symbolic_sizes():
    graph, n = tegg.Graph(), tegg.dim("n", 1, 100)
    x, i = graph.tensor((n, 3), name="x"), graph.tensor((n, 3), "i64", name="i")
    x.scatter_add(0, i, x * 2).output("y")
    graph.tensor((5,), name="z").index_add(0, i[:, 0], x[:, 0]).output("w")
    program = graph.compile([tegg.Generic()])
    rng = np.random.default_rng(0)
    a, at, z = array(rng, (30, 3), f32), rng.integers(0, 30, (30, 3)), np.zeros(5, np.float32)
    got = program(a, at, z)
    agree(got["y"], scattered(a, 0, at, 2 * a, "add"))
    agree(got["w"], scattered(z, 0, at[:, 0], a[:, 0], "add"))


X, I = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int64)


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda x, i: tegg.scatter(x, 0, i, x, "mul"), ArgumentError,
     "scatter: reduce is None, 'add', 'max' or 'min', not 'mul'"),
    (lambda x, i: tegg.scatter(x, 3, i, x), ShapeError,
     "scatter: axis 3 is outside a tensor of rank 2"),
    (lambda x, i: tegg.scatter(x, 0, i[0], x), ShapeError,
     "scatter: x (2, 3) and index (3,) differ in rank"),
    (lambda x, i: tegg.scatter(x[:, :2], 0, i, x), ShapeError,
     "scatter: the index (2, 3) reaches beyond x (2, 2) on another axis than 0"),
    (lambda x, i: tegg.scatter_add(x, 0, i, x[:1]), ShapeError,
     "scatter_add: the index (2, 3) reaches beyond the source (1, 3)"),
    (lambda x, i: tegg.scatter(x, 0, i, i), DTypeError,
     "scatter: the source is i64 and x f32; write src.cast('f32')"),
    (lambda x, i: tegg.scatter(x, 0, x, x), DTypeError,
     "scatter: an index has an integer dtype, not f32"),
    (lambda x, i: tegg.scatter(x, 0, np.full((1, 3), 2), x), ShapeError,
     "scatter: index 2 is outside an axis of 2"),
    (lambda x, i: tegg.index_add(x, 1, np.array([-1]), x[:, :1]), ShapeError,
     "index_add: index -1 is outside an axis of 3"),
    (lambda x, i: tegg.index_add(x, 1, i, x), ShapeError,
     "index_add: the index has one axis, not (2, 3)"),
    (lambda x, i: tegg.index_copy(x, 0, i[0], x), ShapeError,
     "index_copy: rows of axis 0 of (2, 3) by (3,) need a source of (3, 3), not (2, 3)"),
    (lambda x, i: tegg.index_put(x, (), x), ArgumentError,
     "index_put: 0 indices for (2, 3); it takes one for each of the leading axes"),
    (lambda x, i: tegg.index_put(x, (x > 0,), 1.0), ArgumentError,
     "index_put: a bool mask has no shape before its values are known; use tegg.where"),
    (lambda x, i: tegg.index_put(x, (i[:, 0], i[0]), x), ShapeError, "index_put: shapes"),
    (lambda x, i: tegg.index_put(x, (i[0],), x), ShapeError, "index_put: shapes"),
    (lambda x, i: tegg.index_put(x, (i[0],), x[None, None, :1]), ShapeError,
     "index_put: values (1, 1, 1, 3) do not broadcast to (3, 3)")])
def test_errors(call, kind, text):
    with pytest.raises(kind) as e:
        tegg.trace(call, (X, I))
    assert str(e.value).startswith(text)
