"""Whether all that a function counts and addresses fits 32 bits, in which most GPUs are faster."""

from __future__ import annotations

from collections.abc import Iterator

from tegg.dim import Dim, product, upper_bound
from tegg.kernel.contraction_classify import Contraction
from tegg.kernel.domain import spread
from tegg.kernel.index import Form, Gathered, Remainder, Var
from tegg.kernel.loops import Function, Let, Loop, Store, walk
from tegg.kernel.simt import Deal
from tegg.kernel.value import Val, reachable

_EDGE = 128  # rows or columns of the largest tile
_MOST = 1 << 30  # room for a step beyond the end, and for sums of two


def narrow(function: Function, deals: list[Deal]) -> bool:
    """Whether 32 bits hold every index, and every step on the way to it."""
    counts = [product((*d.counts, 4)) for d in deals]
    for s, around in walk(function.body):
        if isinstance(s, Loop):
            counts.append(product((*(loop.var.extent for loop in (*around, s)),
                                   s.part.extent + 1 if s.part is not None else 1)))
    return (all(_least(c) < _MOST for c in counts)
            and all(_reach(f) < _MOST for f in _forms(function)))


def narrow_products(c: Contraction) -> bool:
    """The same of a contraction that is made in tiles or by rows."""
    counts = [product((spread(c.batch), spread(c.m) + _EDGE, spread(g.n) + _EDGE))
              for g in c.groups]
    values = reachable([c.a, *(t.b for g in c.groups for t in g.terms),
                        *(v for g in c.groups for w in g.writes for v in w.needs())])
    forms = [f for v in values for f in _forms_of(v)]
    forms += [f for g in c.groups for w in g.writes for f in w.forms()]
    return (all(_least(n) < _MOST for n in (*counts, c.depth))
            and all(_reach(f) < _MOST for f in forms))


def _forms(function: Function) -> Iterator[Form]:
    """Every index form that is printed."""
    for s, _ in walk(function.body):
        if isinstance(s, Store):
            yield from s.write.forms()
        elif isinstance(s, Let):
            yield from _forms_of(s.value)


def _forms_of(v: Val) -> Iterator[Form]:
    """Index forms of one value."""
    if v.op == "load":
        yield v.attr.form
        yield from (g.form for g in v.attr.guards)
    elif v.op == "index":
        yield v.attr
    elif v.op == "cond":
        yield from (g.form for g in v.attr)


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
