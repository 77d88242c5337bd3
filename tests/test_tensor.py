"""The Tensor functions against NumPy, an independent formula each; broadcasting, dtypes, errors."""

from __future__ import annotations

import math
import operator

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import tegg
from profiles import few
from tegg.testing.strategies import FLOATS, SPECIALS, array, arrays, dims, shapes
from tegg.dtype import DTYPES, f32, f64, i8, i32, i64, u8
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.ir.oracle import evaluate

INTS = (u8, i8, i32, i64)
TOL = {"f64": 1e-11, "f32": 1e-5, "f16": 4e-3, "bf16": 4e-2}


def run(fn, *given_, **kwargs):
    """A function of tensors, recorded for these arrays and evaluated by the oracle."""
    traced = tegg.trace(fn, given_, **kwargs)
    graph = traced.graph
    values = dict(zip(traced.slots, given_))
    values.update({i: s.source.data for i, s in enumerate(graph.inputs) if s.source is not None})
    out = evaluate(graph.outputs.values(), values)
    return out[0] if len(out) == 1 else out


def check(fn, reference, *given_, exact=False, slack=1.0):
    got = run(fn, *given_)
    wide = [a.astype(np.float32) if a.dtype.itemsize == 2 else a for a in given_]
    with np.errstate(all="ignore"):
        want = np.asarray(reference(*wide))
        if got.dtype.itemsize == 2:
            want = want.astype(got.dtype).astype(np.float32)  # halves overflow
    assert got.shape == want.shape
    tol = 0 if exact or not np.issubdtype(want.dtype, np.floating) else TOL[
        tegg.dtype(got.dtype).name] * slack
    np.testing.assert_allclose(got.astype(want.dtype), want, rtol=tol, atol=tol)


def special_pairs(dtype):
    values = np.array([*SPECIALS, 2, -2, 1.5, 2.5, -2.5, 3, -3, 7.25, -7.25], dtype.numpy)
    return [v.ravel() for v in np.meshgrid(values, values)]


erf = np.vectorize(math.erf, otypes=[float])
UNARY = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "square": np.square,
    "sin": np.sin, "cos": np.cos, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh,
    "erf": erf, "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x / 2 * (1 + erf(x / math.sqrt(2))),
}
EXACT = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round, "abs": np.abs,
         "sign": np.sign, "neg": np.negative, "relu": lambda x: np.maximum(x, 0),
         "isnan": np.isnan}
BINARY = {"maximum": np.maximum, "minimum": np.minimum, "fmod": np.fmod,
          "remainder": np.remainder, "lt": np.less, "le": np.less_equal, "gt": np.greater,
          "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}


# ---- elementwise
@pytest.mark.parametrize("name", UNARY)
@given(shape=shapes, dtype=st.sampled_from(FLOATS), seed=st.integers(0, 99))
@few
def test_unary(name, shape, dtype, seed):
    positive = name in ("log", "log2", "sqrt", "rsqrt", "reciprocal")
    x = array(np.random.default_rng(seed), shape, dtype, "positive" if positive else "any")
    check(getattr(tegg, name), UNARY[name], x)
    assert run(getattr(tegg, name), x).dtype == x.dtype


@pytest.mark.parametrize("name", EXACT)
@given(shape=shapes, dtype=st.sampled_from((*FLOATS, *INTS)), seed=st.integers(0, 99))
@few
def test_exact_unary(name, shape, dtype, seed):
    x = array(np.random.default_rng(seed), shape, dtype, specials=True)
    check(getattr(tegg, name), EXACT[name], x, exact=True)


@pytest.mark.parametrize("dtype", [f32, f64])
@pytest.mark.parametrize("name", EXACT)
def test_special_values_of_exact_functions(name, dtype):
    x, _ = special_pairs(dtype)
    check(getattr(tegg, name), EXACT[name], x, exact=True)
    if name in ("floor", "ceil", "trunc", "round"):
        with np.errstate(all="ignore"):
            assert (np.signbit(run(getattr(tegg, name), x)) == np.signbit(EXACT[name](x))).all()


@pytest.mark.parametrize("x", [0.49999997, -0.49999997, 8388607.5, 0.5, 1.5, -0.5, 2.5, 1e10])
def test_round_near_halves(x):
    check(tegg.round, np.round, np.array(x, np.float32), exact=True)


@pytest.mark.parametrize("name", BINARY)
@given(data=st.data(), dtype=st.sampled_from((*FLOATS, *INTS)))
@few
def test_binary_broadcasts(name, data, dtype):
    shape = data.draw(shapes)
    other = data.draw(st.sampled_from([shape, shape[1:], tuple(1 for _ in shape), ()]))
    a, b = (data.draw(arrays(s, dtype, specials=True)) for s in (shape, other))
    if data.draw(st.booleans()):
        a, b = b, a
    check(getattr(tegg, name), BINARY[name], a, b, exact=True)


@pytest.mark.parametrize("dtype", [f32, f64])
@pytest.mark.parametrize("name", BINARY)
def test_special_values_of_binary_functions(name, dtype):
    check(getattr(tegg, name), BINARY[name], *special_pairs(dtype), exact=True)


@pytest.mark.parametrize("dtype", [f32, f64])
def test_power_and_floor_division_of_special_values(dtype):
    a, b = special_pairs(dtype)
    check(operator.pow, np.power, a, b)
    check(operator.floordiv, np.floor_divide, a, b)
    with np.errstate(all="ignore"):
        small = ~(np.abs(a / b) > 1e6)
    check(operator.floordiv, np.floor_divide, a[small], b[small], exact=True)


@given(st.sampled_from(INTS), st.integers(0, 99))
def test_integers_are_exact(dtype, seed):
    rng = np.random.default_rng(seed)
    a, b = (array(rng, (50,), dtype, specials=True) for _ in range(2))
    b = np.where(b == -1, 1, b).astype(b.dtype)  # the lowest // -1 has no result
    for op in (operator.add, operator.sub, operator.mul, operator.mod, operator.floordiv):
        check(op, op, a, b, exact=True)
    n = (np.abs(b.astype(np.int64)) % 9).astype(b.dtype)
    check(operator.pow, operator.pow, a, n, exact=True)
    check(lambda x: x ** 5, lambda x: x ** 5, a, exact=True)
    check(lambda x: x // 7 + x % 7, lambda x: x // 7 + x % 7, a, exact=True)


def test_negative_powers_of_integers():
    x, y = np.array([2, -1, 1, 0, -1, 3]), np.array([-1, -3, -5, -1, -2, -(1 << 40)])
    assert run(operator.pow, x, y).tolist() == [0, -1, 1, 0, 1, 0]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, -1, -2, 0.5, 2.0, 0.25, 2.5])
