"""Ops along an axis against NumPy: through the oracle, and compiled; adversarial views."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import tegg
from tegg.testing.strategies import array
from tegg.dtype import DTYPES
from tegg.ir.oracle import evaluate

EVERY = tuple(DTYPES.values())
VIEWS = ("plain", "permuted", "sliced", "flipped", "expanded")
TOL = {"f64": 1e-11, "f32": 2e-5, "f16": 4e-3, "bf16": 4e-2}


def viewed(x, view):
    """A view, by spellings that NumPy arrays and Tensors share."""
    if view == "permuted":
        return x.transpose(*reversed(range(x.ndim))) if isinstance(x, np.ndarray) else x.T
    if view == "sliced":
        return x[..., ::2]
    if view == "flipped":
        return x[..., ::-1]
    if view == "expanded":
        to = (3, *x.shape)
        return np.broadcast_to(x, to) if isinstance(x, np.ndarray) else x.expand(*to)
    return x


@st.composite
def cases(draw, dtypes=EVERY, low=0, most=5):
    """A random array with special values, a view of it, and an axis of the view."""
    shape = tuple(draw(st.lists(st.integers(low, most), min_size=1, max_size=3)))
    dtype = draw(st.sampled_from(dtypes))
    rng = np.random.default_rng(draw(st.integers(0, 2 ** 32 - 1)))
    x = array(rng, shape, dtype, specials=draw(st.booleans()))
    if draw(st.booleans()) and x.size:  # ties
        x = rng.choice(x.reshape(-1)[:2], shape).astype(dtype.numpy)
    view = draw(st.sampled_from(VIEWS))
    rank = len(shape) + (view == "expanded")
    return x, view, draw(st.integers(-rank, rank - 1))


def through_oracle(fn, *given):
    """What a function of tensors gives, by the oracle."""
    traced = tegg.trace(fn, given)
    graph = traced.graph
    values = dict(zip(traced.slots, given))
    values.update({i: s.source.data for i, s in enumerate(graph.inputs) if s.source is not None})
    out = evaluate(graph.outputs.values(), values)
    return out[0] if len(out) == 1 else out


def wide(x):
    """Halves as float32."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def agree(got, want, where="", scale=1.0):
    """Equal, floats within their dtype's tolerance."""
    assert got.shape == want.shape, (where, got.shape, want.shape)
    name = tegg.dtype(got.dtype).name
    tol = TOL.get(name, 0) * scale
    with np.errstate(all="ignore"):
        want = want.astype(got.dtype)
    np.testing.assert_allclose(wide(got).astype(np.float64), wide(want).astype(np.float64),
                               rtol=tol, atol=tol, err_msg=where)
