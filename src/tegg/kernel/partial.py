"""Split reductions: partial results in a stage of their own, combined where the value is wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tegg.dim import Dim, hint
from tegg.dtype import DType, f32
from tegg.kernel.domain import Write, spread
from tegg.kernel.index import Form, Guard, Var, variable
from tegg.kernel.propagate import Propagation
from tegg.kernel.value import Reduction, Val, reachable

_PART, _COMBINED = 900_000, 900_001  # numbers that no loop variable has


def splittable(writes: Sequence[Write]) -> list[Val]:
    """The reductions to be made of parts now: those computed from no other one of them.

    Only what depends on no variable of a reduction around it can stand in a stage before.
    """
    values = reachable(v for w in writes for v in w.needs())
    free = frozenset(v for w in writes for v in w.vars if v not in w.ordered)
    chosen: dict[int, Val] = {}
    above: set[int] = set()
    for v in values:
        if any(a.id in chosen or a.id in above for a in v.args):
            above.add(v.id)
        elif isinstance(v.attr, Reduction) and v.attr.parts > 1 and v.deps <= free:
            chosen[v.id] = v
    return list(chosen.values())


def partial_dtype(v: Val) -> DType:
    """What partial results are stored as: halves are summed in float32."""
    return f32 if v.dtype.is_float and v.dtype.itemsize == 2 else v.dtype


def partial_size(v: Val) -> Dim:
    """Elements of the partial results of a reduction."""
    return v.attr.parts * spread(tuple(v.deps))


def partial_write(p: Propagation, v: Val, slot: int) -> Write:
    """Element ``(part, *free variables)`` of a temporary becomes the reduction of one part."""
    part = Var(v.attr.parts, _PART)
    value = p.values.reduce(v.attr.kind, v.attr.vars, v.args[0], partial_dtype(v), part=part)
    inner = _free(v)
    return Write(slot, (part, *inner), _form(p, part, inner), value)


def combined(p: Propagation, v: Val, slot: int) -> Val:
    """The reduction of the partial results."""
    part, inner = Var(v.attr.parts, _COMBINED), _free(v)
    load = p.values.load(slot, partial_dtype(v), _form(p, part, inner))
    return p.values.reduce(v.attr.kind, (part,), load, v.dtype)


def exchanged(p: Propagation, w: Write, memo: dict[int, Val]) -> Write:
    """A write with values in place of those that ``memo`` holds."""
    def form(f: Form) -> Form:
        return p.algebra.substitute(f, {}, lambda x: p.values.exchange(x, memo))

    guards = tuple(Guard(form(g.form), g.low, g.high) for g in w.guards)
    return replace(w, form=form(w.form), guards=guards, value=p.values.exchange(w.value, memo))


def _free(v: Val) -> tuple[Var, ...]:
    """The free variables, in the order in which memory is read: what is contiguous there is last,
    so that lanes along it are stored side by side."""
    loads = [x.attr.form for x in reachable(v.args) if x.op == "load"]

    def stride(x: Var) -> float:
        return min((abs(hint(k)) for form in loads if (k := form.coefficient(x)) != 0),
                   default=math.inf)

    return tuple(sorted(v.deps, key=lambda x: (-stride(x), x.number)))


def _form(p: Propagation, part: Var, inner: Sequence[Var]) -> Form:
    vars = (part, *inner)
    return p.algebra.flatten(tuple(map(variable, vars)), tuple(v.extent for v in vars))
