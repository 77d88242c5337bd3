"""Extraction: candidate kernels over the e-classes, priced, and the cheapest cover of the roots."""

from __future__ import annotations

import time

from tegg.classes import Cover, EClasses
from tegg.cost import Costs
from tegg.extract.assemble import assemble
from tegg.extract.borders import inner
from tegg.extract.candidate import Pricer
from tegg.extract.candidates import Candidates
from tegg.extract.cones import Cones
from tegg.extract.fragment import fragment
from tegg.extract.heuristic import search
from tegg.extract.limits import Limits
from tegg.extract.milp import solve
from tegg.extract.problem import Problem
from tegg.extract.prune import Lowerable, anything
from tegg.extract.roles import assign
from tegg.extract.show import show
from tegg.work import Values

__all__ = ["Limits", "Lowerable", "extract", "fragment", "show"]

GAP = 1e-9  # below this a cover is as good as the bound, within what the solver can tell


def extract(classes: EClasses, costs: Costs, *, lowerable: Lowerable = anything,
            target: str = "the target", budget_s: float = 5.0, exact: bool = True,
            limits: Limits | None = None) -> Cover:
    """The cheapest kernels that write every output and update of a program.

    The same classes and costs give the same cover, unless the budget is missed: then
    ``stats["missed_budget"]`` is 1, and ``gap`` says how far the cover can be from the best one.
    ``exact=False`` leaves out the integer program: a heuristic cover, whose gap is unknown.
    Raises ExtractionError where the target cannot lower an op that the program needs.
    """
    start = time.monotonic()
    limits = limits or Limits()
    roles = assign(classes, lowerable, target)
    values = Values.of({c: classes.shape[c] for c in roles.nodes}, classes.dtype,
                       classes.graph.table)
    pricer = Pricer(roles, values, costs)
    cones = Cones(roles, pricer, limits, inner(roles, values, limits))
    kernels = Candidates(cones, pricer).all()
    problem = Problem(pricer, kernels)
    stats = {"classes": len(roles.nodes), "cones": sum(map(len, cones.cuts.values())),
             "tried": cones.tried, "candidates": len(problem.kernels),
             "enumerate_s": time.monotonic() - start}
    used, gap = _choose(problem, start + budget_s, exact, stats)
    stats["total_s"] = time.monotonic() - start
    return assemble(problem, pricer, used, gap, stats)


def _choose(problem: Problem, deadline: float, exact: bool,
            stats: dict[str, float]) -> tuple[list[int], float | None]:
    """The integer program first; the heuristic where that is not wanted, or was not finished."""
    if not problem.wanted:
        return [], 0.0
    best: list[int] | None = None
    bound = 0.0
    if exact:
        began = time.monotonic()
        left = deadline - began
        solved = solve(problem, max(0.01, left * 0.7))
        stats.update(columns=solved.columns, rows=solved.rows,
                     milp_s=time.monotonic() - began)
        best, bound = solved.used, solved.bound
        if solved.optimal and best is not None:
            stats["missed_budget"] = 0
            return best, 0.0
    began = time.monotonic()
    found = search(problem, max(deadline, began + 0.05))
    stats.update(heuristic_s=time.monotonic() - began,
                 missed_budget=int(exact or not found.complete))
    if best is None or found.cost < problem.total(best):
        best = found.used
    if not exact:
        return best, None
    cost = problem.total(best)
    gap = max(0.0, (cost - bound) / cost) if cost > 0 else 0.0
    return best, 0.0 if gap < GAP else gap
