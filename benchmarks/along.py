"""Ops along an axis at a million elements: one long row, rows, and columns."""

from __future__ import annotations

import numpy as np
from suite import Workload

SHAPES = (("row", (1_000_000,), 0), ("rows", (1024, 1024), 1), ("columns", (1024, 1024), 0))


def _inputs(shape, axis):
    """Values, indices along the axis, and zeros."""
    return lambda r: {"x": r.standard_normal(shape).astype(np.float32),
                      "i": r.integers(0, shape[axis], shape), "z": np.zeros(shape, np.float32)}


def _scattered(x, i, z, axis, add):
    i, out = i.astype(np.int64), z.copy()
    if not add:
        np.put_along_axis(out, i, x, axis)
        return out
    where = list(np.ogrid[tuple(map(slice, x.shape))])
    where[axis] = i
    np.add.at(out, tuple(where), x)
    return out


def _top(x, k, axis):
    return np.take(-np.sort(-x, axis), range(k), axis)


def _workloads(d):
    """Name -> tegg, NumPy and PyTorch of (library, x, i, z)."""
    return {
        "sort": (lambda t, x, i, z: t.sort(x, d).values, lambda _, x, i, z: np.sort(x, d),
                 lambda t, x, i, z: t.sort(x, dim=d, stable=True).values),
        "argsort": (lambda t, x, i, z: t.argsort(x, d),
                    lambda _, x, i, z: np.argsort(x, d, kind="stable"),
                    lambda t, x, i, z: t.argsort(x, dim=d, stable=True)),
        "topk10": (lambda t, x, i, z: t.topk(x, 10, d).values, lambda _, x, i, z: _top(x, 10, d),
                   lambda t, x, i, z: t.topk(x, 10, d).values),
        "topk500": (lambda t, x, i, z: t.topk(x, 500, d).values,
                    lambda _, x, i, z: _top(x, 500, d),
                    lambda t, x, i, z: t.topk(x, 500, d).values),
        "cumsum": (lambda t, x, i, z: t.cumsum(x, d), lambda _, x, i, z: np.cumsum(x, d),
                   lambda t, x, i, z: t.cumsum(x, d)),
        "cumprod": (lambda t, x, i, z: t.cumprod(1 + x * 1e-3, d),
                    lambda _, x, i, z: np.cumprod(1 + x * 1e-3, d),
                    lambda t, x, i, z: t.cumprod(1 + x * 1e-3, d)),
        "cummax": (lambda t, x, i, z: t.cummax(x, d),
                   lambda _, x, i, z: np.maximum.accumulate(x, d),
                   lambda t, x, i, z: t.cummax(x, d).values),
        "logcumsumexp": (lambda t, x, i, z: t.logcumsumexp(x, d),
                         lambda _, x, i, z: np.logaddexp.accumulate(x, d),
                         lambda t, x, i, z: t.logcumsumexp(x, d)),
        "argmax": (lambda t, x, i, z: t.argmax(x, d), lambda _, x, i, z: np.argmax(x, d),
                   lambda t, x, i, z: t.argmax(x, d)),
        "gather": (lambda t, x, i, z: t.gather(x, d, i),
                   lambda _, x, i, z: np.take_along_axis(x, i.astype(np.int64), d),
                   lambda t, x, i, z: t.gather(x, d, i)),
        "scatter": (lambda t, x, i, z: t.scatter(z, d, i, x),
                    lambda _, x, i, z: _scattered(x, i, z, d, False),
                    lambda t, x, i, z: t.scatter(z, d, i, x)),
        "scatter_add": (lambda t, x, i, z: t.scatter_add(z, d, i, x),
                        lambda _, x, i, z: _scattered(x, i, z, d, True),
                        lambda t, x, i, z: t.scatter_add(z, d, i, x)),
    }


ALONG = tuple(
    Workload(f"{op}_{name}", f"{op} of {shape} along axis {d}", _inputs(shape, d), *fns)
    for name, shape, d in SHAPES for op, fns in _workloads(d).items())
