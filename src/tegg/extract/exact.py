"""The exact cover: by dynamic programming where a program is narrow, else an integer program."""

from __future__ import annotations

from tegg.extract import milp
from tegg.extract.covering import Covering
from tegg.extract.heuristic import walked
from tegg.extract.milp import TOLERANCE, Solved
from tegg.extract.sweep import sweep


def solve(problem: Covering, seconds: float, without: int | None = None,
          gap: float = TOLERANCE, hope: float = 0.0) -> Solved:
    """The cheapest cover, ``without`` one of the kernels. Where a sweep takes too much work, the
    integer program finds it as far as ``seconds`` allow, but for a relative ``gap``; it is left out
    where its relaxation is below a share ``hope`` of what a simple cover counts: then nothing
    would be proven in time."""
    swept = sweep(problem, without)
    kernels, keys = len(problem.cost), len(problem.rank)
    if swept is None:
        bound = milp.relaxed(problem) if hope else 0.0
        if hope and bound < hope * problem.total(walked(problem)):
            return Solved(None, bound, False, kernels, keys)
        return milp.solve(problem, seconds, without, gap)
    if swept.used is None:
        return Solved(None, 0.0, False, kernels, keys)
    return Solved(swept.used, problem.total(swept.used), True, kernels, keys)
