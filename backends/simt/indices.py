"""Whether all that a kernel counts and addresses fits 32 bits, in which most GPUs are faster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tegg.dim import Dim, product, upper_bound
from tegg.kernel.accesses import WIDEST
from tegg.kernel.domain import Write
from tegg.kernel.index import Form, Gathered, Remainder, Var
from tegg.kernel.loops import Function, Let, Loop, Store, walk
from tegg.kernel.simt import Deal
from tegg.kernel.value import Val

_MOST = 1 << 30  # room for a step beyond the end, and for sums of two


def narrow(function: Function, deals: list[Deal]) -> bool:
    """Whether 32 bits hold every index, and every step on the way to it."""
    counts = [d.values if d.turned else product((d.values, 2 * WIDEST)) for d in deals]
    for s, around in walk(function.body):
        if isinstance(s, Loop):
            counts.append(product((*(loop.var.extent for loop in (*around, s)),
                                   s.part.extent + 1 if s.part is not None else 1)))
    return (all(_least(c) < _MOST for c in counts)
            and all(_reach(f) < _MOST for f in _forms(function))
            and all(_size(d) < _MOST for d in _sizes(function)))


def narrow_products(values: Iterable[Val], writes: Iterable[Write], counts: Iterable[Dim]) -> bool:
    """The same of tiles: what is evaluated, what is written, and how far they count."""
    sizes: list[Dim] = list(counts)
    forms: list[Form] = []
    for v in values:
        forms.extend(v.forms())
        guards = v.attr.guards if v.op == "load" else v.attr if v.op == "cond" else ()
        sizes += [d for g in guards for d in (g.low, g.high)]
        sizes += [v.attr] if v.op == "size" else []
    for w in writes:
        forms.extend(w.forms())
        sizes += [d for g in w.guards for d in (g.low, g.high)]
    return all(_size(d) < _MOST for d in sizes) and all(_reach(f) < _MOST for f in forms)


def _forms(function: Function) -> Iterator[Form]:
    """Every index form that is printed."""
    for s, _ in walk(function.body):
        if isinstance(s, Store):
            yield from s.write.forms()
        elif isinstance(s, Let) and s.value.op == "load":
            yield s.value.attr.form
            yield from (g.form for g in s.value.attr.guards)
        elif isinstance(s, Let) and s.value.op == "index":
            yield s.value.attr
        elif isinstance(s, Let) and s.value.op == "cond":
            yield from (g.form for g in s.value.attr)


def _sizes(function: Function) -> Iterator[Dim]:
    """Every size that is printed beside an index, or as a value."""
    for s, _ in walk(function.body):
        if isinstance(s, Let) and s.value.op == "size":
            yield s.value.attr
        guards = (s.write.guards if isinstance(s, Store) else () if not isinstance(s, Let) else
                  s.value.attr.guards if s.value.op == "load" else
                  s.value.attr if s.value.op == "cond" else ())
        for g in guards:
            yield from (g.low, g.high)


def _least(x: Dim) -> int:
    """The largest value of a dim, or more than fits."""
    top = upper_bound(x)
    return 2 * _MOST if top is None else top


def _reach(f: Form) -> int:
    """The largest size of any part of a sum, and of the sum itself."""
    total = _size(f.const)
    for atom, k in f.terms.items():
        total += _size(k) * _atom(atom)
    return total


def _size(x: Dim) -> int:
    return max(_least(x), _least(-1 * x))


def _atom(atom: object) -> int:
    if isinstance(atom, Var):
        return _least(atom.extent)
    if isinstance(atom, Gathered):
        return 1  # a value of 64 bits: what is multiplied with it has as many
    inside = _reach(atom.form)
    if inside >= _MOST:
        return inside
    return max(1, min(inside, _least(atom.divisor)) if isinstance(atom, Remainder) else inside)
