"""Split reductions: threads share them, and no number of threads changes a bit of the result."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from profiles import examples
from tegg.testing.draw import Draw
from hypothesis import given, settings
from kernels import build, call, check
from tegg.testing.kernels import random_inputs
from tegg.backends.cpu.emit import C

from tegg.dim import dim
from tegg.ir.split import parts
from tegg.kernel.lower import lower

ROW = 1 << 17


def stages(code):
    return [s.parallel for s in code.stages]


def softmax_of_all(g):
    return [g.softmax(g.x(1, ROW), 1)]


def statistics(g):
    """Maximum and sum in one pass; the deviation from the mean in another."""
    x = g.x(300, 500)
    mean = g.mul(g.total(x, 0, 1, keep=True), 1 / 150_000)
    d = g.sub(x, mean)
    return [g.top(x, 0, 1), g.total(x, 0, 1), g.total(g.mul(d, d), 0, 1)]


def columns(g):
    return [g.total(g.x(20_000, 19), 0), g.top(g.x(20_000, 19), 0)]


def outer_axes(g):
    return [g.total(g.x(50, 7, 400), 0, 2)]


def strided(g):
    return [g.total(g.permute(g.x(7, 20_000), (1, 0)), 0)]


def of_rows(g):
    """A sum of the norms of rows: the reduction inside stays whole."""
    return [g.total(g.op("Sqrt", g.total(g.mul(g.x(70_000, 5), g.x(70_000, 5)), 1)), 0)]


def scalar_by_scalar(g):
    return [g.add(g.total(g.x(ROW), 0), g.top(g.x(ROW), 0))]


CASES = {f.__name__: f for f in (softmax_of_all, statistics, columns, outer_axes, strided, of_rows,
                                 scalar_by_scalar)}
STAGES = {"softmax_of_all": [True, True, True], "statistics": [True, True, False],
          "columns": [True, True], "outer_axes": [True, True], "strided": [True, True],
          "of_rows": [True, False], "scalar_by_scalar": [True, False]}


@pytest.mark.parametrize("width", [4, 16])
@pytest.mark.parametrize("name", CASES)
def test_threads_share_what_has_few_results(name, width):
    g = Draw()
    code = check(g, CASES[name](g), width=width, threads=(1, 2, 7))
    assert stages(code) == STAGES[name]


@pytest.mark.parametrize("name", CASES)
def test_results_do_not_depend_on_threads(name):
    g = Draw()
    outputs = CASES[name](g)
    code = lower(g, outputs, "k", C(16))
    library, inputs = build(code, 16), random_inputs(g, {})
    once = call(library, code, g, outputs, inputs, {}, 1)
    for threads in (2, 3, 64, 200):
        again = call(library, code, g, outputs, inputs, {}, threads)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(once, again))


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "i32", "i64", "u8", "i8", "bool"])
def test_every_dtype(dtype):
    g = Draw()
    x = g.x(ROW, dtype=dtype)
    inputs = {0: np.random.default_rng(0).integers(0, 2, ROW).astype(x.dtype.numpy)}
    if dtype in ("f16", "bf16"):
        inputs[0] = (inputs[0] / 1024).astype(x.dtype.numpy)  # the sum fits
    assert stages(check(g, [g.total(x, 0), g.top(x, 0)], inputs=inputs)) == [True, False]


def test_partial_sums_of_halves_are_floats():
    g = Draw()
    (partial,) = lower(g, [g.total(g.x(ROW, dtype="f16"), 0)], "k", C(16)).temporaries
    assert partial.dtype.name == "f32" and partial.size == parts((ROW,), {0})


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_special_values_reach_the_result(bad):
    g = Draw()
    x = np.random.default_rng(1).standard_normal(ROW).astype(np.float32)
    x[77_777] = bad
    check(g, [g.top(g.x(ROW), 0)], inputs={0: x})


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(0, 200_000), st.integers(0, 3))
def test_sizes_that_only_a_run_knows(n, m):
    code, library, g, outputs = SYMBOLIC
    check(g, outputs, {"n": n, "m": m}, code=code, library=library, threads=(1, 3), seed=n)


def _symbolic():
    g = Draw()
    x = g.x(dim("n", 0, 1 << 20, hint=1 << 17), dim("m", 0, 8, hint=3))
    outputs = [g.total(g.exp(x), 0, 1), g.top(x, 0), g.softmax(x, 0)]
    code = lower(g, outputs, "k", C(16))
    return code, build(code, 16), g, outputs


SYMBOLIC = _symbolic()


def test_every_element_is_read_once_a_stage():
    g = Draw()
    w = lower(g, [g.total(g.mul(g.x(1000, 1000), g.x(1000)), 0, 1)], "k", C(16))
    count = parts((1000, 1000), {0, 1})
    assert w.work.evaluations == 2 * 1_000_000 + count
    assert w.work.iterations == 1_000_000 + count
    assert w.work.loaded == 4 * (1_000_000 + 1000 + count)


def test_rows_that_feed_the_threads_are_not_split():
    g = Draw()
    assert len(lower(g, [g.softmax(g.x(64, 1 << 14), 1)], "k", C(16)).stages) == 1
    assert len(lower(g, [g.total(g.x(100, 100), 0, 1)], "k", C(16)).stages) == 1


def test_partial_results_lie_as_memory_is_read():
    """Lanes run along what is contiguous in both, however long the axes are."""
    g = Draw()
    code = check(g, [g.total(g.x(8, 4096, 64), 1)], width=8)
    assert len(code.stages) == 2 and "(vf){" not in code.source
