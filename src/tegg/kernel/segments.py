"""What is made of pieces, such as what is concatenated or padded: a nest for each.

In one loop over all of a row each vector of each piece has a mask. In a loop of its own a piece is
read as it lies, and what it is not made of is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from tegg.dim import hint, product
from tegg.ir.graph import Node
from tegg.kernel.domain import Write, all_forms
from tegg.kernel.index import Guard, Var, variable
from tegg.kernel.propagate import Propagation
from tegg.kernel.value import reachable

LEAST = 32     # elements of the shortest piece of a row: a loop for less costs more than masks
LONG = 64      # elements of a row in which shorter ones do not matter
MOST = 8       # pieces of a row
OUTER = 32     # pieces of what is joined along another axis
LARGE = 1024   # elements of each of those
NESTS = 32     # after which pieces are not cut again


def pieces(p: Propagation, slot: int, node: Node) -> list[Write]:
    """The stores of a whole node, one for each piece of what is made of several, and of each piece
    again; none where it has no element."""
    shape = p.shape(node)
    out: list[Write] = []
    todo = [] if 0 in shape else [p.bind(shape, ())]
    while todo:
        vars, index = todo.pop()
        whole = Write(slot, vars, p.algebra.flatten(index, shape), p.at(node, index))
        found = segments(whole) if len(out) + len(todo) < NESTS else None
        if found is None:
            out.append(whole)
            continue
        along, bounds = found
        fresh = 1 + max(v.number for v in vars)
        for low, high in reversed(bounds):
            piece = Var(high - low, fresh)
            at = {along: variable(piece) + low}
            todo.append((tuple(piece if v == along else v for v in vars),
                         tuple(p.algebra.substitute(i, at) for i in index)))
    return out


def segments(w: Write) -> tuple[Var, list[tuple[int, int]]] | None:
    """A variable, and the bounds of pieces of its range in each of which every guard that tests it
    alone holds everywhere or nowhere: of that along which memory is written, or of another along
    which values are joined, all of which would be asked for everywhere. None where that is all of
    it, where a piece is short, where a variable is yet to be divided, or where values of a row
    would be computed again for each."""
    along = next((v for v in w.vars if w.form.coefficient(v) == 1), None)
    values = reachable(w.needs())
    if (along is None or w.mode != "store" or w.ordered
            or any(v.op in ("red", "scan") for v in values)
            or any(f.divisors() for f in all_forms([w]))):
        return None
    guards = [v.attr.guards if v.op == "load" else v.attr for v in values
              if v.op in ("load", "cond")]
    bounds = _bounds(guards, along)
    if 1 < len(bounds) <= MOST and (hint(along.extent) >= LONG
                                    or all(b - a >= LEAST for a, b in bounds)):
        return along, bounds
    for v in w.vars:
        each = product(tuple(u.extent for u in w.vars if u is not v))
        bounds = _bounds(guards, v)
        if (v is not along and 1 < len(bounds) <= OUTER
                and sum(len(_bounds([g], v)) > 1 for g in guards) >= len(bounds)
                and all((b - a) * hint(each) >= LARGE for a, b in bounds)):
            return v, bounds
    return None


def _bounds(guards: Iterable[Sequence[Guard]], v: Var) -> list[tuple[int, int]]:
    """The pieces of a variable's range that guards cut."""
    if not isinstance(v.extent, int):
        return []
    inside = {n for each in guards for g in each for n in _ends(g, v) if 0 < n < v.extent}
    return list(pairwise((0, *sorted(inside), v.extent)))


def _ends(g: Guard, along: Var) -> Iterable[int]:
    """Where a guard that tests this variable alone begins to hold, and where it no longer does."""
    at, low, high, sign = g.form.const, g.low, g.high, g.form.coefficient(along)
    if set(g.form.terms) != {along} or sign not in (1, -1) or not (
            isinstance(at, int) and isinstance(low, int) and isinstance(high, int)):
        return ()
    return (low - at, high - at + 1) if sign == 1 else (at - high, at - low + 1)
