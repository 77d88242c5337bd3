"""Which loop of a nest gets the lanes, how far it is unrolled, and which loop runs innermost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tegg.dim import exact_div, hint, upper_bound
from tegg.kernel.index import Form, Var
from tegg.kernel.lane import EVERY_OTHER, Lanes
from tegg.kernel.straight import run
from tegg.kernel.value import Val, reachable

_HEAVY = 8.0       # operations of a value from which its registers crowd out unrolling
_GATHER = 16.0     # score of an access that goes lane by lane
_RUN = 2.0         # of a gathered index that mostly runs from neighbour to neighbour
_HALVED = 4.0      # of a load of every other element: two loads and a shuffle
_INNER_HINT = 64   # a nested reduction shorter than this is no better place for the lanes, but
                   # where they would be gathered, or too few: then one that fills a vector is


class Vectoriser:
    """Scores loops by how loads and stores move from lane to lane."""

    def __init__(self, lanes: Lanes, most: int = 4) -> None:
        self.lanes = lanes
        self.most = most  # vectors per iteration
        self.shortest = max(2, lanes.width // 4)  # masks pay from a quarter of the lanes

    def _too_short(self, v: Var) -> bool:
        top = upper_bound(v.extent)
        return top is not None and top < self.shortest

    def score(self, v: Var, bodies: Sequence[Val], stores: Iterable[Form]) -> float:
        """The cost of giving ``v`` the lanes; infinite where it is too short."""
        if self._too_short(v):
            return math.inf
        total = 0.0 if exact_div(v.extent, self.lanes.width) is not None else 1.0
        for x in reachable(bodies):
            if x.op != "load":
                continue
            if v not in x.deps:
                total += 0.3
                continue
            k = self.lanes.coefficient(x.attr.form, v)
            follow = {self.lanes.coefficient(g.form, v) for g in x.attr.guards}
            if k == 2 and x.dtype.name in EVERY_OTHER and follow <= {0, 2}:
                total += _HALVED
                continue
            straight = k is None and run(self.lanes, x.attr.form, v) is not None
            total += 1.0 if k == 1 else 1.5 if k == -1 else _RUN if straight else _GATHER
            if not follow <= {0, 1, -1}:
                total += _GATHER
        for form in stores:
            if v in form.vars():  # a store that does not follow the lanes costs nothing
                total += 1.0 if self.lanes.coefficient(form, v) == 1 else _GATHER
        return total

    def pays(self, v: Var | None, bodies: Sequence[Val], stores: Iterable[Form]) -> bool:
        """Whether lanes pay where the innermost loop has to be another one: memory is contiguous
        along them, or what is computed is dear."""
        return v is not None and (self.score(v, bodies, stores) < _GATHER or any(
            x.cost >= _HEAVY and v in x.deps for x in reachable(bodies)))

    def choose(self, vars: Sequence[Var], bodies: Sequence[Val],
               stores: Sequence[Form] = ()) -> Var | None:
        """The loop to vectorise, or None where a reduction inside of it is the better place."""
        scores = {v: self.score(v, bodies, stores) for v in vars}
        best = min(reversed(vars), key=scores.__getitem__, default=None)
        if best is None or scores[best] == math.inf:
            return None
        inside = {w for x in reachable(bodies) if x.op == "red" and best in x.deps
                  for w in x.attr.vars}
        if inside:
            inner = {w: self.score(w, bodies, stores) for w in inside}
            w = min(sorted(inside, key=lambda w: (hint(w.extent), w.number)), key=inner.__getitem__)
            poor = scores[best] >= _GATHER or hint(best.extent) < self.lanes.width
            long = self.lanes.width if poor else _INNER_HINT
            if inner[w] < scores[best] and hint(w.extent) >= long:
                return None
        return best

    def unroll(self, bodies: Sequence[Val], v: Var | None) -> int:
        """Vectors per iteration: independent work hides latency until registers run out."""
        if v is None:
            return 1
        lively = [x for x in reachable(bodies) if v in x.deps and x.op != "const"]
        heavy = sum(1 for x in lively if x.op != "red" and x.cost >= _HEAVY)
        few, some = len(lively) <= 12 and heavy <= 1, len(lively) <= 24 and heavy <= 2
        most = min(self.most, 4 if few else 2 if some else 1)
        width, top = self.lanes.width, upper_bound(v.extent)
        if isinstance(v.extent, int):
            return max(1, min(most, -(-v.extent // width)))
        while most > 1 and top is not None and top < most * width:
            most //= 2
        return most

    def contiguous_last(self, vars: tuple[Var, ...], bodies: Sequence[Val]) -> tuple[Var, ...]:
        """The variables of a reduction with the most contiguous long one innermost."""
        if len(vars) < 2:
            return vars
        loads = [x for x in reachable(bodies) if x.op == "load"]

        def contiguous(v: Var) -> int:
            if hint(v.extent) < self.lanes.width:
                return 0
            return sum(1 for x in loads if v in x.deps and self.lanes.unit(x, v))

        best = max(vars, key=lambda v: (contiguous(v), vars.index(v)))
        return tuple(v for v in vars if v != best) + (best,)
