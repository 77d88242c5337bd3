"""What one evaluation of a value costs, before it is placed in loops."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet

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
