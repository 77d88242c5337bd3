"""What a loop tree executes: exact counts for tests and reports, weighted ones for choices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet

from tegg.dim import Dim, hint, product
from tegg.dtype import DType
from tegg.ir.graph import Graph
from tegg.kernel.code import Work
from tegg.kernel.domain import Write, spread
from tegg.kernel.index import Form, Guard, Var
from tegg.kernel.lane import EVERY_OTHER, Lanes
from tegg.kernel.loops import (
    Accumulate,
    Fetch,
    Keep,
    Let,
    Loop,
    Rest,
    Resume,
    Stmt,
    Store,
    Turn,
    Weave,
    needs,
    vector_of,
    walk,
    written_out,
)
from tegg.kernel.straight import run
from tegg.kernel.value import Val, counted, reachable

_NO_WORK = ("const", "load", "index", "cond", "size")  # addresses and constants are no evaluations


def points(around: Sequence[Loop]) -> int:
    """How often a statement is executed, lanes counted one by one."""
    strips = {loop.strip.var for loop in around if loop.strip is not None}
    n = math.prod(-(-hint(loop.var.extent) // loop.step) for loop in around
                  if loop.var not in strips)
    for loop in around:
        if loop.part is not None:
            n //= max(1, hint(loop.part.extent))
    return n


def executions(around: Sequence[Loop], vector: bool, lanes: int) -> int:
    """The same; what does not follow the lanes is done once for each block of them."""
    inner = vector_of(around)
    n = points(around)
    if inner is None or vector or n == 0:
        return n
    extent = hint(inner.var.extent)
    return n // extent * -(-extent // (lanes * inner.unroll))


def measure(stmts: Sequence[Stmt], lanes: int, buffers: Mapping[int, tuple[DType, Dim]]) -> Work:
    """The work of a tree at the hints of symbolic sizes. ``buffers``: slot -> dtype, elements."""
    evaluations = iterations = stored = 0
    loads: dict[int, int] = {}
    apart = written_out(stmts)
    for s, around in walk(stmts):
        if isinstance(s, Loop):
            if not any(isinstance(inner, Loop) for inner in s.body):
                iterations += points((*around, s))
        elif isinstance(s, Accumulate):
            evaluations += counted(points(around), s.value.attr.only) * (1 + (s.fused is not None))
        elif isinstance(s, Let):
            v, loop = s.value, vector_of(around)
            n = executions(around, loop is not None and loop.var in v.deps, lanes)
            n *= 1 + (s.fused is not None)
            if v.op == "load":
                n = counted(n, _decided(v, apart))
                loads[v.attr.slot] = loads.get(v.attr.slot, 0) + n
            elif v.op not in _NO_WORK:
                evaluations += n
        elif isinstance(s, Turn):
            slot, outside = s.value.attr.slot, [loop for loop in around if loop.step == 1]
            loads[slot] = loads.get(slot, 0) + points(outside) * hint(s.along.extent)
        elif isinstance(s, Store):
            stored += points(around) * buffers[s.write.slot][0].itemsize
        elif isinstance(s, Weave):
            stored += points(around) * hint(s.inside.extent) * buffers[s.write.slot][0].itemsize
    loaded = sum(min(n, hint(buffers[slot][1])) * buffers[slot][0].itemsize
                 for slot, n in loads.items())
    return Work(evaluations, iterations, loaded, stored)


def bytes_read(roots: Iterable[Val], graph: Graph) -> int:
    """Bytes of memory that values are computed from: each element once, however often it is read.

    A template reads its operands, and what its results are joined with, in this way.
    """
    elements: dict[int, int] = {}
    size: dict[int, int] = {}
    for v in reachable(roots):
        if v.op == "load":
            slot = v.attr.slot
            n = math.prod(hint(x.extent) for x in v.attr.form.vars())
            elements[slot] = elements.get(slot, 0) + n
            size[slot] = v.dtype.itemsize
    for node in graph.nodes:
        if node.op.name == "Input" and node.attrs[0] in elements:
            slot = node.attrs[0]
            elements[slot] = min(elements[slot], hint(product(node.shape)))
    return sum(n * size[slot] for slot, n in elements.items())


def bytes_written(writes: Iterable[Write]) -> int:
    """Bytes that writes put in memory."""
    return sum(hint(spread(w.vars)) * w.value.dtype.itemsize for w in writes)


def _decided(load: Val, apart: AbstractSet[Var]) -> Guard | None:
    """The guard of a load that is decided where a loop is written out."""
    return next((g for g in load.attr.guards if g.form.vars() and g.form.vars() <= apart), None)


# Prices in units of one scalar operation; a vector operation costs one unit for all lanes.
_GATHERED = 1.5   # per lane that is loaded or stored on its own
_RUN = 4.0        # a vector load of neighbours but at the ends of a run, which is tested
_HALVED = 4.0     # a vector load of every other element: two loads and a shuffle
_STRIDED = 4.0    # a scalar access that jumps at each step of the innermost loop
_JUMP = 2.0       # a vector access where the innermost loop walks across rows
_LEAP = 16.0     # a store in another page than the last one: a line and an address to be found
_PAGE = 1024     # elements
_AGAIN = 2.0      # a vector that is read again after at least _NEAR bytes were
_NEAR = 1 << 18
_TURNED = 0.4     # per element of a square: moves of vectors, and what is left of cache misses
_WOVEN = 2.0      # per vector of two that are written in turn
_ELEMENT = 0.6    # per element of others
_TRIP = 1.0       # a loop iteration
_THREADS = 2.0    # what stands outside of the shared loop is done by every thread


def price(stmts: Sequence[Stmt], lanes: Lanes) -> float:
    """The cost of a tree: operations executed, with what memory access patterns add."""
    total = 0.0
    threaded = any(isinstance(s, Loop) and s.shared for s, _ in walk(stmts))
    spared, apart = _spared(stmts, lanes), written_out(stmts)
    for s, around in walk(stmts):
        if isinstance(s, Let) and s.value.id in spared:
            continue
        loops = (*around, s) if isinstance(s, Loop) else around
        one = (_TRIP * executions(loops, False, lanes.width) if isinstance(s, Loop)
               else _price(s, around, lanes, apart))
        alone = threaded and not any(loop.shared for loop in loops)
        total += one * (_THREADS if alone else 1.0)
    return total


def _spared(stmts: Sequence[Stmt], lanes: Lanes) -> set[int]:
    """Values that are wanted at the ends of straight runs alone, and are computed there."""
    lets: dict[int, tuple[Let, tuple[Loop, ...]]] = {}
    wanted: set[int] = set()
    for s, around in walk(stmts):
        if isinstance(s, Let):
            lets[s.value.id] = s, around
        else:
            wanted |= {v.id for v in needs(s)}
    for i in sorted(lets, reverse=True):
        let, around = lets[i]
        loop = vector_of(around)
        if i in wanted and not (let.value.op == "load" and loop is not None and run(
                lanes, let.value.attr.form, loop.var)):
            wanted |= {v.id for v in let.needs()}
    return lets.keys() - wanted


def _price(s: Stmt, around: Sequence[Loop], lanes: Lanes, apart: AbstractSet[Var]) -> float:
    loop = vector_of(around)
    steps = executions(around, False, lanes.width)
    copies = loop.unroll if loop is not None else 1
    if isinstance(s, Accumulate):
        return counted(steps, s.value.attr.only) * copies
    if isinstance(s, Store):
        form = s.write.form
        follows = loop is not None and loop.var in (form.vars() | s.write.value.deps)
        return steps * (copies if follows else 1) * (_access(form, around, lanes)
                                                     + _leaps(form, around, lanes))
    if isinstance(s, (Keep, Fetch, Rest, Resume)):
        return steps * (copies if loop is not None and loop.var in s.value.deps else 1)
    if isinstance(s, Weave):
        n = hint(s.inside.extent)
        each = _WOVEN * n / 2 if n in (2, 4) else _ELEMENT * lanes.width
        return steps * copies * n * each
    if isinstance(s, Turn):
        assert s.array.strip is not None
        rows = min(hint(s.along.extent), s.array.strip.length)
        return _TURNED * steps * s.array.block * rows
    if isinstance(s, Let):
        v: Val = s.value
        times = steps * (copies if loop is not None and loop.var in v.deps else 1)
        if v.op == "load":
            decided = _decided(v, apart)
            times = counted(times, decided)
            guards = sum(0.5 for g in v.attr.guards if g is not decided)
            halved = loop is not None and v.dtype.name in EVERY_OTHER \
                and lanes.coefficient(v.attr.form, loop.var) == 2
            access = _HALVED if halved else _access(v.attr.form, around, lanes)
            return times * (access + guards + _again(v, around))
        return times * v.cost
    return 0.0


def _leaps(form: Form, around: Sequence[Loop], lanes: Lanes) -> float:
    """What a store costs more because loops near it go from page to page, shared among the stores
    between two of their steps. Those of a strip are few, and the same for the next vector."""
    inside = 1
    for loop in reversed(around):
        step = lanes.coefficient(form, loop.var)
        if loop.strip is None and step is not None and abs(hint(step)) >= _PAGE:
            return _LEAP / max(1, inside)
        inside *= -(-hint(loop.var.extent) // max(1, loop.step))
    return 0.0


def _again(v: Val, around: Sequence[Loop]) -> float:
    """What a load costs more because a loop reads all of its memory anew, which is far by then."""
    size, mine = v.dtype.itemsize, v.attr.form.vars()
    shared = {loop.part for loop in around}  # of these each iteration reads a part
    for loop in reversed(around):
        if loop.var in mine:
            size *= hint(loop.var.extent)
        elif (loop.step == 1 and loop.var not in shared and size >= _NEAR
              and hint(loop.var.extent) > 1):
            return _AGAIN
    return 0.0


def _access(form: Form, around: Sequence[Loop], lanes: Lanes) -> float:
    loop = vector_of(around)
    if loop is not None and loop.var in form.vars():
        if lanes.coefficient(form, loop.var) not in (1, -1):
            return _RUN if run(lanes, form, loop.var) else _GATHERED * lanes.width
        inner = around[-1]
        jumps = inner is not loop and inner.strip is None and inner.var in form.vars()
        return 1.0 + (_JUMP if jumps else 0.0)
    if around and loop is None and lanes.coefficient(form, around[-1].var) not in (0, 1, -1):
        return _STRIDED
    return 1.0
