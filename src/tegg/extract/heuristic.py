"""A good cover fast: area flow, a walk from the outputs, then search on shared values and kernels.

The walk goes from the outputs down and takes for each value the writer that is cheapest with the
flow of what it reads. Values that are stored already are free to read, and a kernel that writes
another wanted value on its way is credited with the kernel that this saves. The first walk is 8 to
50 % off; toggling which values count as stored ("sunk"), then swapping single kernels, closes it.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tegg.extract.problem import Problem

EPSILON = 1e-15


@dataclass(frozen=True, slots=True)
class Found:
    """A cover: chosen kernels, what they count, and whether the search ran to its end."""

    used: list[int]
    cost: float
    first: float
    complete: bool


def search(problem: Problem, deadline: float) -> Found:
    """The best cover found until nothing improves it, or until ``deadline`` (monotonic time)."""
    return _Search(problem, deadline).run()


class _Search:
    def __init__(self, problem: Problem, deadline: float) -> None:
        self.p, self.deadline = problem, deadline
        self.order = sorted(range(len(problem.keys)), key=lambda w: (problem.rank[w], w))
        self.readers = self._readers()
        self.own = [min(problem.cost[k] for k in ks) for ks in problem.writers]

    def run(self) -> Found:
        used, cost = self._walk(self._greedy(frozenset()))
        first = cost
        small, small_cost = self._walk(self._smallest)
        if small_cost < cost:
            used, cost = small, small_cost
        used, cost = self._toggle(used, cost)
        used, cost = self._swap(used, cost)
        return Found(used, cost, first, time.monotonic() < self.deadline)

    def _readers(self) -> list[int]:
        """How many classes have kernels that read a key."""
        found: list[set[int]] = [set() for _ in self.p.keys]
        for k, reads in enumerate(self.p.reads):
            for r in reads:
                found[r].update(self.p.writes[k])
        return [max(1, len({self.p.keys[w][0] for w in ws})) for ws in found]

    def _flows(self, sunk: Collection[int]) -> list[float]:
        """What a key costs each of its readers."""
        p = self.p
        flow = [math.inf] * len(p.keys)
        for w in self.order:
            best = math.inf
            for k in p.writers[w]:
                cost = p.cost[k] / len(p.writes[k])
                for r in p.reads[k]:
                    cost += flow[r]
                best = min(best, cost)
            flow[w] = 0.0 if w in sunk else best / self.readers[w]
        return flow

    # ---- ways to choose a writer
    def _greedy(self, sunk: Collection[int]) -> Callable[[int, set[int]], int]:
        p, flow, own = self.p, self._flows(sunk), self.own

        def choose(w: int, wanted: set[int]) -> int:
            best, least = -1, math.inf
            for k in p.writers[w]:
                score = p.cost[k]
                for r in p.reads[k]:
                    if r not in wanted:
                        score += flow[r]
                for o in p.writes[k]:
                    if o != w and o in wanted:
                        score -= own[o]
                if score < least:
                    best, least = k, score
            return best if best >= 0 else p.writers[w][0]

        return choose

    def _smallest(self, w: int, wanted: set[int]) -> int:
        """The writer that evaluates least: every border is taken."""
        return min(self.p.writers[w],
                   key=lambda k: (len(self.p.kernels[k].body), self.p.cost[k], k))

    def _picked(self, pick: Mapping[int, int]) -> Callable[[int, set[int]], int]:
        return lambda w, wanted: pick[w] if w in pick else self._smallest(w, wanted)

    def _walk(self, choose: Callable[[int, set[int]], int]) -> tuple[list[int], float]:
        """Kernels reached from the outputs, later values first, and what they count."""
        p = self.p
        used: dict[int, None] = {}
        have: set[int] = set()
        wanted = set(p.wanted)
        heap = [(-p.rank[w], w) for w in p.wanted]
        heapq.heapify(heap)
        while heap:
            _, w = heapq.heappop(heap)
            if w in have:
                continue
            k = choose(w, wanted)
            used[k] = None
            have.update(p.writes[k])
            for r in p.reads[k]:
                if r not in wanted:
                    wanted.add(r)
                    heapq.heappush(heap, (-p.rank[r], r))
        chosen = self._without_idle(list(used))
        return chosen, p.total(chosen)

    def _without_idle(self, used: list[int]) -> list[int]:
        """Drop kernels all of whose writes others make or nobody needs."""
        p = self.p
        count: dict[int, int] = dict.fromkeys(p.wanted, 1)
        written: dict[int, int] = {}
        for k in used:
            for r in p.reads[k]:
                count[r] = count.get(r, 0) + 1
            for w in p.writes[k]:
                written[w] = written.get(w, 0) + 1
        kept = list(used)
        for k in sorted(used, key=lambda k: (-p.cost[k], k)):
            if all(written[w] > 1 or not count.get(w) for w in p.writes[k]):
                kept.remove(k)
                for r in p.reads[k]:
                    count[r] -= 1
                for w in p.writes[k]:
                    written[w] -= 1
        return kept

    # ---- search
    def _late(self) -> bool:
        return time.monotonic() >= self.deadline

    def _toggle(self, used: list[int], cost: float) -> tuple[list[int], float]:
        """Price single values at nothing, or no longer so, while that makes the cover cheaper."""
        sunk: frozenset[int] = frozenset()
        better = True
        while better:
            better = False
            for w in self.order:
                if self._late():
                    return used, cost
                trial = sunk ^ {w}
                found, price = self._walk(self._greedy(trial))
                if price < cost - EPSILON:
                    sunk, used, cost, better = trial, found, price, True
        return used, cost

    def _swap(self, used: list[int], cost: float) -> tuple[list[int], float]:
        """Replace single kernels while that makes the cover cheaper."""
        better = True
        while better:
            better = False
            pick = {w: k for k in used for w in self.p.writes[k]}
            for w in list(pick):
                for k in self.p.writers[w]:
                    if self._late():
                        return used, cost
                    if k in used:
                        continue
                    trial = dict(pick)
                    trial.update(dict.fromkeys(self.p.writes[k], k))
                    found, price = self._walk(self._picked(trial))
                    if price < cost - EPSILON:
                        used, cost, pick, better = found, price, trial, True
        return used, cost
