"""The exact cover: an integer program, solved at its root by HiGHS, with a certified gap.

A binary x per kernel, an s in [0, 1] per key: a key is stored only if a kernel writes it, a
kernel runs only if all that it reads is stored, and what is wanted is stored. Kernels read only
what comes before all that they write, so no constraint on time is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from tegg.extract.covering import Covering

TOLERANCE = 1e-6     # relative gap that counts as solved: prices are not known that well
MICROSECONDS = 1e6  # the unit in which HiGHS sees costs: its tolerances are absolute


class _Quiet(highspy.Highs):
    """A solver that prints nothing: HiGHS 1.16 prints its name when callbacks are enabled, which is
    before options can be set."""

    def enableCallbacks(self) -> highspy.HighsStatus:
        self.setOptionValue("output_flag", False)
        return super().enableCallbacks()


@dataclass(frozen=True, slots=True)
class Solved:
    """``used`` is None where no cover was found in time. bound: no cover counts less."""

    used: list[int] | None
    bound: float
    optimal: bool
    columns: int
    rows: int


def relaxed(problem: Covering) -> float:
    """What no cover counts less than: the least that one of shares of kernels does."""
    program = _program(problem)
    program.integrality_ = []
    solver = _Quiet()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(program)
    solver.run()
    solved = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return solver.getInfo().objective_function_value / MICROSECONDS if solved else 0.0


def solve(problem: Covering, seconds: float, without: int | None = None,
          gap: float = TOLERANCE) -> Solved:
    """The cheapest cover, as far as ``seconds`` allow, but for a relative ``gap``; ``without`` one
    of the kernels."""
    program = _program(problem)
    if without is not None:
        upper = np.asarray(program.col_upper_)
        upper[without] = 0.0
        program.col_upper_ = upper
    solver = _Quiet()
    for option, value in (("output_flag", False), ("time_limit", float(seconds)),
                          ("mip_rel_gap", gap), ("mip_abs_gap", min(1e-9, gap)), ("threads", 1)):
        solver.setOptionValue(option, value)
    solver.passModel(program)
    solver.run()
    info = solver.getInfo()
    kernels = len(problem.cost)
    x = np.asarray(solver.getSolution().col_value[:kernels])
    used = [k for k in range(kernels) if x[k] > 0.5] if len(x) == kernels else None
    if used is None or not problem.covers(used):
        used = None
    optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    bound = info.mip_dual_bound / MICROSECONDS
    return Solved(used, bound if np.isfinite(bound) else 0.0, optimal and used is not None,
                  program.num_col_, program.num_row_)


def _program(problem: Covering) -> highspy.HighsLp:
    kernels, keys = len(problem.cost), len(problem.rank)
    starts, index, value, low = [0], [], [], []
    for w, writers in enumerate(problem.writers):  # stored => written
        index += [kernels + w, *writers]
        value += [-1.0, *(1.0 for _ in writers)]
        starts.append(len(index))
        low.append(0.0)
    for k, reads in enumerate(problem.reads):      # run => its reads are stored
        for r in reads:
            index += [kernels + r, k]
            value += [1.0, -1.0]
            starts.append(len(index))
            low.append(0.0)
    lower, upper = np.zeros(kernels + keys), np.ones(kernels + keys)
    for w in problem.wanted:
        lower[kernels + w] = 1.0
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = kernels + keys, len(low)
    lp.col_cost_ = np.array([c * MICROSECONDS for c in problem.cost] + [0.0] * keys)
    lp.col_lower_, lp.col_upper_ = lower, upper
    lp.row_lower_ = np.array(low)
    lp.row_upper_ = np.full(len(low), highspy.kHighsInf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.array(starts)
    lp.a_matrix_.index_ = np.array(index)
    lp.a_matrix_.value_ = np.array(value)
    lp.integrality_ = ([highspy.HighsVarType.kInteger] * kernels
                       + [highspy.HighsVarType.kContinuous] * keys)
    return lp
