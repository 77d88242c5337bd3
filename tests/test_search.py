"""search="measure": plans against each other on the device, results compared, the winner cached."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import tegg
from tegg.errors import ArgumentError, BackendError
from tegg.ir.graph import Graph
from tegg.planning.plan import Plan
from tegg.runtime import search
from tegg.runtime.compiled import Compiled
from tegg.runtime.driver import Options, compile_graph
from tegg.runtime.search import differs, drawn, fastest

RNG = np.random.default_rng(0)
W = RNG.standard_normal((96, 160)).astype(np.float32)
X = RNG.standard_normal((48, 96)).astype(np.float32)


def layer(x):
    return tegg.relu(x @ W)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    monkeypatch.setattr(search, "SLOT", 0.002)
    monkeypatch.setattr(search, "PLANS", 3)
    return tmp_path


def test_the_winner_is_kept_for_other_processes(cache, monkeypatch):
    f = tegg.compile(layer, search="measure", search_s=60.0)
    np.testing.assert_allclose(f(X), np.maximum(X @ W, 0), atol=1e-4)
    tried = f.plan.tried
    assert len(tried) >= 2 and sum(t.note == "chosen" for t in tried) == 1
    assert f.stats["plans_measured"] == len([t for t in tried if t.seconds])
    text = f.explain()
    assert "tried: plan 0 of 1 calls" in text and "us measured, chosen" in text
    assert "were compared with those of the oracle" in text and f.stats["oracle"] == 1.0
    assert all("CpuPacked(" in t.kernels[0] for t in tried)  # which tile, or they look alike

    def never(*a, **k):
        raise AssertionError("measured again")
    monkeypatch.setattr(search, "fastest", never)
    again = tegg.compile(layer, search="measure", search_s=60.0)
    again(X)
    assert again.plan.tried == tried and again.explain().count("tried:") == len(tried)
    with pytest.raises(AssertionError, match="measured again"):
        tegg.compile(layer, search="measure", search_s=60.0, seed=1)(X)
    assert not tegg.compile(layer).program(X).plan.tried


@pytest.mark.parametrize("options, says", [
    ({"search": "guess"}, "search is 'cost' or 'measure', not 'guess'"),
    ({"search_s": "long"}, "search_s is a number of seconds, not 'long'"),
    ({"search_s": -1.0}, "search_s is a number of seconds, not -1.0"),
    ({"search_s": float("nan")}, "search_s is a number of seconds, not nan"),
    ({"budget_s": True}, "budget_s is a number of seconds, not True"),
    ({"seed": -1}, "seed is a whole number of 0 or more, not -1"),
    ({"seed": 1.5}, "seed is a whole number of 0 or more, not 1.5"),
])
def test_options_that_cannot_be(options, says):
    with pytest.raises(ArgumentError, match=says):
        tegg.compile(layer, **options)(X)


def test_a_budget_of_nothing_takes_the_first_plan(cache):
    f = tegg.compile(layer, search="measure", search_s=0.0)
    f(X)
    assert [t.note for t in f.plan.tried] == ["chosen"]
    assert f.plan.tried[0].seconds is not None


def test_states_indices_and_symbolic_sizes_are_drawn(cache):
    def step(table, at, x):
        tegg.state(table, table + x)
        return table[at] * 2.0
    n = tegg.dim("n", 1, 64, hint=5)
    f = tegg.compile(step, search="measure", search_s=5.0, dims={"at": (n,)})
    given = np.zeros((40, 8), np.float32)
    out = f(given, np.array([1, 39, 3]), np.float32(2.0) * np.ones((40, 8), np.float32))
    assert out.shape == (3, 8) and (given == 2.0).all()


def test_what_is_drawn_looks_something_up():
    g = Graph()
    table, at, yes = g.input("t", (6, 3), "f32"), g.input("i", (50,), "i64"), g.input(
        "b", (4,), "bool")
    g.outputs["y"] = g.op("Gather", table, at, 0)
    g.outputs["z"] = g.cast(yes, "f32")
    program = compile_graph(g, Options())
    first, second = (drawn(g, program, s) for s in (3, 3))
    assert [a.dtype.name for a in first] == ["float32", "int64", "bool"]
    assert first[1].min() == 0 and first[1].max() == 5
    assert all(np.array_equal(a, b) for a, b in zip(first, second))
    assert not np.array_equal(first[0], drawn(g, program, 4)[0])


# ---- the race
class Racer:
    """A program in the place of a compiled one: what it gives, and how long it is said to take."""

    def __init__(self, real: Compiled, seconds: float, factor: float = 1.0) -> None:
        self.signature, self.seconds, self.factor, self.real = real.signature, seconds, factor, real

    def bind(self, *arrays):
        run = self.real.bind(*arrays)

        def call():
            run()
            for v in run.outputs.values():
                v *= self.factor
        call.outputs, call.seconds = run.outputs, self.seconds
        return call


def race(monkeypatch, racers, deadline=60.0, asked=None):
    """The plan that wins, and what was tried; clocks say what the racers say."""
    asked = [] if asked is None else asked
    monkeypatch.setattr(search, "_sample", lambda run: asked.append(run) or run.seconds)
    g = Graph()
    (g.tensor((8,), name="x") + 1.0).output("y")
    real = compile_graph(g, Options())
    plans = [replace(real.plan, stats={}, tried=[], seconds=1e-6 * (i + 1))
             for i in range(len(racers))]

    def build(plan: Plan):
        made = racers[next(i for i, p in enumerate(plans) if p is plan)]
        if isinstance(made, Exception):
            raise made
        return Racer(real, *made)
    won = fastest(g, [(p, (f"p{i}",)) for i, p in enumerate(plans)], build,
                  deadline=time.monotonic() + deadline, seed=0, coarse=False)
    return next(i for i, p in enumerate(plans) if p is won), won.tried


def test_the_fastest_wins(monkeypatch):
    won, tried = race(monkeypatch, [(3e-3,), (9e-3,), (1e-3,), (2e-3,)])
    assert won == 2 and [t.note for t in tried] == ["", "", "chosen", ""]
    assert tried[2].seconds < tried[3].seconds < tried[0].seconds < tried[1].seconds
    assert tried[1].kernels == ("p1",) and tried[1].predicted == pytest.approx(2e-6)


def test_what_is_hardly_faster_does_not_replace_the_first(monkeypatch):
    assert race(monkeypatch, [(2e-3,), (2e-3 * (1 - search.BETTER / 2),)])[0] == 0
    assert race(monkeypatch, [(2e-3,), (2e-3 * (1 - search.BETTER * 2),)])[0] == 1


def test_a_plan_with_other_results_is_not_taken(monkeypatch):
    with pytest.warns(RuntimeWarning, match="gives other results .* please report this"):
        won, tried = race(monkeypatch, [(4e-3,), (1e-3, 1.1), (2e-3,)])
    assert won == 2 and "differ from those of the oracle" in tried[1].note
    assert tried[1].seconds is None


def test_the_first_plan_may_be_the_wrong_one(monkeypatch):
    with pytest.warns(RuntimeWarning, match="gives other results than the oracle"):
        won, tried = race(monkeypatch, [(1e-3, 1.1), (4e-3,)])
    assert won == 1 and tried[0].seconds is None and "the oracle" in tried[0].note


def test_where_no_plan_is_right_the_first_is_taken(monkeypatch):
    with pytest.warns(RuntimeWarning, match="gives other results"):
        won, tried = race(monkeypatch, [(2e-3, 1.1), (1e-3, 1.2)])
    assert won == 0 and tried[0].note.endswith("chosen, as no other is right")


def test_what_takes_the_oracle_too_long_is_compared_with_the_first_plan(monkeypatch):
    monkeypatch.setattr(search, "ORACLE", 8)
    with pytest.warns(RuntimeWarning, match="than the first plan"):
        won, tried = race(monkeypatch, [(4e-3, 1.1), (1e-3,)])
    assert won == 0 and "those of the first plan" in tried[1].note


def test_a_plan_that_cannot_be_built_is_left_out_but_not_the_first(monkeypatch):
    won, tried = race(monkeypatch, [(1e-3,), BackendError("no")])
    assert won == 0 and tried[1].note == "it cannot be built: no"
    with pytest.raises(BackendError, match="no"):
        race(monkeypatch, [BackendError("no"), (1e-3,)])


def test_time_that_is_over_builds_no_more(monkeypatch):
    won, tried = race(monkeypatch, [(1e-3,), (1e-3,)], deadline=0.0)
    assert won == 0 and tried[1].note == "no time was left to compile it"


def test_hopeless_plans_drop_out(monkeypatch):
    asked: list = []
    race(monkeypatch, [(1e-3,), (9e-3,), (1.1e-3,)], asked=asked)
    times = [run.seconds for run in asked]
    assert times.count(9e-3) == search.LEAST_ROUNDS
    assert times.count(1e-3) == times.count(1.1e-3) == search.ROUNDS


def test_a_sample_is_the_best_run_of_a_slot(monkeypatch):
    clock, ran = [0.0], []

    def run():
        ran.append(0.02 if not ran else 0.001 if len(ran) == 1 else 0.01)
        clock[0] += ran[-1]
    monkeypatch.setattr(search, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(search, "SLOT", 0.045)
    assert search._best(run) == pytest.approx(0.001) and len(ran) == 5
    monkeypatch.setattr(search, "SLOT", 0.0)
    assert search._best(run) == pytest.approx(0.01) and len(ran) == 6


def test_what_counts_as_the_same_result():
    a = np.linspace(-1, 1, 9).astype(np.float32)
    assert differs([a], [a], False) is None
    assert differs([a * 1.0001], [a], False) is None
    assert "off by" in differs([a * 1.01], [a], False)
    assert differs([a * 1.01], [a], True) is None
    odd = a.copy()
    odd[3] = np.nan
    assert "NaN or inf" in differs([odd], [a], True) and differs([odd], [odd], True) is None
    assert "other int64 values" in differs([np.arange(3)], [np.arange(3) + 1], True)


def test_the_plan_of_a_search_is_no_plan_of_another():
    one, two = Options(search="measure", seed=1), Options(search="measure", seed=2)
    assert one.decide() != two.decide() != Options().decide() != Options(precision="bitwise"
                                                                         ).decide()
    assert Options(seed=1).decide() == Options(seed=2).decide()
