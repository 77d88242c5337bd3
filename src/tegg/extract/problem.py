"""The covering problem: which kernels to run so that all that is read or wanted is written."""

from __future__ import annotations

from tegg.errors import ExtractionError
from tegg.extract.candidate import Candidate, Pricer

AHEAD_WEIGHT = 1e-6  # what a kernel that runs when weights change counts of its seconds
Key = tuple[int, str]  # a class, and the form it is stored in


class Problem:
    """Kernels read keys and write keys; a key is numbered, given values need no writer.

    cost: what a kernel counts, in seconds per run. wanted: keys that must be written. refused:
    why the target refused the last kernel that was taken out, for the error where none is left.
    """

    def __init__(self, pricer: Pricer, kernels: list[Candidate], refused: str = "") -> None:
        self.roles = roles = pricer.roles
        self.forms, self.refused = pricer.forms, refused
        self.kernels = self._runnable(kernels)
        numbers: dict[Key, int] = {}
        self.reads: list[tuple[int, ...]] = []
        self.writes: list[tuple[int, ...]] = []
        for k in self.kernels:
            self.writes.append(tuple(numbers.setdefault(w, len(numbers)) for w in self._out(k)))
        for k in self.kernels:
            self.reads.append(tuple(numbers[r] for r in self._in(k)))
        self.keys = list(numbers)
        self.cost = [k.seconds * (AHEAD_WEIGHT if k.ahead else 1.0) for k in self.kernels]
        self.writers: list[list[int]] = [[] for _ in self.keys]
        for i, ws in enumerate(self.writes):
            for w in ws:
                self.writers[w].append(i)
        self.wanted = self._wanted(numbers)
        self.rank = [roles.rank[c] for c, _ in self.keys]

    def _key(self, c: int, form: str) -> Key:
        return (c, form if form and form in self.forms.get(c, ()) else "")

    def _in(self, k: Candidate) -> list[Key]:
        keys = [self._key(a, k.read) for a in k.leaves]
        return [(c, f) for c, f in keys if f or c not in self.roles.given]

    def _out(self, k: Candidate) -> list[Key]:
        return [self._key(o, k.write) for o in k.outs]

    def _runnable(self, kernels: list[Candidate]) -> list[Candidate]:
        """Drop kernels that read what nobody writes."""
        while True:
            written = {w for k in kernels for w in self._out(k)}
            kept = [k for k in kernels if all(r in written for r in self._in(k))]
            if len(kept) == len(kernels):
                return kept
            kernels = kept

    def _wanted(self, numbers: dict[Key, int]) -> list[int]:
        for c in self.roles.roots:
            if (c, "") not in numbers:
                why = self.refused or "every candidate is beyond the limits of extraction"
                raise ExtractionError(f"no kernel can compute {self.roles.nodes[c]} of shape "
                                      f"{list(self.roles.classes.shape[c])}: {why}")
        return [numbers[c, ""] for c in self.roles.roots]

    def total(self, used: list[int]) -> float:
        """Seconds that a choice of kernels counts."""
        return sum(self.cost[k] for k in used)

    def writer_of(self, used: list[int]) -> dict[int, int]:
        """Which of the chosen kernels writes each key."""
        writer: dict[int, int] = {}
        for k in sorted(used, key=lambda k: (-len(self.writes[k]), self.cost[k], k)):
            for w in self.writes[k]:
                writer.setdefault(w, k)
        return writer

    def needed(self, used: list[int]) -> list[int]:
        """The chosen kernels that something needs, in an order that can run.

        Operands first, and depth first, so that a value is read soon after it is written.
        """
        writer = self.writer_of(used)
        order: dict[int, None] = {}
        for root in self.wanted:
            stack = [(writer[root], iter(self.reads[writer[root]]))]
            while stack:
                k, rest = stack[-1]
                below = next((writer[r] for r in rest if writer[r] not in order), None)
                if below is None:
                    order.setdefault(k)
                    stack.pop()
                else:
                    stack.append((below, iter(self.reads[below])))
        return list(order)

    def covers(self, used: list[int]) -> bool:
        """Whether every key that is read or wanted is written."""
        written = {w for k in used for w in self.writes[k]}
        return written.issuperset(self.wanted) and all(
            written.issuperset(self.reads[k]) for k in used)
