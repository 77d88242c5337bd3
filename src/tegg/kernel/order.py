"""The order of the loops of a nest: candidates are placed, and priced on what they execute."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tegg.dim import hint
from tegg.kernel.domain import Write
from tegg.kernel.index import Var
from tegg.kernel.jam import jam
from tegg.kernel.loops import Block, Stmt, Strip
from tegg.kernel.place import Placer
from tegg.kernel.strips import strips
from tegg.kernel.tile import tiling
from tegg.kernel.value import Val, reachable
from tegg.kernel.vectorise import Vectoriser
from tegg.kernel.weave import weaving
from tegg.kernel.work import price

_PLACED = 6         # orders that are placed; more are sifted by an estimate
_ALL_ORDERS = 5     # loops up to which every permutation is a candidate
_ENOUGH_STEPS = 16  # iterations from which a loop feeds any number of threads well enough

_JOINED = ("sum", "prod", "max")        # what lanes are joined by in steps
_WIDE = ("f32", "f64", "i32", "i64")    # and in what they are

MakePlacer = Callable[[], Placer]


@dataclass(frozen=True, slots=True)
class Nest:
    """One placed nest and its price."""

    body: tuple[Stmt, ...]
    price: float
    notes: tuple[str, ...]


def nests(writes: Sequence[Write], make: MakePlacer) -> list[Nest]:
    """Place all writes: those over fewer loops ride on a larger nest where it passes theirs."""
    groups: dict[frozenset[Var], list[Write]] = {}
    for w in writes:
        groups.setdefault(frozenset(w.vars), []).append(w)
    waiting = sorted(groups.items(), key=lambda g: -len(g[0]))
    out: list[Nest] = []
    while waiting:
        (key, group), *waiting = waiting
        others = {k: g for k, g in waiting if k and k < key}
        nest, ridden = _best(group, others, make)
        out.append(nest)
        waiting = [(k, g) for k, g in waiting if k not in ridden]
    return out


def _best(group: list[Write], others: dict[frozenset[Var], list[Write]],
          make: MakePlacer) -> tuple[Nest, set[frozenset[Var]]]:
    alone = {k: _best(g, {}, make)[0].price for k, g in others.items()}
    best: tuple[float, int, Nest, set[frozenset[Var]]] | None = None
    for rank, order in enumerate(_candidates(group)):
        prefixes = {frozenset(order[:n]) for n in range(1, len(order))}
        ridden = {k for k in others if k in prefixes}
        riders = [w for k in others if k in ridden for w in others[k]]
        nest = _place(group + riders, order, make())
        total = nest.price + sum(alone[k] for k in others if k not in ridden)
        if best is None or (total, rank) < best[:2]:
            best = total, rank, nest, ridden
    assert best is not None
    for other in (_tiled(group, make()), _woven(group, make()), _jammed(group, make())):
        if other is not None and other.price + sum(alone.values()) < best[0]:
            best = other.price + sum(alone.values()), -1, other, set()
    return best[2], best[3]


def _tiled(group: list[Write], placer: Placer) -> Nest | None:
    """The nest with its transposes tiled, where it has some."""
    cut = tiling(group, placer.vectors.lanes) if placer.limits.vector else None
    if cut is None:
        return None
    placer.tiled = cut
    order = cut.order(group[0].vars)
    shared = _shared(order[:-1], cut.lanes, placer.vectors.lanes.width * cut.copies, cut.strip)
    body = (Block(tuple(placer.place(group, order, cut.lanes, shared))),)
    return Nest(body, price(body, placer.vectors.lanes), (*placer.notes, "tiled a transpose"))


def _woven(group: list[Write], placer: Placer) -> Nest | None:
    """The nest with the results of a short axis woven, where it ends in one."""
    lanes = placer.vectors.lanes
    found = weaving(group, lanes) if placer.limits.vector else None
    if found is None:
        return None
    order = found.order(group[0].vars)
    block = lanes.width * placer.vectors.unroll([v for w in group for v in w.needs()], found.along)
    shared = _shared(order[:-1], found.along, block)
    placed = placer.place(group, order, found.along, shared)
    body = (Block(found.woven(placed, block), once=shared is None),)
    return Nest(body, price(body, lanes), (*placer.notes, "wove results"))


def _jammed(group: list[Write], placer: Placer) -> Nest | None:
    """The nest with rows side by side that read the same, where it has such."""
    if not placer.limits.vector:
        return None
    lanes, bodies = placer.vectors.lanes, [v for w in group for v in w.needs()]
    vector = placer.vectors.choose(group[0].vars, bodies, [w.form for w in group])
    found = jam(group, lanes, vector, placer.vectors.unroll(bodies, vector))
    if found is None:
        return None
    placer.vectors = Vectoriser(lanes, found.copies)
    nest = _place(found.writes(group, placer.values), found.order(group[0].vars), placer)
    return replace(nest, notes=(*nest.notes, "put rows side by side"))


def _place(writes: list[Write], order: tuple[Var, ...], placer: Placer) -> Nest:
    bodies = [v for w in writes for v in w.needs()]
    free = [v for v in order if not any(v in w.ordered for w in writes)]
    parts = {x.attr.part for x in reachable(bodies) if x.op == "red"}
    shortest = min(len(w.vars) for w in writes)
    stores = [w.form for w in writes]
    vector = placer.vectors.choose([v for v in free if v not in parts], bodies,
                                   stores) if placer.limits.vector else None
    if any(w.ordered for w in writes) and not placer.vectors.pays(vector, bodies, stores):
        vector = _running(writes, order, placer) if placer.limits.vector else None
    unroll = placer.vectors.unroll(bodies, vector)
    shared = _shared([v for v in order[:shortest] if v in free], vector,
                     placer.vectors.lanes.width * unroll)
    placed = placer.place(writes, order, vector, shared)
    inner = strips(placed, placer.vectors.lanes) if placer.limits.vector else tuple(placed)
    body = (Block(inner, once=shared is None),)
    return Nest(body, price(body, placer.vectors.lanes), tuple(placer.notes))


def _shared(vars: Sequence[Var], vector: Var | None, block: int,
            strip: Strip | None = None) -> Var | None:
    """The loop whose iterations the threads share: the outermost with enough of them."""
    def steps(v: Var) -> int:
        if strip is not None and v == strip.var:
            return -(-hint(v.extent) // strip.length)
        return -(-hint(v.extent) // block) if v == vector else hint(v.extent)

    enough = next((v for v in vars if steps(v) >= _ENOUGH_STEPS), None)
    return enough or max(vars, key=steps, default=None)


def _candidates(group: list[Write]) -> Iterator[tuple[Var, ...]]:
    """Orders worth placing, the recorded one first. What is carried along loops needs them
    innermost, and ordered loops stay in their order."""
    recorded = group[0].vars
    fixed, carried = group[0].ordered, _carried(group)
    if len(recorded) <= _ALL_ORDERS:
        orders = list(itertools.permutations(recorded))
    else:
        orders = [recorded] + [tuple(w for w in recorded if w != v) + (v,) for v in recorded[:-1]]
    orders = [o for o in orders if tuple(v for v in o if v in fixed) == fixed
              and o[len(o) - len(carried):] == carried]
    if len(orders) > _PLACED:
        values = reachable(v for w in group for v in w.needs())
        ranked = sorted(range(1, len(orders)), key=lambda i: (_estimate(values, orders[i]), i))
        orders = [orders[0]] + [orders[i] for i in sorted(ranked[:_PLACED - 1])]
    yield from orders


def _carried(writes: Sequence[Write]) -> tuple[Var, ...]:
    """The variables along which values are accumulated."""
    scans = (v for v in reachable(v for w in writes for v in w.needs()) if v.op == "scan")
    return next((v.attr.vars for v in scans), ())


def _running(writes: list[Write], order: tuple[Var, ...], placer: Placer) -> Var | None:
    """The one variable that values are accumulated along, where lanes may follow it: their sums so
    far are joined in steps, which pays where memory is contiguous."""
    bodies = [v for w in writes for v in w.needs()]
    scans = [v for v in reachable(bodies) if v.op == "scan"]
    if len(_carried(writes)) != 1 or any(len(w.vars) < len(order) for w in writes):
        return None
    (along,) = _carried(writes)
    follows = all(v.attr.kind in _JOINED and v.dtype.name in _WIDE for v in scans) and all(
        along not in g.form.vars() for w in writes for g in w.guards)
    stores = [w.form for w in writes]
    return along if follows and placer.vectors.pays(along, bodies, stores) else None


def _estimate(values: Sequence[Val], order: tuple[Var, ...]) -> float:
    """Each value is paid once per iteration of the loops down to the deepest that it needs, or
    once per point of its own where a pass of its own is cheaper."""
    trips = list(itertools.accumulate((hint(v.extent) for v in order), lambda a, b: a * b))
    place = {v: i for i, v in enumerate(order)}
    total = 0.0
    for v in values:
        deepest = max((place[x] for x in v.deps if x in place), default=-1)
        inner = math.prod(hint(x.extent) for x in v.deps if x not in place)
        nested = (trips[deepest] if deepest >= 0 else 1) * inner
        own = 2 * math.prod(hint(x.extent) for x in v.deps)
        cost = v.cost if v.op != "red" else v.attr.trips()
        total += cost * min(nested, own)
    return total
