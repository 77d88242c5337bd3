"""Repeated layers: a cover of one block is found, and copied to all blocks that are the same.

The keys in their order are cut where least is passed on, a repetition apart. What a block may
choose is a covering of its own: what the rest of the cover stores is given, and what the rest reads
is wanted. Blocks whose coverings are equal, number by number, have equal solutions; so one is
solved and the others are copied, and the whole stays a cover at every step and never costs more.
Further passes, with cuts half a repetition on and blocks of two repetitions, mend what the first
cut apart. Last, values that many blocks could read are stored, or done without, for all at once.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from dataclasses import dataclass

from tegg.extract.covering import Covering
from tegg.extract.heuristic import every_border, polished
from tegg.extract.exact import solve

SHORTEST = 3     # repetitions below which there is nothing to stitch
CUTS = ((2, 0), (2, 1), (4, 2))  # per pass: halves of a repetition in a block, and before the first
BLOCK_SHARE = 4  # parts of the time that is left that one block may take


@dataclass(frozen=True, slots=True)
class Stitched:
    """A cover, what it counts, and how many blocks it has, of which so many were solved."""

    used: list[int]
    cost: float
    blocks: int
    solved: int


def stitch(problem: Covering, deadline: float) -> Stitched | None:
    """A good cover, a block at a time; None where nothing repeats."""
    made = _Stitching(problem)
    if made.period == 0:
        return None
    count = 0
    for halves, shift in CUTS:
        for low, high in made.blocks(halves, shift):
            if time.monotonic() >= deadline:
                break
            made.block(low, high, deadline)
            count += 1
    made.used = polished(problem, problem.needed(made.used), made.shared(), deadline)
    return Stitched(made.used, problem.total(made.used), count, len(made.known))


class _Stitching:
    """Keys by their place in the order: ``order[i]`` is a key, ``place[key]`` its place."""

    def __init__(self, problem: Covering) -> None:
        self.p, self.used = problem, every_border(problem)
        self.order = sorted(range(len(problem.rank)), key=lambda w: (problem.rank[w], w))
        self.place = {w: i for i, w in enumerate(self.order)}
        self.passed = self._passed()
        self.period, self.first = self._repetition()
        self.known: dict[tuple, list[int] | None] = {}  # a block's covering -> its kernels
        self.inside: list[list[int]] = [[] for _ in self.order]  # kernels by their first write
        for k, ws in enumerate(problem.writes):
            self.inside[min(self.place[w] for w in ws)].append(k)

    # ---- cutting
    def _last(self) -> list[int]:
        """Per place the last one that a kernel writes which reads it."""
        last = list(range(len(self.order)))
        for k, reads in enumerate(self.p.reads):
            end = max(self.place[w] for w in self.p.writes[k])
            for r in reads:
                last[self.place[r]] = max(last[self.place[r]], end)
        return last

    def shared(self) -> list[int]:
        """Keys that kernels of more than two blocks could read."""
        return [self.order[i] for i, end in enumerate(self._last()) if end - i > 2 * self.period]

    def _passed(self) -> list[int]:
        """Per place how many keys before it are read by kernels that write it or later ones."""
        change = [0] * (len(self.order) + 2)
        for i, end in enumerate(self._last()):
            change[i + 1] += 1
            change[end + 1] -= 1
        out, now = [], 0
        for d in change[:len(self.order)]:
            now += d
            out.append(now)
        return out

    def _colors(self) -> list[tuple]:
        """Keys that look alike: those whose writers cost, read and write as much."""
        p = self.p
        return [tuple(sorted((p.cost[k], len(p.reads[k]), len(p.writes[k]))
                             for k in p.writers[w])) for w in self.order]

    def _repetition(self) -> tuple[int, int]:
        """Keys from one block to the next, and where the first begins; 0 where nothing repeats."""
        where: dict[tuple, int] = {}
        apart: Counter[int] = Counter()
        colors = self._colors()
        for i, c in enumerate(colors):
            if c in where:
                apart[i - where[c]] += 1
            where[c] = i
        period = max(apart, key=lambda d: (apart[d] * d, -d), default=0)
        runs = [i for i in range(period, len(colors)) if period and colors[i] == colors[i - period]]
        if len(runs) < max(period * (SHORTEST - 1), len(colors) / 2 - period):
            return 0, 0  # not often enough, or most of the program is something else
        start = runs[0] - period
        return period, min(range(start, start + period), key=lambda i: (self.passed[i], i))

    def blocks(self, halves: int, shift: int) -> list[tuple[int, int]]:
        """Ranges of places, the last one first."""
        size, n = self.period * halves // 2, len(self.order)
        first = (self.first + self.period * shift // 2) % size
        cuts = sorted({0, n, *range(first, n, size)})
        return list(itertools.pairwise(cuts))[::-1]

    # ---- one block
    def block(self, low: int, high: int, deadline: float) -> None:
        """Choose the kernels of a block again, the rest of the cover as it is."""
        p, place = self.p, self.place
        mine = [k for i in range(low, high) for k in self.inside[i]
                if all(place[w] < high for w in p.writes[k])]
        here = set(mine)
        rest = [k for k in self.used if k not in here]
        given = {w for k in rest for w in p.writes[k]}
        wanted = {w for k in rest for w in p.reads[k]} | set(p.wanted)
        wanted = {w for w in wanted - given if low <= place[w] < high}
        mine = [k for k in mine if all(r in given or low <= place[r] < high for r in p.reads[k])]
        part = self._part(mine, given, wanted, low, high)
        if part is None:
            return
        key = (tuple(part.cost), tuple(part.reads), tuple(part.writes), tuple(part.wanted))
        if key not in self.known:
            left = (deadline - time.monotonic()) / BLOCK_SHARE
            self.known[key] = solve(part, max(0.01, left), gap=0.0).used
        found = self.known[key]
        if found is None:
            return
        used = rest + [mine[i] for i in found]
        if p.covers(used) and p.total(used) < p.total(self.used):
            self.used = used

    def _part(self, mine: list[int], given: set[int], wanted: set[int], low: int,
              high: int) -> Covering | None:
        """The covering of a block in numbers of its own, equal for equal blocks."""
        p = self.p
        number = {self.order[i]: i - low for i in range(low, high)}
        reads = [tuple(number[r] for r in p.reads[k] if r not in given) for k in mine]
        writes = [tuple(number[w] for w in p.writes[k]) for k in mine]
        if not wanted:
            return None
        return Covering(reads, writes, [p.cost[k] for k in mine], sorted(number[w] for w in wanted),
                        list(range(high - low)), list(range(high - low)),
                        [p.sizes[k] for k in mine])
