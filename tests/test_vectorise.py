"""Which loop gets the lanes: windows that step by two, against windows taken in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

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
