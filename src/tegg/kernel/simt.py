"""How the loops of a nest are dealt out on a device that runs blocks of threads.

One place decides it, for all such devices: which loops are taken apart into points, and whether a
point is the work of one thread or of a team (a warp, a block) that shares the loops inside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tegg.dim import Dim, hint, product
from tegg.dtype import DType
from tegg.kernel.domain import spread
from tegg.kernel.index import Form, Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Accumulate, Block, Let, Loop, Start, Stmt, Store, walk
from tegg.kernel.place import Limits

WARP = 32
THREADS = 256        # of a block
_TEAM = 32           # iterations inside of a point from which a team shares them
_WARP_MOST = 1024    # and up to which a warp is team enough, where there are enough points
_POINTS = 16         # points from which warps keep the device busy
WIDE = 4             # elements of 4 bytes that a thread moves at once
_COLUMNS = 2048      # points from which one thread each reads columns side by side

# Values are computed where they are needed: a thread has no rows of scratch, lanes are threads.
LIMITS = Limits(keep=math.inf, hoist=math.inf, scratch=0, vector=False)


@dataclass(frozen=True, slots=True)
class Deal:
    """One nest: its statements, the loops whose points are dealt out, and who takes a point.

    team: threads that take a point together; 1: each thread takes points by itself. wide: a thread
    takes ``WIDE`` neighbouring values of the last loop as one point.
    """

    body: tuple[Stmt, ...]
    loops: tuple[Loop, ...]
    team: int
    parallel: frozenset[Var]
    wide: bool = False

    @property
    def counts(self) -> tuple[Dim, ...]:
        """How many values each loop has points for."""
        out = tuple(loop.var.extent for loop in self.loops)
        return (*out[:-1], out[-1] // WIDE) if self.wide else out

    @property
    def points(self) -> Dim:
        """How many points there are."""
        return product(self.counts)

    @property
    def each(self) -> int:
        """Points that a block takes at a time."""
        return THREADS // self.team

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
    heavy = next((n for n, stmts in enumerate(levels) if _heavy(stmts, n == len(loops))),
                 len(loops))
    dealt = tuple(loop for loop in loops[:heavy] if loop.var in parallel)
    reductions = [s.value for s in levels[heavy] if isinstance(s, Start) and s.value.op == "red"]
    inside = math.prod(hint(loop.var.extent) for loop in loops[heavy:] if loop.var in parallel)
    width = max([inside, *(r.attr.trips() for r in reductions)])
    points = hint(spread(tuple(loop.var for loop in dealt)))
    team = 1
    if width >= _TEAM and not (heavy == len(loops) and points >= _COLUMNS
                               and _columns(levels[heavy], dealt, lanes)):
        team = WARP if width <= _WARP_MOST and points >= _POINTS else THREADS
    wide = (team == 1 and heavy == len(loops) and bool(dealt) and dealt[-1] is loops[-1]
            and _wide(levels, dealt[-1].var))
    return Deal(block.body, dealt, team, parallel, wide)


def _wide(levels: Sequence[Sequence[Stmt]], v: Var) -> bool:
    """Whether neighbours along a loop may be one thread's: straight code, of which all stores and
    some memory move whole."""
    if not isinstance(v.extent, int) or v.extent % WIDE:
        return False
    if any(not isinstance(s, (Let, Store)) or (isinstance(s, Let) and s.value.op == "scan")
           for stmts in levels for s in stmts):
        return False
    return all(s.write.mode == "store" and moves_whole(s.write.form, v, s.write.value.dtype)
               for s in levels[-1] if isinstance(s, Store))


def moves_whole(form: Form, v: Var, dtype: DType) -> bool:
    """Whether ``WIDE`` neighbours along a loop lie side by side from a multiple of 16 bytes.

    The loop's values start at multiples of ``WIDE``, and so must all else in the index.
    """
    rest = [k for atom, k in form.terms.items() if atom != v]
    return (dtype.itemsize * WIDE == 16 and form.terms.get(v) == 1
            and all(isinstance(k, int) and k % WIDE == 0 for k in (form.const, *rest))
            and not any(v in Form(0, {a: 1}).vars() for a in form.terms if a != v))


def chain(loop: Loop, deal: Deal) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
    """Loops that a team shares as one, and what each iteration of all of them does."""
    loops, body = [loop], loop.body
    before: list[Stmt] = []
    while body and isinstance(body[-1], Loop) and deal.shares(body[-1]) and all(
            isinstance(s, Let) and s.value.op != "scan" for s in body[:-1]):
        before += body[:-1]
        loops.append(body[-1])
        body = body[-1].body
    return tuple(loops), (*before, *body)


def shares_wide(loop: Loop, body: Sequence[Stmt]) -> bool:
    """Whether a thread of a team may take ``WIDE`` neighbours of a loop at once: all that is done
    for each is computed, summed or stored, and some memory moves whole."""
    v = loop.var
    if not isinstance(v.extent, int) or v.extent % WIDE or loop.part is not None:
        return False
    if any(not isinstance(s, (Let, Accumulate, Store)) or (isinstance(s, Let)
           and s.value.op == "scan") for s in body):
        return False
    if any(isinstance(s, Accumulate) and v not in s.value.attr.vars for s in body):
        return False
    return any(moves_whole(s.write.form, v, s.write.value.dtype) if isinstance(s, Store) else
               isinstance(s, Let) and s.value.op == "load"
               and moves_whole(s.value.attr.form, v, s.value.dtype) for s in body)


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
