"""One row per public op: how to call it, and what NumPy says the result is.

A formula is independent of the op's expansion. What is not "same" in ``result`` is the dtype of
the result by name; ``slack`` is a multiple of the dtype's tolerance, 0 for equal bits' worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import api_cases_more
import api_cases_spatial
from api_drawing import ALL, BOOL, NUMBERS, Call, Draw, call, erf
from tegg.testing.strategies import FLOATS, SPECIALS
from tegg.dtype import DTYPES

F32, F64 = np.float32, np.float64


@dataclass(frozen=True)
class Case:
    """A row of the table."""

    sample: Callable[[Draw], Call]
    formula: Callable[..., Any]
    slack: float = 1.0
    result: str = "same"
    special: tuple[Call, ...] = field(default=())


def grid() -> tuple[np.ndarray, np.ndarray]:
    values = np.array([*SPECIALS, 2, -2, 1.5, 2.5, -2.5, 3, -3, 7.25, -7.25], F32)
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


A, B = grid()
LINE = np.unique(A[~np.isnan(A)])
LINE = np.concatenate([LINE, np.array([-0.0, np.nan], F32)]).astype(F32)


# ---- samplers of common forms
def unary(dtypes: Any = FLOATS, domain: str = "any", specials: bool = False):
    return lambda d: call(d.x(d.shape(), dtypes, domain, specials))


def binary(dtypes: Any = NUMBERS, domain: str = "any", specials: bool = False, scalar: Any = 2):
    def sample(d: Draw) -> Call:
        shape, dtype = d.shape(), d.pick(dtypes)
        a = d.x(shape, dtype, specials=specials)
        b: Any = d.x(d.other(shape), dtype, domain, specials)
        form = d.pick(["ab", "ab", "ba", "scalar"])
        if form == "scalar":
            return call(a, True if dtype in BOOL else scalar)
        return call(b, a) if form == "ba" and domain == "any" else call(a, b)
    return sample


def reduction(dtypes: Any, small: int = 0, specials: bool = False):
    def sample(d: Draw) -> Call:
        shape = d.shape(small=small)
        return call(d.x(shape, dtypes, specials=specials), d.axes(shape), d.flag())
    return sample


def along(dtypes: Any = FLOATS, small: int = 1):
    def sample(d: Draw) -> Call:
        shape = d.shape(1, small=small)
        return call(d.x(shape, dtypes), d.axis(shape))
    return sample


def _exact(f: Callable, dtypes: Any = NUMBERS, **more: Any) -> Case:
    return Case(unary(dtypes, specials=True), f, 0, special=(call(LINE),), **more)


def _float(f: Callable, domain: str = "any", slack: float = 1, **more: Any) -> Case:
    return Case(unary(FLOATS, domain), f, slack, special=(call(LINE),), **more)


def _compare(f: Callable, dtypes: Any = ALL) -> Case:
    return Case(binary(dtypes, specials=True, scalar=1), f, 0, "bool", (call(A, B),))


def _reduce(f: Callable, dtypes: Any, slack: float = 40, small: int = 0, **more: Any) -> Case:
    return Case(reduction(dtypes, small), lambda x, dim, keep: f(x, axis=dim, keepdims=keep),
                slack, **more)


CASES: dict[str, Case] = {}

# ---- elementwise
sigmoid = lambda x: 1 / (1 + np.exp(-x))
CASES |= {
    "add": Case(binary(ALL, specials=True), np.add, 1, special=(call(A, B),)),
    "mul": Case(binary(ALL, specials=True), np.multiply, 1, special=(call(A, B),)),
    "sub": Case(binary(specials=True), np.subtract, 1, special=(call(A, B),)),
    "div": Case(binary(FLOATS, "nonzero"), np.divide, 2, special=(call(LINE, F32(2) + 0 * np.arange(len(LINE), dtype=F32)),)),
    "neg": _exact(np.negative),
    "fmod": Case(binary(domain="nonzero", specials=True), np.fmod, 0, special=(call(A, B),)),
    "remainder": Case(binary(domain="nonzero", specials=True), np.remainder, 0,
                      special=(call(A, B),)),
    "floor_divide": Case(binary(domain="nonzero"), np.floor_divide, 0,
                         special=(call(np.array([7, -7, 1, -1, 0], F32), np.zeros(5, F32)),)),
    "pow": Case(lambda d: (lambda s: call(d.x(s, DTYPES["f32"], "positive"),
                                          d.x(d.other(s), DTYPES["f32"], "small")))(d.shape()),
                np.power, 20, special=(call(A, B), call(LINE, 3), call(LINE, -2))),
    "exp": _float(np.exp, slack=8), "exp2": _float(np.exp2, slack=4),
    "log": _float(np.log, "positive", 4), "log2": _float(np.log2, "positive", 4),
    "sqrt": _float(np.sqrt, "positive"),
    "rsqrt": _float(lambda x: 1 / np.sqrt(x), "positive", 4),
    "reciprocal": _float(lambda x: 1 / x, "nonzero"),
    "square": Case(unary(NUMBERS), np.square, 1, special=(call(LINE),)),
    "sin": _float(np.sin), "cos": _float(np.cos, slack=2),
    "sigmoid": _float(sigmoid, slack=4), "tanh": _float(np.tanh, slack=4),
    "silu": Case(unary(), lambda x: x * sigmoid(x), 8, special=(call(LINE[np.isfinite(LINE)]),)),
    "erf": _float(erf, slack=2),
    "gelu": Case(lambda d: call(d.x(d.shape()), approximate=d.pick(["none", "tanh"])),
                 lambda x, approximate: x / 2 * (1 + (
                     erf(x / math.sqrt(2)) if approximate == "none" else
                     np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))), 8),
    "relu": _exact(lambda x: np.maximum(x, 0)),
    "abs": _exact(np.abs), "sign": _exact(np.sign), "floor": _exact(np.floor),
    "ceil": _exact(np.ceil), "trunc": _exact(np.trunc), "round": _exact(np.round),
    "maximum": Case(binary(specials=True), np.maximum, 0, special=(call(A, B),)),
    "minimum": Case(binary(specials=True), np.minimum, 0, special=(call(A, B),)),
    "clamp": Case(lambda d: call(d.x(d.shape(), NUMBERS, specials=True),
                                 *d.pick([(1, 3), (None, 2), (2, None), (3, 1)])),
                  lambda x, low, high: np.clip(x, low, high).astype(x.dtype), 0,
                  special=(call(LINE, -1, 1),)),
    "cast": Case(lambda d: call(d.x(d.shape(), DTYPES["f32"], "small"),
                                d.pick(["f64", "i32", "bool", "f32"])),
                 lambda x, dtype: x.astype(DTYPES[dtype].numpy), 0, "given"),
    "contiguous": Case(unary(ALL, specials=True), lambda x: x, 0),
}

# ---- comparisons and logic
CASES |= {
    "lt": _compare(np.less), "le": _compare(np.less_equal), "gt": _compare(np.greater),
    "ge": _compare(np.greater_equal), "eq": _compare(np.equal), "ne": _compare(np.not_equal),
    "isnan": Case(unary(ALL, specials=True), np.isnan, 0, "bool", (call(LINE),)),
    "logical_and": Case(binary(BOOL), np.logical_and, 0),
    "logical_or": Case(binary(BOOL), np.logical_or, 0),
    "logical_xor": Case(binary(BOOL), np.logical_xor, 0),
    "logical_not": Case(unary(BOOL), np.logical_not, 0),
    "where": Case(lambda d: (lambda s, t: call(d.x(d.other(s), BOOL), d.x(s, t, specials=True),
                                               d.x(d.other(s), t)))(d.shape(), d.pick(ALL)),
                  np.where, 0, "second"),
}


# ---- reductions
def _sum(x, axis, keepdims):
    return np.sum(x, axis=axis, keepdims=keepdims, dtype=None if x.dtype.kind == "f" else int)


def _lse(x, axis, keepdims):
    return np.log(np.exp(x.astype(F64)).sum(axis, keepdims=keepdims))


def _spread(f: str):
    def sample(d: Draw) -> Call:
        shape = d.shape(1, small=2)
        return call(d.x(shape), d.axis(shape), correction=d.int(0, 1), keepdim=d.flag())
    return Case(sample, lambda x, dim, correction, keepdim: getattr(x, f)(
        dim, ddof=correction, keepdims=keepdim), 20, special=(
            call(np.array([1, np.inf, 2], F32), 0, correction=0, keepdim=False),
            call(np.array([3], F32), 0, correction=0, keepdim=False)))


NAN_ROWS = np.array([[1, np.nan, 2], [-np.inf, np.inf, 0], [-0.0, 0.0, -0.0]], F32)
CASES |= {
    "sum": _reduce(_sum, ALL, result="sum", special=(call(NAN_ROWS, -1, False),)),
    "mean": _reduce(np.mean, FLOATS, small=1, special=(call(NAN_ROWS, -1, False),)),
    "max": _reduce(np.max, ALL, 0, small=1, special=(call(NAN_ROWS, -1, False),)),
    "min": _reduce(np.min, ALL, 0, small=1, special=(call(NAN_ROWS, -1, False),)),
    "any": _reduce(np.any, ALL, 0, result="bool", special=(call(NAN_ROWS, -1, False),)),
    "all": _reduce(np.all, ALL, 0, result="bool", special=(call(NAN_ROWS, -1, False),)),
    "logsumexp": _reduce(_lse, FLOATS, 20, small=1),
    "var": _spread("var"), "std": _spread("std"),
}


# ---- movement
def _two_axes(f: Callable) -> Case:
    return Case(lambda d: (lambda s: call(d.x(s, ALL), d.axis(s), d.axis(s)))(d.shape(1)), f, 0)


def _reshape(d: Draw) -> Call:
    shape = d.shape(small=1)
    new = [math.prod(shape[:i]) for i in (d.int(0, len(shape)),)]
    return call(d.x(shape, ALL), new[0], d.pick([-1, math.prod(shape) // new[0]]))


def _flatten(d: Draw) -> Call:
    shape = d.shape(1)
    i, j = sorted((d.int(0, len(shape) - 1), d.int(0, len(shape) - 1)))
    return call(d.x(shape, ALL), i, j)


def _squeeze(d: Draw) -> Call:
    shape = list(d.shape(1))
    axis = d.int(0, len(shape) - 1)
    shape[axis] = 1
    return call(d.x(tuple(shape), ALL), d.pick([None, axis, (axis,)]))


def _narrow(d: Draw) -> Call:
    shape = d.shape(1, small=1)
    axis = d.axis(shape)
    start = d.int(0, shape[axis])
    return call(d.x(shape, ALL), axis, start, d.int(0, shape[axis] - start))


def _pad(d: Draw) -> Call:
    shape = d.shape(1)
    return call(d.x(shape, NUMBERS), [(d.int(0, 2), d.int(0, 2)) for _ in shape],
                value=d.int(0, 3))


def _parts(equal: bool):
    def sample(d: Draw) -> Call:
        shape, dtype = d.shape(1), d.pick(ALL)
        axis = d.axis(shape)
        parts = []
        for _ in range(d.int(1, 4)):
            size = list(shape)
            size[axis] = shape[axis] if equal else d.int(0, 3)
            parts.append(d.x(tuple(size), dtype, specials=True))
        return call(parts, axis)
    return sample


def _unfold(d: Draw) -> Call:
    shape = list(d.shape(1))
    axis = d.axis(tuple(shape))
    shape[axis] = d.int(5, 9)
    return call(d.x(tuple(shape), ALL), axis, d.int(1, 3), d.int(1, 3), d.int(1, 2))


def windows(x, axis, size, step, dilation=1):
    span = (size - 1) * dilation + 1
    w = np.lib.stride_tricks.sliding_window_view(x, span, axis)[..., ::dilation]
    return np.moveaxis(np.moveaxis(w, axis % x.ndim, 0)[::step], 0, axis % x.ndim)


CASES |= {
    "reshape": Case(_reshape, lambda x, *s: x.reshape(*s), 0),
    "permute": Case(lambda d: (lambda s: call(d.x(s, ALL), *d.rng.permutation(len(s)).tolist()))(
        d.shape(1)), lambda x, *p: x.transpose(p), 0),
    "transpose": _two_axes(np.swapaxes), "swapaxes": _two_axes(np.swapaxes),
    "movedim": _two_axes(np.moveaxis),
    "t": Case(lambda d: call(d.x(d.shape(0, 2), ALL)), np.transpose, 0),
    "flatten": Case(_flatten, lambda x, i, j: x.reshape(
        *x.shape[:i], math.prod(x.shape[i:j + 1]), *x.shape[j + 1:]), 0),
    "squeeze": Case(_squeeze, np.squeeze, 0),
    "unsqueeze": Case(lambda d: (lambda s: call(d.x(s, ALL), d.int(-len(s) - 1, len(s))))(
        d.shape()), np.expand_dims, 0),
    "expand": Case(lambda d: (lambda s: call(d.x(d.other(s), ALL), *s))(d.shape(1)),
                   lambda x, *s: np.broadcast_to(x, s), 0),
    "flip": Case(lambda d: (lambda s: call(d.x(s, ALL), d.axes(s)))(d.shape()), np.flip, 0),
    "narrow": Case(_narrow, lambda x, axis, start, n: np.take(x, range(start, start + n), axis), 0),
    "pad": Case(_pad, lambda x, w, value: np.pad(x, w, constant_values=value), 0),
    "cat": Case(_parts(False), np.concatenate, 0),
    "stack": Case(lambda d: (lambda c: call(c.args[0], d.axis((*c.args[0][0].shape, 1))))(
        _parts(True)(d)), np.stack, 0),
    "unfold": Case(_unfold, windows, 0),
}


# ---- indexing
def _take(d: Draw) -> Call:
    shape = d.shape(1, small=1)
    axis = d.pick([None, d.axis(shape)])
    n = math.prod(shape) if axis is None else shape[axis]
    return call(d.x(shape, ALL), d.index(d.shape(0, 2), n, -n), axis)


def _along(swap: bool):
    def sample(d: Draw) -> Call:
        shape = d.shape(1, small=1)
        axis = d.axis(shape)
        sizes = [d.int(0, n) for n in shape] if swap else list(shape)
        sizes[axis] = d.int(0, 4)
        index = d.index(tuple(sizes), shape[axis])
        x = d.x(shape, ALL)
        return call(x, axis, index) if swap else call(x, index, axis)
    return sample


def _gather(x, axis, index):
    cut = tuple(slice(None) if i == axis % x.ndim else slice(n) for i, n in enumerate(index.shape))
    return np.take_along_axis(x[cut], index, axis)


CASES |= {
    "take": Case(_take, np.take, 0),
    "gather": Case(_along(True), _gather, 0),
    "take_along_dim": Case(_along(False), np.take_along_axis, 0),
    "index_select": Case(lambda d: (lambda s, a: call(d.x(s, ALL), a, d.index(
        (d.int(0, 4),), s[a])))(*(lambda s: (s, d.axis(s)))(d.shape(1, small=1))),
        lambda x, axis, i: np.take(x, i, axis), 0),
    "embedding": Case(lambda d: (lambda n: call(d.index(d.shape(0, 3), n),
                                                d.x((n, d.int(0, 4)), ALL)))(d.int(1, 5)),
                      lambda i, w: w[i], 0, "second"),
}


# ---- products
def _matmul(d: Draw) -> Call:
    lead, dtype = d.shape(0, 2), d.pick(NUMBERS)
    m, k, n = (d.int(0, 4) for _ in range(3))
    a = d.x(d.pick([(*lead, m, k), (k,)]), dtype, "small")
    b = d.x(d.pick([(*d.other(lead), k, n), (k,), (*lead, k, n)]), dtype, "small")
    return call(a, b)


def _linear(d: Draw) -> Call:
    k, n, dtype = d.int(0, 4), d.int(0, 4), d.pick(NUMBERS)
    x, w = d.x((*d.shape(0, 2), k), dtype, "small"), d.x((n, k), dtype, "small")
    return call(x, w, d.x((n,), dtype, "small")) if d.flag() else call(x, w)


CASES |= {
    "matmul": Case(_matmul, np.matmul, 20),
    "dot": Case(lambda d: (lambda n, t: call(d.x((n,), t, "small"), d.x((n,), t, "small")))(
        d.int(0, 5), d.pick(NUMBERS)), np.dot, 20),
    "linear": Case(_linear, lambda x, w, b=0: (x @ w.T + b).astype(x.dtype), 20),
}


# ---- softmax, attention, norms
def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _attention(d: Draw) -> Call:
    lead, heads, group, dtype = d.shape(0, 1, 1), d.int(1, 2), d.int(1, 2), d.pick(FLOATS)
    rows, keys, e, f = (d.int(1, 4) for _ in range(4))
    q, k, v = (d.x((*lead, *s), dtype, "small") for s in (
        (heads * group, rows, e), (heads, keys, e), (heads, keys, f)))
    mask = d.x((rows, keys), BOOL) | (np.arange(keys) == 0)
    return call(q, k, v, attn_mask=d.pick([None, mask]), is_causal=d.flag(),
                enable_gqa=True)


def attention(q, k, v, attn_mask, is_causal, enable_gqa):
    k, v = (np.repeat(t, q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    seen = np.tri(*scores.shape[-2:], dtype=bool) if is_causal else np.True_
    return softmax(np.where(seen if attn_mask is None else seen & attn_mask, scores, -np.inf)) @ v


def _norm(affine: int):
    def sample(d: Draw) -> Call:
        shape, dtype = d.shape(1, small=2), d.pick(FLOATS)
        last = shape[d.int(0, len(shape) - 1):]
        given = d.int(0, affine)
        return call(d.x(shape, dtype), last, *(d.x(last, dtype) for _ in range(given)), eps=0.1)
    return sample


def layer_norm(x, last, weight=1, bias=0, eps=0.0):
    axes = tuple(range(x.ndim - len(last), x.ndim))
    c = x - x.mean(axes, keepdims=True)
    return c / np.sqrt((c * c).mean(axes, keepdims=True) + eps) * weight + bias


def rms_norm(x, last, weight=1, eps=0.0):
    axes = tuple(range(x.ndim - len(last), x.ndim))
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + eps) * weight


def _rope(d: Draw) -> Call:
    shape, dtype = (*d.shape(1, 3), 2 * d.int(1, 3)), d.pick(FLOATS)
    return call(*(d.x(s, dtype, "small") for s in (shape, shape[1:], shape[1:])))


def rope(x, cos, sin):
    a, b = np.split(x, 2, -1)
    return x * cos + np.concatenate([-b, a], -1) * sin


CASES |= {
    "softmax": Case(along(), softmax, 4, special=(
        call(np.array([-np.inf, -np.inf], F32), 0), call(np.array([-np.inf, 0, 1e30], F32), 0))),
    "log_softmax": Case(along(), lambda x, axis: np.log(softmax(x.astype(F64), axis)), 40),
    "scaled_dot_product_attention": Case(_attention, attention, 20),
    "layer_norm": Case(_norm(2), layer_norm, 20), "rms_norm": Case(_norm(1), rms_norm, 20),
    "normalize": Case(along(), lambda x, axis: x / np.maximum(
        np.sqrt((x * x).sum(axis, keepdims=True)), 1e-12), 10, special=(
            call(np.zeros(3, F32), 0),)),
    "rope": Case(_rope, rope, 4),
}
CASES |= api_cases_more.rows(Case) | api_cases_spatial.rows(Case)

# Ops that exist to say why they cannot be: how they are called, and what they answer.
REFUSED: dict[str, tuple[Callable[[Draw], Call], str]] = {
    "nonzero": (unary(ALL), "the shape of its result depends on values")}
