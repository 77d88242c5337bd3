"""Norms, similarities, distances and products against NumPy; errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tegg
from recorded import check, check_error
from tegg.testing.strategies import array
from tegg.dtype import f16, f32, f64
from tegg.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 5, 4))


@given(p=st.sampled_from([0, 1, 2, 3, 0.5, math.inf, -math.inf]), axis=st.sampled_from([0, -1]),
       dtype=st.sampled_from([f64, f32, f16]), keep=st.booleans())
def test_norm(p, axis, dtype, keep):
    x = array(np.random.default_rng(0), (3, 4), dtype)
    check(lambda x: x.norm(p, axis, keep),
          lambda x: np.linalg.norm(x, p, axis, keepdims=keep), x, slack=4)
    check(lambda x: x.norm(p), lambda x: np.linalg.norm(x.ravel(), p), x, slack=4)


def test_similarities_and_distances():
    check(lambda x: tegg.normalize(x, 1, p=1.0), lambda x: x / abs(x).sum(1, keepdims=True), X)
    check(lambda x: tegg.cosine_similarity(x, x[:1] + 1, 2), lambda x: (
        (x * (x[:1] + 1)).sum(2) / np.linalg.norm(x, axis=2) / np.linalg.norm(x[:1] + 1, axis=2)),
        X)
    check(lambda x: tegg.cosine_similarity(x * 0, x), lambda x: np.zeros((2, 4)), X)
    for p in (1, 2, math.inf):
        check(lambda x, y, p=p: tegg.cdist(x, y, p), lambda x, y, p=p: np.linalg.norm(
            x[:, :, None] - y[:, None], p, -1), X, Y, slack=100)
    check(lambda x: tegg.pairwise_distance(x, x[:1]),
          lambda x: np.linalg.norm(x - x[:1] + 1e-6, axis=-1), X)


def test_products():
    a, b = X[0], Y[0]
    check(lambda a, b: tegg.mm(a, b.T), lambda a, b: a @ b.T, a, b)
    check(lambda a, b: tegg.bmm(a, b.mT), lambda a, b: a @ b.swapaxes(1, 2), X, Y)
    check(lambda a: a.mv(a[0]), lambda a: a @ a[0], a)
    check(lambda a: tegg.outer(a[0], a[:, 0]), lambda a: np.outer(a[0], a[:, 0]), a)
    check(lambda a, b: tegg.addmm(a[:, :1], a, b.T, 2, 3),
          lambda a, b: 2 * a[:, :1] + 3 * a @ b.T, a, b)
    check(lambda a, b: tegg.addmm(a[0, 0] * math.nan, a, b.T, 0), lambda a, b: a @ b.T, a, b)
    check(lambda a, b: tegg.baddbmm(b[0, :, 0], a, b.mT),
          lambda a, b: b[0, :, 0] + a @ b.swapaxes(1, 2), X, Y)


@pytest.mark.parametrize(("fn", "kind", "text"), [
    (lambda x, y: x.norm(math.nan), ArgumentError, "norm: p is a number, not nan"),
    (lambda x, y: tegg.cast(x, "i32").norm(), DTypeError, "norm: needs a float dtype, not i32"),
    (lambda x, y: tegg.cdist(x, y[..., :2]), ShapeError,
     "cdist: takes (..., n, d) and (..., m, d), not (2, 3, 4) and (2, 5, 2)"),
    (lambda x, y: tegg.mm(x, y), ShapeError, "mm: takes 2 and 2 axes, not (2, 3, 4) and (2, 5, 4)"),
    (lambda x, y: tegg.bmm(x[:1], y.mT), ShapeError,
     "bmm: the batches of (1, 3, 4) and (2, 4, 5) differ"),
    (lambda x, y: tegg.outer(x, y), ShapeError,
     "outer: takes two 1-D tensors, not (2, 3, 4) and (2, 5, 4)"),
    (lambda x, y: tegg.addmm(x, x[0], y[0].T), ShapeError,
     "addmm: shapes (2, 3, 4) and (3, 5) do not broadcast"),
    (lambda x, y: tegg.addmm(x[:, :, :1], x[0], y[0].T), ShapeError,
     "addmm: (2, 3, 1) does not broadcast to (3, 5)"),
])
def test_errors(fn, kind, text):
    check_error(fn, kind, text, X, Y)
