"""Values that change places at once: in which order to copy them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Move = tuple[int, int]  # from, to


def in_turn(moves: Sequence[Move], aside: Callable[[int], int]) -> list[Move]:
    """Copies, one after the other, that leave each value where ``moves`` says. No two of them have
    the same place to go to.

    A place is written after all have read it. Of those that wait for one another in a circle one
    is put ``aside`` first: that gives a place for the value in a place.
    """
    left = [(source, to) for source, to in moves if source != to]
    out: list[Move] = []
    while left:
        read = {source for source, _ in left}
        free = [m for m in left if m[1] not in read]
        if free:
            out += free
            left = [m for m in left if m not in free]
            continue
        place = left[0][1]
        kept = aside(place)
        out.append((place, kept))
        left = [(kept if source == place else source, to) for source, to in left]
    return out
