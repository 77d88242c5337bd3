"""Functions of tensors, recorded for arrays and evaluated by the oracle."""

from __future__ import annotations

import numpy as np
import pytest

import tegg
from tegg.ir.oracle import evaluate

TOL = {"f64": 1e-11, "f32": 2e-5, "f16": 4e-3, "bf16": 4e-2}


def run(fn, *given, dims=None, sizes=None):
    """What ``fn`` gives for arrays: one array, or a list. dims, sizes: symbols and their values."""
    given = [np.asarray(a) for a in given]  # a drawn array of rank 0 may be a scalar of NumPy
    traced = tegg.trace(fn, tuple(given), dims=dims)
    values = dict(zip(traced.slots, given))
    values.update({i: s.source.data for i, s in enumerate(traced.graph.inputs)
                   if s.source is not None})
    out = evaluate(traced.graph.outputs.values(), values, *([sizes] if sizes else []))
    return out[0] if len(out) == 1 else out


def check(fn, reference, *given, exact=False, slack=1.0):
    """``fn`` against a formula in NumPy, which sees halves as float32."""
    got = run(fn, *given)
    wide = [a.astype(np.float32) if a.dtype.itemsize == 2 else a for a in given]
    with np.errstate(all="ignore"):
        want = np.asarray(reference(*wide))
        if got.dtype.itemsize == 2:
            want = want.astype(got.dtype).astype(np.float32)
    assert got.shape == want.shape
    tol = 0 if exact or want.dtype.kind != "f" else TOL[tegg.dtype(got.dtype).name] * slack
    np.testing.assert_allclose(got.astype(want.dtype), want, rtol=tol, atol=tol)


def check_error(fn, kind, text, *given, dims=None):
    """``fn`` raises ``kind`` with ``text`` and the line of the test."""
    with pytest.raises(kind) as e:
        tegg.trace(fn, given, dims=dims)
    message = str(e.value)
    assert text in message, message
    assert "(at " in message and "/tests/" in message, message
