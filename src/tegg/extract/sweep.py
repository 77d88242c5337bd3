"""The exact cover by dynamic programming: values are decided one at a time, readers first.

A state is what is wanted of the values that are still undecided, and which of them a chosen kernel
has written already. A value that is wanted when its turn comes takes one of its writers; of two
states the one that wants no more, has written no less and counts no more is enough. Programs are
long and narrow, so few values are wanted at a time and states stay few, however long the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tegg.extract.covering import Covering

WORK = 8_000_000  # states and comparisons after which a program counts as too wide
ROOM = 1 << 20    # words of all states after one value: some tens of MB while they are compared
AT_ONCE = 32      # comparisons in the time that one state takes
FEW = 64          # states that are compared all at once
PAIRS = 1 << 17   # states that are compared together, two and two: 1 MB
SIDE = 1 << 9     # the most of them against one another
READY = 24        # values looked at for the next one to decide: a bound on programs of many outputs


@dataclass(frozen=True, slots=True)
class Swept:
    """``used`` is None where no cover exists."""

    used: list[int] | None


@dataclass(slots=True)
class _States:
    """A row each: the bits of the values that are wanted, and written, by their turn, and what was
    chosen so far counts."""

    wanted: np.ndarray
    written: np.ndarray
    cost: np.ndarray

    def take(self, rows: np.ndarray) -> _States:
        return _States(self.wanted[rows], self.written[rows], self.cost[rows])


def sweep(problem: Covering, without: int | None = None, work: int = WORK) -> Swept | None:
    """The cheapest cover, ``without`` one of the kernels; None where that takes too much work."""
    order = _order(problem)
    turn = {w: i for i, w in enumerate(order)}
    reads, writes = (_rows([[turn[w] for w in ws] for ws in sets], len(order))
                     for sets in (problem.reads, problem.writes))
    states = _States(_rows([[turn[w] for w in problem.wanted]], len(order)),
                     _rows([[]], len(order)), np.zeros(1))
    cost, undecided = np.array(problem.cost), ~_rows([[]], len(order))[0]
    steps: list[tuple[np.ndarray, np.ndarray]] = []  # per value: states before, and what they chose
    for i, w in enumerate(order):
        word, bit = i // 64, np.uint64(1 << i % 64)
        undecided[word] ^= bit
        states.written[:, word] &= undecided[word]
        wanted = (states.wanted[:, word] & bit) != 0
        if not wanted.any():
            continue
        ways = np.array([k for k in problem.writers[w] if k != without], np.int64)
        idle, open_ = np.flatnonzero(~wanted), np.flatnonzero(wanted)
        count = len(idle) + len(open_) * len(ways)
        work -= count
        if work < 0 or count * len(undecided) > ROOM:
            return None
        made = _decided(states, idle, open_, reads[ways], writes[ways] & undecided, cost[ways])
        made.wanted[:, word] &= undecided[word]
        kept, compared = _needed(made, work)
        work -= compared
        if work < 0:
            return None
        states = made.take(kept)
        before = np.concatenate([idle, np.repeat(open_, len(ways))])[kept]
        chosen = np.concatenate([np.full(len(idle), -1), np.tile(ways, len(open_))])[kept]
        steps.append((before, chosen))
    return Swept(_chosen(steps) if len(states.cost) else None)


def _rows(sets: Sequence[Sequence[int]], count: int) -> np.ndarray:
    """Sets of numbers below a count as bits, in rows of words."""
    out = np.zeros((len(sets), -(-count // 64)), np.uint64)
    for row, numbers in zip(out, sets):
        for i in numbers:
            row[i // 64] |= np.uint64(1 << i % 64)
    return out


def _decided(states: _States, idle: np.ndarray, open_: np.ndarray, reads: np.ndarray,
             writes: np.ndarray, cost: np.ndarray) -> _States:
    """The states after one value: it is not wanted, or written already, by the ``idle`` ones; the
    others take a writer, each of them in turn."""
    has = states.written[open_, None] | writes
    wants = (states.wanted[open_, None] | reads) & ~has
    total = states.cost[open_, None] + cost
    words = states.wanted.shape[1]
    return _States(np.concatenate([states.wanted[idle], wants.reshape(-1, words)]),
                   np.concatenate([states.written[idle], has.reshape(-1, words)]),
                   np.concatenate([states.cost[idle], total.reshape(-1)]))


def _chosen(steps: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[int]:
    """The kernels of the one state that is left."""
    used, row = [], 0
    for before, chosen in reversed(steps):
        if chosen[row] >= 0:
            used.append(int(chosen[row]))
        row = before[row]
    return used


def _needed(states: _States, work: int) -> tuple[np.ndarray, int]:
    """The states but for those that another makes needless, the cheapest first: all of them, if
    finding these takes no more than some work; and how much it took."""
    cheapest = np.argsort(states.cost, kind="stable")
    if len(cheapest) < 2:
        return cheapest, 0
    rows = np.concatenate([states.wanted, ~states.written], 1)[cheapest]
    rows = np.ascontiguousarray(rows[:, (rows != rows[0]).any(0)])
    if len(rows) <= FEW and rows.shape[1]:
        return cheapest[~np.triu(_within(rows, rows), 1).any(0)], len(rows) ** 2 // AT_ONCE
    bits = _words(rows)
    _, first = np.unique(bits.view([("", bits.dtype)] * bits.shape[1])[:, 0], return_index=True)
    first.sort()
    cheapest, bits = cheapest[first], bits[first]
    kept = np.empty(0, np.int64)
    compared = at = 0
    while at < len(bits) and compared <= work * AT_ONCE:
        some = np.arange(at, min(len(bits), at + max(1, PAIRS // (at + SIDE))))
        at += len(some)
        compared += len(some) * (len(kept) + len(some))
        some = some[~_within(bits[kept], bits[some]).any(0)]
        # Of two that are within one another one is the other: they differ.
        some = some[~np.triu(_within(bits[some], bits[some]), 1).any(0)]
        kept = np.concatenate([kept, some])
    return cheapest[kept], -(-compared // AT_ONCE)


def _words(rows: np.ndarray) -> np.ndarray:
    """The bits in which rows of words differ, in as few words as hold them, but at least one."""
    if rows.shape[1] < 2:
        return rows if rows.shape[1] else np.zeros((len(rows), 1), np.uint64)
    bits = np.unpackbits(rows.view(np.uint8), axis=1)
    bits = np.packbits(bits[:, (bits != bits[0]).any(0)], axis=1)
    words = np.zeros((len(rows), -(-bits.shape[1] // 8) * 8), np.uint8)
    words[:, :bits.shape[1]] = bits
    return words.view(np.uint64)


def _within(less: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Per row of the one and row of the other whether all bits of the one are among the other's."""
    first, *others = zip(less.T, ~more.T)
    outside = np.bitwise_and.outer(*first)
    for a, b in others:
        outside |= np.bitwise_and.outer(a, b)
    return outside == 0


def _order(problem: Covering) -> list[int]:
    """All keys, those that a kernel writes before those that it reads; next is what puts fewest
    others in question, then what was so last."""
    below: list[set[int]] = [set() for _ in problem.rank]
    for reads, writes in zip(problem.reads, problem.writes):
        for w in writes:
            below[w].update(reads)
    above = [0] * len(below)
    for found in below:
        for r in found:
            above[r] += 1
    open_ = set(problem.wanted)
    ready = [w for w in sorted(range(len(below)), key=problem.rank.__getitem__) if not above[w]]
    order: list[int] = []
    while ready:
        place = min(range(max(0, len(ready) - READY), len(ready)),
                    key=lambda i: (len(below[ready[i]] - open_) - (ready[i] in open_), -i))
        w = ready.pop(place)
        order.append(w)
        open_ |= below[w]
        open_.discard(w)
        for r in sorted(below[w], key=problem.rank.__getitem__):
            above[r] -= 1
            if not above[r]:
                ready.append(r)
    return order
