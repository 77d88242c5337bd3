"""Dims: ints, or canonical integer polynomials in named symbols, and what is known of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tegg.errors import ArgumentError, ShapeError


@dataclass(frozen=True, slots=True, order=True)
class Symbol:
    """A size that is known only when a compiled program is called: ``min <= size <= max``."""

    name: str
    min: int = 0
    max: int | None = None
    hints: tuple[int, ...] = ()

    @property
    def hint(self) -> int:
        """The size that costs assume."""
        if self.hints:
            return self.hints[0]
        top = self.max if self.max is not None and self.max <= 256 else 256
        return max(top, self.min, 1)


Monomial = tuple[Symbol, ...]


class Poly:
    """A polynomial ``{monomial: coefficient}`` that is not constant; equal means identical.

    Arithmetic with ints and other polynomials gives an int as soon as the result is constant.
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms
        self._hash = hash(frozenset(terms.items()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __reduce__(self) -> tuple:
        return (Poly, (self.terms,))

    def __add__(self, other: Dim) -> Dim:
        if not _is_dim(other):
            return self._refused(other)
        out = dict(self.terms)
        for m, c in _terms(other):
            out[m] = out.get(m, 0) + c
        return _make(out)

    __radd__ = __add__

    def __mul__(self, other: Dim) -> Dim:
        if not _is_dim(other):
            return self._refused(other)
        out: dict[Monomial, int] = {}
        for m, c in _terms(other):
            for n, d in self.terms.items():
                k = tuple(sorted(m + n))
                out[k] = out.get(k, 0) + c * d
        return _make(out)

    __rmul__ = __mul__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1 if _is_dim(other) else self._refused(other)

    def __rsub__(self, other: Dim) -> Dim:
        return self * -1 + other

    def __floordiv__(self, other: Dim) -> Dim:
        """Exact division. Raises ShapeError where it is not exact for every value."""
        q = exact_div(self, other)
        if q is None:
            raise ShapeError(f"{self} is not a multiple of {other} for every value of its symbols")
        return q

    def __pow__(self, n: int) -> Dim:
        if _is_dim(n) and isinstance(n, int) and n >= 0:
            return math.prod([self] * n)
        return self._refused(n)

    def _refused(self, other: object = 0) -> Any:
        """What no polynomial is: a tensor may know better, a number does not."""
        if not isinstance(other, (Poly, int, float, complex)):
            return NotImplemented
        raise ArgumentError(f"{self} is a size that only a call of the compiled program knows, and "
                            f"Python cannot compute with it but for +, -, *, exact // and powers; "
                            f"as a tensor it is tegg.full((), {self}, 'f32')")

    __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __rpow__ = __rfloordiv__ = _refused
    __divmod__ = __int__ = __float__ = __index__ = __round__ = __abs__ = _refused

    def __ge__(self, other: Dim) -> Claim:
        return Claim(self - other) if _is_dim(other) else NotImplemented

    def __le__(self, other: Dim) -> Claim:
        return Claim(other - self) if _is_dim(other) else NotImplemented

    def __gt__(self, other: Dim) -> Claim:
        return Claim(self - other - 1) if _is_dim(other) else NotImplemented

    def __lt__(self, other: Dim) -> Claim:
        return Claim(other - self - 1) if _is_dim(other) else NotImplemented

    def __repr__(self) -> str:
        parts = []
        for m, c in sorted(self.terms.items(), key=lambda t: (t[1] < 0, -len(t[0]), t[0])):
            names = "*".join(s.name for s in m)
            sign = {1: "", -1: "-"}.get(c, f"{c}*")
            parts.append(sign + names if m else str(c))
        return "+".join(parts).replace("+-", "-")


Dim = int | Poly
Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim ``poly >= 0``, for ``tegg.assume``; true in an ``if`` where bounds prove it."""

    poly: Dim

    def __bool__(self) -> bool:
        if NO_FACTS.nonnegative(self.poly):
            return True
        if NO_FACTS.nonnegative(-1 - self.poly):
            return False
        raise ShapeError(f"{self.poly} >= 0 depends on sizes that are known only at run time; "
                         f"give the symbols bounds, or state it with tegg.assume(...)")


def dim(name: str, min: int = 0, max: int | None = None,
        hint: int | tuple[int, ...] | None = None) -> Dim:
    """A named symbolic size. ``hint`` (or several: buckets) is what costs are judged at.

    Raises ShapeError for a bad name or bounds. A symbol with ``min == max`` is that int.
    """
    if not (isinstance(name, str) and name.isidentifier()):
        raise ShapeError(f"a dim is named by an identifier such as 's', not {name!r}")
    hints = () if hint is None else tuple(hint) if isinstance(hint, (tuple, list)) else (hint,)
    for n in (min, *(() if max is None else (max,)), *hints):
        if not isinstance(n, int):
            raise ShapeError(f"dim {name!r}: bounds and hints are ints, not {n!r}")
    if min < 0 or (max is not None and max < min):
        raise ShapeError(f"dim {name!r} needs 0 <= min <= max, not min={min}, max={max}")
    for h in hints:
        if h < min or (max is not None and h > max):
            raise ShapeError(f"dim {name!r}: hint {h} is outside {min}..{max}")
    if max is not None and min == max:
        return min
    return Poly({(Symbol(name, min, max, hints),): 1})


def _is_dim(x: object) -> bool:
    return isinstance(x, Poly) or (isinstance(x, int) and not isinstance(x, bool))


def _terms(x: Dim) -> list[tuple[Monomial, int]]:
    return list(x.terms.items()) if isinstance(x, Poly) else [((), int(x))]


def _make(terms: dict[Monomial, int]) -> Dim:
    terms = {m: c for m, c in terms.items() if c}
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return Poly(terms)


def symbols(x: Dim) -> set[Symbol]:
    """The symbols of a dim."""
    return {s for m in x.terms for s in m} if isinstance(x, Poly) else set()


def evaluate(x: Dim, sizes: Mapping[str, int]) -> int:
    """The value of a dim under ``{symbol name: size}``. Raises ShapeError for a missing one."""
    if not isinstance(x, Poly):
        return x
    try:
        return sum(c * math.prod(sizes[s.name] for s in m) for m, c in x.terms.items())
    except KeyError as e:
        raise ShapeError(f"the size of dim {e.args[0]!r} is not known here") from None


def hint(x: Dim) -> int:
    """The size that costs assume for a dim (at least 1 for a symbolic one)."""
    if not isinstance(x, Poly):
        return x
    return max(1, sum(c * math.prod(s.hint for s in m) for m, c in x.terms.items()))


def exact_div(p: Dim, q: Dim) -> Dim | None:
    """``p / q`` as a polynomial, or None where it is not one. Division by 0 gives None."""
    if isinstance(q, int):
        if q == 0 or any(c % q for _, c in _terms(p)):
            return None
        return _make({m: c // q for m, c in _terms(p)})
    out: Dim = 0
    lead_q = max(q.terms, key=_order)
    while isinstance(p, Poly):
        lead_p = max(p.terms, key=_order)
        rest = list(lead_p)
        for s in lead_q:
            if s not in rest:
                return None
            rest.remove(s)
        if p.terms[lead_p] % q.terms[lead_q]:
            return None
        factor = _make({tuple(rest): p.terms[lead_p] // q.terms[lead_q]})
        out, p = out + factor, p - factor * q
    return out if p == 0 else None


def _order(m: Monomial) -> tuple:
    return (len(m), m)


def product(dims: Shape) -> Dim:
    """The number of elements of a shape."""
    out: Dim = 1
    for d in dims:
        out = out * d
    return out


@dataclass(slots=True)
class Facts:
    """What is known of symbols beyond their bounds: claims that hold, and substitutions."""

    claims: list[Dim] = field(default_factory=list)
    equal: dict[Symbol, Dim] = field(default_factory=dict)
    _memo: dict[Dim, bool] = field(default_factory=dict)

    def assume(self, claim: Claim) -> None:
        """State ``poly >= 0``; each call of a compiled program checks it."""
        if not isinstance(claim, Claim):
            raise ShapeError(f"assume takes a claim such as n - k >= 0, not {claim!r}")
        if isinstance(claim.poly, int) and claim.poly < 0:
            raise ShapeError(f"the claim {claim.poly} >= 0 is false")
        self.claims.append(claim.poly)
        self._memo.clear()

    def same(self, a: Dim, b: Dim) -> None:
        """State ``a == b``: solved for a symbol with coefficient 1 or -1 and substituted."""
        d = self.canonical(a - b)
        if d == 0:
            return
        if isinstance(d, Poly):
            for m, c in d.terms.items():
                rest = d - _make({m: c})
                if len(m) == 1 and abs(c) == 1 and m[0] not in symbols(rest):
                    value = rest * -c
                    self.equal = {s: substitute(v, {m[0]: value}) for s, v in self.equal.items()}
                    self.equal[m[0]] = value
                    self._memo.clear()
                    return
        raise ShapeError(f"cannot use {a} == {b}: no symbol can be solved for")

    def canonical(self, x: Dim) -> Dim:
        """The dim with every stated equality substituted."""
        return substitute(x, self.equal) if self.equal and isinstance(x, Poly) else x

    def nonnegative(self, x: Dim) -> bool:
        """Whether ``x >= 0`` is proven; False means unknown."""
        x = self.canonical(x)
        if not isinstance(x, Poly):
            return x >= 0
        known = self._memo.get(x)
        if known is None:
            known = self._memo[x] = self._prove(x)
        return known

    def _prove(self, x: Poly) -> bool:
        if _by_bounds(x):
            return True
        claims = [self.canonical(c) for c in self.claims]
        claims += [bound for s in self.equal for bound in _bounds_of(s, self.equal[s])]
        scales = {1} | {abs(c) for c in x.terms.values()}
        return any(_by_bounds(x - f * k) for f in claims for k in scales) or any(
            _by_bounds(x - f - g) for f in claims for g in claims)


def _bounds_of(s: Symbol, value: Dim) -> list[Dim]:
    """A symbol that was substituted still promises its bounds."""
    return [value - s.min] + ([s.max - value] if s.max is not None else [])


def _by_bounds(x: Dim) -> bool:
    """Prove ``x >= 0`` from the bounds of its symbols alone."""
    if not isinstance(x, Poly):
        return x >= 0
    shifted: Dim = 0  # substitute s = min + s': coefficients that are all >= 0 prove it
    for m, c in x.terms.items():
        f: Dim = c
        for s in m:
            f = f * (Poly({(s,): 1}) + s.min)
        shifted = shifted + f
    if all(c >= 0 for _, c in _terms(shifted)):
        return True
    low = 0
    for m, c in x.terms.items():
        if c > 0:
            low += c * math.prod(s.min for s in m)
        else:
            tops = [s.max for s in m if s.max is not None]
            if len(tops) < len(m):
                return False
            low += c * math.prod(tops)
    return low >= 0


def substitute(x: Dim, values: Mapping[Symbol, Dim]) -> Dim:
    """The dim with symbols replaced by dims."""
    if not isinstance(x, Poly) or not symbols(x) & set(values):
        return x
    out: Dim = 0
    for m, c in x.terms.items():
        f: Dim = c
        for s in m:
            f = f * values.get(s, Poly({(s,): 1}))
        out = out + f
    return out


def upper_bound(x: Dim) -> int | None:
    """The largest value a dim can have by its symbols' bounds, or None."""
    if not isinstance(x, Poly):
        return x
    out = 0
    for m, c in x.terms.items():
        if c < 0:
            out += c * math.prod(s.min for s in m)
        else:
            tops = [s.max for s in m if s.max is not None]
            if len(tops) < len(m):
                return None
            out += c * math.prod(tops)
    return out


NO_FACTS = Facts()
