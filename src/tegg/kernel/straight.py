"""Where a gathered index runs straight: a linear form that it equals while some guards hold.

What pads read, and what parts of unequal length read, is a run of neighbours almost everywhere.
Printers ask for such a run in a vector, and gather where a vector meets an end of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tegg.bits import value_of
from tegg.dim import Dim, Poly, evaluate, symbols
from tegg.dtype import i64
from tegg.kernel.index import Algebra, Form, Gathered, Guard, Var
from tegg.kernel.lane import Lanes
from tegg.kernel.positions import number
from tegg.kernel.value import Val

_DEPTH = 24       # operations between an index and its loop variables
_STEEP = 1 << 20  # what an index grows by from lane to lane
END = 2 ** 63 - 1


@dataclass(frozen=True, slots=True)
class Straight:
    """``form`` is the index wherever all guards hold: ``END`` bounds nothing."""

    form: Form
    guards: tuple[Guard, ...] = ()

    def where(self, form: Form, low: Dim, high: Dim = END) -> Straight:
        """The same under one more condition."""
        return Straight(self.form, (*self.guards, Guard(form, low, high)))


@dataclass(slots=True)
class Runs:
    """Finds the straight piece of indices along ``var``.

    known: whether a value that does not follow ``var`` has a name where printing stands.
    """

    algebra: Algebra
    var: Var
    known: Callable[[Val], bool]

    def clamped(self, a: Gathered) -> Straight | None:
        """The longest straight piece of a gathered index, inside of its axis if it is clamped."""
        found = self._of(a.value, 0) if a.value.dtype is i64 else None
        if found is None or not a.clamped:
            return found
        return found.where(found.form, 0, a.extent - 1)

    def _of(self, v: Val, depth: int) -> Straight | None:
        if v.op in ("const", "size"):
            n = number(v)
            return None if n is None else Straight(Form(n))
        if v.op == "index" and not v.attr.gathered():
            return Straight(v.attr)
        if self.var not in v.deps:
            return Straight(Form(0, {Gathered(v, 0, clamped=False): 1})) if self.known(v) else None
        rule = _RULES.get(v.op)
        if rule is None or v.dtype is not i64 or depth > _DEPTH:
            return None
        return rule(self, v, depth + 1)

    def _sum(self, v: Val, depth: int) -> Straight | None:
        a, b = (self._of(x, depth) for x in v.args)
        if a is None or b is None:
            return None
        return Straight(a.form + b.form * (-1 if v.op == "Sub" else 1), a.guards + b.guards)

    def _negated(self, v: Val, depth: int) -> Straight | None:
        a = self._of(v.args[0], depth)
        return None if a is None else Straight(a.form * -1, a.guards)

    def _scaled(self, v: Val, depth: int) -> Straight | None:
        for x, y in (v.args, v.args[::-1]):
            if y.op == "const" and abs(n := int(value_of(y.attr, y.dtype))) < _STEEP:
                a = self._of(x, depth)
                return None if a is None else Straight(a.form * n, a.guards)
        return None

    def _abs(self, v: Val, depth: int) -> Straight | None:
        """The side of 0 on which there is more."""
        a = self._of(v.args[0], depth)
        if a is None:
            return None
        if self._mostly(a.form):
            return a.where(a.form, 0)
        return Straight(a.form * -1, a.guards).where(a.form * -1, 0)

    def _extreme(self, v: Val, depth: int) -> Straight | None:
        a, b = (self._of(x, depth) for x in v.args)
        if a is None or b is None:
            return None
        more = self._difference(a, b) if v.op == "Maximum" else self._difference(b, a)
        if more is None:
            return None
        taken, more = (a, more) if self._mostly(more) else (b, more * -1)
        return Straight(taken.form, a.guards + b.guards).where(more, 0)

    def _select(self, v: Val, depth: int) -> Straight | None:
        """The operand that is taken at more places."""
        test, yes, no = v.args
        if test.op not in ("LessThan", "LessEqual") or test.args[0].dtype is not i64:
            return None
        a, b = (self._of(x, depth) for x in test.args)
        more = None if a is None or b is None else self._difference(b, a)
        if a is None or b is None or more is None:
            return None
        more = more + (-1 if test.op == "LessThan" else 0)
        taken = self._mostly(more)
        found = self._of(yes if taken else no, depth)
        if found is None:
            return None
        found = Straight(found.form, found.guards + a.guards + b.guards)
        return found.where(more, 0) if taken else found.where(more * -1, 1)

    def _difference(self, a: Straight, b: Straight) -> Form | None:
        """What one is larger by, where that cannot wrap."""
        if None in (*self.algebra.range(a.form), *self.algebra.range(b.form)):
            return None
        return a.form + b.form * -1

    def _mostly(self, form: Form) -> bool:
        """Whether a form is 0 or more at most of its places."""
        low, high = self.algebra.range(form)
        return low is None or high is None or _usual(high) >= -_usual(low)


def run(lanes: Lanes, form: Form, var: Var | None,
        known: Callable[[Val], bool] = lambda v: True) -> Straight | None:
    """A position whose lanes along ``var`` are neighbours while guards hold, where that is what
    gathered values in it mostly say. ``known``: as of ``Runs``."""
    inside = {a: k for a, k in form.terms.items()
              if isinstance(a, Gathered) and var in a.value.deps}
    if var is None or not inside:
        return None
    runs, out = Runs(lanes.algebra, var, known), Straight(form)
    for a, k in inside.items():
        found = runs.clamped(a)
        if found is None:
            return None
        out = Straight(out.form + found.form * k + Form(0, {a: k}) * -1,
                       out.guards + found.guards)
    steps = [lanes.coefficient(g.form, var) for g in out.guards]
    whole = all(isinstance(k, int) and abs(k) < _STEEP for k in steps)
    return out if whole and lanes.coefficient(out.form, var) == 1 else None


def _usual(d: Dim) -> int:
    """A dim, which may be negative, at the hints of its symbols."""
    return evaluate(d, {s.name: s.hint for s in symbols(d)}) if isinstance(d, Poly) else d


_RULES: dict[str, Callable[[Runs, Val, int], Straight | None]] = {
    "Add": Runs._sum, "Sub": Runs._sum, "Neg": Runs._negated, "Mul": Runs._scaled,
    "Abs": Runs._abs, "Maximum": Runs._extreme, "Minimum": Runs._extreme, "Select": Runs._select}
