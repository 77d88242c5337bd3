"""Rows of results that read the same, some of them side by side (unroll and jam).

What several rows read is read once for all of them. Where that are rows of windows which overlap,
the loop over a window's rows becomes one over all rows that the windows of a block reach, in which
each result adds those of its own window. Every result adds in the same order either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tegg.kernel.domain import Write, moved
from tegg.kernel.index import Form, Guard, Var, variable
from tegg.kernel.lane import Lanes
from tegg.kernel.registers import Registers
from tegg.kernel.value import Val, Values, reachable

_BLOCKS, _ROWS = 820_000, 820_001  # numbers of the variables of blocks and of their rows
_MOST = 64  # values of a row: of more, registers would not hold those of several
_ROWS_EACH = (4, 5, 3, 6, 7, 8, 2)  # of more a compiler makes much code, and little is read less
_LONE = (8, *_ROWS_EACH)  # of one vector: each addition waits for the one before it in its row
_SUMS = {32: 16, 16: 10}  # registers, and vectors of sums that leave room for what is added


@dataclass(frozen=True, slots=True)
class Jam:
    """``rows`` results along ``place``, whose windows' rows ``tap`` begin ``stride`` apart; without
    a ``tap`` they read the same places. copies: vectors across each."""

    place: Var
    tap: Var | None
    stride: int
    rows: int
    copies: int

    @property
    def block(self) -> Var:
        """Which block of rows it is."""
        assert isinstance(self.place.extent, int)
        return Var(self.place.extent // self.rows, _BLOCKS)

    @property
    def row(self) -> Var:
        """Which of the rows that the windows of a block reach."""
        assert self.tap is not None
        return Var((self.rows - 1) * self.stride + self.tap.extent, _ROWS)

    def order(self, vars: Sequence[Var]) -> tuple[Var, ...]:
        """The loops of the nest, where those of ``vars`` were; one over a single block is none."""
        one = self.block.extent == 1
        return tuple(self.block if v == self.place else v for v in vars
                     if v != self.place or not one)

    def writes(self, group: Sequence[Write], values: Values) -> list[Write]:
        """The writes of each row of a block."""
        return [self._moved(w, row, values) for row in range(self.rows) for w in group]

    def _moved(self, w: Write, row: int, values: Values) -> Write:
        place = {self.place: variable(self.block) * self.rows + row}
        sums = {} if self.tap is None else {
            v.id: self._sum(v, self.tap, row, values) for v in reachable(w.needs())
            if v.op == "red"}
        return moved(values, values.algebra, w, place, sums, self.order(w.vars))

    def _sum(self, v: Val, tap: Var, row: int, values: Values) -> Val:
        """A reduction over all rows of the block: its own count."""
        of_window = variable(self.row) - self.stride * row
        by = {self.place: variable(self.block) * self.rows + row, tap: of_window}
        own = Guard(of_window, 0, tap.extent - 1)
        memo: dict[int, Val] = {}
        for x in reachable(v.args):
            if x.op == "load" and tap in x.deps and self.place not in x.deps:
                load = values.substitute(x, by)
                memo[x.id] = values.load(load.attr.slot, load.dtype, load.attr.form,
                                         (own, *load.attr.guards))
        body = values.substitute(v.args[0], by, memo)
        vars = tuple(self.row if x == tap else x for x in v.attr.vars)
        return values.make("red", (body,), v.dtype, replace(v.attr, vars=vars, only=own))


def jam(writes: Sequence[Write], lanes: Lanes, vector: Var | None, copies: int) -> Jam | None:
    """How rows of a nest are put side by side, of which ``copies`` vectors across would be made at
    a time; None where rows have nothing in common."""
    vars = writes[0].vars
    values = reachable(v for w in writes for v in w.needs())
    sums = [v for v in values if v.op == "red"]
    if not sums or len(values) > _MOST or any(v.op == "scan" for v in values) or any(
            w.vars != vars or w.mode != "store" or w.ordered for w in writes):
        return None
    first = sums[0].attr
    inside = reachable(a for v in sums for a in v.args)
    if any(v.attr.vars != first.vars or v.attr.part is not None for v in sums) or any(
            v.op == "red" for v in inside):
        return None
    for tap in first.vars:
        for place in vars:
            stride = 0 if place == vector else _stride(inside, place, tap)
            if stride:
                return _sized(place, tap, stride, len(sums), lanes, copies)
    for place in vars:
        if place != vector and any(
                x.op == "load" and vector in x.deps and place not in x.deps
                and not x.deps.isdisjoint(first.vars) for x in inside):
            return _sized(place, None, 1, len(sums), lanes, copies)
    return None


def _stride(values: Sequence[Val], place: Var, tap: Var) -> int:
    """How far apart windows begin that overlap; 0 where what is read is none."""
    read = [v.attr.form for v in values if v.op == "load" and {place, tap} <= v.deps]
    if not read or not isinstance(place.extent, int) or not isinstance(tap.extent, int):
        return 0
    per_place, per_tap = (read[0].coefficient(v) for v in (place, tap))
    stride = next((s for s in range(1, tap.extent) if per_tap * s == per_place != 0), 0)
    follow = all(f.slides(place, tap, stride) if place in f.vars() else _plain(f, tap)
                 for v in values for f in v.forms())
    return stride if follow else 0


def _plain(form: Form, tap: Var) -> bool:
    """Whether a variable is in no quotient and nothing that is gathered."""
    return all(isinstance(a, Var) or tap not in Form(0, {a: 1}).vars() for a in form.terms)


def _sized(place: Var, tap: Var | None, stride: int, sums: int, lanes: Lanes,
           copies: int) -> Jam | None:
    """As many rows as divide all and leave registers for a vector across each."""
    if not isinstance(place.extent, int):
        return None
    room = _SUMS[Registers(lanes.width).count] // sums
    # Windows that begin farther apart have less in common, and lanes that skip take two registers.
    likely = _LONE if tap is None and copies == 1 else _ROWS_EACH
    for rows in likely if stride == 1 else range(2, room + 1):
        if place.extent % rows == 0 and rows <= room:
            most = room // rows if stride == 1 else 2
            return Jam(place, tap, stride, rows,
                       copies if copies <= most else 1 << most.bit_length() - 1)
    return None
