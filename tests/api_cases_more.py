"""Rows of activations, orders, scans, scatters, parts and creation."""

from __future__ import annotations

from typing import Any

import numpy as np

from api_drawing import ALL, NUMBERS, Call, Draw, call
from tegg.testing.strategies import FLOATS
from tegg.dtype import f32, f64, i32, i64

F64 = np.float64
WIDE = (f32, f64, i32, i64)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(x, 0)


def _elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


ACTIVATIONS: dict[str, Any] = {
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": _elu, "celu": _elu,
    "selu": lambda x: 1.0507009873554804934193349852946 * _elu(
        x, 1.6732632423543772848170429916717),
    "relu6": lambda x: np.clip(x, 0, 6), "hardtanh": lambda x: np.clip(x, -1, 1),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6, "softplus": softplus,
    "logsigmoid": lambda x: -softplus(-x), "softsign": lambda x: x / (1 + np.abs(x)),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "hardshrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
    "softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "tanhshrink": lambda x: x - np.tanh(x),
    "log10": np.log10, "log1p": np.log1p, "expm1": np.expm1, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "tan": np.tan,
    "atan": np.arctan, "asin": np.arcsin, "acos": np.arccos,
}
DOMAIN = {"log10": np.abs, "acosh": lambda x: np.abs(x) + 1, "atanh": np.tanh, "asin": np.sin,
          "acos": np.sin, "log1p": np.abs, "tan": np.arctan}


def _activation(name: str):
    def sample(d: Draw) -> Call:
        x = d.x(d.shape(), (f32, f64), "small")
        return call((DOMAIN[name](x) * 0.9 if name in ("atanh", "asin", "acos") else
                     DOMAIN[name](x) + 0.01 if name in DOMAIN else x).astype(x.dtype))
    return sample


def _pair(d: Draw) -> Call:
    shape, dtype = d.shape(), d.pick((f32, f64))
    return call(d.x(shape, dtype), d.x(d.other(shape), dtype))


# ---- along an axis
def _line(dtypes: Any = NUMBERS, small: int = 1, specials: bool = False, **more: Any):
    def sample(d: Draw) -> Call:
        shape = d.shape(1, 3, small, 5)
        x = d.x(shape, dtypes, specials=specials)
        if d.flag() and x.dtype.kind != "b":
            x = np.round(x / 4).astype(x.dtype)  # ties
        return call(x, d.axis(shape), **{k: d.pick(v) for k, v in more.items()})
    return sample


def _running(f: Any):
    def formula(x, axis):
        whole = x.dtype.kind in "iub" and f in (np.add, np.multiply)
        return f.accumulate(x.astype(np.int64) if whole else x.astype(F64) if (
            x.dtype == np.float32 and f is np.add) else x, axis)
    return formula


def _order(x, axis, descending):
    keys = -x.astype(F64) if descending else x.astype(F64)
    return np.argsort(keys, axis=axis, kind="stable")


def _sort(x, axis, descending):
    at = _order(x, axis, descending)
    return np.take_along_axis(x, at, axis), at


def _topk_sample(d: Draw) -> Call:
    shape = d.shape(1, 3, 1, 5)
    axis = d.axis(shape)
    x = np.round(d.x(shape, WIDE) / 4)
    return call(x.astype(d.pick((f32, i32)).numpy), d.int(0, shape[axis]), axis, d.flag())


def _topk(x, k, axis, largest):
    values, at = _sort(x, axis, largest)
    return np.take(values, range(k), axis), np.take(at, range(k), axis)


def _searched(d: Draw) -> Call:
    dtype = d.pick(WIDE)
    return call(np.sort(d.x((d.int(0, 6),), dtype)), d.x(d.shape(0, 2), dtype), right=d.flag())


