"""Columns that are reduced over rows which lie apart: strips of columns, some rows at a time.

Lanes are columns, and a loop over rows inside of them walks down a few vectors: each step is in
another page, and no hardware follows that. In strips of many columns memory is read along some rows
at once, whose runs hardware follows; sums so far, and what else the columns of a strip know, wait
in scratch, in the first cache. Every column adds its rows in the same order either way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from tegg.dim import hint
from tegg.kernel.index import Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import (
    Accumulate,
    Array,
    Block,
    Fetch,
    Finish,
    Keep,
    Let,
    Loop,
    Rest,
    Resume,
    Start,
    Stmt,
    Store,
    Strip,
    arrays,
    needs,
    walk,
)
from tegg.kernel.value import Val

ROWS = 8           # that are read at once: hardware follows so many runs
SCRATCH = 1 << 14  # bytes of what waits: with the rows' lines it stays in the first cache
WIDEST = 1 << 10   # columns of a strip
FAR = 1 << 19      # bytes that are walked from which they may have to come from far away
APART = 1 << 10    # bytes between rows from which a step down costs more than one along
_NUMBERS = 810_000  # of the variables of strips, which no other variable has

_Makes = Let | Fetch | Start | Accumulate | Finish


def strips(body: Sequence[Stmt], lanes: Lanes) -> tuple[Stmt, ...]:
    """The statements, with strips in place of vector loops around rows that lie apart."""
    return _cut(body, lanes, count(max((a.number for a in arrays(body)), default=0) + 1),
                count(_NUMBERS))


def _cut(body: Sequence[Stmt], lanes: Lanes, numbers: Iterator[int],
         variables: Iterator[int]) -> tuple[Stmt, ...]:
    """``numbers`` and ``variables`` name what strips need."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and s.vector:
            out.append(_Columns(s, lanes, numbers, variables).cut() if _reduces(s, lanes) else s)
        elif isinstance(s, Loop | Block):
            out.append(replace(s, body=_cut(s.body, lanes, numbers, variables)))
        else:
            out.append(s)
    return tuple(out)


def _reduces(columns: Loop, lanes: Lanes) -> bool:
    """Whether a vector loop is made of single statements and of loops over rows, all of which read
    memory that lies apart, is far and follows the lanes."""
    rows = [s for s in columns.body if isinstance(s, Loop)]
    straight = [s for s in columns.body if not isinstance(s, Loop)]
    return (bool(rows) and columns.part is None and columns.strip is None
            and hint(columns.var.extent) >= 2 * lanes.width * columns.unroll
            and all(_alone(s, columns.var) for s in straight)
            and all(_apart(r, columns.var, lanes) for r in rows))


def _alone(s: Stmt, column: Var) -> bool:
    """Whether a single statement may stand in a loop of its own: what it reduces follows the
    columns, and what it keeps has a place for each of them."""
    if isinstance(s, Start | Finish):
        return s.value.op == "red" and column in s.value.deps
    if isinstance(s, Keep | Fetch):
        return s.array.block == 1
    return isinstance(s, Let | Store) and not _scans(s)


def _apart(rows: Loop, column: Var, lanes: Lanes) -> bool:
    inner = _innermost(rows)
    if inner is None or hint(inner.var.extent) < 2 * ROWS:
        return False
    if not all(isinstance(s, Let | Accumulate) and not _scans(s) for s in inner.body):
        return False

    def far(s: Stmt) -> bool:
        if not isinstance(s, Let) or s.value.op != "load":
            return False
        form, size = s.value.attr.form, s.value.dtype.itemsize
        step = lanes.coefficient(form, inner.var)
        walked = math.prod(hint(v.extent) for v in form.vars())
        return (walked * size >= FAR and lanes.coefficient(form, column) == 1
                and (step is None or abs(hint(step)) * size >= APART))
    return any(map(far, inner.body))


def _innermost(rows: Loop) -> Loop | None:
    """The innermost of loops of which each is all that the one around it does."""
    while any(isinstance(s, Loop | Block) for s in rows.body):
        (only, *others) = rows.body
        if others or not isinstance(only, Loop) or rows.vector:
            return None
        rows = only
    return None if rows.vector or rows.step != 1 or rows.strip is not None else rows


def _scans(s: Stmt) -> bool:
    return isinstance(s, Let) and s.value.op == "scan"


