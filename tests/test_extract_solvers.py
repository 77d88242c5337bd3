"""The integer program and the heuristic against enumeration of every cover."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from profiles import examples
from covering import covering
from eclass_graphs import classes_of, encoder
from extraction import COSTS, Stages
from hypothesis import given, settings
from tegg.testing.programs import programs

from tegg.extract import extract
from tegg.extract.heuristic import search
from tegg.extract.milp import TOLERANCE, solve


def cheapest(problem) -> float:
    """The least cost over all choices of a writer for each key."""
    best = float("inf")
    for choice in itertools.product(*problem.writers):
        used: set[int] = set()
        todo = list(problem.wanted)
        seen = set(todo)
        while todo:
            w = todo.pop()
            used.add(choice[w])
            for r in problem.reads[choice[w]]:
                if r not in seen:
                    seen.add(r)
                    todo.append(r)
        best = min(best, problem.total(sorted(used)))
    return best


@settings(max_examples=examples(60))
@given(programs(steps=9))
def test_the_program_finds_the_cheapest_cover(program):
    problem = Stages(classes_of(program.graph)).problem
    count = 1
    for ws in problem.writers:
        count *= len(ws)
    if not problem.wanted or count > 3000:
        return
    solved = solve(problem, 5.0)
    least = cheapest(problem)
    assert solved.optimal
    assert problem.total(solved.used) == pytest.approx(least, rel=2 * TOLERANCE)
    assert solved.bound <= least * (1 + 1e-6)
    assert search(problem, float("inf")).cost <= 1.005 * least + 1e-12


def test_the_solver_prints_nothing():
    """Of a process of its own: HiGHS says its name once."""
    code = ("from random import Random; from covering import covering; "
            "from tegg.extract.milp import solve; assert solve(covering(Random(0), 8), 5.0).optimal")
    told = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, check=True,
                          capture_output=True, text=True)
    assert told.stdout + told.stderr == ""


def test_the_search_is_near_the_best_cover_where_choosing_is_hard():
    """Over 40 coverings of 8 to 30 values: most exact, none far off."""
    off = []
    for seed in range(40):
        rng = Random(seed)
        problem = covering(rng, rng.choice((8, 12, 20, 30)))
        best = problem.total(solve(problem, 20.0, gap=0.0).used)
        off.append(search(problem, float("inf")).cost / best - 1)
    assert sum(o < 1e-6 for o in off) >= 28 and max(off) <= 0.15 and sum(off) / 40 <= 0.01


def test_the_search_closes_what_the_first_walk_leaves():
    problem = Stages(classes_of(encoder(2))).problem
    found = search(problem, float("inf"))
    best = problem.total(solve(problem, 20.0).used)
    assert found.complete and found.cost <= found.first
    assert found.cost <= best * (1 + 2 * TOLERANCE)


def test_a_deadline_in_the_past_still_gives_a_cover():
    problem = Stages(classes_of(encoder(1))).problem
    found = search(problem, time.monotonic() - 1)
    assert not found.complete and problem.covers(found.used)


def test_a_missed_budget_is_reported_with_a_gap():
    """Almost no time: the cover is the heuristic's, and the gap is what is known, if anything."""
    cover = extract(classes_of(encoder(1)), COSTS, budget_s=1e-6)
    assert cover.stats["missed_budget"] in (0, 1)
    assert cover.gap is None or 0 <= cover.gap <= 1
    assert extract(classes_of(encoder(1)), COSTS, budget_s=0).gap is None


def test_the_same_input_gives_the_same_cover():
    classes = classes_of(encoder(2))
    for exact in (True, False):
        a, b = (extract(classes, COSTS, exact=exact) for _ in range(2))
        assert a.kernels == b.kernels and a.seconds == b.seconds
