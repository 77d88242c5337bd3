"""States that take the old values of other states: all replaced at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tegg
from tegg.planning.moves import in_turn
from tegg.testing.kernels import random_inputs


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), unique_by=lambda m: m[1]))
def test_every_place_gets_what_was_elsewhere(moves) -> None:
    places = {i: i for i in range(8)}

    def aside(place: int) -> int:
        places[100 + place] = -1
        return 100 + place

    for source, to in in_turn(moves, aside):
        places[to] = places[source]
    assert [places[i] for i in range(8)] == [
        next((source for source, to in moves if to == i), i) for i in range(8)]


def shifted(a, b, c):
    """What was a step ago, and two steps ago."""
    tegg.state(b, a)
    tegg.state(c, b)
    tegg.state(a, a * 0.5 + 1)
    return a + b + c


def exchanged(a, b, c):
    tegg.state(a, b)
    tegg.state(b, a)
    tegg.state(c, c + a)
    return a * 2


def turned(a, b, c):
    tegg.state(a, b)
    tegg.state(b, c)
    tegg.state(c, a)
    return c * 2


def summed(a, b, c):
    """Whose new value is one that another state takes, and computed from it."""
    tegg.state(b, a * 1.0)
    tegg.state(a, a @ c)
    return b @ b


MEANINGS = {shifted: lambda a, b, c: (a * 0.5 + 1, a, b), exchanged: lambda a, b, c: (b, a, c + a),
            turned: lambda a, b, c: (b, c, a), summed: lambda a, b, c: (a @ c, a, c)}


@pytest.mark.parametrize("fn", MEANINGS)
def test_states_take_old_values_of_states(fn) -> None:
    """However often, and through the call path that is prepared."""
    run = tegg.compile(fn, cache=False)
    states = [np.arange(36, dtype=np.float32).reshape(6, 6) % 5 + i for i in range(3)]
    for _ in range(3):
        want = MEANINGS[fn](*(s.copy() for s in states))
        run(*states)
        for got, w in zip(states, want, strict=True):
            np.testing.assert_array_equal(got, w)


def test_what_is_put_aside_shares_no_memory_that_is_read_later() -> None:
    g = tegg.Graph()
    a, b = (g.tensor((64, 64), name=n) for n in "ab")
    mean = g.tensor((64, 64), name="mean")
    tegg.state(a, b)
    tegg.state(b, a)
    tegg.state(mean, ((a @ b).softmax(-1) @ mean).softmax(0))
    run = g.compile([tegg.Generic()])
    values = {g.inputs[i].name: v for i, v in random_inputs(g, {}, 1).items()}
    held = {n: v.copy() for n, v in values.items()}
    run(**held)
    np.testing.assert_array_equal(held["a"], values["b"])
    np.testing.assert_array_equal(held["b"], values["a"])
    np.testing.assert_allclose(held["mean"].sum(0), 1, 1e-5)
