"""What one evaluation of a value costs, before it is placed in loops and while it is."""

from __future__ import annotations

import math
from collections.abc import Container, Set as AbstractSet
from dataclasses import dataclass, field

from tegg.dim import hint
from tegg.kernel.index import Var
from tegg.kernel.value import Reduction, Val, reachable


def flops(v: Val, scope: AbstractSet[Var], known: AbstractSet[int] = frozenset()) -> float:
    """Operations of one evaluation inside loops ``scope``: what depends on less is not counted.

    Values in ``known`` are read from memory. A shared value counts at each use, which is an upper
    bound.
    """
    memo: dict[int, float] = {}

    def own(x: Val) -> float:
        if x.deps <= scope:
            return 0.0
        return 1.0 if x.id in known else memo.get(x.id, 0.0)

    for x in reachable([v]):
        below = sum(own(a) for a in x.args)
        if isinstance(x.attr, Reduction):
            trips = 1
            for w in x.attr.vars:
                trips *= hint(w.extent)
            memo[x.id] = trips * (1.0 + below)
        else:
            memo[x.id] = x.cost + below
    return 1.0 if v.id in known else memo[v.id]


def flops_of_rows(v: Val, scope: AbstractSet[Var]) -> float:
    """Operations, per point of ``scope``, of what depends on nothing else: each value once, at the
    indices of the reductions around it."""
    rows = [x for x in reachable([v]) if x.deps <= scope]
    total = 0.0
    for x in reachable(rows):
        reduced = x.attr.vars if isinstance(x.attr, Reduction) else ()
        total += (1.0 if reduced else x.cost) * math.prod(
            hint(w.extent) for w in (*(x.deps - scope), *reduced))
    return total


@dataclass(slots=True)
class Evaluations:
    """Operations of one evaluation inside of some loops, as values are placed: what was counted is
    remembered until something else is kept."""

    _known: dict[tuple[frozenset[Var], int], float] = field(default_factory=dict)

    def of(self, v: Val, scope: frozenset[Var], kept: Container[int]) -> float:
        """Of a value, reductions included, also those that depend on ``scope`` alone; values in
        ``kept`` are read."""
        todo = [v]
        while todo:
            x = todo[-1]
            key = (scope, x.id)
            waiting = [] if key in self._known or (x.deps <= scope and x.op != "red") else [
                a for a in x.args if (scope, a.id) not in self._known]
            if waiting:
                todo.extend(waiting)
                continue
            todo.pop()
            if key not in self._known:
                self._known[key] = self._own(x, scope, kept)
        return self._known[scope, v.id]

    def forget(self) -> None:
        """Something else is kept now."""
        self._known.clear()

    def _own(self, v: Val, scope: frozenset[Var], kept: Container[int]) -> float:
        if v.deps <= scope and v.op != "red":
            return 0.0
        if v.id in kept:
            return 1.0
        below = sum(0.0 if a.deps <= scope else self._known[scope, a.id] for a in v.args)
        if isinstance(v.attr, Reduction):
            return v.attr.trips() * (1.0 + below)
        return v.cost + below
