"""Which loop gets the lanes: windows that step by two, against windows taken in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import check
from tegg.testing.draw import Draw

import tegg
from spatial_reference import pool_places, pooled


def _source(f: tegg.Compiled, x: np.ndarray) -> str:
    return "\n".join(k.source for k in f.program(x).plan.kernels)


@pytest.mark.parametrize(("sizes", "kernel", "padding", "dilation"), [
    ((37, 67), 3, 1, 1), ((5, 35), 2, 1, 2), ((9, 64), 3, 0, 1)])
def test_windows_that_step_by_two_are_read_along_their_rows(sizes, kernel, padding, dilation):
    x = np.random.default_rng(7).standard_normal((3, 17, *sizes)).astype(np.float32)
    x[1, 2, 0, ::5] = np.nan
    f = tegg.compile(lambda x: tegg.max_pool2d(x, kernel, 2, padding, dilation))
    places = [pool_places(n, kernel, 2, padding, dilation, False) for n in sizes]
    wanted = pooled(x, places, lambda v, at: v.max(-1, initial=-np.inf))
    np.testing.assert_array_equal(np.asarray(f(x)), wanted)
    assert "vf_load_every_other(" in _source(f, x)


def test_other_dtypes_and_steps_follow_what_is_contiguous_elsewhere():
    x = np.random.default_rng(7).standard_normal((2, 3, 16, 64))
    assert "every_other" not in _source(tegg.compile(lambda x: tegg.max_pool2d(x, 3, 2)), x)
    y = x.astype(np.float32)
    assert "every_other" not in _source(tegg.compile(lambda x: tegg.max_pool2d(x, 3, 3)), y)


def test_a_short_row_is_summed_along_itself_where_lanes_would_be_gathered():
    x = np.random.default_rng(7).standard_normal((4, 24, 20, 28)).astype(np.float32)
    f = tegg.compile(lambda x: x.sum((0, 2, 3)), cache=False)
    np.testing.assert_allclose(f(x), x.astype(np.float64).sum((0, 2, 3)), rtol=1e-4, atol=1e-4)
    assert "vf_hadd(" in _source(f, x) and "(vf){" not in _source(f, x)
    # too short for a vector: several rows at once
    g = tegg.compile(lambda x: x.sum(-1), cache=False)
    assert "vf_hadd(" not in _source(g, np.ones((5000, 5), np.float32))


def test_a_window_of_places_is_summed_along_them_and_not_along_few_taps():
    """The gradient of depthwise filters: three taps would fill no vector."""
    g = Draw()
    x = g.pad(g.x(6, 28, 28), (0, 1, 1), (0, 1, 1))
    x = g.op("Window", g.op("Window", x, 1, 28, 1, 1), 3, 28, 1, 1)
    d = g.reshape(g.x(6, 28, 28), (6, 1, 28, 1, 28))
    y = g.mul(x, g.expand(d, (6, 3, 28, 3, 28)))
    code = check(g, [g.total(g.total(y, 4), 2)], width=8)
    assert "vf_hadd(" in code.source


def test_the_last_pass_has_lanes_where_sums_went_over_other_loops():
    """Sums over a group of channels, then each channel by itself."""
    x = np.random.default_rng(7).standard_normal((1, 8, 24, 16)).astype(np.float32)
    g, b = np.linspace(1, 2, 8, dtype=np.float32), np.linspace(-1, 1, 8, dtype=np.float32)
    f = tegg.compile(lambda x: tegg.silu(tegg.group_norm(x, 2, g, b)), cache=False)
    wide = x.astype(np.float64).reshape(1, 2, -1)
    wide = ((wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5))
    wide = wide.reshape(x.shape) * g[:, None, None] + b[:, None, None]
    np.testing.assert_allclose(f(x), wide / (1 + np.exp(-wide)), atol=2e-5)
    assert "sf_store(" not in _source(f, x) and "v_sigmoid(" in _source(f, x)


def test_loops_that_read_far_memory_again_go_inside():
    x = np.ones((1024, 1024), np.float32)
    text = _source(tegg.compile(lambda x: tegg.tile(x, (1, 4)), cache=False), x)
    outer = next(line for line in text.splitlines() if "for (" in line)
    assert "1024 * tid" in outer, text  # rows; then each four times


def test_lanes_that_a_guard_does_not_follow_are_a_branch():
    """A masked load of no lane asks for an address that may be no memory, which is slow."""
    x, y = (np.random.default_rng(i).standard_normal((2, 3, 5, 20)).astype(np.float32)
            for i in (0, 1))
    f = tegg.compile(lambda x, y: tegg.cat([x, y], 1), cache=False)
    np.testing.assert_array_equal(f(x, y), np.concatenate([x, y], 1))
    text = "\n".join(k.source for k in f.program(x, y).plan.kernels)
    assert "? vf_load(" in text and "-(int)" not in text
