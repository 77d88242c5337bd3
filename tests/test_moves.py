"""Values that change places at once."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tegg.planning.moves import in_turn


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
