"""A good cover fast: area flow, a walk from the outputs, then search on values and kernels.

The walk goes from the outputs down and takes for each value the writer that is cheapest with the
flow of what it reads. Values that are stored already are free to read, and a kernel that writes
another wanted value on its way is credited with the kernel that this saves. Later walks share a
value's cost between the readers that it had in the walk before. The search then changes one thing
at a time, at its exact price: the writer of a value, a value that is stored as if that cost nothing
(and kept if others then gain more than it costs), one that is done without, a kernel that runs.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tegg.extract.choice import Choice
from tegg.extract.covering import Covering

ROUNDS = 2  # walks that count the readers of the walk before
STARTS = 2  # covers that are searched from


@dataclass(frozen=True, slots=True)
class Found:
    """A cover: chosen kernels, what they count, and whether the search ran to its end."""

    used: list[int]
    cost: float
    first: float
    complete: bool


def search(problem: Covering, deadline: float) -> Found:
    """The best cover found until nothing improves it, or until ``deadline`` (monotonic time)."""
    return _Search(problem, deadline).run()


def walked(problem: Covering) -> list[int]:
    """A cover by one walk, which is not searched from."""
    search = _Search(problem, 0.0)
    return search.walk(search.cheapest())[0]


def every_border(problem: Covering) -> list[int]:
    """A cover that stores whatever can be stored: a start that hides nothing from its parts."""
    search = _Search(problem, 0.0)
    return search.walk(search.smallest)[0]


def polished(problem: Covering, used: list[int], keys: Sequence[int],
             deadline: float) -> list[int]:
    """A cover that is no dearer, after some keys were stored, or done without."""
    return _Search(problem, deadline).polished(used, keys)


class _Search:
    def __init__(self, problem: Covering, deadline: float) -> None:
        self.p, self.deadline = problem, deadline
        self.order = sorted(range(len(problem.rank)), key=lambda w: (problem.rank[w], w))
        self.above = self._above()
        self.own = [min(problem.cost[k] for k in ks) for ks in problem.writers]

    def run(self) -> Found:
        used, cost = self.walk(self.cheapest())
        first = cost
        starts = [(cost, used)]
        for _ in range(ROUNDS):  # the readers that a value has, instead of those it could have
            used, cost = self.walk(self._greedy(self._flows(self._counted(used))))
            starts.append((cost, used))
        used, cost = self.walk(self.smallest)
        starts.append((cost, used))
        best: tuple[float, list[int]] = min(starts)
        for _, used in sorted(starts)[:STARTS]:
            used, cost = self._searched(used)
            best = min(best, (cost, used))
        return Found(best[1], best[0], first, time.monotonic() < self.deadline)

    def _above(self) -> list[set[int]]:
        """The keys that kernels which read a key write."""
        found: list[set[int]] = [set() for _ in self.p.rank]
        for k, reads in enumerate(self.p.reads):
            for r in reads:
                found[r].update(self.p.writes[k])
        return found

    def _possible(self) -> list[float]:
        """How many classes have kernels that read a key."""
        return [max(1, len({self.p.groups[w] for w in ws})) for ws in self.above]

    def _counted(self, used: list[int]) -> list[float]:
        """How many kernels of a cover read a key."""
        count = [0.0] * len(self.p.rank)
        for k in used:
            for r in self.p.reads[k]:
                count[r] += 1.0
        return [max(1.0, n) for n in count]

    def _flows(self, readers: Sequence[float]) -> list[float]:
        """What a key costs each of its readers."""
        p = self.p
        flow = [math.inf] * len(p.rank)
        for w in self.order:
            best = math.inf
            for k in p.writers[w]:
                cost = p.cost[k] / len(p.writes[k])
                for r in p.reads[k]:
                    cost += flow[r]
                best = min(best, cost)
            flow[w] = best / readers[w]
        return flow

    # ---- ways to choose a writer
    def cheapest(self) -> Callable[[int, set[int]], int]:
        """The one that is cheapest with the flow of what it reads, whoever may read that."""
        return self._greedy(self._flows(self._possible()))

    def _greedy(self, flow: Sequence[float]) -> Callable[[int, set[int]], int]:
        p, own = self.p, self.own

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

    def smallest(self, w: int, wanted: set[int]) -> int:
        """The writer that evaluates least: every border is taken."""
        return min(self.p.writers[w],
                   key=lambda k: (self.p.sizes[k], self.p.cost[k], k))

    def walk(self, choose: Callable[[int, set[int]], int]) -> tuple[list[int], float]:
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

    def _searched(self, used: list[int]) -> tuple[list[int], float]:
        """Change one thing after the other while that makes the cover cheaper."""
        choice = Choice(self.p, used, self._flows(self._counted(used)))
        better = True
        while better and not self._late():
            better = self._pass(choice)
            for move, count in ((self._force, len(self.p.rank)), (self._ban, len(self.p.rank)),
                                (self._adopt, len(self.p.cost))):
                for i in range(count):
                    if self._late():
                        break
                    better |= self._tried(choice, move, i)
        found = self._without_idle(choice.used)
        return found, self.p.total(found)

    def polished(self, used: list[int], keys: Sequence[int]) -> list[int]:
        choice = Choice(self.p, used, self._flows(self._counted(used)))
        for w in keys:
            if not self._late():
                self._tried(choice, self._ban if choice.refs[w] else self._force, w)
        found = self._without_idle(choice.used)
        return found if self.p.total(found) < self.p.total(used) else used

    def _pass(self, choice: Choice) -> bool:
        """Every stored key from its best writer."""
        better = False
        for w in reversed(self.order):
            if choice.refs[w] and not self._late():
                better |= choice.improve(w)
        choice.forget()
        return better

    def _tried(self, choice: Choice, move: Callable[[Choice, int], bool], i: int) -> bool:
        """A change that is taken back unless the cover got cheaper."""
        mark = choice.mark()
        kept = move(choice, i) and choice.cheaper(mark)
        if not kept:
            choice.back(mark)
        choice.forget()
        return kept

    def _around(self, choice: Choice, keys: Collection[int]) -> None:
        """Let everything that could read some keys choose its writer again."""
        around = {o for r in keys for o in self.above[r]}
        for o in sorted(around, key=lambda o: (-self.p.rank[o], o)):
            if choice.refs[o]:
                choice.improve(o)

    def _force(self, choice: Choice, w: int) -> bool:
        """Store a key as if that cost nothing, and see who wants it then."""
        if choice.refs[w]:
            return False
        choice.need([w])
        self._around(choice, [w])
        choice.free([w])
        return True

    def _ban(self, choice: Choice, w: int) -> bool:
        """Do without a key."""
        if not choice.refs[w] or w in self.p.wanted or not choice.avoid(w):
            return False
        self._around(choice, [w])
        return True

    def _adopt(self, choice: Choice, k: int) -> bool:
        """Run a kernel, and see who wants what it reads and writes then."""
        mine = [w for w in self.p.writes[k] if choice.refs[w]]
        if choice.users[k] or not mine:
            return False
        fresh = [w for w in self.p.writes[k] if not choice.refs[w]]
        choice.need(fresh)
        for w in (*mine, *fresh):
            if choice.refs[w]:  # what was taken before may have let go of it
                choice.take(w, k)
        self._around(choice, [*self.p.reads[k], *fresh])
        choice.free(fresh)
        return True