def test_constant_powers(n):
    x = np.array([0.25, 1, 2, 3.5, 0.1])
    check(lambda x: x ** n, lambda x: x ** n, x)
    check(lambda x: n ** x, lambda x: float(n) ** x, x)
    check(lambda x: (-x) ** n, lambda x: (-x) ** n, x)


@given(shapes, st.sampled_from(FLOATS), st.integers(0, 99))
def test_operators_and_scalars(shape, dtype, seed):
    x = array(np.random.default_rng(seed), shape, dtype)
    for op in (operator.add, operator.sub, operator.mul):
        check(lambda x, op=op: op(2, op(x, 3)), lambda x, op=op: op(2, op(x, 3)), x)
    y = run(lambda x: (x + 1) * 0.5 - 2, x)
    assert y.dtype == x.dtype


def test_numpy_scalars_have_no_say():
    x = np.ones(2, np.float32)
    for scalar in (np.float64(2), np.int64(2), ml_dtypes.bfloat16(2), np.bool_(True)):
        assert run(lambda x, s=scalar: x * s, x).dtype == np.float32


def test_numpy_on_the_left():
    x, w = np.ones((2, 3), np.float32), np.full((3,), 2, np.float32)
    assert (run(lambda x: w - x, x) == 1).all() and (run(lambda x: w @ x.T, x) == 6).all()
    assert (run(lambda x: np.float32(3) * x + np.int64(1), x) == 4).all()
    assert (run(lambda x: np.add(w, x) - np.subtract(w, x), x) == 2).all()
    a = np.arange(1, 4, dtype=np.float32)
    for op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv,
               operator.mod, operator.pow, operator.lt, operator.le, operator.gt, operator.ge,
               operator.eq, operator.ne):
        check(lambda x, op=op: op(a, x), lambda x, op=op: op(a, x), w + 0.5)
        check(lambda x, op=op: op(a[1], x), lambda x, op=op: op(a[1], x), w + 0.5)
    for op in (operator.and_, operator.or_, operator.xor):
        check(lambda x, op=op: op(a > 1, x), lambda x, op=op: op(a > 1, x), a > 2)


def test_clamp_where_and_logic():
    x = np.array([-2, 0.5, 3, np.nan], np.float32)
    check(lambda x: x.clamp(-1, 1), lambda x: np.clip(x, -1, 1), x, exact=True)
    check(lambda x: x.clip(max=1), lambda x: np.minimum(x, 1), x, exact=True)
    check(lambda x: tegg.where(x > 0, x, -1), lambda x: np.where(x > 0, x, -1), x, exact=True)
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    for op in (operator.and_, operator.or_, operator.xor):
        check(op, op, a, b)
        check(lambda x, op=op: op(x, True), lambda x, op=op: op(x, True), a)
    check(operator.invert, operator.invert, a)
    check(lambda x: x.masked_fill(x > 1, 0), lambda x: np.where(x > 1, 0, x), x[:3])


@given(st.sampled_from(list(DTYPES.values())), st.sampled_from(list(DTYPES.values())))
def test_casts(a, b):
    x = np.array([0, 1, 2, 100]).astype(a.numpy)
    assert run(lambda x: x.cast(b), x).tolist() == x.astype(b.numpy).tolist()


# ---- reductions
REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean, "any": np.any,
              "all": np.all}


