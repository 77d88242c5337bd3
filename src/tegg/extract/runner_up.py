"""The second best: what a program would cost without a kernel of its cover, and what runs then."""

from __future__ import annotations

import time

from tegg.extract.assemble import assemble
from tegg.extract.candidate import Pricer
from tegg.extract.milp import solve
from tegg.extract.problem import Problem
from tegg.ir.classes import RunnerUp


def runners_up(problem: Problem, pricer: Pricer, used: list[int],
               budget_s: float) -> dict[int, RunnerUp]:
    """For the chosen kernels, as far as the budget reaches: the next best choice without each.

    Kernels that do the same to values of the same kinds (repeated layers) are asked for once.
    """
    deadline = time.monotonic() + budget_s
    best, before = problem.total(used), set(used)
    known: dict[tuple, RunnerUp] = {}
    found: dict[int, RunnerUp] = {}
    for k in used:
        kernel = problem.kernels[k]
        key = pricer.structure(kernel.outs, kernel.body, kernel.read, kernel.write)
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
