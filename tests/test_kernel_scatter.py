"""Scatter as stages of its own: copy of the base, updates in order, in place where it may be."""

from __future__ import annotations

import numpy as np
import pytest
from tegg.testing.draw import Draw
from kernels import check

from tegg.dim import dim

MODES = ("last", "add", "max")


def scatter(g, base, index, update, axis, mode):
    return g.op("Scatter", base, index, update, axis, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axis", (0, 1, 2))
@pytest.mark.parametrize("dtype", ("f32", "f16", "i32", "u8", "bool"))
def test_modes_axes_and_dtypes(dtype, axis, mode):
    """Indices repeat, and some lie outside."""
    g = Draw()
    shape = [4, 5, 40]
    base = g.x(*shape, dtype=dtype)
    index = g.add(g.x(9, dtype="i64"), -3)
    shape[axis] = 9
    out = scatter(g, base, index, g.x(*shape, dtype=dtype), axis, mode)
    check(g, [out], seed=axis)


def test_base_and_update_are_computed():
    g = Draw()
    base = g.exp(g.x(6, 40))
    update = g.softmax(g.x(3, 40), 1)
    out = scatter(g, base, g.x(3, dtype="i32"), update, 0, "add")
    check(g, [out], inputs={0: np.ones((6, 40), np.float32), 1: np.ones((3, 40), np.float32),
                            2: np.array([5, 5, 0], np.int32)})


def test_result_used_inside_the_kernel():
    g = Draw()
    out = scatter(g, g.x(6, 40), g.x(3, dtype="i32"), g.x(3, 40), 0, "last")
    code = check(g, [g.softmax(out, 1), g.total(out, 0)])
    assert len(code.temporaries) == 1
    assert len(code.stages) == 3


def test_scatter_of_scatter_and_both_stored():
    g = Draw()
    first = scatter(g, g.x(6, 20), g.x(3, dtype="i32"), g.x(3, 20), 0, "last")
    second = scatter(g, first, g.x(2, dtype="i32"), g.x(6, 2), 1, "max")
    check(g, [second, first])


def test_in_place_writes_rows_only():
    g = Draw()
    out = scatter(g, g.x(100, 64), g.x(2, dtype="i32"), g.x(2, 64), 0, "last")
    code = check(g, [out], inplace={0: 0})
    assert [s.copy for s in code.stages] == [(0, 3), None]
    check(g, [out], code=code)


def test_rank_1_runs_on_one_thread():
    g = Draw()
    out = scatter(g, g.x(40), g.x(30, dtype="i32"), g.x(30), 0, "add")
    code = check(g, [out])
    assert [s.parallel for s in code.stages] == [True, False]


def test_symbolic_sizes():
    g, n, k = Draw(), dim("n", 0, 100), dim("k", 0, 100)
    out = scatter(g, g.x(n, 20), g.x(k, dtype="i32"), g.x(k, 20), 0, "last")
    for sizes in ({"n": 0, "k": 3}, {"n": 7, "k": 0}, {"n": 30, "k": 17}, {"n": 1, "k": 1}):
        check(g, [out], sizes)


def test_indices_that_are_an_empty_array_padded():
    g = Draw()
    index = g.padded(g.x(2, 1, 0, 2, dtype="i64"), (0, 0), (1, 0), (2, 3), (0, 0), fill=1)
    check(g, [g.op("ScatterAlong", g.x(4, 5, 2), g.reshape(index, (4, 5, 2)), g.x(4, 5, 2), 0,
                   "add")])


def test_empty():
    g = Draw()
    check(g, [scatter(g, g.x(4, 5), g.x(0, dtype="i32"), g.x(0, 5), 0, "add"),
              scatter(g, g.x(4, 0), g.x(2, dtype="i32"), g.x(2, 0), 0, "add")])
