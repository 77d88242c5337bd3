"""What two stacks of compilers make of one program, side by side."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tegg.explain.explanation import Explanation


@dataclass(frozen=True, slots=True)
class Difference:
    """rules: rule -> matches in the first and the second, where they differ. kernels: label ->
    how many of each. seconds: predicted for a run. enodes: e-nodes after saturation."""

    rules: dict[str, tuple[int, int]]
    kernels: dict[str, tuple[int, int]]
    seconds: tuple[float, float]
    enodes: tuple[int, int]

    def show(self, first: str, second: str) -> str:
        """The difference as text."""
        lines = [f"first:  {first}", f"second: {second}", "", "rules (matches first, second):"]
        lines += [f"  {name}: {a}, {b}" for name, (a, b) in self.rules.items()] or ["  the same"]
        lines += ["kernels (count first, second):"]
        lines += [f"  {name}: {a}, {b}" for name, (a, b) in self.kernels.items()] or ["  the same"]
        a, b = self.seconds
        return "\n".join([*lines, f"e-nodes: {self.enodes[0]}, {self.enodes[1]}",
                          f"predicted: {a * 1e6:.1f} us, {b * 1e6:.1f} us"])


def difference(first: Explanation, second: Explanation) -> Difference:
    """How two explanations of one program differ."""
    matches = [{n: r.matches for n, r in e.report.rules.items()} for e in (first, second)]
    kernels = [Counter(k.label for k in e.kernels) for e in (first, second)]
    return Difference(_apart(*matches), _apart(*kernels), (first.seconds, second.seconds),
                      (first.report.enodes, second.report.enodes))


def _apart(a: dict[str, int], b: dict[str, int]) -> dict[str, tuple[int, int]]:
    return {k: (a.get(k, 0), b.get(k, 0)) for k in sorted({*a, *b})
            if a.get(k, 0) != b.get(k, 0)}