@pytest.mark.parametrize("name", REDUCTIONS)
@given(data=st.data(), dtype=st.sampled_from(list(DTYPES.values())))
@few
def test_reductions(name, data, dtype):
    shape = data.draw(shapes)
    assume(dtype.is_float or name != "mean")
    assume(0 not in shape or name not in ("max", "min", "mean"))
    axes = data.draw(st.one_of(st.none(), st.lists(st.integers(0, 3), unique=True).map(
        lambda a: tuple(i for i in a if i < len(shape)))))
    keep = data.draw(st.booleans())
    x = data.draw(arrays(shape, dtype, specials=name in ("max", "min")))
    reference = REDUCTIONS[name]
    check(lambda x: getattr(x, name)(axes, keepdim=keep),
          lambda x: reference(x, axis=axes, keepdims=keep), x, slack=40)


def test_sums_of_integers_are_wide():
    for dtype in (u8, i8, i32, DTYPES["bool"]):
        out = run(lambda x: x.sum(), np.full(300, 1).astype(dtype.numpy))
        assert out == 300 and out.dtype == np.int64
    assert run(lambda x: x.sum(dtype="u8"), np.full(300, 1, np.uint8)) == 44


@pytest.mark.parametrize("lowest", [np.int8, np.int32, np.int64])
def test_min_holds_the_lowest_integer(lowest):
    x = np.array([5, np.iinfo(lowest).min, 7], lowest)
    assert run(lambda x: x.min(), x) == np.iinfo(lowest).min


@given(st.sampled_from([f32, f64]), st.integers(0, 1), st.integers(0, 99))
def test_variance(dtype, correction, seed):
    x = array(np.random.default_rng(seed), (3, 4, 5), dtype)
    for axes in (None, 1, (0, 2), -1):
        check(lambda x, a=axes: x.var(a, correction), lambda x, a=axes: x.var(a, ddof=correction),
              x, slack=10)
        check(lambda x, a=axes: x.std(axis=a, ddof=correction, keepdims=True),
              lambda x, a=axes: x.std(a, ddof=correction, keepdims=True), x, slack=10)


def test_variance_of_too_few():
    assert np.isnan(run(lambda x: x.var(), np.ones(1)))


def test_logsumexp():
    x = np.array([[1, 2, 1e3], [-np.inf, -np.inf, -np.inf], [np.inf, 0, 1], [np.nan, 0, 1]])
    got = run(lambda x: x.logsumexp(-1), x)
    assert np.allclose(got, [1e3, -np.inf, np.inf, np.nan], equal_nan=True)


# ---- movement and indexing
@given(st.data())
def test_indexing_is_numpys(data):
    shape = data.draw(shapes)
    x = np.arange(math.prod(shape)).reshape(shape)
    index = tuple(data.draw(st.lists(st.one_of(
        st.just(slice(None)), st.none(), st.integers(-4, 3),
        st.builds(slice, st.none() | st.integers(-6, 6), st.none() | st.integers(-6, 6),
                  st.none() | st.sampled_from([1, 2, 3, -1, -2, -3]))), max_size=5)))
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(index)))
        index = (*index[:at], Ellipsis, *index[at:])
    try:
        want = x[index]
    except IndexError:
        with pytest.raises(ShapeError, match=r"index: .* \(at "):
            run(lambda x: x[index], x)
        return
    check(lambda x: x[index], lambda x: want, x, exact=True)


