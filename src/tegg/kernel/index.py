"""Index expressions: linear forms over loop variables, quotients, remainders, gathered values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, count
from operator import mul
from typing import TYPE_CHECKING

from tegg.dim import Dim, Facts, Poly, Shape, exact_div, product

if TYPE_CHECKING:
    from tegg.kernel.value import Val


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable, ``0 <= v < extent``. Equal extent and number is the same variable."""

    extent: Dim
    number: int

    def __hash__(self) -> int:  # variables are keys everywhere, and hardly any share a number
        return self.number


@dataclass(frozen=True, slots=True)
class Quotient:
    """``floor(form / divisor)``."""

    form: Form
    divisor: Dim


@dataclass(frozen=True, slots=True)
class Remainder:
    """``form - divisor * floor(form / divisor)``."""

    form: Form
    divisor: Dim


@dataclass(frozen=True, slots=True)
class Gathered:
    """An integer value used as an index; ``clamped`` to ``0 .. extent-1``, or its user guards."""

    value: Val
    extent: Dim
    clamped: bool = True


Atom = Var | Quotient | Remainder | Gathered
Range = tuple[Dim | None, Dim | None]


class Form:
    """``const + sum(terms[atom] * atom)``; equal means the same constant and terms."""

    __slots__ = ("_hash", "const", "terms")

    def __init__(self, const: Dim, terms: Mapping[Atom, Dim] | None = None) -> None:
        self.const = const
        self.terms = {a: k for a, k in (terms or {}).items() if k != 0}
        self._hash: int | None = None  # of most it is never asked

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.const, frozenset(self.terms.items())))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Form)
                                 and self.const == other.const and self.terms == other.terms)

    def __add__(self, other: Form | Dim) -> Form:
        if not isinstance(other, Form):
            return Form(self.const + other, self.terms)
        terms = dict(self.terms)
        for a, k in other.terms.items():
            terms[a] = terms.get(a, 0) + k
        return Form(self.const + other.const, terms)

    def __mul__(self, factor: Dim) -> Form:
        return Form(self.const * factor, {a: k * factor for a, k in self.terms.items()})

    def __sub__(self, other: Form | Dim) -> Form:
        return self + other * -1

    def __repr__(self) -> str:
        return " + ".join([f"{k}*{a}" for a, k in self.terms.items()] + [str(self.const)])

    def coefficient(self, atom: Atom) -> Dim:
        """The coefficient of an atom at the top of the form."""
        return self.terms.get(atom, 0)

    def atoms(self) -> Iterator[Atom]:
        """All atoms, those inside quotients and remainders included."""
        for a in self.terms:
            yield a
            if isinstance(a, (Quotient, Remainder)):
                yield from a.form.atoms()

    def gathered(self) -> tuple[Val, ...]:
        """The values that the form reads, each once."""
        return tuple(dict.fromkeys(a.value for a in self.atoms() if isinstance(a, Gathered)))

    def divisors(self) -> tuple[Dim, ...]:
        """What quotients and remainders divide by, each once."""
        return tuple(dict.fromkeys(a.divisor for a in self.atoms()
                                   if isinstance(a, (Quotient, Remainder))))

    def vars(self) -> frozenset[Var]:
        """The loop variables that the form depends on, through gathered values too."""
        out: set[Var] = set()
        for a in self.atoms():
            if isinstance(a, Var):
                out.add(a)
            elif isinstance(a, Gathered):
                out |= a.value.deps
        return frozenset(out)

    def slides(self, place: Var, tap: Var, stride: Dim = 1, dilation: Dim = 1) -> bool:
        """Whether it depends on ``stride place + dilation tap`` only, as in a convolution."""
        return (self.coefficient(place) * dilation == self.coefficient(tap) * stride
                and all(isinstance(atom, Var) or not {place, tap} & Form(0, {atom: 1}).vars()
                        for atom in self.terms))


ZERO = Form(0)


