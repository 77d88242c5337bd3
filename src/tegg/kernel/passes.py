"""Loops that threads share as one, and what several of them over one row have in common.

A value that a loop computes, or reads, and a later one over the same variables needs again stays in
the registers of the thread that made it: it takes the same iterations of both. So it does in memory
of its block, for rows that registers do not hold: no thread looks at what another has put there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tegg.dim import upper_bound
from tegg.kernel.accesses import NONE, Even, accesses, neighbours
from tegg.kernel.index import Var
from tegg.kernel.keeping import Keeping, Kept, Row
from tegg.kernel.loops import Accumulate, Let, Loop, Stmt, Store
from tegg.kernel.value import Val

_KEPT = 32   # registers of a thread that values of a row take, where not all of it is known to fit
_MOST = 64   # and where it is
_BYTES = 4   # of a register


@dataclass(frozen=True, slots=True)
class Pass:
    """Iterations of loops that a team shares as one.

    count: neighbours along the last loop that a thread takes together. turns: so many iterations of
    a thread have registers for what is kept; beyond: so many more have memory of the block. whole:
    there are no others. keeps: ids of values that they leave for later passes; reads: values of
    earlier ones; places: of both, the value whose place in that memory each has. rest: the
    statements that are left then.
    """

    loops: tuple[Loop, ...]
    body: tuple[Stmt, ...]
    count: int = 1
    turns: int = 0
    beyond: int = 0
    whole: bool = False
    keeps: frozenset[int] = frozenset()
    reads: tuple[Val, ...] = ()
    places: Mapping[int, int] = field(default_factory=dict)
    rest: tuple[Stmt, ...] = ()

    @property
    def last(self) -> Var:
        return self.loops[-1].var


def chain(loop: Loop, shares: Callable[[Loop], bool]) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
    """Loops that a team shares as one, and what each iteration of all of them does."""
    loops, body = [loop], loop.body
    before: list[Stmt] = []
    while body and isinstance(body[-1], Loop) and shares(body[-1]) and all(
            isinstance(s, Let) and s.value.op != "scan" for s in body[:-1]):
        before += body[:-1]
        loops.append(body[-1])
        body = body[-1].body
    return tuple(loops), (*before, *body)


def straight(body: Sequence[Stmt]) -> bool:
    """Whether all that is done is computed, summed or stored, nothing carried along."""
    return all(isinstance(s, (Let, Accumulate, Store))
               and not (isinstance(s, Let) and s.value.op == "scan") for s in body)


def passes(stmts: Sequence[Stmt], shares: Callable[[Loop], bool], team: int,
           even: Even = NONE, room: int = 0, keeping: Keeping | None = None) -> dict[int, Pass]:
    """The loops among some statements that a team shares, by their position. room: bytes of memory
    that each thread of the team has for what is kept, beside its registers. keeping: prices
    by which is chosen where that stays; without them it stays wherever it fits."""
    found = {at: Pass(*chain(s, shares)) for at, s in enumerate(stmts)
             if isinstance(s, Loop) and shares(s)}
    groups: dict[tuple, list[int]] = {}
    for at, p in found.items():
        if straight(p.body):
            key = tuple((loop.var, loop.part) for loop in p.loops)
            groups.setdefault(key, []).append(at)
    for members in groups.values():
        mine = [found[at] for at in members]
        last, own = mine[0].last, {loop.var for loop in mine[0].loops}
        plain = all(last in s.value.attr.vars for p in mine for s in p.body
                    if isinstance(s, Accumulate))
        count = neighbours([a for p in mine for a in accesses(p.body)], last, even) if (
            plain and team > 1) else 1
        mine = [replace(p, count=count, rest=p.body) for p in mine]
        if len(mine) > 1:
            mine = _kept(mine, own, team, room, keeping)
            room -= spent(mine)
        found.update(zip(members, mine))
    return found


def _kept(group: list[Pass], own: set[Var], team: int, room: int,
          keeping: Keeping | None) -> list[Pass]:
    """Passes over the same iterations, of which each value is made once."""
    reads: list[frozenset[int]] = []
    rests: list[tuple[Stmt, ...]] = []
    made: dict[int, Val] = {}
    first: dict[int, int] = {}  # the pass that makes a value
    for n, p in enumerate(group):
        read, rest = _needed(p.body, own, made)
        for s in rest:
            if isinstance(s, Let):
                made[s.value.id] = s.value
                first.setdefault(s.value.id, n)
        reads.append(read)
        rests.append(rest)
    until = {i: n for n, read in enumerate(reads) for i in read}  # the last pass that reads it
    live = max(sum(_registers(made[i]) for i in until if first[i] <= n < until[i])
               for n in range(len(group)))
    if not live:
        return group
    places = _places(made, first, until)
    each = sum(_BYTES * group[0].count * _registers(made[i]) for i in set(places.values()))
    kept, turns = _turns(group[0], team, live, room // each), _all_turns(group[0], team)
    if keeping is not None and kept.turns and turns and team > 1:
        bytes_ = [_bytes(p, own) for p in group]
        once = sum({i: n for found in bytes_ for i, n in found.items()}.values())
        again = sum(n for found in bytes_ for n in found.values()) - once
        moved = sum(_BYTES * group[0].count * _registers(made[i])
                    * (1 + sum(i in read for read in reads)) for i in until)
        kept = keeping.cheapest(Row(turns, group[0].count, live, each, once, again, moved, room,
                                    _MOST, _KEPT))
    if not kept.turns:
        return group
    return [replace(p, turns=kept.turns, beyond=kept.beyond, whole=kept.whole, rest=rest,
                    places=places,
                    reads=tuple(made[i] for i in sorted(read)),
                    keeps=frozenset(i for i in until if first[i] == n))
            for n, (p, read, rest) in enumerate(zip(group, reads, rests))]


def _bytes(p: Pass, own: set[Var]) -> dict[int, int]:
    """The bytes that an iteration of a pass reads, by value."""
    return {s.value.id: p.count * s.value.dtype.itemsize for s in p.body
            if isinstance(s, Let) and s.value.op == "load" and s.value.deps & own}


def _places(made: Mapping[int, Val], first: Mapping[int, int],
            until: Mapping[int, int]) -> dict[int, int]:
    """Of each kept value the one whose place it takes: one of its dtype that no later pass reads
    than the one which makes it, or itself. An iteration reads all before it keeps anything."""
    out: dict[int, int] = {}
    free: dict[int, int] = {}  # a place, and the last pass that reads what is there
    for i in sorted(until, key=lambda i: (first[i], i)):
        found = next((r for r, last in free.items() if last <= first[i]
                      and made[r].dtype is made[i].dtype), i)
        out[i], free[found] = found, until[i]
    return out


def _registers(v: Val) -> int:
    """Registers of 32 bits that a value takes."""
    return max(1, v.dtype.itemsize // 4)


def _needed(body: Sequence[Stmt], own: set[Var], made: dict[int, Val],
            ) -> tuple[frozenset[int], tuple[Stmt, ...]]:
    """What a pass reads of what has been made, and the statements that it still needs."""
    lets = {s.value.id: s for s in body if isinstance(s, Let)}
    todo = [v for s in body for v in (s.needs() if isinstance(s, Accumulate) else
                                      s.write.needs() if isinstance(s, Store) else ())]
    read: set[int] = set()
    seen: set[int] = set()
    while todo:
        v = todo.pop()
        if v.id in seen or v.id not in lets:
            continue
        seen.add(v.id)
        if v.id in made and v.deps & own:
            read.add(v.id)
        else:
            todo.extend(lets[v.id].needs())
    rest = tuple(s for s in body if not isinstance(s, Let)
                 or (s.value.id in seen and s.value.id not in read))
    return frozenset(read), rest


def owners(p: Pass) -> list[Val]:
    """The values that a pass keeps in places which they are the first to take."""
    return [s.value for s in p.rest if isinstance(s, Let) and s.value.id in p.keeps
            and p.places[s.value.id] == s.value.id]


def spent(group: Sequence[Pass]) -> int:
    """Bytes of the block's memory that a thread has what these passes keep in."""
    return sum(p.beyond * p.count * _BYTES * _registers(v) for p in group for v in owners(p))


def _all_turns(p: Pass, team: int) -> int | None:
    """How many iterations a thread of a team has at most, if that is known."""
    tops = [top for loop in p.loops if (top := upper_bound(loop.var.extent)) is not None]
    if len(tops) < len(p.loops):
        return None
    return -(-math.prod(tops[:-1]) * -(-tops[-1] // p.count) // team)


def _turns(p: Pass, team: int, live: int, fits: int) -> Kept:
    """How many iterations of a thread have registers, how many more, of the ``fits`` that could,
    memory of the block, and whether these are all. Of rows of no known length none have memory:
    most could be short, and what is set aside keeps other blocks out."""
    if any(loop.part is not None for loop in p.loops):
        return Kept(0, 0, False)
    turns = _all_turns(p, team)
    most, some = (n // (p.count * live) for n in (_MOST, _KEPT))
    if turns is not None and turns <= (most if team > 1 else some):
        return Kept(turns, 0, True)
    if team == 1:
        return Kept(0, 0, False)
    if turns is None:
        return Kept(some, 0, False)
    if turns - most <= fits:
        return Kept(most, turns - most, True)
    return Kept(some, fits, False)
