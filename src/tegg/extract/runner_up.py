"""The second best: what a program would cost without a kernel of its cover, and what runs then."""

from __future__ import annotations

import time

from tegg.extract.assemble import assemble
from tegg.extract.candidate import Pricer
from tegg.extract.exact import solve
from tegg.extract.problem import Problem
from tegg.ir.classes import RunnerUp


def runners_up(problem: Problem, pricer: Pricer, used: list[int],
               budget_s: float) -> dict[int, RunnerUp]:
    """For the chosen kernels, as far as the budget reaches: the next best choice without each.

    Kernels that do the same to values of the same kinds, among neighbours that do (repeated
    layers), are asked for once.
    """
    deadline = time.monotonic() + budget_s
    best, before = problem.total(used), set(used)
    known: dict[tuple, RunnerUp] = {}
    found: dict[int, RunnerUp] = {}
    places = _places(problem, pricer, used)
    for k in used:
        key = places[k]
        if key not in known:
            left = deadline - time.monotonic()
            if left <= 0:
                continue
            solved = solve(problem, left, without=k)
            if solved.used is None:
                known[key] = RunnerUp(float("inf"), ())
            else:
                specs = assemble(problem, pricer, solved.used)
                known[key] = RunnerUp(problem.total(list(specs)) - best,
                                      tuple(s for i, s in specs.items() if i not in before))
        found[k] = known[key]
    return found


def _places(problem: Problem, pricer: Pricer, used: list[int]) -> dict[int, tuple]:
    """For each kernel what it does, and what those do that write what it reads and read what it
    writes: one kernel may take the work of another only beside it."""
    does = {k: pricer.structure(x.outs, x.body, x.read, x.write)
            for k, x in ((k, problem.kernels[k]) for k in used)}
    number = {shape: i for i, shape in enumerate(dict.fromkeys(does.values()))}
    own = {k: number[does[k]] for k in used}
    writers = {c: k for k in used for c in problem.kernels[k].outs}
    before: dict[int, list[int]] = {k: [] for k in used}
    after: dict[int, list[int]] = {k: [] for k in used}
    for k in used:
        for c in problem.kernels[k].leaves:
            if c in writers and writers[c] != k:
                before[k].append(own[writers[c]])
                after[writers[c]].append(own[k])
    return {k: (own[k], tuple(sorted(before[k])), tuple(sorted(after[k]))) for k in used}
