"""The sweep against enumeration, against the integer program, and on long programs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from covering import covering
from eclass_graphs import classes_of, encoder
from extraction import Stages
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from tegg.testing.programs import programs

from tegg.extract import milp
from tegg.extract import sweep as module
from tegg.extract.covering import Covering
from tegg.extract.exact import solve
from tegg.extract.heuristic import walked
from tegg.extract.sweep import Swept, sweep

NUMBERS = st.one_of(st.integers(0, 15), st.integers(0, 1 << 70), st.just(1 << 200))


def agree(problem: Covering, without: int | None = None) -> None:
    """The sweep finds a cover that counts what the integer program's does, or neither does."""
    swept, solved = sweep(problem, without, work=10**9), milp.solve(problem, 20.0, without, gap=0.0)
    assert swept is not None and (swept.used is None) == (solved.used is None)
    if swept.used is not None:
        assert without not in swept.used and problem.covers(swept.used)
        assert problem.total(swept.used) == pytest.approx(problem.total(solved.used), rel=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_hard_coverings_are_covered_as_by_the_integer_program(seed):
    rng = Random(seed)
    problem = covering(rng, rng.choice((4, 8, 12, 20)))
    agree(problem)
    agree(problem, rng.choice(sweep(problem).used))


@settings(max_examples=examples(25))
@given(programs(steps=9))
def test_random_programs_are_covered_as_by_the_integer_program(program):
    problem = Stages(classes_of(program.graph)).problem
    if problem.wanted:
        agree(problem)


def test_a_kernel_that_writes_two_values_counts_once():
    """Apart the two cost 3 + 3, one kernel that writes both 5; and what it reads costs 1."""
    problem = Covering([(), (0,), (0,), (0,)], [(0,), (1,), (2,), (1, 2)], [1.0, 3.0, 3.0, 5.0],
                       [1, 2], [0, 1, 2], [0, 1, 2], [1, 1, 1, 2])
    assert sorted(sweep(problem).used) == [0, 3]
    assert sorted(sweep(problem, without=3).used) == [0, 1, 2]


def states_of(rows: list[tuple[int, int, int]]) -> module._States:
    wanted, written = (module._rows([[i for i in range(210) if r[j] >> i & 1] for r in rows], 210)
                       for j in (0, 1))
    return module._States(wanted, written, np.array([float(r[2]) for r in rows]))


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 5)), min_size=1, max_size=40),
       st.sampled_from((1, 256, 1 << 17)), st.sampled_from((0, 4, 64)))
def test_states_are_needless_where_another_is_enough(rows, pairs, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PAIRS", pairs)
        patch.setattr(module, "FEW", few)
        kept, _ = module._needed(states_of(rows), 10**9)
    wanted: list[tuple[int, int, int]] = []
    for row in sorted(rows, key=lambda r: r[2]):
        if not any(not r[0] & ~row[0] and not row[1] & ~r[1] for r in wanted):
            wanted.append(row)
    assert [rows[i] for i in kept] == wanted


def test_without_its_only_writer_a_value_has_no_cover():
    problem = Covering([()], [(0,)], [1.0], [0], [0], [0], [1])
    assert sweep(problem) == Swept([0]) and sweep(problem, without=0) == Swept(None)
    assert solve(problem, 1.0, without=0).used is None


def test_work_grows_with_the_length_of_a_program_and_no_faster():
    """What covers 4 layers with some work left covers 16 with four times as much."""
    few, many = (Stages(classes_of(encoder(n))).problem for n in (4, 16))
    work = next(w for w in (2**i for i in range(8, 30)) if sweep(few, work=w))
    assert sweep(many, work=5 * work) is not None


@pytest.mark.parametrize("seed", range(6))
def test_what_bounds_a_cover_too_low_is_not_left_to_the_integer_program(monkeypatch, seed):
    problem = covering(Random(seed), 12)
    best = problem.total(sweep(problem).used)
    bound, simple = milp.relaxed(problem), problem.total(walked(problem))
    assert 0 < bound <= best * (1 + 1e-6) <= simple * (1 + 2e-6)
    monkeypatch.setattr("tegg.extract.exact.sweep", lambda *_: None)
    near, far = (solve(problem, 20.0, hope=share * bound / simple) for share in (0.99, 1.01))
    assert near.optimal and problem.total(near.used) == pytest.approx(best, rel=1e-5)
    assert (far.used, far.optimal, far.bound) == (None, False, bound)


def test_a_sweep_stops_within_one_value_where_states_are_too_many():
    states = states_of([(1 << i % 200 | 1 << (i // 200 + 200), 0, i) for i in range(1000)])
    kept, whole = module._needed(states, 10**6)
    some, compared = module._needed(states, 5000)
    assert list(kept) == list(range(1000)) and 0 < len(some) < 1000
    assert list(some) == list(kept[:len(some)]) and 5000 < compared < whole < 10**6


def test_a_sweep_stops_where_states_have_no_room(monkeypatch):
    problem = covering(Random(3), 20)
    assert sweep(problem) is not None
    monkeypatch.setattr(module, "ROOM", 8)
    assert sweep(problem) is None


def test_a_wide_program_is_left_to_the_integer_program():
    problem = Stages(classes_of(encoder(1))).problem
    assert sweep(problem, work=10) is None
    rng = Random(5)
    wide = covering(rng, 30)
    found = solve(wide, 20.0)
    assert found.optimal and wide.total(found.used) == pytest.approx(found.bound, rel=1e-6)