def variable(v: Var) -> Form:
    """A loop variable as a form; the constant 0 where its loop has at most one iteration."""
    return ZERO if isinstance(v.extent, int) and v.extent <= 1 else Form(0, {v: 1})


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition ``low <= form <= high``."""

    form: Form
    low: Dim
    high: Dim


@dataclass(slots=True)
class Algebra:
    """Arithmetic of forms that needs to know what holds of symbolic sizes.

    Ranges assume that no loop is empty: a form is evaluated only inside its own loops.
    """

    facts: Facts
    _divmods: dict[tuple[Form, Dim], tuple[Form, Form]] = field(default_factory=dict)
    _ranges: dict[Form, Range] = field(default_factory=dict)

    # ---- ranges
    def range(self, form: Form) -> Range:
        """Bounds ``(low, high)`` of a form; None where nothing is known."""
        known = self._ranges.get(form)
        if known is None:
            known = self._ranges[form] = self._range(form)
        return known

    def _range(self, form: Form) -> Range:
        low: Dim | None = form.const
        high: Dim | None = form.const
        for atom, k in form.terms.items():
            lo, hi = self._atom_range(atom)
            if self.facts.nonnegative(k):
                pass
            elif self.facts.nonnegative(-1 * k):
                lo, hi = hi, lo
            else:
                lo = hi = None
            low = None if low is None or lo is None else low + k * lo
            high = None if high is None or hi is None else high + k * hi
        return low, high

    def _atom_range(self, atom: Atom) -> Range:
        if isinstance(atom, Var):
            n = atom.extent
            return 0, (n - 1 if isinstance(n, Poly) else max(n - 1, 0))
        if isinstance(atom, Gathered):
            return (0, atom.extent - 1) if atom.clamped else (None, None)
        if isinstance(atom, Remainder):
            return 0, atom.divisor - 1
        low, high = self.range(atom.form)
        return self._floor_low(low, atom.divisor), self._floor_high(high, atom.divisor)

    def _floor_low(self, low: Dim | None, d: Dim) -> Dim | None:
        if isinstance(low, int) and isinstance(d, int):
            return low // d
        return 0 if low is not None and self.facts.nonnegative(low) else None

    def _floor_high(self, high: Dim | None, d: Dim) -> Dim | None:
        if high is None:
            return None
        if isinstance(high, int) and isinstance(d, int):
            return high // d
        q = exact_div(high + 1, d)
        if q is not None:
            return q - 1
        return high if self.facts.nonnegative(high) else None

    def within(self, form: Form, low: Dim, high: Dim) -> bool:
        """Whether ``low <= form <= high`` is proven."""
        lo, hi = self.range(form)
        return (lo is not None and hi is not None and self.facts.nonnegative(lo - low)
                and self.facts.nonnegative(high - hi))

    def outside(self, guard: Guard) -> bool:
        """Whether a guard is proven to fail."""
        lo, hi = self.range(guard.form)
        return ((hi is not None and self.facts.nonnegative(guard.low - 1 - hi))
                or (lo is not None and self.facts.nonnegative(lo - guard.high - 1)))

    # ---- division
    def divmod(self, form: Form, d: Dim) -> tuple[Form, Form]:
        """Floor quotient and remainder by a positive dim, simplified as far as proofs go."""
        if d == 1:
            return form, ZERO
        key = (form, d)
        known = self._divmods.get(key)
        if known is None:
            q, r = self._divmods[key] = self._divide(form, d)  # recombining may ask again
            known = self._divmods[key] = self.recombine(q), self.recombine(r)
        return known

    def _divide(self, form: Form, d: Dim) -> tuple[Form, Form]:
        whole: dict[Atom, Dim] = {}
        rest: dict[Atom, Dim] = {}
        for atom, k in form.terms.items():
            e = exact_div(k, d)
            (rest if e is None else whole)[atom] = k if e is None else e
        qc, rc = _split(form.const, d)
        q, r = Form(qc, whole), Form(rc, rest)
        if self.within(r, 0, d - 1):
            return q, r
        found = self._by_residues(form, d, qc, rc) or self._by_gcd(q, r, d)
        return found or self._nested(q, r, d)

    def _by_residues(self, form: Form, d: Dim, qc: Dim, rc: Dim) -> tuple[Form, Form] | None:
        """(i + 100 w) mod 99 is (i + w) mod 99; residues may be taken around 0."""
        for symmetric in (False, True):
            q: dict[Atom, Dim] = {}
            r: dict[Atom, Dim] = {}
            for atom, k in form.terms.items():
                a, b = _split(k, d)
                if symmetric and isinstance(b, int) and isinstance(d, int) and b > d // 2:
                    a, b = a + 1, b - d
                q[atom], r[atom] = a, b
            rest = Form(rc, r)
            if self.within(rest, 0, d - 1):
                return Form(qc, q), rest
        return None

    def _by_gcd(self, q: Form, r: Form, d: Dim) -> tuple[Form, Form] | None:
        """g*big + small over g*d', with 0 <= small < g, is big over d'."""
        terms = {a: k for a, k in r.terms.items() if isinstance(k, int)}
        if not (isinstance(d, int) and isinstance(r.const, int) and len(terms) == len(r.terms)):
            return None
        for g in sorted({math.gcd(k, d) for k in terms.values()}, reverse=True):
            if g == 1:
                break
            big = {a: k // g for a, k in terms.items() if k % g == 0}
            small = Form(r.const % g, {a: k for a, k in terms.items() if k % g})
            if self.within(small, 0, g - 1):
                dq, dr = self.divmod(Form(r.const // g, big), d // g)
                return q + dq, dr * g + small
        return None

    def _nested(self, q: Form, r: Form, d: Dim) -> tuple[Form, Form]:
        """Quotient of a quotient, quotient and remainder of a remainder; else new atoms."""
        if r.const == 0 and len(r.terms) == 1:
            (atom, k), = r.terms.items()
            if k == 1 and isinstance(atom, Quotient):
                return (q + self.divmod(atom.form, atom.divisor * d)[0],
                        Form(0, {Remainder(r, d): 1}))
            if k == 1 and isinstance(atom, Remainder):
                inner = exact_div(atom.divisor, d)
                if inner is not None:
                    dq, dr = self.divmod(atom.form, d)
                    return q + self.divmod(dq, inner)[1], dr
        return q + Form(0, {Quotient(r, d): 1}), Form(0, {Remainder(r, d): 1})

    def recombine(self, form: Form) -> Form:
        """``d * (x / d) + x % d`` is x."""
        for atom, k in form.terms.items():
            if not isinstance(atom, Remainder):
                continue
            q = self.divmod(atom.form, atom.divisor)[0]
            if q.terms and all(form.terms.get(b) == k * atom.divisor * c
                               for b, c in q.terms.items()):
                terms = {b: c for b, c in form.terms.items() if b != atom and b not in q.terms}
                rest = Form(form.const - k * atom.divisor * q.const, terms)
                return self.recombine(rest + atom.form * k)
        return form

    # ---- shapes
    def flatten(self, index: tuple[Form, ...], shape: Shape) -> Form:
        """The row-major position of an index."""
        out, stride = ZERO, product(())
        for i, n in zip(reversed(index), reversed(shape)):
            out, stride = out + i * stride, stride * n
        return self.recombine(out)

    def unflatten(self, flat: Form, shape: Shape) -> tuple[Form, ...]:
        """The index of a row-major position."""
        out: list[Form] = []
        for axis, n in enumerate(shape):
            if n == 1:
                out.append(ZERO)
                continue
            stride = product(shape[axis + 1:])
            q = flat if stride == 1 else self.divmod(flat, stride)[0]
            out.append(q if product(shape[:axis]) == 1 else self.divmod(q, n)[1])
        return tuple(out)

    def reshaped(self, index: tuple[Form, ...], shape: Shape, to: Shape) -> tuple[Form, ...]:
        """Where what lies at an index of a shape lies in the shape ``to``.

        Axes that both shapes have, alone or together with their neighbours, are moved by
        themselves: an index outside the shape, which a pad asks for, is outside along the same
        axes of ``to``, and needs no division that nothing is proven of.
        """
        out = [ZERO] * len(to)
        for before, after in _shared_axes(shape, to):
            flat = self.flatten(tuple(index[i] for i in before), tuple(shape[i] for i in before))
            for i, form in zip(after, self.unflatten(flat, tuple(to[i] for i in after))):
                out[i] = form
        return tuple(out)

    # ---- substitution
    def substitute(self, form: Form, by: Mapping[Var, Form],
                   values: Callable[[Val], Val] | None = None) -> Form:
        """The form with variables, and the values it gathers, replaced."""
        out = Form(form.const)
        for atom, k in form.terms.items():
            out = out + self._substituted(atom, by, values) * k
        return self.recombine(out)

    def _substituted(self, atom: Atom, by: Mapping[Var, Form],
                     values: Callable[[Val], Val] | None) -> Form:
        if isinstance(atom, Var):
            return by.get(atom) or Form(0, {atom: 1})
        if isinstance(atom, Gathered):
            new = values(atom.value) if values else atom.value
            return Form(0, {Gathered(new, atom.extent, atom.clamped): 1})
        q, r = self.divmod(self.substitute(atom.form, by, values), atom.divisor)
        return q if isinstance(atom, Quotient) else r


def _shared_axes(shape: Shape, to: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Groups of axes of two shapes, as small as can be, that hold the same positions in row-major
    order; axes of size 1 are in none."""
    before, after = ([i for i, n in enumerate(s) if n != 1] for s in (shape, to))
    ends = dict(zip(accumulate((to[i] for i in after), mul), count(1)))
    i = j = 0
    for last, size in enumerate(accumulate((shape[i] for i in before), mul), 1):
        if size in ends:
            yield before[i:last], after[j:ends[size]]
            i, j = last, ends[size]
    if i < len(before) or j < len(after):
        yield before[i:], after[j:]


def _split(k: Dim, d: Dim) -> tuple[Dim, Dim]:
    """``k = q*d + r`` for some q; a proof that ``0 <= r < d`` is up to the caller."""
    if isinstance(k, int) and isinstance(d, int):
        return divmod(k, d)
    q = exact_div(k, d)
    if q is not None:
        return q, 0
    if isinstance(d, int) and isinstance(k, Poly):
        r: Dim = 0
        for m, c in k.terms.items():
            r = r + Poly({m: c % d}) if m and c % d else r + (0 if m else c % d)
        whole = exact_div(k - r, d)
        return (0, k) if whole is None else (whole, r)
    return 0, k
