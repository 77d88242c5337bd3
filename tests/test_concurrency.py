"""One cold cache for two processes, one program for several threads, weights that change meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import tegg

from tegg.jit import Function
from tegg.nn import Linear, Module, Parameter

ROWS = np.arange(64 * 48, dtype=np.float32).reshape(64, 48) / 3000


def program() -> Function:
    weight = np.cos(np.arange(48 * 32, dtype=np.float32)).reshape(48, 32)
    return tegg.compile(lambda x: (x @ weight).softmax(-1))


def compile_and_run(root: str, ready, out) -> None:
    os.environ["TEGG_CACHE"] = root
    ready.wait(120)
    out.put(program()(ROWS).tobytes())


def together(work: Callable[[int], None], count: int) -> None:
    """Run ``work(i)`` in threads; the first exception is raised here."""
    wrong: list[BaseException] = []
    start = threading.Barrier(count)

    def body(i: int) -> None:
        try:
            start.wait(60)
            work(i)
        except BaseException as e:  # noqa: BLE001 - it is raised below
            wrong.append(e)

    running = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for t in running:
        t.start()
    for t in running:
        t.join(120)
    assert not any(t.is_alive() for t in running)
    if wrong:
        raise wrong[0]


def test_processes_that_compile_the_same_program_into_one_cold_cache(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, out = context.Barrier(2), context.Queue()
    running = [context.Process(target=compile_and_run, args=(str(tmp_path), ready, out))
               for _ in range(2)]
    for p in running:
        p.start()
    first, second = out.get(timeout=120), out.get(timeout=120)
    for p in running:
        p.join(60)
    assert first == second and [p.exitcode for p in running] == [0, 0]
    assert not list(tmp_path.rglob(".tmp-*"))


def test_threads_trace_compile_and_call_one_function():
    f = program()
    sizes = (1, 7, 64)
    want = {n: program()(ROWS[:n]) for n in sizes}

    def work(i: int) -> None:
        for k in range(60):
            n = sizes[(i + k) % len(sizes)]
            np.testing.assert_array_equal(f(ROWS[:n]), want[n])

    together(work, 4)


def test_runs_see_the_weights_of_before_or_of_after_a_load():
    layer = Linear(48, 32, bias=False)
    states = [{"weight": np.full((32, 48), v, np.float32)} for v in (1, 2)]
    layer.load_state_dict(states[0])
    f = tegg.compile(layer)
    right = [f(ROWS), f(ROWS) * 2]
    done = threading.Event()

    def work(i: int) -> None:
        if i == 0:
            for k in range(200):
                layer.load_state_dict(states[k % 2])
            done.set()
        while not done.is_set():
            got = f(ROWS)
            assert any(np.allclose(got, r, 1e-5) for r in right)

    together(work, 3)
    np.testing.assert_allclose(f(ROWS), right[1], 1e-5)


class Many(Module):
    """Every parameter has one value, and what is computed of each stands beside the others."""

    def __init__(self) -> None:
        self.values = [Parameter(np.ones(1, np.float32)) for _ in range(48)]

    def forward(self, x):
        return tegg.cat([x * (v * 3) for v in self.values])


@pytest.fixture
def eager_switching():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("way", ["call", "bind", "state_dict"])
def test_a_load_of_several_parameters_is_seen_whole(way, eager_switching):
    m = Many()
    states = [{k: np.full(1, v, np.float32) for k in m.state_dict()} for v in (1, 2)]
    f = tegg.compile(m)
    one = np.ones(1, np.float32)
    f(one)
    done = threading.Event()

    def seen(run) -> np.ndarray:
        if way == "state_dict":
            return np.concatenate(list(m.state_dict().values())) * 3
        if way == "bind":
            run()
            return next(iter(run.outputs.values()))
        return f(one)

    def work(i: int) -> None:
        if i == 0:
            for k in range(400):
                m.load_state_dict(states[k % 2])
            done.set()
        run = f.bind(one) if way == "bind" else None
        while not done.is_set():
            got = seen(run)
            assert got[0] in (3, 6) and (got == got[0]).all(), got

    together(work, 3)
    np.testing.assert_array_equal(f(one), np.full(48, 6, np.float32))


def test_threads_make_a_lazy_parameter_once(eager_switching):
    made: list[int] = []

    def make() -> np.ndarray:
        made.append(1)
        time.sleep(0.01)
        return np.zeros(3, np.float32)

    for _ in range(5):
        p, before = Parameter.lazy((3,), "f32", make), len(made)
        together(lambda i, p=p: p.data.sum(), 4)
        assert len(made) == before + 1
