"""Interleaved timing: contenders take turns in rounds, and medians are compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per call: the median over rounds of each round's median, and the best call."""

    median: float
    best: float


def interleaved(contenders: Mapping[str, Callable[[], object]], rounds: int = 9,
                budget_s: float = 0.08) -> dict[str, Timing]:
    """Time every contender in every round, in rotating order, about ``budget_s`` each."""
    names = list(contenders)
    for f in contenders.values():
        f()
    seen: dict[str, list[list[float]]] = {n: [] for n in names}
    for r in range(rounds):
        for n in names[r % len(names):] + names[:r % len(names)]:
            seen[n].append(_sample(contenders[n], budget_s))
    return {n: Timing(statistics.median(statistics.median(s) for s in rs),
                      min(min(s) for s in rs)) for n, rs in seen.items()}


def _sample(f: Callable[[], object], budget_s: float) -> list[float]:
    """Seconds per call; calls shorter than 20 us are timed in batches."""
    start = time.perf_counter()
    f()
    once = time.perf_counter() - start
    batch = max(1, int(20e-6 / max(once, 1e-9)))
    out = []
    end = time.perf_counter() + budget_s
    while len(out) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(batch):
            f()
        out.append((time.perf_counter() - start) / batch)
    return out
