"""Lanes: how an index moves from one lane of a vector loop to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from tegg.dim import Dim
from tegg.kernel.index import Algebra, Form, Gathered, Quotient, Remainder, Var
from tegg.kernel.value import Val

EVERY_OTHER = ("f32", "bf16", "f16")  # dtypes of which a vector of every other element is loaded

_LANE, _BLOCK = 1_000_001, 1_000_002  # numbers that no loop variable has


@dataclass(slots=True)
class Lanes:
    """Lane coefficients for vectors of ``width`` lanes."""

    algebra: Algebra
    width: int
    _memo: dict[tuple[Form, Var], Dim | None] = field(default_factory=dict)

    def coefficient(self, form: Form, var: Var | None) -> Dim | None:
        """What a form grows by from lane to lane of a loop over ``var``; None: not linear."""
        if var is None or var not in form.vars():
            return 0
        key = (form, var)
        if key not in self._memo:
            self._memo[key] = self._coefficient(form, var)
        return self._memo[key]

    def _coefficient(self, form: Form, var: Var) -> Dim | None:
        if any(isinstance(a, Gathered) and var in a.value.deps for a in form.atoms()):
            return None
        if all(isinstance(a, Var) or var not in Form(0, {a: 1}).vars() for a in form.terms):
            return form.coefficient(var)  # it is in no division: there is nothing to prove
        n = var.extent
        blocks = max(2, -(-n // self.width)) if isinstance(n, int) else n
        lane = Var(self.width, _LANE)
        split = Form(0, {Var(blocks, _BLOCK): self.width, lane: 1})
        moved = self.algebra.substitute(form, {var: split})
        if any(isinstance(a, (Quotient, Remainder)) and lane in a.form.vars()
               for a in moved.terms):
            return None
        return moved.coefficient(lane)

    def unit(self, value: Val, var: Var) -> bool:
        """Whether a load is contiguous, forwards or backwards, in a loop over ``var``."""
        return self.coefficient(value.attr.form, var) in (1, -1)
