"""Repeated layers solved once: covers of whole programs, as good as a search of the whole."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from cover_runs import check_cover
from eclass_graphs import classes_of, encoder
from encoder import Encoder, draw
from extraction import COSTS, Stages
from hypothesis import given
from tegg.testing.programs import programs

from tegg.extract import extract
from tegg.extract.heuristic import Found, every_border, search
from tegg.extract.milp import solve
from tegg.extract.stitch import Stitched, stitch

INF = float("inf")
SLOW_LAUNCH = replace(COSTS, name="slow launch", launch=1e-3)


@pytest.mark.parametrize("costs", [COSTS, SLOW_LAUNCH], ids=lambda c: c.name)
def test_thirty_two_layers_are_covered_in_well_under_a_second(costs):
    problem = Stages(classes_of(encoder(32)), costs).problem
    start = time.process_time()
    found = stitch(problem, time.monotonic() + 20)
    assert time.process_time() - start < 1.0
    assert problem.covers(found.used) and found.solved < 30 < found.blocks
    assert found.cost <= search(problem, INF).cost * (1 + 1e-9)
    assert found.cost <= problem.total(solve(problem, 20.0).used) * (1 + 1e-5)


def test_more_layers_solve_no_more_blocks():
    few, many = (stitch(Stages(classes_of(encoder(n))).problem, INF) for n in (8, 16))
    assert few.solved == many.solved and few.blocks < many.blocks


def test_a_missed_budget_stitches_and_says_so():
    """No time for the whole: blocks are, and the gap is what the solver proved, or unknown."""
    classes = classes_of(encoder(6))
    cover = extract(classes, COSTS, budget_s=1e-6)
    best = extract(classes, COSTS)
    assert best.stats["missed_budget"] == 0 and best.gap == 0.0
    if cover.stats["missed_budget"]:
        assert cover.stats["blocks_solved"] < cover.stats["blocks"]
        assert cover.gap is None or 0 <= cover.gap <= 1
    assert cover.seconds <= best.seconds * (1 + 1e-5)


def test_a_stitched_cover_computes_what_the_program_does(monkeypatch):
    """The whole is legal: every kernel reads what was written before, and values agree."""
    from tegg.extract import milp
    graph = Encoder(5, 2, 4, width=8, heads=2, inner=12, words=9, positions=6).g
    classes = classes_of(graph)

    def late(*_, **how):
        return milp.Solved(None, 0.0, False, 0, 0)

    monkeypatch.setattr("tegg.extract.solve", late)
    cover = extract(classes, COSTS)
    assert cover.stats["missed_budget"] == 1 and cover.stats["blocks"] > 5 and cover.gap is None
    check_cover(cover, classes, draw(graph, {}), {})


def test_what_does_not_repeat_is_left_to_the_search(monkeypatch):
    from tegg.extract import milp
    problem = Stages(classes_of(encoder(1))).problem
    assert stitch(problem, INF) is None
    monkeypatch.setattr("tegg.extract.solve",
                        lambda *_, **how: milp.Solved(None, 0.0, False, 0, 0))
    cover = extract(classes_of(encoder(1)), COSTS)
    assert "blocks" not in cover.stats and cover.gap is None
    assert cover.stats["missed_budget"] == 1 and cover.stats["heuristic_s"] > 0


@pytest.mark.parametrize("better", ["stitch", "search"])
def test_the_cheaper_of_what_was_stitched_and_what_was_searched_is_taken(monkeypatch, better):
    import tegg.extract as module
    from tegg.extract import milp
    classes = classes_of(encoder(4))
    best = extract(classes, COSTS)
    worse = every_border(Stages(classes).problem)
    monkeypatch.setattr(module, "solve", lambda *_, **how: milp.Solved(None, 0.0, False, 0, 0))
    if better == "stitch":
        monkeypatch.setattr(module, "search", lambda *_: Found(worse, 0.0, 0.0, True))
    else:
        monkeypatch.setattr(module, "stitch", lambda *_: Stitched(worse, 0.0, 1, 1))
    assert extract(classes, COSTS).seconds <= 1.05 * best.seconds


def test_no_time_at_all_is_still_a_cover():
    problem = Stages(classes_of(encoder(6))).problem
    found = stitch(problem, time.monotonic() - 1)
    assert problem.covers(found.used) and found.solved == 0


@given(programs(steps=12))
def test_random_programs_that_repeat_are_covered(program):
    problem = Stages(classes_of(program.graph)).problem
    if problem.wanted:
        found = stitch(problem, INF)
        assert found is None or problem.covers(found.used)
