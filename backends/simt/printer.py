"""C-family source for devices that run blocks of threads: nests are dealt out, teams reduce."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tegg.backends.cexpr import REGISTER, Dialect, dim
from tegg.backends.simt.indices import narrow
from tegg.backends.simt.turned import print_tiles
from tegg.backends.simt.wide import WidePrinter
from tegg.kernel.code import Launch
from tegg.kernel.index import Algebra, Var
from tegg.kernel.keeping import Keeping
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Block, Fetch, Finish, Function, Keep, Let, Loop, Stmt, Store, Turn
from tegg.kernel.passes import Pass, owners, passes, spent
from tegg.kernel.simt import THREADS, WARP, Deal, deal
from tegg.kernel.value import Val

if TYPE_CHECKING:
    from tegg.backends.simt.language import SimtC


def deals(dialect: Dialect, algebra: Algebra, function: Function) -> list[Deal]:
    """The nests of a function."""
    lanes = Lanes(algebra, dialect.width)
    return [deal(s, lanes) for s in function.body if isinstance(s, Block)]


def launch(language: SimtC, algebra: Algebra, function: Function) -> Launch:
    """How a function is started: its pointers in the order of their slots, then its sizes."""
    found = deals(language.dialect, algebra, function)
    shared = 0
    if any(d.team == THREADS for d in found):
        shared = language.set_aside(_printed(language, algebra, function).kept_bytes)
    found += [d.plain for d in found if d.plain is not None]
    return Launch(THREADS, tuple(dict.fromkeys(d.points for d in found)),
                  tuple(sorted(function.buffers)), shared)


def print_kernel(language: SimtC, algebra: Algebra, function: Function) -> str:
    """A function as a kernel. The names that it uses, ``block_id()`` and so on, are the
    header's of the device."""
    p = _printed(language, algebra, function)
    head = language.head(function.name, dict(sorted(function.buffers.items())), function.symbols,
                         p.rooms, p.index, int(p.keeps))
    tiles = [f"  {language.shared} {kind} {name}[{length}];"
             for name, (kind, length) in p.tiles.items()]
    kept = language.kept(p.kept) if p.kept else ()
    return "\n".join([*head, *tiles, *kept, *p.lines, "}"]) + "\n"


def _printed(language: SimtC, algebra: Algebra, function: Function) -> SimtPrinter:
    """A printer that has printed the nests of a function."""
    dialect = language.dialect
    found = deals(dialect, algebra, function)
    if narrow(function, found):  # indices of 64 bits are slow
        dialect = replace(dialect, index="int")
    p = SimtPrinter(dialect, algebra)
    p.keeping = language.keeping
    tiles = sum(d.turned.nbytes(d.turned.loads) for d in found if d.turned)
    most = language.rows if p.keeping is None else p.keeping.most
    p.room = max(0, most - tiles) // THREADS
    p.barrier = language.barrier
    for d in found:
        p.nest(d)
    return p


