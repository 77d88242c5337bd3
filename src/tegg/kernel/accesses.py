"""What one thread moves at once: neighbours that lie side by side, up to 16 bytes an access."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tegg.dim import Dim, exact_div, hint
from tegg.dtype import DType
from tegg.kernel.domain import spread
from tegg.kernel.index import Form, Guard, Var
from tegg.kernel.loops import Let, Stmt, Store

WIDEST = 16   # bytes of the widest access
LEAST = 4     # and of one that is worth its words
_MOST = 32    # bytes of the neighbours that a thread has of the largest dtype

# Dims that are multiples of a number, which a kernel finds out as it runs.
Even = frozenset[tuple[Dim, int]]
NONE: Even = frozenset()


@dataclass(frozen=True, slots=True)
class Access:
    """A load or a store of a loop's body."""

    form: Form
    guards: tuple[Guard, ...]
    dtype: DType
    stores: bool
    plain: bool = True  # replaces what is there, or reads it

    def along(self, v: Var) -> bool:
        """Whether neighbours of a loop lie side by side."""
        return (self.plain and self.form.terms.get(v) == 1
                and not any(v in Form(0, {a: 1}).vars() for a in self.form.terms if a != v)
                and not any(v in g.form.vars() for g in self.guards))

    @property
    def area(self) -> int:
        """How many places there are to read, or to write."""
        return hint(spread(tuple(self.form.vars())))

    def others(self, v: Var) -> list[Dim]:
        """What else the address adds up from, in whole numbers of these."""
        return [k for k in (self.form.const, *(k for a, k in self.form.terms.items() if a != v))
                if k != 0]

    def chunk(self, v: Var, count: int, even: Even = NONE) -> int:
        """How many of ``count`` neighbours one access moves, where the first is a multiple of
        ``count``; 1 where that is less than a word."""
        if not self.along(v):
            return 1
        n = min(count, WIDEST // self.dtype.itemsize)
        while n > 1 and not all(multiple(k, n, even) for k in self.others(v)):
            n //= 2
        return n if n * self.dtype.itemsize >= LEAST else 1


def multiple(x: Dim, n: int, even: Even = NONE) -> bool:
    """Whether a dim is known to be a multiple of n."""
    return exact_div(x, n) is not None or any(d == x and by % n == 0 for d, by in even)


def accesses(stmts: Iterable[Stmt]) -> list[Access]:
    """The loads and stores of straight code."""
    out = []
    for s in stmts:
        if isinstance(s, Store):
            w = s.write
            out.append(Access(w.form, w.guards, w.value.dtype, True, w.mode == "store"))
        elif isinstance(s, Let) and s.value.op == "load":
            a = s.value.attr
            out.append(Access(a.form, a.guards, s.value.dtype, False))
    return out


def neighbours(found: Sequence[Access], v: Var, even: Even = NONE) -> int:
    """How many neighbours along a loop are one thread's: as many as one access moves of what most
    is moved of."""
    along = [a for a in found if a.along(v)]
    if not along:
        return 1
    most = _most(along)
    while isinstance(v.extent, int) and most > max(1, v.extent):
        most //= 2
    area = max(a.area for a in along)
    return max(a.chunk(v, most, even) for a in along if a.area == area)


def _most(along: Sequence[Access]) -> int:
    """How many neighbours of all these dtypes a thread has at most."""
    sizes = [a.dtype.itemsize for a in along]
    return max(1, min(WIDEST // min(sizes), _MOST // max(sizes)))


def wanted(found: Sequence[Access], v: Var) -> Even:
    """The dims that would have to be multiples for all that lies side by side to move whole."""
    along = [a for a in found if a.along(v)]
    if not along:
        return NONE
    most = _most(along)
    return frozenset((k, most) for a in along for k in a.others(v)
                     if not isinstance(k, int) and exact_div(k, most) is None)
