"""What the sums of a tile become: neighbouring columns at once where memory takes them so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.backends.simt.evaluate import Evaluator
from tegg.backends.simt.products import below
from tegg.dim import Dim, exact_div, product
from tegg.kernel.accesses import NONE, Access, Even, neighbours, wanted
from tegg.kernel.contraction_classify import Contraction, Group, Term
from tegg.kernel.domain import spread
from tegg.kernel.loops import Store
from tegg.kernel.simt import THREADS
from tegg.kernel.value import Val

_WORDS = 4  # partial sums that move at once


@dataclass(frozen=True, slots=True)
class Ends:
    """The results of one group. Names of sums may hold ``{u}``, the number of a neighbour."""

    at: Evaluator
    contraction: Contraction
    group: Group

    @property
    def index(self) -> str:
        return self.at.p.dialect.index

    @property
    def sizes(self) -> tuple[str, str, str]:
        """Batches, rows and columns."""
        c = self.contraction
        return dim(spread(c.batch)), dim(spread(c.m)), dim(spread(self.group.n))

    @property
    def points(self) -> Dim:
        c = self.contraction
        return product(tuple(spread(v) for v in (c.batch, c.m, self.group.n)))

    @property
    def needs(self) -> list[Val]:
        return list(dict.fromkeys(v for w in self.group.writes for v in w.needs()))

    def _accesses(self) -> list[Access]:
        sums = frozenset(t.sum.id for t in self.group.terms)
        found = [Access(w.form, w.guards, w.value.dtype, True, w.mode == "store")
                 for w in self.group.writes]
        return found + [Access(v.attr.form, v.attr.guards, v.dtype, False)
                        for v in below(self.needs, sums) if v.op == "load"]

    def together(self, most: int) -> tuple[int, Even]:
        """How many neighbouring columns are one access's, ``most`` at most, and where that is so
        only for some sizes, for which."""
        if not self.group.n:
            return 1, NONE
        found, v = self._accesses(), self.group.n[-1]
        for even in (NONE, wanted(found, v)):
            count = min(most, neighbours(found, v, even))
            inside = len(self.group.n) == 1 or exact_div(v.extent, count) is not None
            if count > 1 and inside and all(a.chunk(v, count, even) > 1
                                            for a in found if a.stores):
                return count, even
        return 1, NONE

    def store(self, given: Mapping[int, str], first: str, count: int, even: Even) -> None:
        """Columns from ``first`` on, a multiple of ``count``, of row ``at_m``: together, or one by
        one at an edge where only some of them are."""
        p, (_, m, n) = self.at.p, self.sizes
        with p.braces(f"if (at_m < {m})"):
            self.at.unpack("at_m", self.contraction.m)
            if count > 1:
                tests = [f"{first} + {count} <= {n}"]
                tests += sorted(f"{dim(x)} % {by} == 0" for x, by in even)
                with p.braces(f"if ({' && '.join(tests)})"):
                    self._some(given, first, count, even)
                if even or exact_div(spread(self.group.n), count) is None:
                    with p.braces("else"):
                        p.line("UNROLL")
                        with p.braces(f"for (int u = 0; u < {count}; u++)"):
                            self._one(given, f"{first} + u", n, "u")
            else:
                self._one(given, first, n, "0")

    def _some(self, given: Mapping[int, str], first: str, count: int, even: Even) -> None:
        p = self.at.p
        saved, p.even = p.even, even
        p.line(f"const {self.index} at_n = {first};")
        with p.wide(self.group.n[-1] if count > 1 else None, count):
            self._ends(given)
        p.even = saved

    def _one(self, given: Mapping[int, str], place: str, n: str, u: str) -> None:
        p = self.at.p
        p.line(f"const {self.index} at_n = {place};")
        with p.braces(f"if (at_n < {n})"):
            self._ends({i: text.replace("{u}", u) for i, text in given.items()})

    def _ends(self, given: Mapping[int, str]) -> None:
        c, p = self.contraction, self.at.p
        self.at.unpack("at_n", self.group.n)
        self.at.ensure(self.needs, (*c.batch, *c.m, *self.group.n), given)
        p.block([Store(w) for w in self.group.writes])
        p.at.given = {}

    # ---- sums of parts of the depth
    def part(self, slots: Sequence[int], names: Sequence[str], first: str, count: int,
             word: Callable[[str], str] | None) -> None:
        """Leave this part's sums of ``count`` columns in memory. word: of a sum, where it is one of
        32 bits."""
        p, (batch, m, n) = self.at.p, self.sizes
        with p.braces(f"if (at_m < {m})"):
            p.line(f"const {self.index} left_at = ((part * {batch} + item) * {m} + at_m) * {n};")
            some = min(count, _WORDS)
            if some > 1 and word is not None:
                with p.braces(f"if ({first} + {count} <= {n} && {n} % {some} == 0)"):
                    for slot, name in zip(slots, names):
                        for u in range(0, count, some):
                            words = ", ".join(word(name.replace("{u}", str(u + i)))
                                              for i in range(some))
                            p.line(f"wide_store_{some}(b{slot} + left_at + {first} + {u}, "
                                   f"{words});")
                p.line("else")
            p.line("UNROLL")
            with p.braces(f"for (int u = 0; u < {count}; u++)"):
                for slot, name in zip(slots, names):
                    p.line(f"if ({first} + u < {n}) b{slot}[left_at + {first} + u] = "
                           f"{name.replace('{u}', 'u')};")

    def total(self, terms: Sequence[tuple[Term, int]], parts: int, letter: str) -> None:
        """The parts of each sum, always in the same order, and what the sums become."""
        p, (_, m, n) = self.at.p, self.sizes
        count, even = self.together(2 * _WORDS)
        whole = exact_div(spread(self.group.n), count) is not None
        if letter != "f" or count % _WORDS or even or not whole:
            count = 1
        kind, points = p.dialect.scalar[letter], dim(self.points)
        groups, across = (points, n) if count == 1 else (f"({x} / {count})" for x in (points, n))
        index = self.index
        with p.braces(f"for ({index} point = ({index})block_id() * {THREADS} + thread_id(); "
                      f"point < {groups}; point += ({index})block_count() * {THREADS})"):
            p.line(f"const {index} from_n = point % {across} * {count}, "
                   f"at_m = point / {across} % {m};")
            self.at.unpack(f"point / ({m} * {across})", self.contraction.batch)
            given = {}
            for t, slot in terms:
                given[t.sum.id] = f"sum{t.anchor}[{{u}}]" if count > 1 else f"sum{t.anchor}"
                p.line(f"{kind} sum{t.anchor}{f'[{count}]' if count > 1 else ''} = "
                       f"{'{}' if count > 1 else 0};")
                with p.braces(f"for (int part = 0; part < {parts}; part++)"):
                    self._add(t, slot, count, letter, f"part * {points} + point * {count}")
            self.at.unpack("at_m", self.contraction.m)
            self._some(given, "from_n", count, NONE)

    def _add(self, t: Term, slot: int, count: int, letter: str, place: str) -> None:
        """One part more."""
        p = self.at.p
        if count == 1:
            p.line(f"sum{t.anchor} = s{letter}_add(sum{t.anchor}, b{slot}[{place}]);")
        for u in range(0, count if count > 1 else 0, _WORDS):
            p.line(f"const wide_4 some{u} = wide_load_4(b{slot} + {place} + {u});")
            for i, field in enumerate("xyzw"):
                p.line(f"sum{t.anchor}[{u + i}] += sf_of(some{u}.{field});")