class SimtPrinter(WidePrinter):
    """Prints nests for one thread. Inside of a team all its threads are at the same statement."""

    def __init__(self, dialect: Dialect, algebra: Algebra) -> None:
        super().__init__(dialect, algebra)
        self.team = 1
        self.deal: Deal | None = None
        self.dealt: frozenset[Var] = frozenset()
        self.rooms: list[str] = []  # registers that blocks reduce, by letter
        self.keeps = False          # whether threads keep values of a row
        self.room = 0               # bytes of the block's memory that a thread has left for them
        self.keeping: Keeping | None = None  # what that costs
        self.kept: dict[str, tuple[str, int]] = {}  # arrays of it: their types and lengths
        self.kept_bytes = 0
        self.barrier = ""           # the statement at which the threads of a block meet
        self.tiles: dict[str, tuple[str, int]] = {}  # memory of the block for loads that are turned
        self.brought: Mapping[int, Callable[[int], str]] = {}  # where a copy of a value is there

    @property
    def index(self) -> str:
        """The type of indices."""
        return self.dialect.index

    def nest(self, d: Deal) -> None:
        """All points of a nest, as many at a time as there are threads or teams."""
        if d.plain is None:
            self._nest(d)
            return
        tests = sorted(f"{dim(x)} % {by} == 0" for x, by in d.even)
        with self.braces(f"if ({' && '.join(tests)})"):
            self._nest(d)
        saved, self.room = self.room, 0  # one of the two has the room: what runs by far the most
        with self.braces("else"):
            self._nest(d.plain)
        self.room = saved

    def _nest(self, d: Deal) -> None:
        self.deal, self.dealt, self.even = d, frozenset(d.vars), d.even
        if d.turned is not None:
            print_tiles(self, d, self.barrier)
            return
        first, step = _points(d.team, self.dialect.index)
        sides = _last(d.loops, d.wide)
        with self.braces(f"for ({self.dialect.index} point = {first}, "
                         f"points = {self.count(d.loops, sides)}; "
                         f"point < points; point += {step})"), self._team(d.team):
            self.unpack("point", d.loops, sides)
            self.block(d.body)

    @contextmanager
    def _team(self, size: int):
        saved, self.team = self.team, size
        yield
        self.team = saved

    def own(self, name: str, v: Val, length: int) -> None:
        """Memory of the block for so many of a value; forms of a nest have the same."""
        known = self.tiles.get(name, ("", 0))[1]
        self.tiles[name] = self._type(v.dtype, False), max(known, length)

    @contextmanager
    def turned(self, places: Mapping[int, Callable[[int], str]]):
        """Inside, loads have been brought to places of the block's memory."""
        self.brought = places
        yield
        self.brought = {}

    def count(self, loops: Sequence[Loop], sides: Mapping[Var, int]) -> str:
        """How many points loops have together, of which some have ``sides`` values to each."""
        return _times([self._range(loop, sides.get(loop.var, 1))[1] for loop in loops])

    def _count(self, loop: Loop, wide: int) -> str:
        """How many groups of neighbours a loop has."""
        n = loop.var.extent
        if wide == 1:
            return dim(n)
        return str(-(-n // wide)) if isinstance(n, int) else f"(({dim(n)} + {wide - 1}) / {wide})"

    def _range(self, loop: Loop, wide: int = 1) -> tuple[str, str]:
        """The first group of a loop here, and how many there are."""
        n, share = self._count(loop, wide), self._share(loop)
        if loop.part is None or share is None:
            return "0", n
        low, high = f"({n} * {share[0]} / {share[1]})", f"({n} * ({share[0]} + 1) / {share[1]})"
        return low, f"({high} - {low})"

    def unpack(self, flat: str, loops: Sequence[Loop], sides: Mapping[Var, int],
               suffix: str = "from") -> None:
        """Loop variables from a number that counts the points of all loops. Where a point has
        several values of a loop, they begin at ``<its name>_<suffix>``."""
        inner: list[str] = []
        for loop in reversed(loops):
            side = sides.get(loop.var)
            low, count = self._range(loop, side or 1)
            text = flat
            if inner:
                text += f" / ({' * '.join(inner)})"
            if len(inner) + 1 < len(loops):
                text += f" % {count}"
            text = text if low == "0" else f"{low} + {text}"
            name = self.name(loop.var)
            name, text = (f"{name}_{suffix}", f"({text}) * {side}") if side else (name, text)
            self.line(f"const {self.dialect.index} {name} = {text};")
            inner.insert(0, count)

    def _share(self, s: Loop) -> tuple[str, str] | None:
        """A part of a reduction does its share; what threads do is dealt out instead."""
        return None if s.part is None else super()._share(s)

    # ---- statements
    def block(self, stmts: Sequence[Stmt]) -> None:
        room = self.room if self.team == THREADS else 0
        found = (passes(stmts, self.deal.shares, self.team, self.even, room,
                        self.keeping)
                 if self.deal is not None and self.at.vector is None else {})
        for at, s in enumerate(stmts):
            mine = found.get(at)
            if mine is None or s.var in self.dealt or (self.team == 1 and not mine.turns):
                self.statement(s)
            else:
                self._pass(mine)

    def _ask(self, address: str, test: str) -> None:
        """Other threads run while one waits for memory."""

    def statement(self, s: Stmt) -> None:
        assert not isinstance(s, (Keep, Fetch, Turn)), f"{s} needs scratch; threads have none"
        if isinstance(s, Loop) and s.var in self.dealt:
            self._dealt(s)
        elif isinstance(s, Let) and s.value.id in self.brought:
            self._define(s.value, self.brought[s.value.id])
        elif self.team == 1:
            super().statement(s)
        elif isinstance(s, Store):
            with self.braces(f"if ({_rank(self.team)} == 0)"):
                super().statement(s)
        elif isinstance(s, Finish):
            r = s.value
            letter = REGISTER[r.dtype.name]
            name = f"{_name(self.team)}_{self._combine(r)}_{letter}"
            if self.team == THREADS and letter not in self.rooms:
                self.rooms.append(letter)
            self._define(r, lambda u: f"{name}(a{r.id})")
        else:
            super().statement(s)

    def _dealt(self, s: Loop) -> None:
        """The body of a loop whose value is known; of its last, of several of them."""
        d = self.deal
        assert d is not None
        with self.braces(""):
            if d.wide > 1 and s is d.loops[-1]:
                self.together(s.var, d.wide, f"{self.name(s.var)}_from",
                              lambda u: self.block(s.body))
            else:
                self.block(s.body)

    def _pass(self, p: Pass) -> None:
        """Each thread of a team takes every so manieth iteration, or as many groups of neighbours.
        Of the first ones values stay in registers, of others in the block's memory: those of a
        thread lie where only it looks, a warp's side by side."""
        flat, index, team = f"q{len(self.lines)}", self.dialect.index, self.team
        rank = _rank(team)
        total = self.count(p.loops, _last(p.loops, p.count))
        for s in p.rest if p.keeps else ():
            if isinstance(s, Let) and s.value.id in p.keeps:
                self.line(f"{self._type(s.value.dtype, False)} "
                          f"k{s.value.id}[{p.turns}][{p.count}];")
        if p.turns:
            self.keeps = True
            self.line("UNROLL")
            with self.braces(f"for (int g = 0; g < {p.turns}; g++)"):
                self.line(f"const {index} {flat} = {_plus(rank, f'g * {team}')};")
                with self.braces(f"if ({flat} < {total})"), self._team(1):
                    self._iteration(p, flat, p.rest)
        if p.beyond:
            self._set_aside(p)
            self.line("UNROLL_BY(2)")
            with self.braces(f"for (int g = 0; g < {p.beyond}; g++)"):
                self.line(f"const {index} {flat} = {_plus(rank, f'(g + {p.turns}) * {team}')};")
                with self.braces(f"if ({flat} < {total})"), self._team(1):
                    self._iteration(p, flat, p.rest, lambda i, u: (
                        f"r{p.places[i]}[(g * {p.count} + {u}) * {THREADS} + thread_id()]"))
        if not p.whole:
            done = (p.turns + p.beyond) * team
            start = _plus(rank, str(done)) if done else rank
            with self.braces(f"for ({index} {flat} = {start}; {flat} < {total}; "
                             f"{flat} += {team})"), self._team(1):
                self._iteration(replace(p, keeps=frozenset(), reads=()), flat, p.body)

    def _set_aside(self, p: Pass) -> None:
        """Memory of the block for what the first pass over a row keeps."""
        for v in owners(p):
            self.kept[f"r{v.id}"] = self._type(v.dtype, False), p.beyond * p.count * THREADS
        self.room -= spent([p])
        self.kept_bytes += spent([p]) * THREADS

    def _iteration(self, p: Pass, flat: str, body: Sequence[Stmt],
                   place: Callable[[int, Any], str] = "k{}[g][{}]".format) -> None:
        """What is done for one group of neighbours. place: where kept values are, by their number
        and the neighbour's."""
        self.unpack(flat, p.loops, _last(p.loops, p.count))

        def inside(u: str | None) -> None:
            for v in p.reads:
                self._define(v, lambda c, v=v: place(v.id, c if u is None else u))
            for s in body:
                self.statement(s)
                if isinstance(s, Let) and s.value.id in p.keeps:
                    for c in self._copies_of(s.value):
                        at = c if u is None else u
                        self.line(f"{place(s.value.id, at)} = {self.ref(s.value, c)};")

        if p.count > 1:
            self.together(p.last, p.count, f"{self.name(p.last)}_from", inside)
        else:
            inside(None)


def _last(loops: Sequence[Loop], wide: int) -> dict[Var, int]:
    """The last loop, where a point has several values of it."""
    return {loops[-1].var: wide} if wide > 1 else {}


def _times(counts: Sequence[str]) -> str:
    """How many there are of all together."""
    if all(c.isdigit() for c in counts):
        return str(math.prod(map(int, counts)))
    return " * ".join(counts)


def _plus(a: str, b: str) -> str:
    return b if a == "0" else f"{a} + {b}"


def _rank(team: int) -> str:
    """The number of a thread in its team."""
    if team == 1:
        return "0"
    return "lane_id()" if team == WARP else "thread_id()"


def _name(team: int) -> str:
    return "warp" if team == WARP else "block"


def _points(team: int, index: str) -> tuple[str, str]:
    """The first point of this thread or its team, and the distance to its next."""
    if team == THREADS:
        return "block_id()", "block_count()"
    if team == 1:
        return (f"({index})block_id() * {THREADS} + thread_id()",
                f"({index})block_count() * {THREADS}")
    warps = THREADS // WARP
    return (f"({index})block_id() * {warps} + thread_id() / {WARP}",
            f"({index})block_count() * {warps}")
