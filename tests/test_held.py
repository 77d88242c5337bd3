"""What a program holds of its weights, and that it stays right without the others."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import tegg
from tegg.nn import Linear

M, K, N = 40, 96, 80
LARGE = 1024, 4096


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def product(*weights: np.ndarray):
    """A program that multiplies by weights, which it packs ahead, and the argument."""
    def run(x):
        for w in weights:
            x = x @ w
        return x
    x = drawn(M, weights[0].shape[0], seed=9)
    made = tegg.compile(run).program(x)
    assert all("CpuPacked" in c.label for c in made.plan.run)
    return made, x


def program_of(run, x: np.ndarray, *weights: np.ndarray):
    """The program of a function of x and of arrays that it closes over."""
    return tegg.compile(lambda x: run(x, *weights)).program(x)


def only(out: dict) -> np.ndarray:
    (y,) = out.values()
    return y


def near(y: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(y, want, 1e-4, 1e-4)


def gone(ref: weakref.ref) -> bool:
    gc.collect()
    return ref() is None


def test_a_packed_array_that_nobody_else_holds_goes_and_its_panels_stay():
    w = drawn(K, N)
    program, x = product(w)
    want, left = x @ w, weakref.ref(w)
    del w
    assert not gone(left)  # nothing has been packed yet
    near(only(program(x)), want)
    assert gone(left)
    for _ in range(3):
        near(only(program(x)), want)
    bound = program.bind(x)
    bound()
    near(only(bound.outputs), want)
    assert program.explain() and program.stats["weight_bytes"] == 0


def test_stats_say_what_is_held():
    w, b = drawn(K, N), drawn(N, seed=1)
    x = drawn(M, K)
    program = tegg.compile(lambda x: x @ w + b).program(x)
    s = program.stats
    assert s["weight_bytes"] == b.nbytes and s["arena_bytes"] == 0
    assert w.nbytes <= s["ahead_bytes"] <= 1.5 * w.nbytes  # panels are filled up
    large = drawn(*LARGE)  # which one row reads where it lies
    few = tegg.compile(lambda x: x @ large).program(drawn(1, len(large))).stats
    assert (few["weight_bytes"], few["ahead_bytes"]) == (large.nbytes, 0)


def test_what_others_hold_is_read_again_by_a_refresh():
    w = drawn(K, N)
    program, x = product(w)
    near(only(program(x)), x @ w)
    w *= 3
    program.refresh()
    near(only(program(x)), x @ w)


def test_a_refresh_keeps_what_came_of_arrays_that_are_no_more():
    v, w = drawn(K, N), drawn(N, K, seed=1)
    program, x = product(v, w)
    program(x)
    first, left = v.copy(), weakref.ref(v)
    del v
    assert gone(left)
    w *= 2
    program.refresh()
    near(only(program(x)), x @ first @ w)
    program.refresh()
    near(only(program(x)), x @ first @ w)


def test_a_view_is_held_for_its_array_can_change():
    whole = drawn(K, 2 * N)
    program, x = product(whole[:, :N])
    near(only(program(x)), x @ whole[:, :N])
    whole *= 2
    gc.collect()
    program.refresh()
    near(only(program(x)), x @ whole[:, :N])


def test_weights_that_are_read_together_are_held():
    """What is computed of two could not be computed again from one."""
    v, w = drawn(K, N), drawn(K, N, seed=1)
    x = drawn(M, K)
    program = program_of(lambda x, v, w: x @ (tegg.relu(v) * w), x, v, w)
    want, left = x @ (np.maximum(v, 0) * w), weakref.ref(v)
    near(only(program(x)), want)
    del v
    assert not gone(left)
    w *= 2
    program.refresh()
    near(only(program(x)), 2 * want)


def test_weights_that_runs_read_are_held():
    w, x = drawn(*LARGE), drawn(1, LARGE[0])
    program = program_of(lambda x, w: x @ w, x, w)
    want, left = x @ w, weakref.ref(w)
    program(x)
    del w
    assert not gone(left)
    near(only(program(x)), want)


@pytest.mark.parametrize("again", (pickle.dumps, None), ids=("pickled", "saved"))
def test_a_program_is_saved_without_the_arrays_that_are_no_more(again, tmp_path):
    v, w = drawn(K, N), drawn(N, K, seed=1)
    program, x = product(v, w)
    want = only(program(x)).copy()
    del v
    gc.collect()
    for _ in range(2):  # what comes back is saved like any other
        if again is None:
            tegg.save(program, tmp_path / "p.tegg")
            program = tegg.load(tmp_path / "p.tegg")
        else:
            program = pickle.loads(again(program))
        np.testing.assert_array_equal(only(program(x)), want)


def test_parameters_are_read_again_whenever_they_change():
    layer = Linear(K, N, bias=False)
    x = drawn(M, K)
    run = tegg.compile(layer)
    for seed in range(3):
        layer.weight.data = drawn(N, K, seed=seed)
        gc.collect()
        near(run(x), x @ layer.weight.data.T)


def test_runs_in_flight_keep_the_panels_that_they_began_with():
    w = drawn(K, N)
    program, x = product(w)
    wants = [x @ w * 2.0**i for i in range(3)]
    program(x)
    wrong, stop = [], threading.Event()

    def runs():
        while not stop.is_set():
            y = only(program(x))
            if not any(np.allclose(y, want, 1e-4, 1e-4) for want in wants):
                wrong.append(y)
    threads = [threading.Thread(target=runs) for _ in range(2)]
    for t in threads:
        t.start()
    for _ in range(2):
        w *= 2
        program.refresh()
    stop.set()
    for t in threads:
        t.join()
    assert not wrong
    near(only(program(x)), wants[2])
