"""Moving sums are recognised, right on all inputs, and much cheaper than window by window."""

import numpy as np
import pytest
from hypothesis import strategies as st
from tegg_example.moving import MOVING_SUM, compiler

import tegg
from tegg.extend import Graph
from tegg.testing import check_compilers, check_drawn, check_egraph
from tegg.testing.strategies import arrays


def moving_mean(x, size):
    return x.unfold(-1, size, 1).mean(-1)


def reference(x, size):
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), size, -1)
    return windows.mean(-1).astype(x.dtype)


# On small arrays one loop is cheaper than a kernel of its own; here it shall not be.
DEAR = tegg.Compiler(name="dear", cost={"Mean": 1e6, "SumReduce": 1e6})


@pytest.fixture(scope="module")
def fast():
    return tegg.compile(moving_mean, tegg.Generic(), compiler(), DEAR)


@pytest.mark.parametrize("size", (1, 3, 8))
def test_it_is_recognised_and_right(fast, size):
    x = np.random.default_rng(size).normal(size=(3, 4, 20)).astype(np.float32)
    np.testing.assert_allclose(fast(x, size), reference(x, size), 1e-5, 1e-5)
    if size > 1:
        assert "MovingSum" in fast.program(x, size).plan.show()


@pytest.mark.parametrize("axis", (0, 1))
def test_other_axes(axis):
    graph = Graph()
    x = graph.input("x", (7, 9, 5), "f32")
    windows = graph.op("Window", x, axis, 4, 1, 1)
    graph.outputs["sums"] = graph.op("SumReduce", windows, axis + 1)
    run = graph.compile([tegg.Generic(), compiler(), DEAR])
    assert "MovingSum" in run.plan.show()
    given = np.random.default_rng(axis).normal(size=(7, 9, 5)).astype(np.float32)
    wanted = np.lib.stride_tricks.sliding_window_view(given, 4, axis).sum(-1)
    np.testing.assert_allclose(run(given)["sums"].reshape(wanted.shape), wanted, 1e-5, 1e-5)


def test_symbolic_lengths():
    n = tegg.dim("n", min=3, max=100)
    run = tegg.compile(lambda x: moving_mean(x, 3), tegg.Generic(), compiler(), DEAR,
                       dims={"x": (2, n)})
    for length in (3, 4, 50):
        x = np.random.default_rng(length).normal(size=(2, length)).astype(np.float32)
        np.testing.assert_allclose(run(x), reference(x, 3), 1e-5, 1e-5)
    assert "MovingSum" in run.plan.show()


def test_one_huge_element_is_felt_by_its_windows_only(fast):
    x = np.ones(64, np.float32)
    x[10], x[40] = 1e30, np.nan
    got = fast(x, 8)
    assert np.isnan(got[33:41]).all() and (got[11:33] == 1).all() and (got[41:] == 1).all()


def test_other_dtypes_go_window_by_window():
    x = np.arange(12, dtype=np.float16)
    run = tegg.compile(moving_mean, tegg.Generic(), compiler(), DEAR)
    np.testing.assert_allclose(run(x, 4), reference(x, 4), 1e-2)
    assert "MovingSum" not in run.plan.show()


def test_it_is_chosen_where_it_is_cheaper():
    x = np.zeros((16, 5000), np.float32)
    plain, fast = (tegg.compile(moving_mean, *stack).program(x, 200)
                   for stack in ((), (tegg.Generic(), compiler())))
    assert "MovingSum" in fast.plan.show()
    assert fast.plan.seconds < plain.plan.seconds / 10


def test_its_rule_is_sound_and_its_classes_agree():
    assert check_compilers(compiler(), examples=3).rules == ["moving/sum"]
    graph = Graph()
    x = graph.tensor((3, 12))
    moving_mean(x, 4).output("mean")
    assert check_egraph(graph, (tegg.Generic(), compiler()))


@st.composite
def calls(draw, dtype):
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple))
    axis = draw(st.integers(0, len(shape) - 1))
    return [draw(arrays(shape, dtype))], (axis, draw(st.integers(1, shape[axis])))


@pytest.mark.parametrize("dtype", (tegg.f32, tegg.f64))
def test_its_kernel_has_the_meaning_of_its_row(dtype):
    target = tegg.compile(lambda x: x + 1).program(np.zeros(1, np.float32)).target
    table = {**tegg.extend.OPS, "MovingSum": MOVING_SUM}
    ran = check_drawn(target, table, dtype, 5, 0, {"MovingSum": calls(dtype)})
    assert "MovingSum" in ran


def test_what_it_refuses():
    graph = Graph({**tegg.extend.OPS, "MovingSum": MOVING_SUM})
    with pytest.raises(tegg.ShapeError, match="windows of 9 do not fit axis 0"):
        graph.op("MovingSum", graph.input("x", (4,), "f32"), 0, 9)
    with pytest.raises(tegg.DTypeError, match="a moving sum is of floats, not i32"):
        graph.op("MovingSum", graph.input("y", (4,), "i32"), 0, 2)
