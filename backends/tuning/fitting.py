"""From measured seconds to numbers of a profile: one op, one dtype, one parameter at a time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tegg.extract.cost import Costs
from tegg.ir.op import OPS

from .case import Case

_LIGHTEST, _HEAVIEST = 0.25, 200.0  # operations that an op may count as
_INERTIA = 0.02   # what moving a number by a factor of e must gain: noise moves nothing far
_STEPS = (1.5, 1.2, 1.07, 1.02)     # factors that the search tries, one after another
Parameter = tuple[Callable[[Costs], float], Callable[[Costs, float], Costs], float, float]


@dataclass(frozen=True, slots=True)
class Timed:
    """A case, by so many threads, in seconds."""

    case: Case
    threads: int
    seconds: float


# ---- loops
def chains(costs: Costs, timed: Iterable[Timed]) -> Costs:
    """The rate of additions, and what other dtypes take, from chains of two lengths that as many
    threads ran."""
    pairs: dict[str, list[tuple[int, Timed]]] = {}
    for t in timed:
        if t.case.steps:
            pairs.setdefault(t.case.of, []).append((t.case.steps, t))
    slopes, each = {}, 0.0
    for dtype, found in pairs.items():
        (short, fast), (long, slow) = sorted(found, key=lambda f: f[0])
        slopes[dtype] = max((slow.seconds - fast.seconds) / (long - short),
                            0.1 * slow.seconds / long)
        if dtype == "f32":
            each = slow.case.elements / slow.threads
    if "f32" not in slopes:
        return costs
    ratios = {d: s / slopes["f32"] for d, s in slopes.items() if d != "f32"}
    return replace(costs, loop_rate=each / slopes["f32"],
                   loop_dtypes={**costs.loop_dtypes, **ratios})


def weights(costs: Costs, timed: Iterable[Timed]) -> Costs:
    """How many operations each op counts as: so many that its own kernel takes what it took."""
    ops = dict(costs.ops)
    for t in timed:
        if t.case.of not in OPS or t.case.anchors:
            continue

        def predicted(weight: float, t: Timed = t) -> float:
            return t.case.seconds(replace(costs, ops={**ops, t.case.of: weight}), t.threads)
        low, high = _LIGHTEST, _HEAVIEST
        for _ in range(24):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if predicted(middle) < t.seconds else (low, middle)
        ops[t.case.of] = low
    return replace(costs, ops=ops)


# ---- products
def template(name: str) -> Parameter:
    """What the products of a template take, against others."""
    return (lambda c: c.templates.get(name, 1.0),
            lambda c, v: replace(c, templates={**c.templates, name: v}), 0.01, 50.0)


def reads(name: str) -> Parameter:
    """What a template takes to read its operands where they lie, against others."""
    return (lambda c: c.template_reads.get(name, 1.0),
            lambda c, v: replace(c, template_reads={**c.template_reads, name: v}), 0.5, 3.0)


def dtype_ratio(costs: Costs, timed: Sequence[Timed], dtype: str) -> float:
    """What products of a dtype take, against float32's."""
    parameter: Parameter = (
        lambda c: c.product_dtypes.get(dtype, 1.0),
        lambda c, v: replace(c, product_dtypes={**c.product_dtypes, dtype: v}), 0.05, 200.0)
    return searched(costs, timed, [parameter]).product_dtypes.get(dtype, 1.0)


# ---- a search that changes one number at a time
def error(costs: Costs, timed: Sequence[Timed]) -> float:
    """The mean distance of logarithms: a factor of two too much is as bad as one too little."""
    return statistics.fmean(abs(_off(costs, t)) for t in timed)


def _off(costs: Costs, t: Timed) -> float:
    return math.log(t.case.seconds(costs, t.threads) / t.seconds)


def rivals(timed: Sequence[Timed]) -> list[tuple[Timed, Timed]]:
    """Forms of one and the same product, in pairs: which of them is the sooner is what a profile
    has to tell, before it tells how long either takes."""
    return [(a, b) for a, b in combinations(timed, 2)
            if a.case.of != b.case.of and a.case.sizes == b.case.sizes and a.threads == b.threads]


def searched(costs: Costs, timed: Sequence[Timed], parameters: Sequence[Parameter],
             pairs: Sequence[tuple[Timed, Timed]] = ()) -> Costs:
    """The parameters at which the times are told best, none far from where it was for little; and
    as much, by how much one of each of the ``pairs`` is sooner than the other."""
    if not timed:
        return costs
    first = [math.log(get(costs)) for get, *_ in parameters]

    def price(c: Costs) -> float:
        moves = sum(abs(math.log(get(c)) - was) for (get, *_), was in zip(parameters, first))
        off = {id(t): _off(c, t) for t in timed}
        apart = [abs(off[id(a)] - off[id(b)]) for a, b in pairs]
        return (statistics.fmean(map(abs, off.values())) + (statistics.fmean(apart) if apart else 0)
                + _INERTIA * moves)

    best = price(costs)
    for factor in _STEPS:
        moved = True
        while moved:
            moved = False
            for get, put, low, high in parameters:
                for by in (factor, 1.0 / factor):
                    value = min(high, max(low, get(costs) * by))
                    tried = put(costs, value)
                    found = price(tried)
                    if found < best * (1.0 - 1e-4):
                        costs, best, moved = tried, found, True
    return costs
