"""The sums of products of few rows: who has which columns, and what is read at once."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tegg.backends.cexpr import REGISTER, dim
from tegg.backends.simt.ends import Ends
from tegg.backends.simt.evaluate import NEIGHBOURS, Evaluator, follows, together
from tegg.backends.simt.templates import register
from tegg.dim import exact_div
from tegg.kernel.accesses import NONE
from tegg.kernel.contraction_classify import Contraction, Group, Term
from tegg.kernel.domain import spread
from tegg.kernel.simt import THREADS, WARP

_STEP = 4       # terms of a sum that it takes at once where they do not lie side by side
_AHEAD = 4      # steps of the depth whose loads are under way at once
_WARPS = THREADS // WARP


@dataclass(frozen=True, slots=True)
class Room:
    """An array that a block shares: its declaration, and bytes."""

    text: str
    size: int


@dataclass(slots=True)
class RowSums:
    """The results of one group, ``rows`` rows at a time. rooms: what its blocks share, of all
    groups."""

    contraction: Contraction
    group: Group
    at: Evaluator
    rows: int
    rooms: list[Room]

    def write(self) -> tuple[Any, int]:
        """The code; gives the points that are dealt out, and how many a block takes at a time."""
        c = self.contraction
        down = _ceiling(spread(c.m), self.rows)
        inner, column = (c.k or (None,))[-1], (self.group.n or (None,))[-1]
        if all(follows(t.b, inner, column) for t in self.group.terms):
            self._along()
            return spread(c.batch) * down * spread(self.group.n), _WARPS
        self._across()
        return spread(c.batch) * down * _ceiling(spread(self.group.n), WARP), 1

    @property
    def letter(self) -> str:
        return REGISTER[register(self.group.terms[0].sum.dtype).name]

    @property
    def type(self) -> str:
        return self.at.language.dialect.scalar[self.letter]

    @property
    def ends(self) -> Ends:
        return Ends(self.at, self.contraction, self.group)

    def _sizes(self) -> tuple[str, str, str]:
        c = self.contraction
        return dim(spread(c.batch)), dim(spread(c.m)), dim(spread(self.group.n))

    def _tile(self, columns: str) -> str:
        """Where a tile of rows and one or more columns begins; how many tiles there are."""
        p, (batch, m, _), r = self.at.p, self._sizes(), self.rows
        p.line(f"const {p.index} down = ({m} + {r - 1}) / {r}, wide = {columns};")
        return f"{batch} * down * wide"

    def _at(self) -> None:
        p, c = self.at.p, self.contraction
        self.at.unpack("tile / (down * wide)", c.batch)
        p.line(f"const {p.index} m_from = tile / wide % down * {self.rows};")

    # ---- memory is contiguous along the depth: a warp for each column
    def _along(self) -> None:
        p = self.at.p
        with p.braces(""):
            tiles = self._tile(self._sizes()[2])
            with p.braces(f"for ({p.index} tile = ({p.index})block_id() * {_WARPS} + "
                          f"thread_id() / {WARP}; tile < {tiles}; "
                          f"tile += ({p.index})block_count() * {_WARPS})"):
                self._at()
                p.line(f"const {p.index} column = tile % wide;")
                for t in self.group.terms:
                    p.line(f"{self.type} sums{t.anchor}[{self.rows}] = {{}};")
                    self._column(t)
                for t in self.group.terms:
                    p.line(f"{self.type} sum{t.anchor} = 0;")
                    p.line("UNROLL")
                    with p.braces(f"for (int r = 0; r < {self.rows}; r++)"):
                        p.line(f"const {self.type} all = "
                               f"warp_add_{self.letter}(sums{t.anchor}[r]);")
                        p.line(f"if (lane_id() == r) sum{t.anchor} = all;")
                p.line(f"const {p.index} at_m = m_from + lane_id();")
                with p.braces(f"if (lane_id() < {self.rows})"):
                    self.ends.store({t.sum.id: f"sum{t.anchor}" for t in self.group.terms},
                                    "column", 1, NONE)

    def _column(self, t: Term) -> None:
        """Each lane takes every so manieth group of neighbours of the depth."""
        p, depth = self.at.p, self.contraction.depth
        step = together([t.a, t.b], self.contraction.k)
        p.line(f"UNROLL_BY({_AHEAD})")
        with p.braces(f"for ({p.index} k_from = lane_id() * {step}; k_from < {dim(depth)}; "
                      f"k_from += {WARP * step})"):
            ragged = exact_div(depth, step) is None
            with p.braces(f"if (k_from + {step} <= {dim(depth)})" if ragged else ""):
                self._step(t, step, "k_from")
            if ragged:
                with p.braces("else"), p.braces(f"for ({p.index} k_one = k_from; "
                                                f"k_one < {dim(depth)}; k_one++)"):
                    self._step(t, 1, "k_one")

    def _step(self, t: Term, step: int, place: str) -> None:
        """``step`` neighbours of the depth, of one column and all rows."""
        c, p = self.contraction, self.at.p
        self._depth(place)
        self.at.unpack("column", self.group.n)
        with p.wide(c.k[-1] if step > 1 else None, step):
            self.at.ensure([t.b], (*c.batch, *self.group.n, *c.k))
            for u in range(step):
                p.line(f"const {self.type} y{u} = {p.ref(t.b, u)};")
            with self._each_row():
                self.at.ensure([t.a], (*c.batch, *c.m, *c.k))
                for u in range(step):
                    p.line(self._more(f"sums{t.anchor}[r]", p.ref(t.a, u), f"y{u}"))

    def _depth(self, place: str) -> None:
        """The loop variables of a place of the depth."""
        self.at.p.line(f"const {self.at.p.index} at_k = {place};")
        self.at.unpack("at_k", self.contraction.k)

    @contextmanager
    def _each_row(self):
        """A loop over the rows ``r`` that there are."""
        p = self.at.p
        _, m, _ = self._sizes()
        p.line("UNROLL")
        with p.braces(f"for (int r = 0; r < {self.rows}; r++)"):
            p.line(f"const {p.index} at_m = m_from + r;")
            with p.braces(f"if (at_m < {m})"):
                self.at.unpack("at_m", self.contraction.m)
                yield

    def _more(self, so_far: str, x: str, y: str) -> str:
        """A sum, and one product more."""
        more = (f"s{self.letter}_fma({x}, {y}, {so_far})" if self.letter in "fd" else
                f"s{self.letter}_add({so_far}, s{self.letter}_mul({x}, {y}))")
        return f"{so_far} = {more};"

    # ---- neighbours are columns: lanes side by side have them, and all others parts of the depth
    def _across(self) -> None:
        p, r, index = self.at.p, self.rows, self.at.p.index
        _, _, n = self._sizes()
        for t in self.group.terms:
            self.rooms.append(Room(
                f"{self.at.language.shared} {self.type} room{t.anchor}[{_WARPS}][{r}][{WARP}];",
                _WARPS * r * WARP * register(t.sum.dtype).itemsize))
        with p.braces(""):
            tiles = self._tile(f"({n} + {WARP - 1}) / {WARP}")
            p.line(f"const int warp = thread_id() / {WARP};")
            with p.braces(f"for ({index} tile = block_id(); tile < {tiles}; "
                          "tile += block_count())"):
                self._at()
                p.line(f"const {index} n_from = tile % wide * {WARP};")
                for t in self.group.terms:
                    with p.braces(""):
                        self._columns(t)
                p.line(self.at.language.barrier)
                self._totals()
                p.line(self.at.language.barrier)

    def _columns(self, t: Term) -> None:
        """This thread's part of the sums of its columns, and the warp's to where all see them."""
        p, r, depth = self.at.p, self.rows, self.contraction.depth
        count = together([t.b], self.group.n)
        wide = together([t.a], self.contraction.k)
        step, lanes = wide if wide > 1 else _STEP, WARP // count
        p.line(f"const {p.index} here = n_from + lane_id() % {lanes} * {count};")
        p.line(f"{self.type} sums{t.anchor}[{r}][{count}] = {{}};")
        first = f"(warp * {count} + lane_id() / {lanes}) * {step}"
        with p.braces(f"for ({p.index} k_from = {first}; k_from < {dim(depth)}; "
                      f"k_from += {_WARPS * count * step})"):
            n = spread(self.group.n)
            tests = [f"{place} + {by} <= {dim(all_)}" for place, by, all_, known in (
                ("here", count, n, WARP), ("k_from", step, depth, step))
                if exact_div(all_, known) is None]
            with p.braces(f"if ({' && '.join(tests)})" if tests else ""):
                self._terms(t, count, step, wide)
            if exact_div(n, count) is None or exact_div(depth, step) is None:
                with p.braces("else"):
                    self._single_terms(t, count, step)
        self._to_room(t, count)

    def _terms(self, t: Term, count: int, step: int, wide: int) -> None:
        """``step`` terms of the sums of all rows and of ``count`` columns, neighbours at once."""
        c, p = self.contraction, self.at.p
        if wide > 1:
            p.line(f"{self.type} x[{self.rows}][{step}] = {{}};")
            with p.braces(""):
                self._depth("k_from")
                with p.wide(c.k[-1], step), self._each_row():
                    self.at.ensure([t.a], (*c.batch, *c.m, *c.k))
                    for u in range(step):
                        p.line(f"x[r][{u}] = {p.ref(t.a, u)};")
        p.line("UNROLL")
        with p.braces(f"for (int u = 0; u < {step}; u++)"):
            self._depth("k_from + u")
            p.line(f"const {p.index} at_n = here;")
            self.at.unpack("at_n", self.group.n)
            p.line(f"{self.type} y[{count}];")
            with p.wide(self.group.n[-1] if count > 1 else None, count):
                self.at.ensure([t.b], (*c.batch, *self.group.n, *c.k))
                for v in range(count):
                    p.line(f"y[{v}] = {p.ref(t.b, v)};")
            with self._each_row():
                x = "x[r][u]"
                if wide == 1:
                    self.at.ensure([t.a], (*c.batch, *c.m, *c.k))
                    x = p.ref(t.a)
                p.line("UNROLL")
                p.line(f"for (int v = 0; v < {count}; v++) "
                       + self._more(f"sums{t.anchor}[r][v]", x, "y[v]"))

    def _single_terms(self, t: Term, count: int, step: int) -> None:
        """The same where some columns, or terms, are not there."""
        c, p = self.contraction, self.at.p
        _, _, n = self._sizes()
        p.line("UNROLL")
        with p.braces(f"for (int v = 0; v < {count}; v++)"), \
                p.braces(f"for (int u = 0; u < {step}; u++)"), \
                p.braces(f"if (here + v < {n} && k_from + u < {dim(c.depth)})"):
            self._depth("k_from + u")
            p.line(f"const {p.index} at_n = here + v;")
            self.at.unpack("at_n", self.group.n)
            self.at.ensure([t.b], (*c.batch, *self.group.n, *c.k))
            p.line(f"const {self.type} y = {p.ref(t.b)};")
            with self._each_row():
                self.at.ensure([t.a], (*c.batch, *c.m, *c.k))
                p.line(self._more(f"sums{t.anchor}[r][v]", p.ref(t.a), "y"))

    def _to_room(self, t: Term, count: int) -> None:
        """The sums of a warp's columns, joined over its lanes, always in the same order."""
        p, lanes = self.at.p, WARP // count
        p.line("UNROLL")
        with p.braces(f"for (int r = 0; r < {self.rows}; r++)"):
            p.line("UNROLL")
            with p.braces(f"for (int v = 0; v < {count}; v++)"):
                mine = f"sums{t.anchor}[r][v]"
                if count > 1:
                    p.line(f"for (int d = {lanes}; d < {WARP}; d *= 2) {mine} = "
                           f"s{self.letter}_add({mine}, across({mine}, d));")
                to = f"room{t.anchor}[warp][r][lane_id() % {lanes} * {count} + v] = {mine};"
                p.line(to if count == 1 else f"if (lane_id() / {lanes} == v) {to}")

    def _totals(self) -> None:
        """What the warps have summed, always in the same order, and what it becomes: neighbours
        of memory at once."""
        p, ends = self.at.p, self.ends
        count, even = ends.together(NEIGHBOURS)
        per = WARP // count
        with p.braces(f"for (int e = thread_id(); e < {self.rows * per}; e += {THREADS})"):
            p.line(f"const {p.index} at_m = m_from + e / {per}, "
                   f"from_n = n_from + e % {per} * {count};")
            given = {}
            for t in self.group.terms:
                given[t.sum.id] = f"sum{t.anchor}[{{u}}]"
                room = f"room{t.anchor}[{{}}][e / {per}][e % {per} * {count} + u]"
                p.line(f"{self.type} sum{t.anchor}[{count}];")
                p.line("UNROLL")
                with p.braces(f"for (int u = 0; u < {count}; u++)"):
                    p.line(f"sum{t.anchor}[u] = {room.format(0)};")
                    p.line(f"for (int w = 1; w < {_WARPS}; w++) sum{t.anchor}[u] = "
                           f"s{self.letter}_add(sum{t.anchor}[u], {room.format('w')});")
            ends.store(given, "from_n", count, even)


def _ceiling(n: Any, by: int) -> Any:
    """At least ``n / by``; of a symbolic size n itself, where that is the least that is known."""
    return -(-n // by) if isinstance(n, int) else n
