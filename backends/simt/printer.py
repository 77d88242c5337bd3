"""C-family source for devices that run blocks of threads: nests are dealt out, teams reduce."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tegg.backends.cexpr import REGISTER, Dialect, dim
from tegg.backends.simt.indices import narrow
from tegg.backends.simt.wide import WidePrinter
from tegg.kernel.code import Launch
from tegg.kernel.index import Algebra, Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Block, Finish, Fetch, Function, Keep, Loop, Stmt, Store, Turn
from tegg.kernel.simt import THREADS, WARP, WIDE, Deal, chain, deal, shares_wide

if TYPE_CHECKING:
    from tegg.backends.simt.language import SimtC


def deals(dialect: Dialect, algebra: Algebra, function: Function) -> list[Deal]:
    """The nests of a function."""
    lanes = Lanes(algebra, dialect.width)
    return [deal(s, lanes) for s in function.body if isinstance(s, Block)]


def launch(dialect: Dialect, algebra: Algebra, function: Function) -> Launch:
    """How a function is started: its pointers in the order of their slots, then its sizes."""
    return Launch(THREADS, tuple((d.points, d.each) for d in deals(dialect, algebra, function)),
                  tuple(sorted(function.buffers)))


def print_kernel(language: SimtC, algebra: Algebra, function: Function) -> str:
    """A function as a kernel. The names that it uses, ``block_id()`` and so on, are the
    header's of the device."""
    dialect = language.dialect
    found = deals(dialect, algebra, function)
    if language.narrows and narrow(function, found):
        dialect = replace(dialect, index="int")
    p = SimtPrinter(dialect, algebra)
    for d in found:
        p.nest(d)
    head = language.head(function.name, dict(sorted(function.buffers.items())), function.symbols,
                         p.rooms)
    return "\n".join([*head, *p.lines, "}"]) + "\n"


class SimtPrinter(WidePrinter):
    """Prints nests for one thread. Inside of a team all its threads are at the same statement."""

    def __init__(self, dialect: Dialect, algebra: Algebra) -> None:
        super().__init__(dialect, algebra)
        self.team = 1
        self.deal: Deal | None = None
        self.dealt: frozenset[Var] = frozenset()
        self.rooms: list[str] = []  # registers that blocks reduce, by letter

    @property
    def index(self) -> str:
        """The type of indices."""
        return self.dialect.index

    def nest(self, d: Deal) -> None:
        """All points of a nest, as many at a time as there are threads or teams."""
        self.deal, self.dealt = d, frozenset(loop.var for loop in d.loops)
        first, step = _points(d.team, self.dialect.index)
        with self.braces(f"for ({self.dialect.index} point = {first}, points = {dim(d.points)}; "
                         f"point < points; point += {step})"), self._team(d.team):
            self._unpack("point", d.loops, d.wide)
            with self.wide(d.loops[-1].var if d.wide else None):
                self.block(d.body)

    @contextmanager
    def _team(self, size: int):
        saved, self.team = self.team, size
        yield
        self.team = saved

    def _unpack(self, flat: str, loops: Sequence[Loop], wide: bool = False) -> None:
        """Loop variables from a number that counts the points of all loops."""
        inner: list[str] = []
        for loop in reversed(loops):
            low, count = self._range(loop)
            last = wide and loop is loops[-1]
            count = f"({count} / {WIDE})" if last else count
            text = flat
            if inner:
                text += f" / ({' * '.join(inner)})"
            if len(inner) + 1 < len(loops):
                text += f" % {count}"
            text = f"{text} * {WIDE}" if last else text if low == "0" else f"{low} + {text}"
            self.line(f"const {self.dialect.index} {self.name(loop.var)} = {text};")
            inner.insert(0, count)

    def _share(self, s: Loop) -> tuple[str, str] | None:
        """A part of a reduction does its share; what threads do is dealt out instead."""
        return None if s.part is None else super()._share(s)

    def _range(self, loop: Loop) -> tuple[str, str]:
        """The first value of a loop's variable here, and how many there are."""
        n, share = dim(loop.var.extent), self._share(loop)
        if loop.part is None or share is None:
            return "0", n
        low, high = f"({n} * {share[0]} / {share[1]})", f"({n} * ({share[0]} + 1) / {share[1]})"
        return low, f"({high} - {low})"

    def statement(self, s: Stmt) -> None:
        assert not isinstance(s, (Keep, Fetch, Turn)), f"{s} needs scratch; threads have none"
        if isinstance(s, Loop) and s.var in self.dealt:
            with self.braces(""):
                self.block(s.body)
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
        elif isinstance(s, Loop) and self.deal is not None and self.deal.shares(s):
            self._shared_loop(s, self.deal)
        else:
            super().statement(s)

    def _shared_loop(self, s: Loop, d: Deal) -> None:
        """Each thread of a team takes every so manieth iteration, or as many groups of four."""
        loops, body = chain(s, d)
        wide = shares_wide(loops[-1], body)
        flat = f"q{len(self.lines)}"
        total = " * ".join(self._range(loop)[1] for loop in loops)
        total = f"{total} / {WIDE}" if wide else total
        with self.braces(f"for ({self.dialect.index} {flat} = {_rank(self.team)}; "
                         f"{flat} < {total}; {flat} += {self.team})"), self._team(1):
            self._unpack(flat, loops, wide)
            with self.wide(loops[-1].var if wide else None):
                self.block(body)


def _rank(team: int) -> str:
    """The number of a thread in its team."""
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
