"""A cover that changes: counts and cost stay those of the kernels that are chosen."""

from __future__ import annotations

from random import Random

import pytest
from covering import covering
from hypothesis import given, strategies as st

from tegg.extract.choice import Choice
from tegg.extract.heuristic import every_border


def check(choice: Choice) -> None:
    p = choice.p
    refs, users = [0] * len(p.rank), [0] * len(p.cost)
    for w in (*p.wanted, *(r for k in choice.used for r in p.reads[k])):
        refs[w] += 1
    for w, n in enumerate(refs):
        if n:
            users[choice.writer[w]] += 1
    assert refs == choice.refs and users == choice.users
    assert choice.total == pytest.approx(p.total(choice.used)) and p.covers(choice.used)


@given(st.randoms(use_true_random=False), st.integers(3, 20))
def test_every_change_is_counted_and_can_be_taken_back(rng: Random, keys: int):
    p = covering(rng, keys)
    choice = Choice(p, every_border(p), [0.0] * keys)
    check(choice)
    for _ in range(12):
        mark, before = choice.mark(), (choice.used, list(choice.writer), choice.total)
        stored = [w for w in range(keys) if choice.refs[w]]
        w = rng.choice(stored)
        if rng.random() < 0.5:
            choice.take(w, rng.choice(p.writers[w]))
        else:
            cost = choice.total
            assert choice.improve(w) == (choice.total < cost)
        check(choice)
        if rng.random() < 0.5:
            choice.back(mark)
            assert (choice.used, choice.writer, choice.total) == before
            check(choice)
        else:
            choice.forget()


@given(st.randoms(use_true_random=False), st.integers(3, 20))
def test_a_key_that_is_avoided_has_no_reader(rng: Random, keys: int):
    p = covering(rng, keys)
    choice = Choice(p, every_border(p), [0.0] * keys)
    for w in range(keys):
        mark = choice.mark()
        if choice.refs[w] and w not in p.wanted and choice.avoid(w):
            assert all(w not in p.reads[k] for k in choice.used) and not choice.refs[w]
            check(choice)
        choice.back(mark)
        check(choice)


def test_what_is_needed_once_more_stays_until_it_is_freed():
    p = covering(Random(1), 9)
    choice = Choice(p, every_border(p), [0.0] * 9)
    cost, used = choice.total, choice.used
    spare = next(w for w in range(9) if not choice.refs[w])
    choice.need([spare])
    assert choice.total > cost and choice.refs[spare] == 1
    choice.free([spare])
    assert choice.total == pytest.approx(cost) and choice.used == used