# ---- writing by index
def _scattered(kind: str):
    def sample(d: Draw) -> Call:
        shape, dtype = d.shape(1, 3, 1), d.pick(WIDE)
        axis = d.axis(shape)
        sizes = [d.int(0, n) for n in shape]
        sizes[axis] = d.int(0, 4)
        i = d.index(tuple(sizes), shape[axis])
        src = np.round(d.x(tuple(n + d.int(0, 1) for n in sizes), dtype)).astype(dtype.numpy)
        more = {"reduce": d.pick(["sum", "amax", "amin"])} if kind == "reduce" else {}
        return call(d.x(shape, dtype), axis, i, src, **more)
    return sample


def _scatter(how: str):
    def formula(x, axis, index, src, reduce="sum"):
        f = {"sum": np.add, "amax": np.maximum, "amin": np.minimum}[reduce]
        out = x.copy()
        for at in np.ndindex(*index.shape):
            to = list(at)
            to[axis] = index[at]
            place = tuple(to)
            out[place] = src[at] if how == "set" else f(out[place], src[at])
        return out
    return formula


def _rows_sample(d: Draw) -> Call:
    shape, dtype = d.shape(1, 3, 1), d.pick(WIDE)
    axis, k = d.axis(shape), d.int(0, 4)
    source = list(shape)
    source[axis] = k
    return call(d.x(shape, dtype), axis, d.index((k,), shape[axis]),
                np.round(d.x(tuple(source), dtype)).astype(dtype.numpy))


def _rows(add: bool):
    def formula(x, axis, index, source):
        out = np.moveaxis(x.copy(), axis, 0)
        for i, row in zip(index, np.moveaxis(source, axis, 0)):
            out[i] = out[i] + row if add else row
        return np.moveaxis(out, 0, axis)
    return formula


def _put_sample(d: Draw) -> Call:
    shape, dtype, k = d.shape(1, 3, 1), d.pick(WIDE), d.int(0, 3)
    n = d.int(1, len(shape))
    at = tuple(d.index((k,), m, -m) for m in shape[:n])
    return call(d.x(shape, dtype), at, d.x((k, *shape[n:]), dtype), accumulate=d.flag())


def _put(x, at, values, accumulate):
    out = x.copy()
    if accumulate:
        np.add.at(out, at, values)
    else:
        out[at] = values
    return out


# ---- coordinates
def _coordinates(d: Draw, shape: tuple[int, ...], batch: int = 0) -> np.ndarray:
    """Of drawn places, ``k`` numbers each, some of which count from the end."""
    k = d.int(1, len(shape) - batch)
    lead = (*shape[:batch], *d.shape(0, 2, 0, 3))
    columns = [d.rng.integers(-n, n, lead) for n in shape[batch:batch + k]]
    return np.stack(columns, -1).astype(d.pick((i32, i64)).numpy)


def _gather_nd_sample(d: Draw) -> Call:
    shape = d.shape(1, 4, 1)
    batch = d.int(0, len(shape) - 1)
    return call(d.x(shape, ALL), _coordinates(d, shape, batch), batch_dims=batch)


def _gather_nd(x, at, batch_dims):
    lead, k = at.shape[:-1], at.shape[-1]
    out = np.zeros((*lead, *x.shape[batch_dims + k:]), x.dtype)
    for p in np.ndindex(*lead):
        out[p] = x[(*p[:batch_dims], *at[p])]
    return out


def _scatter_nd_sample(d: Draw) -> Call:
    shape, dtype = d.shape(1, 4, 1), d.pick(WIDE)
    at = _coordinates(d, shape)
    new = np.round(d.x((*at.shape[:-1], *shape[at.shape[-1]:]), dtype)).astype(dtype.numpy)
    return call(d.x(shape, dtype), at, new, reduce=d.pick([None, "add", "max", "min"]))


def _scatter_nd(x, at, new, reduce):
    f = {None: lambda a, b: b, "add": np.add, "max": np.maximum, "min": np.minimum}[reduce]
    out = x.copy()
    for p in np.ndindex(*at.shape[:-1]):
        out[tuple(at[p])] = f(out[tuple(at[p])], new[p])
    return out


def _excise_sample(d: Draw) -> Call:
    shape = d.shape(1, 3, 0, 7)
    return call(d.x(shape, ALL), d.int(1, 3), d.int(0, 3), d.axis(shape))


