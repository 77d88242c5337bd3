"""Several hints of a dim: a plan for each, the nearest one runs, and all give the same values."""

import numpy as np
import pytest

import tegg
from tegg.errors import ArgumentError


def scores(n):
    @tegg.compile(dims={"x": (n, None), "w": (None, None)})
    def f(x, w):
        return (x @ w).softmax(-1)

    return f


def test_each_call_runs_the_plan_of_the_nearest_hint():
    f = scores(tegg.dim("n", min=1, max=600, hint=(4, 400)))
    rng = np.random.default_rng(0)
    w = rng.standard_normal((8, 8), np.float32)
    for n in (1, 4, 20, 100, 400, 600, 3):
        x = rng.standard_normal((n, 8), np.float32)
        e = np.exp(x @ w)
        for _ in range(2):  # the second time on prepared memory
            np.testing.assert_allclose(f(x, w), e / e.sum(1, keepdims=True), 1e-4, 1e-6)
    program = f.program(tegg.ArraySpec((5, 8), tegg.f32), tegg.ArraySpec((8, 8), tegg.f32))
    small, large = program.programs
    assert small.plan.seconds < large.plan.seconds
    assert program.at({"n": 39}) is small and program.at({"n": 41}) is large
    assert "at {'n': 4}" in program.explain() and "at {'n': 400}" in program.source()
    assert program.plan is small.plan and program.stats == small.stats


def test_bind_and_profile_go_to_the_nearest_plan():
    f = scores(tegg.dim("n", min=1, max=600, hint=(4, 400)))
    x, w = np.ones((300, 8), np.float32), np.eye(8, dtype=np.float32)
    bound = f.bind(x, w)
    bound()
    np.testing.assert_allclose(next(iter(bound.outputs.values())), np.full((300, 8), 1 / 8), 1e-6)
    assert len(f.profile(x, w)) == len(f.program(x, w).programs[1].plan.run)
    f.program(x, w).refresh()


def test_too_many_combinations_are_refused():
    dims = [tegg.dim(c, hint=(1, 2, 3)) for c in "abc"]
    f = tegg.compile(lambda x: x + 1, dims={"x": tuple(dims)})
    with pytest.raises(ArgumentError, match="27 combinations, and each is compiled; 16 are"):
        f(np.zeros((1, 1, 1), np.float32))
