"""The exact cover: by dynamic programming where a program is narrow, else an integer program."""

from __future__ import annotations

from tegg.extract import milp
from tegg.extract.covering import Covering
from tegg.extract.milp import TOLERANCE, Solved
from tegg.extract.sweep import sweep


def solve(problem: Covering, seconds: float, without: int | None = None,
          gap: float = TOLERANCE) -> Solved:
    """The cheapest cover, ``without`` one of the kernels. Where a sweep takes too much work, the
    integer program finds it as far as ``seconds`` allow, but for a relative ``gap``."""
    swept = sweep(problem, without)
    if swept is None:
        return milp.solve(problem, seconds, without, gap)
    kernels, keys = len(problem.cost), len(problem.rank)
    if swept.used is None:
        return Solved(None, 0.0, False, kernels, keys)
    return Solved(swept.used, problem.total(swept.used), True, kernels, keys)
