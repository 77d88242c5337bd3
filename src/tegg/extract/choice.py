"""A cover that can be changed: who writes each stored key, with the exact price of every change.

Keys are counted by their readers. A change that stores a key brings in a writer, with all that it
reads; a key that loses its last reader takes its writer out, with all that only that one needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tegg.extract.covering import Covering

EPSILON = 1e-12  # share of a cover's cost below which a change is no gain


class Choice:
    """The chosen kernels, and a log by which changes are taken back.

    flow: an estimate of what storing a key costs, by which a new key finds its writer. banned: a
    key that no kernel which is brought in may read, or -1.
    """

    def __init__(self, problem: Covering, used: Iterable[int], flow: Sequence[float]) -> None:
        self.p, self.flow, self.banned = problem, flow, -1
        self.refs = [0] * len(problem.rank)
        self.writer = [-1] * len(problem.rank)
        self.users = [0] * len(problem.cost)  # keys that are taken from a kernel
        self.total = 0.0
        self._log: list[tuple[list[int], int, int]] = []
        given = problem.writer_of(list(used))
        self._need(problem.wanted, given)

    @property
    def used(self) -> list[int]:
        """The chosen kernels."""
        return [k for k, n in enumerate(self.users) if n]

    # ---- taking back
    def mark(self) -> tuple[int, float]:
        return len(self._log), self.total

    def back(self, mark: tuple[int, float]) -> None:
        """Undo everything since a mark."""
        at, self.total = mark
        while len(self._log) > at:
            values, i, old = self._log.pop()
            values[i] = old

    def forget(self) -> None:
        """What was done stays done."""
        self._log.clear()

    def _set(self, values: list[int], i: int, new: int) -> None:
        self._log.append((values, i, values[i]))
        values[i] = new

    # ---- storing and letting go
    def need(self, keys: Iterable[int]) -> None:
        """One more reader for each key."""
        self._need(keys, {})

    def _need(self, keys: Iterable[int], given: dict[int, int]) -> None:
        todo = list(keys)
        while todo:
            w = todo.pop()
            self._set(self.refs, w, self.refs[w] + 1)
            if self.refs[w] == 1:
                k = given[w] if w in given else self._best(w)
                self._set(self.writer, w, k)
                todo += self._hold(k)

    def free(self, keys: Iterable[int]) -> None:
        """One reader less for each key."""
        todo = list(keys)
        while todo:
            w = todo.pop()
            self._set(self.refs, w, self.refs[w] - 1)
            if not self.refs[w]:
                todo += self._drop(self.writer[w])

    def _hold(self, k: int) -> Sequence[int]:
        """One more key is taken from a kernel; what it now reads."""
        self._set(self.users, k, self.users[k] + 1)
        if self.users[k] > 1:
            return ()
        self.total += self.p.cost[k]
        return self.p.reads[k]

    def _drop(self, k: int) -> Sequence[int]:
        self._set(self.users, k, self.users[k] - 1)
        if self.users[k]:
            return ()
        self.total -= self.p.cost[k]
        return self.p.reads[k]

    def _best(self, w: int) -> int:
        """The writer that seems cheapest: one that runs anyway costs nothing."""
        best, least = -1, float("inf")
        for k in self.p.writers[w]:
            if self.users[k]:
                return k
            if self.banned in self.p.reads[k]:
                continue
            score = self.p.cost[k] + sum(self.flow[r] for r in self.p.reads[k] if not self.refs[r])
            if score < least:
                best, least = k, score
        return best if best >= 0 else self.p.writers[w][0]

    # ---- changes
    def take(self, w: int, k: int) -> None:
        """Take a stored key from another kernel, which then gives all else that it can."""
        self._take(w, k)
        for o in self.p.writes[k]:
            if self.refs[o] and self.writer[o] != k:
                self._take(o, k)

    def _take(self, w: int, k: int) -> None:
        old = self.writer[w]
        if old != k:
            self.need(self._hold(k))
            self._set(self.writer, w, k)
            self.free(self._drop(old))

    def improve(self, w: int) -> bool:
        """Take a stored key from whatever kernel makes the cover cheapest. Whether one does."""
        return self._replace(w, self._less())

    def avoid(self, w: int) -> bool:
        """No kernel that reads a key: its readers give way to others. Whether that can be."""
        self.banned = w
        for k in [k for k in self.used if w in self.p.reads[k]]:
            for o in self.p.writes[k]:
                if self.refs[o] and self.writer[o] == k and not self._replace(o):
                    self.banned = -1
                    return False
        self.banned = -1
        return True

    def _replace(self, w: int, least: float = float("inf")) -> bool:
        """Take a key from the best other kernel that does not read what is banned, if the cover
        then costs less than ``least``."""
        start, best = self.writer[w], -1
        for k in self.p.writers[w]:
            if k == start or self.banned in self.p.reads[k]:
                continue
            mark = self.mark()
            self.take(w, k)
            if self.total < least:
                best, least = k, self.total
            self.back(mark)
        if best >= 0:
            self.take(w, best)
        return best >= 0

    def _less(self) -> float:
        return self.total * (1.0 - EPSILON)

    def cheaper(self, mark: tuple[int, float]) -> bool:
        """Whether the cover costs less than it did at a mark."""
        return self.total < mark[1] * (1.0 - EPSILON)
