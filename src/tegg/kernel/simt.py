"""How the loops of a nest are dealt out on a device that runs blocks of threads.

One place decides it, for all such devices: which loops are taken apart into points, and whether a
point is the work of one thread or of a team (a warp, a block) that shares the loops inside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tegg.dim import Dim, hint
from tegg.kernel.accesses import NONE, Even, accesses, neighbours, wanted
from tegg.kernel.domain import spread
from tegg.kernel.index import Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Accumulate, Block, Let, Loop, Start, Stmt, Store, walk
from tegg.kernel.passes import passes, straight
from tegg.kernel.place import Limits
from tegg.kernel.turned import Turned, bringing, same, turned

WARP = 32
THREADS = 256        # of a block
_TEAM = 32           # iterations inside of a point from which a team shares them
_WARP_MOST = 1024    # and up to which a warp is team enough, where there are enough points
_POINTS = 16         # points from which warps keep the device busy
_COLUMNS = 2048      # points from which one thread each reads columns side by side
_JOINED = 32         # terms of a reduction that is rather made again by every point
_LONGER = 16         # times as long, at least, is what each of these points then makes

# Values are computed where they are needed: a thread has no rows of scratch, lanes are threads.
LIMITS = Limits(keep=math.inf, hoist=math.inf, scratch=0, vector=False)


@dataclass(frozen=True, slots=True)
class Deal:
    """One nest: its statements, the loops whose points are dealt out, and who takes a point.

    team: threads that take a point together; 1: each thread takes points by itself. wide: so many
    neighbouring values of the last loop are one point, the last of its points may have fewer.
    turned: a block takes a tile of the last two loops at a time, and brings some loads of it first.
    even: what must be so for this, beyond what is known of sizes; ``plain`` is how it is done else.
    """

    body: tuple[Stmt, ...]
    loops: tuple[Loop, ...]
    team: int
    parallel: frozenset[Var]
    wide: int = 1
    even: Even = NONE
    plain: Deal | None = None
    turned: Turned | None = None

    @property
    def vars(self) -> tuple[Var, ...]:
        return tuple(loop.var for loop in self.loops)

    @property
    def values(self) -> Dim:
        """How many values the loops have together."""
        return spread(self.vars)

    @property
    def points(self) -> tuple[Dim, int]:
        """What is dealt out, and how much of it a block takes at a time."""
        if self.turned is not None:
            return self.turned.count_of(self.vars)
        return self.values, THREADS // self.team * self.wide

    def shares(self, loop: Loop) -> bool:
        """Whether the iterations of a loop may run at once: it writes apart, or is a reduction."""
        return loop.var in self.parallel or not _writes(loop)


def deal(block: Block, lanes: Lanes) -> Deal:
    """Who does what of a nest.

    Values at a level of the loops that are dealt out are computed by everyone, so these loops end
    where a reduction is made, or something is stored, outside of the innermost one.
    """
    levels, loops = _spine(block.body)
    parallel = _parallel(block.body, loops)
    heavy = next((n for n, stmts in enumerate(levels) if _heavy(stmts, n == len(loops))
                  and not _again(levels, n)), len(loops))
    dealt = tuple(loop for loop in loops[:heavy] if loop.var in parallel)
    reductions = [s.value for s in levels[heavy] if isinstance(s, Start) and s.value.op == "red"]
    inside = math.prod(hint(loop.var.extent) for loop in loops[heavy:] if loop.var in parallel)
    width = max([inside, *(r.attr.trips() for r in reductions)])
    points = hint(spread(tuple(loop.var for loop in dealt)))
    team = 1
    if width >= _TEAM and not (heavy == len(loops) and points >= _COLUMNS
                               and _columns(levels[heavy], dealt, lanes)):
        team = WARP if width <= _WARP_MOST and points >= _POINTS else THREADS
    plain = Deal(block.body, dealt, team, parallel)
    straight_on = (team == 1 and heavy == len(loops) and bool(dealt) and dealt[-1] is loops[-1])
    if straight_on and dealt == tuple(loops):
        plain = _turned(plain, levels, lanes)
    found = _wide(plain, levels, straight_on, NONE)
    even = _even(plain, levels, straight_on)
    if not even:
        return found
    better = _wide(plain, levels, straight_on, even)
    return found if _same(better, found) else replace(better, plain=found)


def _turned(d: Deal, levels: Sequence[Sequence[Stmt]], lanes: Lanes) -> Deal:
    """A nest of which all points are alike, by tiles where some loads are to be turned: its last
    loops are that which these loads run along, and that which stores do."""
    body = [s for stmts in levels for s in stmts]
    found = turned(body, d.vars, lanes) if straight(body) else None
    if found is None:
        return d
    tile = (found.across, found.along)
    loops = sorted(d.loops, key=lambda loop: tile.index(loop.var) if loop.var in tile else -1)
    return replace(d, loops=tuple(loops), turned=found)


def _wide(d: Deal, levels: Sequence[Sequence[Stmt]], straight_on: bool, even: Even) -> Deal:
    """Neighbours along the last loop as one thread's, where that is straight code of which all that
    is stored moves by several."""
    count = 1
    body = [s for stmts in levels for s in stmts]
    if straight_on and straight(body):
        v = d.loops[-1].var
        found = accesses(body)
        count = neighbours(found, v, even)
        if any(a.chunk(v, count, even) == 1 for a in found if a.stores):
            count = 1
    return replace(d, wide=count, even=even)


def _even(d: Deal, levels: Sequence[Sequence[Stmt]], straight_on: bool) -> Even:
    """What sizes would have to be for neighbours to move together."""
    if straight_on:
        found = wanted(accesses(s for stmts in levels for s in stmts), d.loops[-1].var)
        brought = wanted(list(bringing(d.turned)), d.turned.across) if d.turned else NONE
        return found | brought
    out: set = set()
    for stmts in _levels(d):
        for p in passes(stmts, d.shares, d.team).values():
            if d.team > 1 and straight(p.body):
                out |= wanted(accesses(p.body), p.last)
    return frozenset(out)


def _same(a: Deal, b: Deal) -> bool:
    """Whether as many move together in both, chunk by chunk."""
    if a.wide != b.wide or (a.turned and not same(a.turned, a.even, b.even)):
        return False
    for stmts in _levels(a):
        x, y = (passes(stmts, d.shares, d.team, d.even) for d in (a, b))
        for at, p in x.items():
            for access in accesses(p.body):
                if (access.chunk(p.last, p.count, a.even)
                        != access.chunk(p.last, y[at].count, b.even)):
                    return False
    return a.wide == 1 or all(
        access.chunk(a.loops[-1].var, a.wide, a.even) == access.chunk(
            a.loops[-1].var, b.wide, b.even)
        for access in accesses(s for s, _ in walk(a.body)))


def _levels(d: Deal) -> Iterator[Sequence[Stmt]]:
    """The statements that a team is at together, a list for each loop that it is inside of."""
    todo: list[Sequence[Stmt]] = [d.body]
    dealt = {loop.var for loop in d.loops}
    while todo:
        stmts = todo.pop()
        yield [s for s in stmts if not (isinstance(s, Loop) and s.var in dealt)]
        todo.extend(s.body for s in stmts if isinstance(s, Loop)
                    and (s.var in dealt or not d.shares(s)))


def _spine(body: Sequence[Stmt]) -> tuple[list[tuple[Stmt, ...]], list[Loop]]:
    """The loops around the stores, outermost first, and what else stands at each level."""
    levels: list[tuple[Stmt, ...]] = []
    loops: list[Loop] = []
    while True:
        inner = next((s for s in body if isinstance(s, Loop) and _writes(s)), None)
        levels.append(tuple(s for s in body if s is not inner))
        if inner is None:
            return levels, loops
        loops.append(inner)
        body = inner.body


def _writes(loop: Loop) -> bool:
    return any(isinstance(s, Store) for s, _ in walk(loop.body))


def _parallel(body: Sequence[Stmt], loops: Sequence[Loop]) -> frozenset[Var]:
    """The loops over the stores' variables that may run in any order."""
    kept: set[Var] = set()
    for s, _ in walk(body):
        if isinstance(s, Store):
            kept |= set(s.write.ordered)
        elif isinstance(s, Let) and s.value.op == "scan":
            kept |= set(s.value.attr.vars)
    return frozenset(loop.var for loop in loops if loop.var not in kept)


