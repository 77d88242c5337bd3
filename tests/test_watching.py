"""Values seen while a compiled function runs."""

from __future__ import annotations

import numpy as np
import pytest

import tegg
from tegg.errors import ArgumentError, ShapeError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_callbacks_get_the_values_in_the_order_of_recording():
    seen: list[tuple[str, np.ndarray]] = []

    @tegg.compile
    def f(x):
        doubled = (x * 2).watch(lambda v: seen.append(("doubled", v)))
        tegg.watch(doubled.sum(1), lambda v: seen.append(("sums", v)))
        return {"out": doubled + 1}

    for _ in range(2):  # the second call by whatever path is short
        seen.clear()
        assert np.array_equal(f(X)["out"], 2 * X + 1)
        assert [name for name, _ in seen] == ["doubled", "sums"]
        assert np.array_equal(seen[0][1], 2 * X) and np.array_equal(seen[1][1], 2 * X.sum(1))


def test_what_is_watched_need_not_be_returned():
    seen = []

    @tegg.compile
    def f(x):
        (x + 1).watch(seen.append)

    assert f(X) is None and np.array_equal(seen[0], X + 1)


def test_an_argument_or_a_result_may_be_watched_twice():
    seen = []

    @tegg.compile
    def f(x):
        return x.watch(seen.append).watch(seen.append).neg().watch(seen.append)

    assert np.array_equal(f(X), -X)
    assert [v.tolist() for v in seen] == [X.tolist(), X.tolist(), (-X).tolist()]


def test_sizes_that_change_and_several_plans():
    seen = []
    n = tegg.dim("n", 1, 64, hint=(2, 32))
    f = tegg.compile(lambda x: x.exp().watch(seen.append).sum(), dims={"x": (n, None)})
    for rows in (2, 40):
        f(np.ones((rows, 3), np.float32))
    assert [v.shape for v in seen] == [(2, 3), (40, 3)]


def test_what_a_callback_raises_reaches_the_caller():
    def refuse(value):
        raise RuntimeError("not this one")

    f = tegg.compile(lambda x: x.exp().watch(refuse))
    with pytest.raises(RuntimeError, match="not this one"):
        f(X)
    with pytest.raises(RuntimeError, match="not this one"):
        f(X)


def test_a_bound_program_has_the_value_among_its_outputs():
    f = tegg.compile(lambda x: x.exp().watch(print).sum())
    bound = f.bind(X)
    bound()
    assert np.allclose(bound.outputs["watched 0"], np.exp(X))


def test_print(capsys):
    tegg.compile(lambda x: x.neg().print("minus x"))(X)
    assert capsys.readouterr().out == f"minus x: f32 (2, 3)\n{-X}\n"


def test_diff(capsys, tmp_path):
    path = tmp_path / "saved.npy"
    saved = np.array([[0, 1, 2.5], [np.nan, 4, np.inf]], np.float32)
    np.save(path, saved)
    tegg.compile(lambda x: x.contiguous().diff(path))(X)
    assert capsys.readouterr().out == (f"diff with {path}: 3 of 6 elements differ; most at (1, 0): "
                                       f"3.0 here, nan there\n")
    tegg.compile(lambda x: x.contiguous().diff(saved))(saved)
    tegg.compile(lambda x: x.contiguous().diff(X, rtol=0, atol=2))(X + 1)
    assert capsys.readouterr().out == (
        "diff with the saved array: equal\n"
        "diff with the saved array: 0 of 6 elements differ; most at (0, 0): 1.0 here, 0.0 there\n")


def test_diff_at_a_size_that_is_not_the_saved_one(capsys):
    n = tegg.dim("n", 1, 8)
    f = tegg.compile(lambda x: x.neg().diff(-X), dims={"x": (n, None)})
    f(X[:1])
    assert capsys.readouterr().out == ("diff with the saved array: shapes differ, (1, 3) and "
                                       "(2, 3)\n")


@pytest.mark.parametrize("f, error, words", [
    (lambda x: x.watch(3), ArgumentError, "watch: takes a function of an array, not 3"),
    (lambda x: x.print(3), ArgumentError, "print: label is a text, not 3"),
    (lambda x: x.diff("no such file.npy"), ArgumentError, "no such file.npy cannot be read"),
    (lambda x: x.diff(X[0]), ShapeError, r"diff: x is \(2, 3\), the saved array is \(3,\)"),
    (lambda x: x.diff(X.T), ShapeError, r"diff: x is \(2, 3\), the saved array is \(3, 2\)")])
def test_refusals(f, error, words):
    with pytest.raises(error, match=words):
        tegg.compile(f)(X)


def test_a_graph_marks_outputs_instead():
    g = tegg.Graph()
    with pytest.raises(ArgumentError, match="of a graph, mark an output"):
        g.tensor((2,), "f32", "x").watch(print)
