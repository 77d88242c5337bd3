"""Sizes of axes of drawn graphs: numbers, and dims that are known only at run time."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tegg.dim import NO_FACTS, Dim, Symbol, dim, exact_div

NUMBERS = (0, *(1, 2, 3, 4) * 4)  # an empty axis now and then
N, M = dim("n", 0, 3, hint=3), dim("m", 1, 3, hint=2)
SYMBOLIC: tuple[Dim, ...] = (1, 2, 3, 1, 2, 3, *(N, M) * 3, N + 1, 2 * N, 2 * M, N + M, N * M)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Draws sizes of axes; symbolic: dims in the symbols n and m among them."""

    rng: Random
    symbolic: bool = False

    def any(self) -> Dim:
        """A size, which may be 0, or may be 0 at run time."""
        return self.rng.choice(SYMBOLIC if self.symbolic else NUMBERS)

    def shape(self) -> tuple[Dim, ...]:
        """The shape of a result; one of three has many axes of size 1, as sums leave them."""
        ones = 0.6 if self.rng.random() < 0.3 else 0.0
        return tuple(1 if self.rng.random() < ones else self.any()
                     for _ in range(self.rng.randrange(4)))

    def positive(self) -> Dim:
        """A size that is proven to be at least 1."""
        dims: tuple[Dim, ...] = (2, 3, M, N + 1, N + M) if self.symbolic else (1, 2, 3)
        return self.rng.choice(dims)

    def factor(self) -> Dim:
        """A size to divide by: a number with divisors, or one that is known only at run time."""
        dims: tuple[Dim, ...] = (2, M, 2 * M, N + 1) if self.symbolic else (2, 3, 4, 6)
        return self.rng.choice(dims)

    def below(self, n: Dim) -> int:
        """A number of 0, 1 and 2 that is proven to be below a size, or 0 where none is."""
        fit = [k for k in (0, 1, 2, 3) if at_least(n, k + 1)]
        return self.rng.choice(fit) if fit else 0

    def cut(self, n: Dim) -> Dim | None:
        """Where an axis is cut in two that are not empty at every size; None where nowhere."""
        if isinstance(n, int):
            return self.rng.randrange(1, n) if n > 1 else None
        places = [d for d in (exact_div(n, 2), n - 1, n - M) if d is not None
                  and d != 0 and at_least(d, 0)]
        return self.rng.choice(places) if places else None


def at_least(n: Dim, low: Dim) -> bool:
    """Whether ``n >= low`` is proven."""
    return NO_FACTS.nonnegative(n - low)


def bindings(symbols: set[Symbol], rng: Random) -> tuple[dict[str, int], ...]:
    """Sizes at which a graph is evaluated: every symbol at its least, all alike where their bounds
    admit it (dims that are written otherwise are equal there), and two by chance."""
    if not symbols:
        return ({},)
    ordered = sorted(symbols)
    tops = {s: s.max if s.max is not None else s.min + 4 for s in ordered}
    low, high = max(s.min for s in ordered), min(tops.values())
    found = [{s.name: s.min for s in ordered}]
    if low <= high:
        same = rng.randint(low, high)
        found.append({s.name: same for s in ordered})
    found += [{s.name: rng.randint(s.min, tops[s]) for s in ordered} for _ in range(2)]
    return tuple({tuple(f.items()): f for f in found}.values())
