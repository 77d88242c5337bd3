"""The covering problem of a program: its candidates, and values in the forms they are stored in."""

from __future__ import annotations

from tegg.errors import ExtractionError
from tegg.extract.candidate import Candidate, Pricer
from tegg.extract.covering import Covering

AHEAD_WEIGHT = 1e-6  # what a kernel that runs when weights change counts of its seconds
Key = tuple[int, str]  # a class, and the form it is stored in


class Problem(Covering):
    """The covering of a program by candidates; costs are seconds per run.

    keys: what each number stands for. refused: why the target refused the last kernel that was
    taken out, for the error where none is left.
    """

    def __init__(self, pricer: Pricer, kernels: list[Candidate], refused: str = "") -> None:
        self.roles = roles = pricer.roles
        self.pricer, self.refused = pricer, refused
        self.kernels = self._runnable(kernels)
        numbers: dict[Key, int] = {}
        writes = [tuple(numbers.setdefault(w, len(numbers)) for w in self._out(k))
                  for k in self.kernels]
        reads = [tuple(numbers[r] for r in self._in(k)) for k in self.kernels]
        self.keys = list(numbers)
        cost = [k.seconds * (AHEAD_WEIGHT if k.ahead else 1.0) for k in self.kernels]
        super().__init__(reads, writes, cost, self._wanted(numbers),
                         [roles.rank[c] for c, _ in self.keys], [c for c, _ in self.keys],
                         [len(k.body) for k in self.kernels])

    def _key(self, c: int, form: str) -> Key:
        return (c, self.pricer.form(c, form))

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