def _excise(x, spacing, size, axis):
    kept = [i for i in range(x.shape[axis]) if i % (spacing + size) < spacing]
    return np.take(x, np.array(kept, int), axis)


def _slice_sample(d: Draw) -> Call:
    shape = d.shape(1, 3, 0, 5)
    bound = lambda: d.pick([None, d.int(-6, 6)])
    return call(d.x(shape, ALL), d.axis(shape), bound(), bound(), d.pick([1, 2, -1, -3]))


def _slice(x, axis, start, stop, step):
    return np.moveaxis(np.moveaxis(x, axis, 0)[start:stop:step], 0, axis)


def _axes_sample(d: Draw, **more: Any) -> Call:
    shape = d.shape(1, 4, 1)
    return call(d.x(shape, FLOATS), d.axes(shape), **more)


# ---- parts and repeats
def _split_sample(d: Draw) -> Call:
    shape = d.shape(1, 3, 1)
    return call(d.x(shape, ALL), d.int(1, 3), d.axis(shape))


def _split(x, size, axis):
    return tuple(np.split(x, range(size, x.shape[axis], size), axis))


def _chunk(x, n, axis):
    return _split(x, max(1, -(-x.shape[axis] // n)), axis)


def _roll_sample(d: Draw) -> Call:
    shape = d.shape(1, 3, 1)
    return call(d.x(shape, ALL), d.int(-5, 5), d.pick([None, d.axis(shape)]))


def _plane(d: Draw) -> Call:
    return call(d.x((*d.shape(0, 2), d.int(1, 4), d.int(1, 4)), ALL), d.int(-3, 3))


def _diagonal_sample(d: Draw) -> Call:
    return call(d.x((d.int(1, 4), d.int(1, 4), *d.shape(0, 1)), ALL), d.int(-1, 1))


def _square(d: Draw) -> Call:
    return call(d.x((d.int(1, 4), d.int(1, 4)), FLOATS))


# ---- products and distances
def _product(*shapes: str):
    def sample(d: Draw) -> Call:
        size = {c: d.int(1, 4) for c in "bmkn"}
        dtype = d.pick(NUMBERS)
        return call(*(d.x(tuple(size[c] for c in s), dtype, "small") for s in shapes))
    return sample


def _einsum_sample(d: Draw) -> Call:
    equation = d.pick(["ij,jk->ik", "bij,bkj->bik", "ij->ji", "ij,ij->", "i,j->ij", "ii->i",
                       "...ij,...jk->...ik", "ijk->k", "ab,bc,cd->ad"])
    size = {c: 3 if c in "i" else d.int(1, 4) for c in "abcdijk"}
    shapes = [tuple(size[c] for c in part.replace("...", "a"))
              for part in equation.split("->")[0].split(",")]
    dtype = d.pick((f32, f64, i32))
    return call(equation, *(d.x(s, dtype, "small") for s in shapes))


def _rows_of_two(d: Draw) -> Call:
    dtype, n = d.pick((f32, f64)), d.int(1, 4)
    return call(d.x((d.int(1, 4), n), dtype), d.x((d.int(1, 4), n), dtype))


def _two_alike(d: Draw) -> Call:
    shape = (d.int(1, 4), d.int(1, 4))
    dtype = d.pick((f32, f64))
    return call(d.x(shape, dtype), d.x(shape, dtype))


def rows(case: Any) -> dict[str, Any]:
    """The rows, made by the class of a row."""
    out = {n: case(_activation(n), f, 40) for n, f in ACTIVATIONS.items()}
    one_axis = _line()
    out |= {
        "logaddexp": case(_pair, np.logaddexp, 20), "atan2": case(_pair, np.arctan2, 8),
        "prelu": case(lambda d: call(d.x((2, 3, d.int(0, 3)), f32), d.x((3,), f32)),
                      lambda x, w: np.where(x > 0, x, w[:, None] * x), 2),
        "threshold": case(lambda d: call(d.x(d.shape(), f32), 0.5, -1.0),
                          lambda x, t, v: np.where(x > t, x, v), 0),
        "glu": case(lambda d: call(d.x((d.int(0, 3), 2 * d.int(0, 3)), FLOATS)),
                    lambda x: np.split(x, 2, -1)[0] * sigmoid(np.split(x, 2, -1)[1]), 8),
        "lerp": case(lambda d: (lambda s: call(d.x(s, f64), d.x(s, f64), d.x(s, f64)))(d.shape()),
                     lambda a, b, w: a + w * (b - a), 100),
        "isinf": case(lambda d: call(d.x(d.shape(), FLOATS, specials=True)), np.isinf, 0, "bool"),
        "isfinite": case(lambda d: call(d.x(d.shape(), FLOATS, specials=True)), np.isfinite, 0,
                         "bool"),
        "nan_to_num": case(lambda d: call(d.x(d.shape(), (f32, f64), specials=True), 1.0),
                           lambda x, nan: np.nan_to_num(x, nan=nan), 0),
        "prod": case(lambda d: call(np.asarray(np.round(d.x(d.shape(0, 2), WIDE, "small")).clip(-2, 2)),
                                    d.pick([None, ()])),
                     lambda x, dim: np.prod(x, axis=dim, dtype=x.dtype if x.dtype.kind == "f"
                                            else np.int64), 20, "sum"),
        "cumsum": case(one_axis, _running(np.add), 20, "sum"),
        "cumprod": case(lambda d: call(np.round(d.x((3, d.int(0, 4)), (f32, f64))).clip(-2, 2), 1),
                        _running(np.multiply), 20, "sum"),
        "cummax": case(_line(ALL, specials=True), _running(np.maximum), 0),
        "cummin": case(_line(ALL, specials=True), _running(np.minimum), 0),
        "logcumsumexp": case(_line(FLOATS), lambda x, axis: np.logaddexp.accumulate(
            x.astype(F64), axis), 40),
        "argmax": case(_line(NUMBERS, keepdim=[True, False]), lambda x, axis, keepdim: np.argmax(
            x, axis, keepdims=keepdim), 0, "i64"),
        "argmin": case(_line(NUMBERS, keepdim=[True, False]), lambda x, axis, keepdim: np.argmin(
            x, axis, keepdims=keepdim), 0, "i64"),
        "argsort": case(_line(WIDE, descending=[True, False]), _order, 0, "i64"),
        "sort": case(_line(WIDE, descending=[True, False]), _sort, 0),
        "topk": case(_topk_sample, _topk, 0),
        "searchsorted": case(_searched, lambda s, v, right: np.searchsorted(
            s, v, "right" if right else "left"), 0, "i64"),
        "scatter": case(_scattered("set"), _scatter("set"), 0),
        "scatter_add": case(_scattered("add"), _scatter("sum"), 20),
        "scatter_reduce": case(_scattered("reduce"), _scatter("reduce"), 20),
        "index_add": case(_rows_sample, _rows(True), 20),
        "index_copy": case(_rows_sample, _rows(False), 0),
        "index_put": case(_put_sample, _put, 20),
        "gather_nd": case(_gather_nd_sample, _gather_nd, 0),
        "scatter_nd": case(_scatter_nd_sample, _scatter_nd, 20),
        "slice_along": case(_slice_sample, _slice, 0), "excise": case(_excise_sample, _excise, 0),
        "mean_norm": case(_axes_sample, lambda x, dim: x - x.mean(dim, keepdims=True), 20),
        "std_norm": case(lambda d: _axes_sample(d, eps=0.1), lambda x, dim, eps: x / np.sqrt(
            (x * x).mean(dim, keepdims=True) + eps), 20),
        "one_hot": case(lambda d: call(d.index(d.shape(0, 2), 4), 4),
                        lambda i, n: np.eye(n, dtype=int)[i], 0, "i64"),
        "bincount": case(lambda d: call(d.index((d.int(0, 6),), 4), minlength=4),
                         lambda x, minlength: np.bincount(x, minlength=minlength), 0, "i64"),
        "unflatten": case(lambda d: call(d.x((2, 6, 3), ALL), 1, d.pick([(2, 3), (-1, 2)])),
                          lambda x, dim, s: x.reshape(2, *s, 3), 0),
        "split": case(_split_sample, _split, 0), "chunk": case(_split_sample, _chunk, 0),
        "tensor_split": case(_split_sample, lambda x, n, axis: tuple(np.array_split(x, n, axis)),
                             0),
        "unbind": case(lambda d: call(d.x((d.int(1, 3), *d.shape(0, 2)), ALL)), tuple, 0),
        "repeat": case(lambda d: call(d.x((2, d.int(0, 3)), ALL), d.int(1, 2), d.int(0, 2),
                                      d.int(1, 3)), lambda x, *n: np.tile(x, n), 0),
        "tile": case(lambda d: call(d.x((2, d.int(0, 3)), ALL), d.int(1, 3)), np.tile, 0),
        "repeat_interleave": case(_split_sample, np.repeat, 0),
        "roll": case(_roll_sample, np.roll, 0),
        "rot90": case(lambda d: call(d.x((2, d.int(1, 3), 2), ALL), d.int(-3, 5)), np.rot90, 0),
        "tril": case(_plane, np.tril, 0), "triu": case(_plane, np.triu, 0),
        "diagonal": case(_diagonal_sample, np.diagonal, 0),
        "trace": case(_square, np.trace, 8),
        "diag": case(lambda d: call(d.x(d.shape(1, 2, 1), ALL), d.pick([0, 0, 1, -1])),
                     lambda x, k: np.diag(x, k), 0),
        "mm": case(_product("mk", "kn"), np.matmul, 20),
        "bmm": case(_product("bmk", "bkn"), np.matmul, 20),
        "mv": case(_product("mk", "k"), np.matmul, 20),
        "outer": case(_product("m", "n"), np.outer, 1),
        "addmm": case(_product("mn", "mk", "kn"), lambda x, a, b: x + a @ b, 20),
        "baddbmm": case(_product("bmn", "bmk", "bkn"), lambda x, a, b: x + a @ b, 20),
        "einsum": case(_einsum_sample, np.einsum, 40),
        "norm": case(lambda d: call(d.x((3, d.int(1, 4)), (f32, f64)), d.pick([2.0, 1.0]), 1),
                     lambda x, p, axis: np.linalg.norm(x, p, axis), 8),
        "cosine_similarity": case(_two_alike, lambda a, b: (a * b).sum(1) / np.maximum(
            np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1), 1e-8), 20),
        "pairwise_distance": case(_two_alike, lambda a, b: np.linalg.norm(a - b + 1e-6, axis=1),
                                  20),
        "cdist": case(_rows_of_two, lambda a, b: np.linalg.norm(a[:, None] - b, axis=-1), 200),
    }
    return out | _creation(case)


def _creation(case: Any) -> dict[str, Any]:
    like = lambda d: call(d.x(d.shape(), ALL))
    return {
        "full": case(lambda d: call(d.shape(), 1.5), np.full, 0, "f32"),
        "zeros": case(lambda d: call(*d.shape()), lambda *s: np.zeros(s), 0, "f32"),
        "ones": case(lambda d: call(*d.shape()), lambda *s: np.ones(s), 0, "f32"),
        "full_like": case(lambda d: call(d.x(d.shape(), NUMBERS), 3), np.full_like, 0),
        "zeros_like": case(like, np.zeros_like, 0), "ones_like": case(like, np.ones_like, 0),
        "arange": case(lambda d: call(d.int(-3, 3), d.int(3, 9), d.int(1, 3)), np.arange, 0,
                       "i64"),
        "linspace": case(lambda d: call(-1.5, 2.0, d.int(1, 7)), np.linspace, 2, "f32"),
        "eye": case(lambda d: call(d.int(1, 4), d.int(1, 4)), np.eye, 0, "f32"),
        "meshgrid": case(lambda d: (lambda t: call(d.x((2,), t), d.x((3,), t), indexing=d.pick(
            ["ij", "xy"])))(d.pick(ALL)), lambda *t, indexing: tuple(
                np.meshgrid(*t, indexing=indexing)), 0),
    }
