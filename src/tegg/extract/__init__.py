"""Extraction: candidate kernels over the e-classes, priced, and the cheapest cover of the roots."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tegg.collecting import deferred
from tegg.errors import ExtractionError
from tegg.ir.classes import Cover, EClasses, KernelSpec
from tegg.extract.cost import Costs
from tegg.extract.alternatives import DEAREST, Wanted, variations
from tegg.extract.assemble import assemble
from tegg.extract.borders import borders_of
from tegg.extract.candidate import Candidate, Pricer
from tegg.extract.candidates import Candidates
from tegg.extract.cones import Cones
from tegg.extract.fragment import fragment
from tegg.extract.heuristic import search
from tegg.extract.limits import Limits
from tegg.extract.exact import solve
from tegg.extract.milp import TOLERANCE
from tegg.extract.problem import Problem
from tegg.extract.prune import Lowerable, anything
from tegg.extract.roles import assign
from tegg.extract.runner_up import runners_up
from tegg.extract.show import show
from tegg.extract.stitch import stitch
from tegg.ir.demand import Values

__all__ = ["Accepts", "Limits", "Lowerable", "Wanted", "extract", "fragment", "problem_of",
           "show"]

Accepts = Callable[[KernelSpec], str | None]
"""Why the target refuses a kernel, or None. Called on kernels of covers only, not on candidates."""

SEARCH = 1.0  # seconds that the heuristic may take, and stitching, even where the budget is spent
HOPE = 0.5    # of what a simple cover counts: a bound below it is not brought to the best in time
GAP = TOLERANCE  # below this a cover is as good as the bound, within what the solver tells apart


@deferred()
def extract(classes: EClasses, costs: Costs, *, lowerable: Lowerable = anything,
            accepts: Accepts | None = None, target: str = "the target", budget_s: float = 5.0,
            exact: bool = True, limits: Limits | None = None, runners_s: float = 0.0,
            others: Wanted | None = None) -> Cover:
    """The cheapest kernels that write every output and update of a program.

    The same classes and costs give the same cover, unless the budget is missed: then
    ``stats["missed_budget"]`` is 1, and ``gap`` says how far the cover can be from the best one,
    or is None where no bound was found in time.
    ``exact=False``, or a budget of 0, leaves out the integer program: a heuristic cover, whose
    gap is unknown. ``accepts`` is asked for each chosen kernel; one that it refuses is taken out,
    and the choice is made again. ``runners_s``: seconds to ask what would stand in for each.
    ``others``: covers that are wanted besides the best one, for ``Cover.others``.
    Raises ExtractionError where the target cannot lower an op that the program needs.
    """
    start = time.monotonic()
    limits = limits or Limits()
    pricer = _pricer(classes, costs, lowerable, target)
    kernels, stats = _candidates(pricer, limits)
    stats["enumerate_s"] = time.monotonic() - start
    reason = ""
    while True:
        problem = Problem(pricer, kernels, reason)
        used, gap = _choose(problem, start + budget_s, exact and budget_s > 0, stats)
        specs = assemble(problem, pricer, used)
        refused = {k: why for k, s in specs.items() if accepts and (why := accepts(s))}
        if not refused:
            break
        reason = f"{target} refuses its kernel: {next(iter(refused.values()))}"
        stats["refused"] += len(refused)
        kernels = [k for i, k in enumerate(problem.kernels) if i not in refused]
    stats["total_s"] = time.monotonic() - start
    runners = runners_up(problem, pricer, list(specs), runners_s) if runners_s else {}
    cover = _cover(list(specs.values()), gap, stats)
    cover.runners = {i: runners[k] for i, k in enumerate(specs) if k in runners}
    if others is not None and specs:
        named = [(_structure(pricer, problem.kernels[k]), s) for k, s in specs.items()]
        cover.others = _others(cover, named, pricer, others, (lowerable, target, limits, accepts))
    return cover


def problem_of(classes: EClasses, costs: Costs, *, lowerable: Lowerable = anything,
               target: str = "the target", limits: Limits | None = None) -> Problem:
    """The covering that ``extract`` solves, for those who compare ways to solve it."""
    pricer = _pricer(classes, costs, lowerable, target)
    return Problem(pricer, _candidates(pricer, limits or Limits())[0])


def _pricer(classes: EClasses, costs: Costs, lowerable: Lowerable, target: str) -> Pricer:
    roles = assign(classes, lowerable, target)
    values = Values.of({c: classes.shape[c] for c in roles.nodes}, classes.dtype,
                       classes.table)
    return Pricer(roles, values, costs)


def _structure(pricer: Pricer, k: Candidate) -> tuple:
    """Equal for kernels that do the same to values of the same kinds."""
    return pricer.structure(k.outs, k.body, k.read, k.write)


def _others(best: Cover, named: list[tuple[tuple, KernelSpec]], pricer: Pricer, wanted: Wanted,
            how: tuple[Lowerable, str, Limits, Accepts | None]) -> list[Cover]:
    """The next best covers at the true prices, the cheapest first."""
    lowerable, target, limits, accepts = how
    deadline = time.monotonic() + wanted.seconds
    seen = {_identity(best.kernels)}
    found: list[Cover] = []
    for v in variations(pricer.roles.classes, pricer.costs, named, wanted.seed):
        if len(found) == wanted.count or time.monotonic() >= deadline:
            break
        try:
            varied = _pricer(v.classes, v.costs, lowerable, target)
            kernels, stats = _candidates(varied, limits)
            problem = Problem(varied, [k for k in kernels
                                       if not v.without or _structure(varied, k) not in v.without])
            used, _ = _choose(problem, deadline, True, stats)
        except ExtractionError:
            continue  # nothing but what was left out can compute some value
        specs = assemble(problem, varied, used)
        priced = [replace(s, seconds=pricer.price(s.outs, s.leaves, s.body, problem.kernels[k].read,
                                                  problem.kernels[k].write)[0])
                  for k, s in specs.items()]
        cover = _cover(priced, None, stats)
        new = _identity(priced)
        if new not in seen and cover.seconds <= DEAREST * best.seconds and not any(
                accepts(s) for s in priced if accepts):
            found.append(cover)
        seen.add(new)
    return sorted(found, key=lambda c: c.seconds)


def _identity(specs: list[KernelSpec]) -> frozenset[tuple]:
    """Equal for covers that do the same."""
    return frozenset((s.writes, s.reads, tuple((c, n.op.name, n.args, n.attrs)
                                               for c, n in sorted(s.body.items())))
                     for s in specs)


def _cover(specs: list[KernelSpec], gap: float | None, stats: dict[str, float]) -> Cover:
    return Cover(specs, sum(s.seconds for s in specs if not s.ahead), gap, stats)


def _candidates(pricer: Pricer, limits: Limits) -> tuple[list[Candidate], dict[str, float]]:
    """The kernels to choose from, and how many of what there are."""
    roles = pricer.roles
    cones = Cones(roles, pricer, limits, borders_of(roles, pricer.values, limits))
    kernels = Candidates(cones, pricer).all()
    return kernels, {"classes": len(roles.nodes), "cones": sum(map(len, cones.cuts.values())),
                     "tried": cones.tried, "candidates": len(kernels), "refused": 0}


def _choose(problem: Problem, deadline: float, exact: bool,
            stats: dict[str, float]) -> tuple[list[int], float | None]:
    """The integer program first; where that was not finished, or nothing exact is wanted, the
    heuristic searches, and repeated blocks are stitched."""
    if not problem.wanted:
        return [], 0.0
    found: list[list[int]] = []
    bound = 0.0
    if exact:
        began = time.monotonic()
        solved = solve(problem, max(0.01, (deadline - began) * 0.7), hope=HOPE)
        stats.update(columns=solved.columns, rows=solved.rows,
                     exact_s=time.monotonic() - began)
        bound = solved.bound
        if solved.used is not None:
            found.append(solved.used)
        if solved.optimal and found:
            stats["missed_budget"] = 0
            return found[0], _gap(problem.total(found[0]), bound)
        deadline = time.monotonic() + SEARCH
    found += _fallback(problem, deadline, exact, stats)
    best = min(found, key=problem.total)
    return best, _gap(problem.total(best), bound) if bound > 0 else None


def _fallback(problem: Problem, deadline: float, exact: bool,
              stats: dict[str, float]) -> list[list[int]]:
    """Good covers without a proof."""
    began = time.monotonic()
    found = search(problem, max(deadline, began + SEARCH))
    stats.update(heuristic_s=time.monotonic() - began,
                 missed_budget=int(exact or not found.complete))
    covers = [found.used]
    if exact:
        began = time.monotonic()
        stitched = stitch(problem, began + SEARCH)
        stats["stitch_s"] = time.monotonic() - began
        if stitched is not None:
            stats.update(blocks=stitched.blocks, blocks_solved=stitched.solved)
            covers.append(stitched.used)
    return covers


def _gap(cost: float, bound: float) -> float:
    """How far a cover can be from the best one, as a share of what it counts."""
    gap = (cost - bound) / cost if cost > 0 else 0.0
    return gap if gap > GAP else 0.0
