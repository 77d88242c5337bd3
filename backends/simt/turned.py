"""Tiles of loads that run across the stores: brought as they lie in memory, read as results do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from tegg.backends.cexpr import dim
from tegg.kernel.accesses import multiple
from tegg.kernel.index import Var
from tegg.kernel.loops import Let
from tegg.kernel.simt import THREADS, Deal
from tegg.kernel.turned import Turned, register
from tegg.kernel.value import Val

if TYPE_CHECKING:
    from tegg.backends.simt.printer import SimtPrinter

# Bytes of a line that neighbouring threads have before others have the next line, by the size of
# what they hold: so few that both ways through the tile threads meet in no bank, or two of them do.
_RUN: Mapping[int, int] = {1: 64, 4: 32, 8: 16}
_FLIGHT = 8   # accesses that a thread has under way as a tile comes
_STEPS = 2    # and results that it makes at a time


def print_tiles(p: SimtPrinter, d: Deal, barrier: str) -> None:
    """A nest, a tile of its points after the other. All threads of a block are at one tile."""
    t, index = d.turned, p.dialect.index
    assert t is not None
    for v in t.loads:
        p.own(_name(v), v, t.columns * t.pitch(v))
    with p.braces(f"for ({index} point = block_id(), points = {p.count(d.loops, t.sides)}; "
                  f"point < points; point += block_count())"):
        p.unpack("point", d.loops, t.sides, "tile")
        for v in t.loads:
            _bring(p, t, v)
        p.line(barrier)
        with p.turned({v.id: lambda u, v=v: _place(p, t, v, u) for v in t.loads}):
            run = _RUN[max(register(v) for v in t.loads)]
            _shared_out(p, t, t.along, t.across, d.wide, run, _STEPS, lambda: p.block(d.body))
        p.line(barrier)  # the next tile comes to the same memory


def _bring(p: SimtPrinter, t: Turned, v: Val) -> None:
    """What a load has of the tile, along its own lines."""
    count = t.count(v, p.even)

    def several(u: str | None = None) -> None:
        p.statement(Let(v))
        for c in range(p.at.copies):
            p.line(f"{_place(p, t, v, c)} = {p.ref(v, c)};")

    def all_of_them() -> None:
        if count == 1:
            several()
        else:
            p.together(t.across, count, f"{p.name(t.across)}_from", several)

    _shared_out(p, t, t.across, t.along, count, _RUN[register(v)], _FLIGHT, all_of_them)


def _place(p: SimtPrinter, t: Turned, v: Val, copy: int) -> str:
    """Where in memory of the block a value of the tile is, or that of a neighbour beside it."""
    def inside(x: Var) -> str:
        name = p.name(x)
        text = f"{name} - {name}_tile"
        return f"{text} + {copy}" if copy and p.at.vector == x else text

    return f"{_name(v)}[({inside(t.along)}) * {t.pitch(v)} + {inside(t.across)}]"


def _shared_out(p: SimtPrinter, t: Turned, fast: Var, slow: Var, count: int, run: int,
                at_once: int, body: Callable[[], None]) -> None:
    """``body`` for all of a tile, ``count`` neighbours along a loop to each thread. Those of a warp
    have some of a line, then of the next: all lines are read, or written, in whole sectors."""
    index, x, y = p.dialect.index, p.name(fast), p.name(slow)
    lines, steps = t.sides[slow], t.sides[fast] // count
    beside = min(steps, max(1, run // count))
    first = f"q % {beside}" if beside == steps else (
        f"(q % {beside} + q / {beside * lines} * {beside})")
    first = f"{first} * {count}" if count > 1 else first
    turns = -(-lines * steps // THREADS)
    p.line("UNROLL" if turns <= at_once else f"UNROLL_BY({at_once})")
    with p.braces(f"for (int g = 0; g < {turns}; g++)"):
        p.line(f"const int q = g * {THREADS} + thread_id();")
        p.line(f"const {index} {y} = {y}_tile + q / {beside} % {lines};")
        p.line(f"const {index} {x}{'_from' if count > 1 else ''} = {x}_tile + {first};")
        tests = [] if lines * steps % THREADS == 0 else [f"q < {lines * steps}"]
        if not multiple(slow.extent, lines):
            tests.append(f"{y} < {dim(slow.extent)}")
        if not multiple(fast.extent, t.sides[fast]):
            if count == 1:
                tests.append(f"{x} < {dim(fast.extent)}")
            elif not p.ragged(fast, count):
                tests.append(f"{x}_from < {dim(fast.extent)}")
        with p.braces(f"if ({' && '.join(tests)})") if tests else nullcontext():
            body()


def _name(v: Val) -> str:
    return f"t{v.id}"
