"""Computed indices as sums of positions, where that is proven: loops see what part of an index is
theirs, and what is left is a value inside of its own axis."""

from __future__ import annotations

from tegg.bits import value_of
from tegg.dim import Dim
from tegg.dtype import i64
from tegg.kernel.index import Algebra, Form, Gathered
from tegg.kernel.value import Val

_DEPTH = 8       # operations between an index and what it is made of
_MOST = 1 << 40  # constants of that size are no places, and their sums could wrap


def positions(algebra: Algebra, v: Val, n: Dim) -> Form | None:
    """The form that an index equals, if it is proven to lie inside of an axis of n: then sums and
    products that wrap on the way there change nothing."""
    form = _form(algebra, v, _DEPTH) if v.dtype is i64 else None
    return form if form is not None and algebra.within(form, 0, n - 1) else None


def _form(algebra: Algebra, v: Val, depth: int) -> Form | None:
    if v.op == "index":
        return v.attr
    known = number(v)
    if known is not None:
        return Form(known)
    clamped = _clamped(algebra, v)
    if clamped is not None:
        return Form(0, {clamped: 1})
    if depth == 0 or v.op not in ("Add", "Mul"):
        return None
    a, b = (_form(algebra, x, depth - 1) for x in v.args)
    if a is None or b is None:
        return None
    if v.op == "Add":
        return a + b
    if not a.terms:
        a, b = b, a
    return None if b.terms else a * b.const


def _clamped(algebra: Algebra, v: Val) -> Gathered | None:
    """What a value is clamped from, to 0 and something that is no less."""
    if v.op == "Minimum":
        for x, top in (v.args, v.args[::-1]):
            last, inside = number(top), _not_negative(x)
            if (inside is not None and last is not None
                    and algebra.facts.nonnegative(last)):
                return Gathered(inside, last + 1)
    return None


def _not_negative(v: Val) -> Val | None:
    """What a value is the larger one of, beside 0."""
    if v.op == "Relu":
        return v.args[0]
    if v.op == "Maximum":
        return next((x for x, low in (v.args, v.args[::-1]) if number(low) == 0), None)
    return None


def number(v: Val) -> Dim | None:
    """An integer that is known before the loops."""
    if v.op == "size":
        return v.attr
    if v.op == "const":
        n = int(value_of(v.attr, v.dtype))
        return n if abs(n) <= _MOST else None
    return None
