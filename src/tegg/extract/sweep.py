"""The exact cover by dynamic programming: values are decided one at a time, readers first.

A state is what is wanted of the values that are still undecided, and which of them a chosen kernel
has written already. A value that is wanted when its turn comes takes one of its writers; of two
states the one that wants no more, has written no less and counts no more is enough. Programs are
long and narrow, so few values are wanted at a time and states stay few, however long the program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tegg.extract.covering import Covering

WORK = 8_000_000  # steps and comparisons after which a program counts as too wide
AT_ONCE = 32      # comparisons of arrays in the time of one of a pair
FEW = 64          # states that are compared one by one, in no more time than arrays take
PAIRS = 1 << 17   # that are compared together: 1 MB
READY = 24        # values looked at for the next one to decide: a bound on programs of many outputs
State = tuple[int, int]  # bits of values that are wanted, and that are written already
Chosen = tuple["int", "Chosen | None"] | None  # the last kernel, and those before it


@dataclass(frozen=True, slots=True)
class Swept:
    """``used`` is None where no cover exists."""

    used: list[int] | None


def sweep(problem: Covering, without: int | None = None, work: int = WORK) -> Swept | None:
    """The cheapest cover, ``without`` one of the kernels; None where that takes too much work."""
    order = _order(problem)
    bit = {w: 1 << i for i, w in enumerate(order)}
    reads = [_bits(r, bit) for r in problem.reads]
    writes = [_bits(w, bit) for w in problem.writes]
    states: dict[State, tuple[float, Chosen]] = {
        (_bits(problem.wanted, bit), 0): (0.0, None)}
    for w in order:
        undecided = ~((bit[w] << 1) - 1)
        ways = [(k, problem.cost[k], reads[k], writes[k] & undecided)
                for k in problem.writers[w] if k != without]
        work -= len(states) * (1 + len(ways))
        if work < 0:
            return None
        states, compared = _undominated(_decided(states, bit[w], ways), work)
        work -= compared
        if work < 0:
            return None
    if not states:
        return Swept(None)
    ((_, chosen),) = states.values()
    used = []
    while chosen is not None:
        k, chosen = chosen
        used.append(k)
    return Swept(used)


def _bits(keys: tuple[int, ...] | list[int], bit: dict[int, int]) -> int:
    out = 0
    for w in keys:
        out |= bit[w]
    return out


def _decided(states: dict[State, tuple[float, Chosen]], bit: int,
             ways: list[tuple[int, float, int, int]]) -> dict[State, tuple[float, Chosen]]:
    """The states after one value: it is not wanted, is written already, or takes a writer."""
    out: dict[State, tuple[float, Chosen]] = {}
    for (wanted, written), (cost, chosen) in states.items():
        if not wanted & bit:
            key = wanted, written & ~bit
            if key not in out or cost < out[key][0]:
                out[key] = cost, chosen
            continue
        rest = wanted ^ bit
        for k, own, reads, writes in ways:
            has = written | writes
            key, total = ((rest | reads) & ~has, has), cost + own
            if key not in out or total < out[key][0]:
                out[key] = total, (k, chosen)
    return out


def _undominated(states: dict[State, tuple[float, Chosen]],
                 work: int) -> tuple[dict[State, tuple[float, Chosen]], int]:
    """Without states that another makes needless, but for those that are left when that took
    more than some work; and how much it took."""
    if len(states) < 2:
        return states, 0
    cheapest = sorted(states, key=lambda s: states[s][0])
    kept, compared = _one_by_one(cheapest) if len(states) <= FEW else _in_arrays(cheapest, work)
    return {s: states[s] for s in kept}, compared


def _one_by_one(states: list[State]) -> tuple[list[State], int]:
    kept: list[State] = []
    compared = 0
    for state in states:
        wanted, written = ~state[0], state[1]
        for i, (less, more) in enumerate(kept):
            if not less & wanted and not written & ~more:
                compared += i
                break
        else:
            compared += len(kept)
            kept.append(state)
    return kept, compared


def _in_arrays(states: list[State], work: int) -> tuple[list[State], int]:
    bits = _words(np.concatenate([_bytes([s[0] for s in states]), ~_bytes([s[1] for s in states])],
                                 1))
    kept = np.empty(0, np.int64)
    compared = at = 0
    while at < len(states) and compared <= work * AT_ONCE:
        some = np.arange(at, min(len(states), at + max(1, PAIRS // (at + 8 * FEW))))
        at += len(some)
        compared += len(some) * (len(kept) + len(some))
        some = some[~_within(bits[kept], bits[some]).any(0)]
        # Of two that are within one another one is the other: states differ.
        some = some[~np.triu(_within(bits[some], bits[some]), 1).any(0)]
        kept = np.concatenate([kept, some])
    return [states[i] for i in kept], -(-compared // AT_ONCE)


def _bytes(numbers: list[int]) -> np.ndarray:
    """The bits of each number, in a row of bytes."""
    size = max(1, -(-max(n.bit_length() for n in numbers) // 8))
    text = b"".join(n.to_bytes(size, "little") for n in numbers)
    return np.frombuffer(text, np.uint8).reshape(len(numbers), size)


def _words(rows: np.ndarray) -> np.ndarray:
    """The bits in which rows of bytes differ, in rows of words."""
    bits = np.unpackbits(rows[:, (rows != rows[0]).any(0)], axis=1)
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
