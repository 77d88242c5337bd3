"""The loop variables of a kernel: flat axes split where indices divide, symbolic axes merged."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tegg.dim import Dim, exact_div
from tegg.kernel.index import ZERO, Algebra, Form, Guard, Quotient, Remainder, Var, variable
from tegg.kernel.propagate import Propagation, Splits, magnitude
from tegg.kernel.value import Val, Values, reachable

MAX_ROUNDS = 12  # a split can expose another; chains of divisors are short


@dataclass(frozen=True, slots=True)
class Write:
    """Element ``form`` of a buffer becomes ``value``, for all values of ``vars``.

    mode: ``store`` replaces; ``add`` and ``max`` combine with what is there. Nothing is written
    where a guard fails. ``ordered`` variables must run in ascending order on one thread.
    """

    slot: int
    vars: tuple[Var, ...]
    form: Form
    value: Val
    guards: tuple[Guard, ...] = ()
    mode: str = "store"
    ordered: tuple[Var, ...] = ()

    def forms(self) -> tuple[Form, ...]:
        return (self.form, *(g.form for g in self.guards))

    def needs(self) -> tuple[Val, ...]:
        """The values that must be there: what is stored, and indices read by the address."""
        return tuple(dict.fromkeys((self.value, *(x for f in self.forms() for x in f.gathered()))))


Writer = Callable[[Propagation], list[Write]]


def settle(propagation: Callable[[Splits], Propagation], write: Writer,
           ) -> tuple[Propagation, list[Write]]:
    """Propagate, split flat variables at the divisors that survive, and repeat; then merge."""
    splits: Splits = {}
    for _ in range(MAX_ROUNDS):
        p = propagation(splits)
        writes = write(p)
        if not _collect(p, writes, splits):
            break
    return p, merge(p, writes)


def all_forms(writes: Iterable[Write]) -> list[Form]:
    """Every index expression of a kernel."""
    writes = list(writes)
    values = reachable(v for w in writes for v in w.needs())
    return [f for w in writes for f in w.forms()] + [f for v in values for f in v.forms()]


def _collect(p: Propagation, writes: list[Write], splits: Splits) -> bool:
    """Add the divisors of quotients and remainders that survived, apart for what is summed over: a
    sum may have as many terms as there are results. Whether there were new ones."""
    new = False
    for form in all_forms(writes):
        for atom in form.atoms():
            if isinstance(atom, (Quotient, Remainder)) and atom.form.const == 0:
                for v, k in atom.form.terms.items():
                    if isinstance(v, Var):
                        d = _divisor(atom.divisor, k)
                        for summed in p.summed.get(v, (False, True)):
                            new |= _add(splits, summed, v.extent, d)
    return new


def _divisor(d: Dim, k: Dim) -> Dim | None:
    """After how many steps of a variable, which count ``k`` each, a multiple of ``d`` is reached:
    as many where it runs backwards."""
    if isinstance(d, int) and isinstance(k, int):
        return d // math.gcd(d, k)
    return exact_div(d, k if magnitude(k) > 0 else -k)


def _add(splits: Splits, summed: bool, extent: Dim, d: Dim | None) -> bool:
    """Splits of one extent are a chain: of any two divisors, one divides the other."""
    if d is None or d in (1, extent) or d in splits.get((summed, extent), ()):
        return False
    if exact_div(extent, d) is None:
        return False
    chain = splits.setdefault((summed, extent), set())
    if all(exact_div(d, e) is not None or exact_div(e, d) is not None for e in chain):
        chain.add(d)
        return True
    return False


# ---- merging
def merge(p: Propagation, writes: list[Write]) -> list[Write]:
    """Two loops become one where every index holds them as ``k * (n * outer + inner)``."""
    while True:
        fused = next(filter(None, (_fuse(p, writes, a, b) for w in writes
                                   for a, b in itertools.permutations(w.vars, 2))), None)
        if fused is None:
            return writes
        writes = fused


def _fuse(p: Propagation, writes: list[Write], outer: Var, inner: Var) -> list[Write] | None:
    if any((outer in w.vars) != (inner in w.vars) or {outer, inner} & set(w.ordered)
           for w in writes):
        return None
    values = reachable(v for w in writes for v in w.needs())
    if any(v.op == "red" and {outer, inner} & set(v.attr.vars) for v in values):
        return None
    if not all(adjacent(f, outer, inner) for f in all_forms(writes)):
        return None
    extent, k = outer.extent * inner.extent, 0
    taken = {v for w in writes for v in w.vars} | {v for x in values for v in x.deps}
    while Var(extent, k) in taken:
        k += 1
    by = {outer: ZERO, inner: variable(Var(extent, k))}
    return [_renamed(p, w, by, outer, inner, Var(extent, k)) for w in writes]


def adjacent(form: Form, outer: Var, inner: Var) -> bool:
    """Whether a form holds two variables as one, ``k * (n * outer + inner)``, or neither."""
    return (form.coefficient(outer) == form.coefficient(inner) * inner.extent
            and all(adjacent(a.form, outer, inner) for a in form.terms
                    if isinstance(a, (Quotient, Remainder))))


def _renamed(p: Propagation, w: Write, by: dict[Var, Form], outer: Var, inner: Var,
             fused: Var) -> Write:
    if inner not in w.vars:
        return w
    vars = tuple(fused if v == inner else v for v in w.vars if v != outer)
    return moved(p.values, p.algebra, w, by, {}, vars)


def moved(values: Values, algebra: Algebra, w: Write, by: Mapping[Var, Form],
          memo: dict[int, Val], vars: tuple[Var, ...]) -> Write:
    """A write over other variables, by which ``by`` says what was. memo: what has been moved."""
    def value(v: Val) -> Val:
        return values.substitute(v, by, memo)

    def form(f: Form) -> Form:
        return algebra.substitute(f, by, value)

    guards = tuple(Guard(form(g.form), g.low, g.high) for g in w.guards)
    return replace(w, vars=vars, form=form(w.form), value=value(w.value), guards=guards)


def spread(vars: Sequence[Var]) -> Dim:
    """How many points variables have."""
    out: Dim = 1
    for v in vars:
        out = out * v.extent
    return out