@given(st.data())
def test_array_indexing_is_numpys(data):
    """Several arrays of one broadcast shape among ints, slices, None and an ellipsis; constants or
    tensors, whatever NumPy accepts."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    x = np.arange(math.prod(shape)).reshape(shape)
    kinds = data.draw(st.lists(st.sampled_from(["array", "int", "slice", "none"]), max_size=5))
    index, axis = [], 0
    for kind in ["array", *kinds] if data.draw(st.booleans()) else [*kinds, "array"]:
        if kind == "none":
            index.append(None)
        elif axis < len(shape):
            n = shape[axis]
            axis += 1
            index.append(
                np.array(data.draw(st.lists(st.integers(-n, n - 1), min_size=6, max_size=6))
                         ).reshape(2, 3)[data.draw(st.sampled_from([
                             slice(None), (slice(None), slice(1)), (0,)]))] if kind == "array" else
                data.draw(st.integers(-n, n - 1)) if kind == "int" else
                data.draw(st.sampled_from([slice(None), slice(1, None), slice(None, None, -1)])))
    if data.draw(st.booleans()):
        index.insert(data.draw(st.integers(0, len(index))), Ellipsis)
    index = tuple(index)
    arrays = [e for e in index if isinstance(e, np.ndarray)]
    try:  # after an ellipsis an index meets another axis
        x[index]
    except IndexError:
        return
    check(lambda x: x[index], lambda x: x[index], x, exact=True)
    check(lambda x, *a: x[tuple(i if not isinstance(i, np.ndarray) else a[
        next(k for k, b in enumerate(arrays) if b is i)] for i in index)],
          lambda x, *a: x[index], x, *arrays, exact=True)


def test_an_ellipsis_of_no_axes_separates_arrays():
    x, i = np.zeros((3, 4)), np.zeros((2, 3), int)
    check(lambda x: x[None, 0, ..., i], lambda x: x[None, 0, ..., i], x, exact=True)


def test_computed_indices_are_clamped_to_their_own_axis():
    x = np.arange(12).reshape(3, 4)
    i, j = np.array([0, 7, -9]), np.array([9, 1, 2])
    assert run(lambda x, i, j: x[i, j], x, i, j).tolist() == [3, 9, 2]


@given(st.data())
def test_gather_is_take_along_axis(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    many = list(shape)
    many[axis] = data.draw(dims)
    x = np.arange(math.prod(shape)).reshape(shape)
    i = np.random.default_rng(0).integers(0, shape[axis], many)
    check(lambda x, i: x.gather(axis, i), lambda x, i: np.take_along_axis(x, i, axis), x, i,
          exact=True)


def test_embedding_and_index_select():
    table, ids = np.arange(12.0).reshape(4, 3), np.array([[0, 3], [9, 1]], np.int32)
    check(lambda t, i: tegg.embedding(i, t), lambda t, i: t[np.minimum(i, 3)], table, ids)
    check(lambda t, i: t.index_select(1, i), lambda t, i: t[:, [0, 2]], table, np.array([0, 2]))


@given(st.data())
def test_movement(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=5)))
    x = np.arange(math.prod(shape)).reshape(shape)
    perm = data.draw(st.permutations(range(len(shape))))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    for fn, want in (
            (lambda x: x.permute(*perm), x.transpose(perm)),
            (lambda x: x.T, x.T), (lambda x: x.flip(axis), np.flip(x, axis)),
            (lambda x: x.flip(), np.flip(x)),
            (lambda x: x.movedim(axis, 0), np.moveaxis(x, axis, 0)),
            (lambda x: x.transpose(axis, 0), np.swapaxes(x, axis, 0)),
            (lambda x: x.unsqueeze(axis), np.expand_dims(x, axis)),
            (lambda x: x.flatten(), x.reshape(-1)), (lambda x: x.squeeze(), x.squeeze()),
            (lambda x: x.expand(2, *shape), np.broadcast_to(x, (2, *shape))),
            (lambda x: x.pad([(1, 2)] * len(shape), value=7),
             np.pad(x, [(1, 2)] * len(shape), constant_values=7)),
            (lambda x: x.pad((2, 1)), np.pad(x, [(0, 0)] * (len(shape) - 1) + [(2, 1)])),
            (lambda x: tegg.stack([x, x], axis), np.stack([x, x], axis)),
            (lambda x: tegg.cat([x, x + 1, x], axis), np.concatenate([x, x + 1, x], axis))):
        check(fn, lambda _, w=want: w, x, exact=True)
    if x.size:
        check(lambda x: x.reshape(shape[0], -1), lambda x: x.reshape(shape[0], -1), x)


def test_unfold():
    x = np.arange(24).reshape(2, 12)
    got = run(lambda x: x.unfold(1, 3, 2, 2), x)
    assert got.shape == (2, 4, 3) and got[1, 2].tolist() == [16, 18, 20]


def test_negative_axes_squares_and_names():
    x = np.arange(9.0).reshape(3, 3)
    check(lambda x: x.softmax(0), lambda x: np.exp(x) / np.exp(x).sum(0), x)
    check(lambda x: x + x[0], lambda x: x + x[0], x)
    check(lambda x: x.sum(dim=0) + x.sum(axis=-1), lambda x: x.sum(0) + x.sum(1), x)


# ---- products, softmax, norms
@given(st.data(), st.sampled_from((*FLOATS, *INTS)))
def test_matmul_is_numpys(data, dtype):
    lead = data.draw(st.lists(st.integers(0, 3), max_size=2).map(tuple))
    other = data.draw(st.sampled_from([lead, lead[1:], tuple(1 for _ in lead), ()]))
    m, k, n = (data.draw(dims) for _ in range(3))
    a = data.draw(arrays((*lead, m, k) if data.draw(st.booleans()) else (k,), dtype, "small"))
    b = data.draw(arrays((*other, k, n) if data.draw(st.booleans()) else (k,), dtype, "small"))
    if data.draw(st.booleans()) and a.ndim > 1 and b.ndim > 1:
        a, b = np.swapaxes(b, -1, -2).copy(), np.swapaxes(a, -1, -2).copy()
    check(operator.matmul, np.matmul, a, b, slack=10)


@given(shapes, st.sampled_from(FLOATS), st.integers(0, 99))
def test_linear(lead, dtype, seed):
    rng = np.random.default_rng(seed)
    x, w, b = (array(rng, s, dtype, "small") for s in ((*lead, 3), (5, 3), (5,)))
    check(tegg.linear, lambda x, w, b: x @ w.T + b, x, w, b, slack=10)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis, keepdims=True)


@given(st.data(), st.sampled_from(FLOATS))
def test_softmax_and_norms(data, dtype):
    shape = tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = data.draw(arrays(shape, dtype))
    check(lambda x: x.softmax(axis), lambda x: softmax(x, axis), x)
    check(lambda x: x.log_softmax(axis), lambda x: np.log(softmax(x, axis)), x, slack=20)
    size = shape[axis:]
    axes = tuple(range(len(shape) - len(size), len(shape)))
    g, b = (data.draw(arrays(size, dtype)) for _ in range(2))
    if 0 in shape:
        return
    check(lambda x, g, b: tegg.layer_norm(x, size, g, b, 0.1),
          lambda x, g, b: (x - x.mean(axes, keepdims=True)) / np.sqrt(
              x.var(axes, keepdims=True) + 0.1) * g + b, x, g, b, slack=10)
    check(lambda x, g: tegg.rms_norm(x, size, g, 0.1),
          lambda x, g: x / np.sqrt((x * x).mean(axes, keepdims=True) + 0.1) * g, x, g, slack=10)


@given(st.integers(0, 99), st.booleans(), st.sampled_from([1, 2]))
@few
def test_attention(seed, causal, group):
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=s) for s in ((2, 2 * group, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6)))
    mask = rng.random((2, 1, 1, 5)) < 0.8
    mask[..., 0] = True

    def reference(q, k, v, mask):
        k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
        scores = q @ np.swapaxes(k, -1, -2) / 2
        seen = mask & (np.tri(3, 5, dtype=bool) if causal else True)
        return softmax(np.where(seen, scores, -np.inf)) @ v

    check(lambda q, k, v, m: tegg.scaled_dot_product_attention(
        q, k, v, m, is_causal=causal, enable_gqa=True),
          reference, q, k, v, mask)


def test_rope_and_normalize():
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 4))
    turned = np.concatenate([-x[..., 2:], x[..., :2]], -1)
    check(lambda x, t: tegg.rope(x, tegg.cos(t), tegg.sin(t)),
          lambda x, t: x * np.cos(t) + turned * np.sin(t), x, t)
    check(lambda x: x.normalize(1), lambda x: x / np.linalg.norm(x, axis=1, keepdims=True), x)


def test_halves_are_computed_in_float32():
    x = np.full((4, 300), 250, np.float16)
    assert (run(lambda x: x.mean(-1), x) == 250).all()
    assert (run(lambda x: x / np.float16(1e-4) * 1e-4, np.ones(1, np.float16)) > 0.99).all()
    assert run(lambda x, y: x @ y, x, x.T[:, :1]).dtype == np.float16


# ---- symbolic dims
def test_symbolic_shapes():
    b, s = tegg.dim("b", 1, 8), tegg.dim("s", 2, 16)
    x = np.random.default_rng(0).normal(size=(3, 4, 6))
    traced = tegg.trace(lambda x: {
        "flat": x.reshape(b, -1), "heads": x.reshape(b, s, 2, -1).transpose(1, 2),
        "last": x[:, -1], "cut": x[:, :s - 1], "turned": x[:, ::-1], "mean": x.mean((0, 1)),
        "twice": tegg.cat([x, x], 1), "self": x @ x.mT, "soft": x.softmax(1),
        "count": x * s, "wide": x.pad((0, 0, s, 1))},
        (x,), dims={"x": (b, s, None)})
    (out,) = [evaluate(traced.graph.outputs.values(), {0: x}, {"b": 3, "s": 4})]
    got = dict(zip(traced.graph.outputs, out))
    want = {"flat": x.reshape(3, -1), "heads": x.reshape(3, 4, 2, 3).swapaxes(1, 2),
            "last": x[:, -1], "cut": x[:, :3], "turned": x[:, ::-1], "mean": x.mean((0, 1)),
            "twice": np.concatenate([x, x], 1), "self": x @ x.swapaxes(1, 2),
            "soft": softmax(x, 1), "count": x * 4, "wide": np.pad(x, ((0, 0), (4, 1), (0, 0)))}
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, atol=1e-12, err_msg=name)


# ---- what it is, and what it refuses
def test_repr_and_properties():
    g = tegg.Graph()
    x = g.tensor((2, tegg.dim("n")), name="x")
    y = (x * x).output("y")
    assert repr(x) == "Tensor((2, n), f32, name='x', %0 = Input)"
    assert repr(y) == "Tensor((2, n), f32, name='y', %1 = Mul(x, x))"
    assert repr((y + 2).sum(1)).endswith(" = Reshape(%5))")
    assert repr(tegg.Tensor(g, g.nodes[5])).endswith("%5 = SumReduce(%4, axis=1))")
    assert repr(tegg.Tensor(g, g.nodes[4])).endswith("%4 = Add(%1, 2))")
    assert x.ndim == x.dim() == 2 and x.numel() == 2 * tegg.dim("n") and (x + 1).name is None
    assert len(list(g.tensor((3, 2)))) == 3 and (+x) is x and hash(x) != hash(y)


SHAPE_ERRORS = [
    (lambda x: x.reshape(4, 2), "reshape: cannot reshape (2, 3) to (4, 2)"),
    (lambda x: x.reshape(-1, -1), "reshape: only one size may be -1, not 2, in (-1, -1)"),
    (lambda x: x.reshape(4, -1), "reshape: (2, 3) does not divide into (4, -1)"),
    (lambda x: x.reshape(2, 1.5), "reshape: a dim is an int or a symbolic dim, not 1.5"),
    (lambda x: x.permute(0, 0), "permute: (0, 0) does not name each axis of (2, 3) once"),
    (lambda x: x.sum(2), "sum: axis 2 is outside a tensor of rank 2"),
    (lambda x: x.sum((0, -2)), "sum: an axis of (2, 3) is named twice in (0, -2)"),
    (lambda x: x[:, :0].max(1), "max: an axis of (2, 0) is empty, and has no maximum"),
    (lambda x: x.softmax(5), "softmax: axis 5 is outside a tensor of rank 2"),
    (lambda x: x @ x, "matmul: (2, 3) @ (2, 3): the inner sizes 3 and 2 differ"),
    (lambda x: x @ x.sum(), "matmul: (2, 3) @ () needs at least one axis each; use *"),
    (lambda x: x.unsqueeze(0).expand(4, 2, 3) @ x.T.unsqueeze(0).expand(5, 3, 2),
     "matmul: leading shapes (4,) and (5,) do not broadcast: 4 and 5 differ"),
    (lambda x: x.dot(x), "dot: takes two 1-D tensors, not (2, 3) and (2, 3)"),
    (lambda x: tegg.linear(x, x.T), "linear: (2, 3) and weight (3, 2): the inner sizes 3 and 2 "
                                    "differ"),
    (lambda x: tegg.linear(x, x[0]), "linear: takes (..., k) and (n, k), not (2, 3) and (3,)"),
    (lambda x: tegg.linear(x, x, x[0]), "linear: the bias has shape (3,), not (2,)"),
    (lambda x: tegg.linear(x, x, 0.5), "linear: the bias has shape (), not (2,)"),
    (lambda x: x[5], "index: 5 is outside an axis of 2"),
    (lambda x: x[0, 0, 0], "index: 3 indices for (2, 3)"),
    (lambda x: x[::0], "index: a slice step is an int other than 0, not 0"),
    (lambda x: x[[0, 1], [0, 1, 2]], "index: the arrays' shapes (2,) and (3,) do not broadcast: "
                                     "2 and 3 differ"),
    (lambda x: x[[0, 2]], "index: 2 is outside an axis of 2"),
    (lambda x: x.take(np.array([0, -3]), 0), "take: -3 is outside an axis of 2"),
    (lambda x: x.take(2, 0), "take: 2 is outside an axis of 2"),
    (lambda x: x.index_select(1, np.array([0, 3])), "index_select: 3 is outside an axis of 3"),
    (lambda x: x.gather(0, np.array([[0, -1, 0]])), "gather: -1 is outside an axis of 2"),
    (lambda x: tegg.embedding(np.array([[1], [2]]), x), "embedding: 2 is outside an axis of 2"),
    (lambda x: tegg.embedding(tegg.nn.Parameter(np.array([4, 0])).reshape(2, 1).flip(), x),
     "embedding: 4 is outside an axis of 2"),
    (lambda x: x.squeeze(0), "squeeze: axis 0 of (2, 3) has not size 1"),
    (lambda x: x.expand(3), "expand: (2, 3) has more axes than (3,)"),
    (lambda x: x.expand(-1, 2, 3), "expand: a new axis of (-1, 2, 3) cannot be -1"),
    (lambda x: x.flatten(1, 0), "flatten: start_dim 1 comes after end_dim 0 in (2, 3)"),
    (lambda x: x.pad((1,)), "pad: (1,) does not give widths before and after the axes of (2, 3)"),
    (lambda x: tegg.cat([x, x.T]), "cat: (2, 3) and (3, 2) differ beside axis 0"),
    (lambda x: tegg.stack([x, x.T]), "stack: shapes (2, 3) and (3, 2) differ"),
    (lambda x: tegg.embedding(tegg.cast(x, "i32"), x[0]),
     "embedding: the table has two axes, not (3,)"),
    (lambda x: x.index_select(0, tegg.cast(x, "i32")),
     "index_select: the index has one axis, not (2, 3)"),
    (lambda x: x.gather(0, tegg.cast(x[0], "i32")),
     "gather: x (2, 3) and index (3,) differ in rank"),
    (lambda x: x.gather(0, tegg.cast(tegg.cat([x, x], 1), "i32")),
     "gather: the index (2, 6) reaches beyond (2, 3) on axis 1"),
    (lambda x: tegg.layer_norm(x, 2), "layer_norm: the last axes of (2, 3) are not (2,)"),
    (lambda x: tegg.rms_norm(x, 3, x), "rms_norm: weight and bias have shape (3,), not (2, 3)"),
    (lambda x: len(x.sum()), "len of (): the first axis has no known size"),
    (lambda x: tegg.scaled_dot_product_attention(x, x.T, x.T),
     "attention: q (2, 3), k (3, 2), v (3, 2) do not fit"),
    (lambda x: tegg.scaled_dot_product_attention(x[0], x[0], x[0]),
     "attention: q (3,), k (3,), v (3,) need a rank of at least 2"),
    (lambda x: tegg.scaled_dot_product_attention(
        x.expand(3, 2, 3), x.expand(2, 2, 3), x.expand(2, 2, 3), enable_gqa=True),
     "attention: q (3, 2, 3), k (2, 2, 3), v (2, 2, 3): 3 query heads are no multiple of 2 key "
     "heads"),
    (lambda x: tegg.scaled_dot_product_attention(x, x, x, enable_gqa=True),
     "attention: q (2, 3), k (2, 3), v (2, 3) need a rank of at least 3"),
    (lambda x: tegg.scaled_dot_product_attention(x, x, x, attn_mask=np.ones((1, 2, 2), bool)),
     "attention: attn_mask of shape (1, 2, 2) does not broadcast to scores of shape (2, 2)"),
    (lambda x: tegg.scaled_dot_product_attention(
        x.expand(4, 2, 3), x.expand(2, 2, 3), x.expand(2, 2, 3)),
     "attention: q (4, 2, 3), k (2, 2, 3), v (2, 2, 3) do not fit; for groups of query heads write "
     "enable_gqa=True"),
    (lambda x: x + x.T, "add: shapes (2, 3) and (3, 2) do not broadcast: 2 and 3 differ"),
]
DTYPE_ERRORS = [
    (lambda x: x + np.ones(3, int), "add: f32 and i64 do not mix; write x.cast('f32') or "
                                    "x.cast('i64') on one of them"),
    (lambda x: tegg.cast(x, "i32") + 0.5, "add: the float 0.5 does not mix with i32; "
                                          "write x.cast('f32') first"),
    (lambda x: tegg.cast(x, "u8") + 300, "add: 300 does not fit u8 (0..255)"),
    (lambda x: tegg.cast(x, "i32") / 2, "div: needs a float dtype, not i32; "
                                        "write x.cast('f32')"),
    (lambda x: tegg.cast(x, "i32").exp(), "exp: needs a float dtype, not i32; "
                                          "write x.cast('f32')"),
    (lambda x: tegg.cast(x, "i32").mean(), "mean: needs a float dtype, not i32; "
                                           "write x.cast('f32')"),
    (lambda x: tegg.cast(x, "i32") ** -1, "pow: i32 to the power -1 is no integer; "
                                          "write x.cast('f32')"),
    (lambda x: (x > 0) // True, "floor_divide: needs numbers, not bool; write x.cast('i32')"),
    (lambda x: (x > 0) ** 2, "pow: needs numbers, not bool; write x.cast('i32')"),
    (lambda x: (x > 0) ** (x > 0), "pow: needs numbers, not bool; write x.cast('i32')"),
    (lambda x: (x > 0).round(), "round: needs numbers, not bool; write x.cast('i32')"),
    (lambda x: (x > 0).sign(), "sign: needs numbers, not bool; write x.cast('i32')"),
    (lambda x: (x > 0) - True, "sub: needs numbers, not bool; write x.cast('i32')"),
    (lambda x: (x > 0) @ (x > 0).T, "matmul: needs numbers, not bool; write x.cast('f32')"),
    (lambda x: ~x, "logical_not: needs bool, not f32; write (x != 0)"),
    (lambda x: x & x, "logical_and: needs bool, not f32; write (x != 0)"),
    (lambda x: x[[0.5]], "index: an index has an integer dtype, not f64"),
    (lambda x: x[x], "index: an index has an integer dtype, not f32"),
    (lambda x: tegg.where(x, x, x), "where: needs bool, not f32; write (x != 0)"),
    (lambda x: tegg.cast(x, "i32").pad((1, 1), value=0.5),
     "pad: the float 0.5 does not mix with i32; write x.cast('f32') first"),
    (lambda x: (x > 0).pad((1, 1), value=2), "pad: 2 is no bool"),
    (lambda x: x + np.ones(3, complex), "add: tegg has no dtype dtype('complex128'); it has "
                                        "f32, f64, f16, bf16, u8, i8, i32, i64, bool"),
]
ARGUMENT_ERRORS = [
    (lambda x: tegg.scaled_dot_product_attention(x, x, x, dropout_p=0.1),
     "attention: dropout_p is 0.1, and nothing is dropped here; leave it out"),
    (lambda x: x + "a", "add: takes tensors, NumPy arrays and scalars, not str; "
                        "write np.asarray(...)"),
    (lambda x: x + tegg.Graph().tensor((2, 3)),
     "add: the operands are tensors of two different graphs"),
    (lambda x: x.softmax(dmi=1), "softmax: no keyword dmi=; did you mean dim=?"),
    (lambda x: x.sum(colour=1), "sum: no keyword colour=; it has dim, keepdim, dtype, axis, axes, dims, "
                                "keepdims"),
    (lambda x: x.sum(dim=1, axis=1), "sum: axis= says again what dim= says"),
    (lambda x: x.gelu("fast"), "gelu: approximate is 'none' or 'tanh', not 'fast'"),
    (lambda x: x.clamp(), "clamp: give min, max, or both"),
    (lambda x: x[..., ...], "index: only one ... may stand in an index"),
    (lambda x: x[x > 0], "index: a bool mask has no shape before its values are known; "
                         "use tegg.where"),
    (lambda x: x[[True, False]], "index: a bool mask has no shape before its values are known; "
                                 "use tegg.where"),
    (lambda x: x[[[0], [1, 2]]], "index: [[0], [1, 2]] is no array of integers"),
    (lambda x: np.sin(x), "np.sin: a tensor has no value while it is recorded, so NumPy cannot "
                          "take it; write tegg.sin(...)"),
    (lambda x: np.add.reduce(x), "np.add.reduce: a tensor has no value while it is recorded, so "
                                 "NumPy cannot take it; write tegg.add(...)"),
    (lambda x: np.float_power(x, 2), "np.float_power: a tensor has no value while it is recorded, "
                                     "so NumPy cannot take it; use the functions of tegg; did you "
                                     "mean 'power'?"),
    (lambda x: np.concatenate([x, x]), "np.concatenate: a tensor has no value while it is "
                                       "recorded, so NumPy cannot take it; write "
                                       "tegg.concatenate(...)"),
    (lambda x: operator.iadd(np.ones(3), x), "np.add: a tensor has no value while it is recorded, "
                                             "so it cannot be stored in an array; write a = a op "
                                             "x, not a op= x"),
    (lambda x: x[True], "index: a bool mask has no shape before its values are known; "
                        "use tegg.where"),
    (lambda x: x["a"], "index: takes ints, slices, None, ... and arrays of integers, not 'a'"),
    (lambda x: x["a":], "index: takes ints, slices, None, ... and arrays of integers, not 'a'"),
    (lambda x: tegg.cat([]), "cat: needs at least one tensor"),
    (lambda x: x.pad((1, 1), value=x), "pad: the value is a Python number, not Tensor((2, 3), f32, "
                                 "name='x', %0 = Input)"),
    (lambda x: x.output("a") + x.output("a"), "the graph has an output 'a' already"),
    (lambda x: 1 if x > 0 else 0, "has no value while it is recorded, so it cannot decide an if "
                                  "or while; use tegg.where"),
    (lambda x: np.asarray(x), "has no value while it is recorded, so NumPy cannot take it; "
                              "use the functions of tegg"),
    *((number, "has no value while it is recorded, so it is no number of Python's; keep it a "
               "tensor, or return it and convert the result")
      for number in (lambda x: float(x), lambda x: int(x), lambda x: [0][x])),
]


@pytest.mark.parametrize(("kind", "fn", "text"), [
    *((ShapeError, *e) for e in SHAPE_ERRORS), *((DTypeError, *e) for e in DTYPE_ERRORS),
    *((ArgumentError, *e) for e in ARGUMENT_ERRORS)])
def test_errors_name_the_op_and_the_line(kind, fn, text):
    x = np.ones((2, 3), np.float32)
    with pytest.raises(kind) as e:
        tegg.trace(fn, (x,), dims=None)
    message = str(e.value)
    assert text in message and f"(at {__file__}:" in message


def test_functions_need_a_graph():
    with pytest.raises(ArgumentError, match="exp: no operand is a tensor of a graph; call it "
                                            "inside a function given to tegg.compile"):
        tegg.exp(np.ones(3))
    g = tegg.Graph()
    with g.recording():
        assert tegg.maximum(1, 2.0).dtype is f32 and tegg.add(np.ones(3), 1).dtype is f64


# ---- state
def test_state_marks_an_update():
    g = tegg.Graph()
    x = g.tensor((2,), name="x")
    new = tegg.state(x, x + 1)
    assert g.inputs[0].kind == "state" and g.updates == {0: new.node}


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda x: (x + 1, x), ArgumentError, "is no input, so nothing can replace it"),
    (lambda x: (x, 1), ArgumentError, "state: 1 is no tensor of the same graph"),
    (lambda x: (x, tegg.Graph().tensor((2,))), ArgumentError, "is no tensor of the same graph"),
    (lambda x: (x, x.sum()), ShapeError, "state: 'x' is (2,), its new value ()"),
    (lambda x: (x, x.cast("f16")), DTypeError,
     "state: 'x' is f32, its new value f16; write new.cast('f32')"),
    (lambda x: (tegg.state(x, x + 1) and x, x), ArgumentError, "state: 'x' is replaced already"),
])
def test_state_errors(make, kind, text):
    x = tegg.Graph().tensor((2,), name="x")
    with pytest.raises(kind) as e:
        if "already" in text:
            tegg.state(x, x + 1)
            tegg.state(x, x)
        tegg.state(*make(x))
    assert text in str(e.value)


def test_weights_are_no_states():
    g = tegg.Graph()
    w = tegg.Tensor(g, g.input("w", (2,), "f32", "weight", np.ones(2, np.float32)))
    with pytest.raises(ArgumentError, match="state: 'w' is bound by reference; give it as an "
                                            "argument"):
        tegg.state(w, w + 1)


def test_symbolic_sizes_that_must_be_known():
    g = tegg.Graph()
    n = tegg.dim("n", 1, 9)
    x = g.tensor((2, n))
    with pytest.raises(ShapeError, match="attention: the head size n is symbolic; give scale="):
        tegg.scaled_dot_product_attention(x, x, x)
    with pytest.raises(ShapeError, match="index: a slice of n elements by steps of -2 has no "
                                         "known size"):
        x[:, ::-2]
