"""The stages of extraction by hand, for tests that look inside."""

from __future__ import annotations

from tegg.ir.classes import EClasses
from tegg.extract.cost import Costs, load_costs
from tegg.extract import Limits
from tegg.extract.borders import borders_of
from tegg.extract.candidate import Pricer
from tegg.extract.candidates import Candidates
from tegg.extract.cones import Cones
from tegg.extract.problem import Problem
from tegg.extract.prune import anything
from tegg.extract.roles import Roles, assign
from tegg.ir.demand import Values

COSTS = load_costs("cpu/generic")


class Stages:
    """Roles, borders, cones, candidates and the problem of some classes."""

    def __init__(self, classes: EClasses, costs: Costs = COSTS,
                 limits: Limits | None = None) -> None:
        self.classes, self.limits = classes, limits or Limits()
        self.roles: Roles = assign(classes, anything, "test")
        self.values = Values.of({c: classes.shape[c] for c in self.roles.nodes}, classes.dtype,
                                classes.graph.table)
        self.borders = borders_of(self.roles, self.values, self.limits)
        self.inner = self.borders.inner
        self.pricer = Pricer(self.roles, self.values, costs)
        self.cones = Cones(self.roles, self.pricer, self.limits, self.borders)
        self.candidates = Candidates(self.cones, self.pricer).all()
        self.problem = Problem(self.pricer, self.candidates)


def ops(spec) -> list[str]:
    """Names of the ops that a kernel evaluates, movement and constants left out."""
    return [n.op.name for n in spec.body.values() if n.op.kind not in ("movement", "source")]
