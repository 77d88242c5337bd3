"""``tegg tune --device cpu``: measures in turns, takes medians, and fits a profile to them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tegg.errors import BackendError
from tegg.extract.cost import load_costs
from tegg.extract.profile import Profile

from ...tuning.fitting import Timed
from ..threads import threads
from .cases import cases
from .figures import figures
from .fit import Traffic, fitted
from .kernels import Kernels
from .machine import FRESH, MODES, Machine, Sample

if TYPE_CHECKING:
    from ..target import Cpu

_ROUNDS = {False: 9, True: 3}
_SECONDS = {False: 22.0, True: 5.0}    # for all rounds; the first is always whole
_LARGEST = {False: 128 << 20, True: 64 << 20}
_LEAST, _TRIES, _TRIED = 2, 6, 4e-3  # samples of each in a round, whose fastest counts; seconds

Step = Callable[[str], None]


def tune(target: Cpu, quick: bool = False, step: Step = lambda name: None) -> Profile:
    """The profile of this machine. ``step`` is told what has been done, one of ``steps(quick)``."""
    every = threads()
    base = load_costs(target.shipped, every)
    machine = Machine(_LARGEST[quick])
    step("the machine's measures are compiled")
    found = cases(target.language.registers, quick, target.features)
    kernels = Kernels(list(found.values()), target.lower, base, target.language.width)
    step("kernels are compiled")
    samples: dict[tuple, Sample] = _machine(machine, every)
    for i in range(len(kernels.cases)):
        for n in sorted({1, every}):
            samples["kernel", i, n] = kernels.sample(i, n)
    step("memory is touched")
    seen = _rounds(samples, _ROUNDS[quick], _SECONDS[quick], step)
    taken = {k: _usual(v) for k, v in seen.items()}
    traffic = Traffic(*({n: {s: min(taken[mode, s, n] for mode in modes) for s in machine.sizes()}
                         for n in {1, every}} for modes in (("read", "runs"), ("copy",))),
                      taken.get(("barrier",), 0.0), FRESH / taken["fresh",])
    timed = [Timed(kernels.cases[k[1]], k[2], t) for k, t in taken.items() if k[0] == "kernel"]
    costs = fitted(base, every, traffic, timed)
    step("the profile is fitted")
    return Profile(replace(costs, name="cpu/measured"), "cpu", target.machine(), every,
                   figures=figures(taken, found, costs, timed), unrest=_unrest(seen))


def steps(quick: bool) -> int:
    """How many steps ``tune`` tells of."""
    return 4 + _ROUNDS[quick]


def _machine(machine: Machine, every: int) -> dict[tuple, Sample]:
    out: dict[tuple, Sample] = {("start", every): machine.start(every),
                                ("fresh",): machine.fresh}
    if every > 1:
        out["barrier",] = machine.barrier(every)
    for n in sorted({1, every}):
        for size in machine.sizes():
            for mode in MODES:
                out[mode, size, n] = machine.traffic(size, mode, n)
        for wide in (False, True):
            out["f64" if wide else "f32", n] = machine.multiply_add(wide, n)
    return out


def _rounds(samples: dict[tuple, Sample], rounds: int, seconds: float,
            step: Step) -> dict[tuple, list[float]]:
    """Per round the best of a few tries of each sample, all in turn: what disturbs the machine for
    a while disturbs no sample in most rounds."""
    seen: dict[tuple, list[float]] = {k: [] for k in samples}
    end = time.monotonic() + seconds
    for r in range(rounds):
        for key, sample in samples.items():
            if r and time.monotonic() > end:
                break
            seen[key] += _fastest(sample)
        step(f"round {r + 1} of {rounds}")
        if time.monotonic() > end:
            break
    if not all(seen.values()):
        raise BackendError("nothing can be measured while other threads of this process run "
                           "programs: they hold the threads; tune in a process of its own")
    return seen


def _usual(seconds: list[float]) -> float:
    """The median of the better half: disturbances only ever add time."""
    return statistics.median(sorted(seconds)[:-(-len(seconds) // 2)])


def _unrest(seen: dict[tuple, list[float]]) -> float:
    """By how much the usual sample is above its best."""
    return statistics.median(statistics.median(v) / min(v) - 1.0 for v in seen.values())


def _fastest(sample: Sample) -> list[float]:
    """The best of a few tries, if there was one."""
    tries: list[float] = []
    start = time.perf_counter()
    while len(tries) < _LEAST or (len(tries) < _TRIES and time.perf_counter() - start < _TRIED):
        tries.append(sample())
    return [min(found)] if (found := [t for t in tries if t > 0]) else []
