"""Which keys a row sees, read off the comparisons of a mask: what lies outside is not computed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from tegg.bits import value_of
from tegg.dtype import i64
from tegg.kernel.index import Form, Var
from tegg.kernel.value import Val, Values, reachable

_FAR = 1 << 62  # sums with what is no farther away than this do not wrap
_NEGATED = {"LessThan": "LessEqual", "LessEqual": "LessThan"}  # of integers, sides exchanged


@dataclass(frozen=True, slots=True)
class Bound:
    """Scores are -inf unless ``key < value`` (``upper``), or unless ``key >= value``.

    value: an integer that depends on the batch item and the row only.
    """

    value: Val
    upper: bool


def unmasked(values: Values, scores: Val, key: Var,
             rows: frozenset[Var]) -> tuple[Val, tuple[Bound, ...]]:
    """Scores where all bounds hold, and the bounds: where one does not, scores are -inf. Tests
    that no variable of ``rows`` decides become a number that is added, the same for all rows.

    Adding -inf, or taking it where a condition fails, is what a mask does. A score of NaN or inf,
    which -inf would not hide in a sum, is outside the reals.
    """
    mask = _Mask(values, key, rows)
    return mask.inside(scores), tuple(mask.found)


@dataclass(slots=True)
class _Mask:
    """Scores without what it ``found``: bounds, in the order in which they were."""

    values: Values
    key: Var
    rows: frozenset[Var]
    found: dict[Bound, None] = field(default_factory=dict)

    def inside(self, v: Val) -> Val:
        """A value where all bounds hold that it tests."""
        make = self.values.make
        if v.op == "Select":
            return self._chosen(v)
        if v.op == "Add":
            return make("Add", tuple(map(self.inside, v.args)), v.dtype)
        if v.op == "Sub" or (v.op in ("Cast", "Held") and v.args[0].dtype.is_float):
            return make(v.op, (self.inside(v.args[0]), *v.args[1:]), v.dtype)
        if v.op == "Mul" and v.dtype.is_float and any(map(_is_positive, v.args)):
            return make("Mul", tuple(map(self.inside, v.args)), v.dtype)
        return v

    def _chosen(self, v: Val) -> Val:
        make, (test, yes, no) = self.values.make, v.args
        holds = _is_lowest(no)
        if not holds and not _is_lowest(yes):
            return v
        given = self.inside(yes if holds else no)
        parts = [list(_of(self.values, t, h, self.key)) for t, h in _parts(test, holds)]
        self.found.update(dict.fromkeys(b for part in parts for b in part))
        if all(parts):
            return given
        if not test.deps & self.rows:
            ends = [self.values.const(x, v.dtype) for x in (0, -math.inf)][::1 if holds else -1]
            return make("Add", (given, make("Select", (test, *ends), v.dtype)), v.dtype)
        return make("Select", (test, given, no) if holds else (test, yes, given), v.dtype)


def _is_positive(v: Val) -> bool:
    return v.op == "const" and 0 < value_of(v.attr, v.dtype) < math.inf


def _is_lowest(v: Val) -> bool:
    return v.op == "const" and v.dtype.is_float and value_of(v.attr, v.dtype) == -math.inf


def _parts(test: Val, holds: bool) -> Iterator[tuple[Val, bool]]:
    """A conjunction's parts: all hold. A disjunction that fails: all parts fail."""
    if test.op == "Not":
        yield from _parts(test.args[0], not holds)
    elif test.op in (("Mul", "Minimum") if holds else ("Add", "Maximum")):
        for a in test.args:
            yield from _parts(a, holds)
    else:
        yield test, holds


def _of(values: Values, test: Val, holds: bool, key: Var) -> Iterator[Bound]:
    """The bounds that a comparison is, or nothing where it is none."""
    if test.op not in _NEGATED or test.args[0].dtype.name not in ("i32", "i64"):
        return
    a, b = test.args if holds else test.args[::-1]
    strict = int((test.op if holds else _NEGATED[test.op]) == "LessThan")
    for mine, theirs, sign in ((a, b, -1), (b, a, 1)):
        if mine.op != "index" or key not in mine.attr.vars() or key in theirs.deps:
            continue
        if theirs.op == "index":
            yield from _affine(values, (mine.attr - theirs.attr) * sign - strict, None, 0, key)
        else:
            yield from _affine(values, mine.attr * sign - strict, theirs, -sign, key)


def _affine(values: Values, form: Form, other: Val | None, sign: int,
            key: Var) -> Iterator[Bound]:
    """The bound in ``form + sign * other >= 0``, where form holds the key once, by itself."""
    step = form.coefficient(key)
    rest = Form(form.const, {a: k for a, k in form.terms.items() if a != key})
    if step not in (1, -1) or key in rest.vars():
        return
    upper = step == -1  # key <= rest + other, or key >= -(rest + other)
    at = rest + 1 if upper else rest * -1
    value = values.index(at, i64)
    if other is not None:
        wide = other if other.dtype is i64 else values.make("Cast", (other,), i64)
        for op, end in (("Minimum", _FAR), ("Maximum", -_FAR)):
            wide = values.make(op, (wide, values.const(end, i64)), i64)
        if (sign > 0) != upper:
            wide = values.make("Mul", (wide, values.const(-1, i64)), i64)
        value = values.make("Add", (value, wide), i64)
    yield Bound(value, upper)


def columns(scores: Val, product: Val, key: Var, rows: frozenset[Var]) -> tuple[Val, ...]:
    """The largest numbers inside scores that take work and are the same for all rows: they can be
    computed once for each key. What the product is part of is none, even of a single row."""
    over = {product.id}
    for v in reachable([scores]):
        if any(a.id in over for a in v.args):
            over.add(v.id)
    found: dict[Val, None] = {}
    todo, seen = [scores], set()
    while todo:
        v = todo.pop()
        if v.id in seen or v is product or key not in v.deps:
            continue
        seen.add(v.id)
        if v.dtype.is_float and v.id not in over and not v.deps & rows \
                and v.op not in ("load", "index"):
            found[v] = None
        else:
            todo.extend(v.args)
    return tuple(sorted(found, key=lambda v: v.id))
