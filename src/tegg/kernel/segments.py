"""Rows that are made of pieces, such as what is concatenated or padded along them: a nest for each.

In one loop over all of a row each vector of each piece has a mask. In a loop of its own a piece is
read as it lies, and what it is not made of is not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tegg.kernel.domain import Write, all_forms
from tegg.kernel.index import Guard, Var
from tegg.kernel.value import reachable

LEAST = 32  # elements of the shortest piece: a shorter one costs a loop more than masks do
MOST = 8    # pieces


def segments(w: Write) -> tuple[Var, list[tuple[int, int]]] | None:
    """The variable along which memory is written, and the bounds of pieces of its range in each of
    which every guard that tests it alone holds everywhere or nowhere. None where that is all of it,
    where a piece is short, where the variable is yet to be divided, since guards of whole rows cost
    nothing, or where values of a row would be computed again for each."""
    along = next((v for v in w.vars if w.form.coefficient(v) == 1), None)
    values = reachable(w.needs())
    if (along is None or not isinstance(along.extent, int) or w.mode != "store" or w.ordered
            or any(v.op in ("red", "scan") for v in values)
            or any(f.divisors() for f in all_forms([w]))):
        return None
    guards = [g for v in values if v.op == "load" for g in v.attr.guards]
    guards += [g for v in values if v.op == "cond" for g in v.attr]
    inside = {n for g in guards for n in _ends(g, along) if 0 < n < along.extent}
    bounds = list(pairwise((0, *sorted(inside), along.extent)))
    if not 1 < len(bounds) <= MOST or any(b - a < LEAST for a, b in bounds):
        return None
    return along, bounds


def _ends(g: Guard, along: Var) -> Iterable[int]:
    """Where a guard that tests this variable alone begins to hold, and where it no longer does."""
    at, low, high, sign = g.form.const, g.low, g.high, g.form.coefficient(along)
    if set(g.form.terms) != {along} or sign not in (1, -1) or not (
            isinstance(at, int) and isinstance(low, int) and isinstance(high, int)):
        return ()
    return (low - at, high - at + 1) if sign == 1 else (at - high, at - low + 1)
