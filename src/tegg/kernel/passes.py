"""Loops that threads share as one, and what several of them over one row have in common.

A value that a loop computes, or reads, and a later one over the same variables needs again stays in
the registers of the thread that made it: it takes the same iterations of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tegg.dim import upper_bound
from tegg.kernel.accesses import NONE, Even, accesses, neighbours
from tegg.kernel.index import Var
from tegg.kernel.loops import Accumulate, Let, Loop, Stmt, Store
from tegg.kernel.value import Val

_KEPT = 32   # registers of a thread that values of a row take, where not all of it is known to fit
_MOST = 64   # and where it is


@dataclass(frozen=True, slots=True)
class Pass:
    """Iterations of loops that a team shares as one.

    count: neighbours along the last loop that a thread takes together. turns: so many iterations of
    a thread have registers for what is kept. whole: there are no others. keeps: ids of values that
    they leave for later passes; reads: values of earlier ones. rest: the statements that are left
    then.
    """

    loops: tuple[Loop, ...]
    body: tuple[Stmt, ...]
    count: int = 1
    turns: int = 0
    whole: bool = False
    keeps: frozenset[int] = frozenset()
    reads: tuple[Val, ...] = ()
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
           even: Even = NONE) -> dict[int, Pass]:
    """The loops among some statements that a team shares, by their position."""
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
            mine = _kept(mine, own, team)
        found.update(zip(members, mine))
    return found


def _kept(group: list[Pass], own: set[Var], team: int) -> list[Pass]:
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
    turns, whole = _turns(group[0], team, live) if live else (0, False)
    if not turns:
        return group
    return [replace(p, turns=turns, whole=whole, rest=rest,
                    reads=tuple(made[i] for i in sorted(read)),
                    keeps=frozenset(i for i in until if first[i] == n))
            for n, (p, read, rest) in enumerate(zip(group, reads, rests))]


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


def _turns(p: Pass, team: int, live: int) -> tuple[int, bool]:
    """How many iterations of a thread have registers, and whether these are all."""
    if any(loop.part is not None for loop in p.loops):
        return 0, False
    tops = [upper_bound(loop.var.extent) for loop in p.loops]
    if all(t is not None for t in tops):
        *outer, inner = (t for t in tops if t is not None)
        turns = -(-math.prod(outer) * -(-inner // p.count) // team)
        if turns * p.count * live <= (_MOST if team > 1 else _KEPT):
            return turns, True
    return (_KEPT // (p.count * live) if team > 1 else 0), False