@dataclass(slots=True)
class _Columns:
    """A vector loop that is cut. Its statements are parts: single ones up to a loop over rows, or
    such a loop. What one part knows and another needs waits in scratch."""

    loop: Loop
    lanes: Lanes
    numbers: Iterator[int]
    variables: Iterator[int]
    values: dict[int, Array] = field(default_factory=dict)  # value -> its scratch
    sums: dict[int, Array] = field(default_factory=dict)    # reduction -> that of its sums so far

    def cut(self) -> Loop:
        """The loop over strips."""
        free, parts = self._parts()
        values, sums = self._crossing(parts)
        block = self.lanes.width * self.loop.unroll
        size = sum(v.dtype.itemsize for v in (*values.values(), *sums.values()))
        widest = min(WIDEST, SCRATCH // max(1, size), hint(self.loop.var.extent))
        strip = Strip(Var(self.loop.var.extent, next(self.variables)),
                      max(1, widest // block) * block)
        self.values, self.sums = (
            {i: Array(next(self.numbers), v.dtype, (self.loop.var,), strip=strip)
             for i, v in found.items()} for found in (values, sums))
        body = (*free, *(self._part(p, strip) for p in parts))
        return Loop(strip.var, body, shared=self.loop.shared, step=strip.length, grain=block)

    def _parts(self) -> tuple[list[Stmt], list[tuple[Stmt, ...]]]:
        """What does not follow the lanes, which stands before them, and the parts."""
        free: list[Stmt] = []
        parts: list[tuple[Stmt, ...]] = []
        single: list[Stmt] = []
        for s in self.loop.body:
            if isinstance(s, Loop):
                parts += [tuple(single), (s,)] if single else [(s,)]
                single = []
            elif isinstance(s, Let | Fetch) and self.loop.var not in s.value.deps:
                free.append(s)
            else:
                single.append(s)
        return free, [*parts, tuple(single)] if single else parts

    def _crossing(self, parts: Sequence[Sequence[Stmt]]) -> tuple[dict[int, Val], dict[int, Val]]:
        """The values that other parts need than the one that makes them, and the reductions whose
        sums so far they do."""
        values: dict[int, Val] = {}
        sums: dict[int, Val] = {}
        made: dict[int, int] = {}     # value -> the part that makes it
        started: dict[int, int] = {}  # reduction -> the part that starts it
        for i, part in enumerate(parts):
            for s, _ in walk(part):
                values |= {v.id: v for v in needs(s) if made.get(v.id, i) != i}
                sums |= {v.id: v for v in _sums(s) if started.get(v.id, i) != i}
                if isinstance(s, Start):
                    started[s.value.id] = i
                elif isinstance(s, Let | Fetch | Finish):
                    made[s.value.id] = i
        return values, sums

    def _part(self, part: Sequence[Stmt], strip: Strip) -> Loop:
        """The loop over the columns of a strip that does one part; of rows, some at a time."""
        if not isinstance(part[0], Loop):
            return replace(self.loop, body=self._within(part), shared=False, strip=strip)
        rows = _innermost(part[0])
        assert rows is not None
        some = Strip(Var(rows.var.extent, next(self.variables)), ROWS)
        body = replace(rows, strip=some, shared=False, part=None)
        columns = replace(self.loop, body=self._within((body,)), shared=False, strip=strip)
        steps = replace(rows, var=some.var, step=ROWS, grain=1, body=(columns,))
        return _replaced(part[0], rows, steps)

    def _within(self, part: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """A part with what it takes from scratch before it and what it leaves there after it."""
        made: set[int] = set()
        begun: set[int] = set()
        taken: list[Stmt] = []
        left: dict[int, Stmt] = {}
        for s, _ in walk(part):
            for v in needs(s):
                if v.id in self.values and v.id not in made:
                    made.add(v.id)
                    taken.append(Fetch(v, self.values[v.id]))
            for v in _sums(s):
                if v.id in self.sums and v.id not in begun:
                    begun.add(v.id)
                    taken.append(Resume(v, self.sums[v.id]))
            i = s.value.id if isinstance(s, _Makes) else 0
            if isinstance(s, Start | Accumulate) and i in self.sums:
                begun.add(i)
                left[i] = Rest(s.value, self.sums[i])
            elif isinstance(s, Finish):
                left.pop(i, None)
            if isinstance(s, Let | Fetch | Finish):
                made.add(i)
                if i in self.values:
                    left[i] = Keep(s.value, self.values[i])
        return (*taken, *part, *left.values())


def _replaced(around: Loop, old: Loop, new: Loop) -> Loop:
    """Loops with another innermost one."""
    if around is old:
        return new
    (inner,) = around.body
    assert isinstance(inner, Loop)
    return replace(around, body=(_replaced(inner, old, new),))


def _sums(s: Stmt) -> Iterable[Val]:
    """The reductions whose sums so far it takes."""
    return (s.value,) if isinstance(s, Accumulate | Finish) else ()