def _heavy(stmts: Sequence[Stmt], innermost: bool) -> bool:
    return any((isinstance(s, Start) and s.value.op == "red")
               or (isinstance(s, Store) and not innermost) for s in stmts)


def _again(levels: Sequence[Sequence[Stmt]], n: int) -> bool:
    """Whether reductions at a level are so short, as those are that join parts of sums, and some
    further in so long, that each point of the inner loops rather makes the short ones again."""
    here, inside = (max((s.value.attr.trips() for stmts in found for s in stmts
                         if isinstance(s, Start) and s.value.op == "red"), default=0)
                    for found in (levels[n:n + 1], levels[n + 1:]))
    return not any(isinstance(s, Store) for s in levels[n]) and (
        0 < here <= _JOINED and inside >= _LONGER * here)


def _columns(stmts: Sequence[Stmt], dealt: Sequence[Loop], lanes: Lanes) -> bool:
    """Whether neighbours read side by side where each makes its own reduction."""
    if not dealt:
        return False
    across = along = 0
    for v, inner in _terms(stmts):
        across += lanes.coefficient(v, dealt[-1].var) == 1
        along += lanes.coefficient(v, inner) == 1
    return across > along


def _terms(stmts: Sequence[Stmt]) -> Iterator[tuple]:
    """The index of every load inside of reductions, with the innermost loop of its reduction."""
    for s in stmts:
        if isinstance(s, Loop):
            inner = next((around[-1].var for a, around in walk((s,))
                          if isinstance(a, Accumulate)), s.var)
            for x, _ in walk(s.body):
                if isinstance(x, Let) and x.value.op == "load":
                    yield x.value.attr.form, inner
