"""From measured seconds to the numbers of a profile."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tegg.extract.cost import Costs, Level

from ..direct_templates import DIRECT, DIRECT_TILES
from ..narrow_forms import narrow_templates
from ..templates import READ_AS
from ...tuning.fitting import (
    Parameter, Timed, chains, dtype_ratio, reads, rivals, searched, template, weights)

_CALL = 2e-7      # seconds that a stage takes at least: its code and buffers are seldom at hand
_SHARED = 1e-6    # where threads share it, for they read what others wrote
_LEVELS = 6       # of memory that a profile tells apart
_WORTH = 0.04     # by how much a further level must lessen the squared errors of logarithms
_FAIR = 2.0       # a buffer shares its level with others: so many times its size must fit
_CHEAPEST, _DEAREST = 0.3, 10.0     # of stores, against loads
_ANY = 16         # lanes: names do not depend on them
_OVERLAP: tuple[Parameter, ...] = (
    (lambda c: 1.0 - c.overlap, lambda c, v: replace(c, overlap=1.0 - v), 0.02, 1.0),)
_OVERLAP_PRODUCTS: Parameter = (
    lambda c: 1.0 - (c.overlap if c.overlap_products is None else c.overlap_products),
    lambda c, v: replace(c, overlap_products=1.0 - v), 0.1, 1.0)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Seconds to read and to copy buffers, by threads and bytes; and of one barrier. fresh: bytes a
    second at which memory is had that was not used before."""

    read: Mapping[int, Mapping[int, float]]
    copy: Mapping[int, Mapping[int, float]]
    barrier: float
    fresh: float


def fitted(base: Costs, threads: int, traffic: Traffic, timed: Sequence[Timed]) -> Costs:
    """The profile that tells these times best; what was not measured stays as in ``base``.

    Rates are those of one thread, which prices share among all: times of several threads, which
    any other program on the machine disturbs, tell of starting and of what memory gives to all.
    What is packed ahead was packed before the times were taken.
    """
    levels = levels_of(traffic.read[1], traffic.read[threads])
    costs = _stores(replace(base, threads=threads, levels=levels, fresh=traffic.fresh, ahead=0.0,
                            ahead_far=0.0), traffic)
    one = [t for t in timed if t.threads == 1]
    costs = chains(costs, one)
    costs = weights(costs, one)
    costs = _launch(costs, timed, traffic.barrier)
    costs = searched(costs, [t for t in one if t.case.of == "stream"], _OVERLAP)
    costs = weights(costs, one)
    products = _products(alone(costs), [t for t in one if t.case.anchors])
    return replace(products, levels=costs.levels, ahead=base.ahead, ahead_far=base.ahead_far)


# ---- memory
def levels_of(one: Mapping[int, float], every: Mapping[int, float]) -> tuple[Level, ...]:
    """Steps in bandwidth by size: where a few constant rates tell the curve of one thread best."""
    sizes = sorted(one)
    rates = [(math.log(s / one[s]), math.log(s / every[s])) for s in sizes]
    best, cuts = _segments(rates, 1)
    for count in range(2, min(_LEVELS, len(sizes)) + 1):
        error, found = _segments(rates, count)
        if best - error < _WORTH:
            break
        best, cuts = error, found
    levels, fastest = [], (math.inf, math.inf)
    for low, high in cuts:
        thread, total = (math.exp(statistics.median(r[i] for r in rates[low:high]))
                         for i in (0, 1))
        fastest = min(thread, fastest[0]), min(total, fastest[1])
        size = math.inf if high == len(sizes) else sizes[high - 1] * math.sqrt(2) / _FAIR
        levels.append(Level(size, fastest[0], max(fastest)))
    return tuple(levels)


def _segments(rates: Sequence[tuple[float, float]],
              count: int) -> tuple[float, list[tuple[int, int]]]:
    """The ranges that leave the least squared error, and that error."""
    n = len(rates)

    def error(low: int, high: int) -> float:
        out = 0.0
        for column in zip(*rates[low:high]):
            middle = statistics.fmean(column)
            out += sum((v - middle) ** 2 for v in column)
        return out

    best: list[tuple[float, list[tuple[int, int]]]] = [(error(0, i), [(0, i)])
                                                       for i in range(1, n + 1)]
    for _ in range(count - 1):
        best = [min(((best[j - 1][0] + error(j, i), [*best[j - 1][1], (j, i)])
                     for j in range(1, i)), default=(math.inf, [(0, i)]))
                for i in range(1, n + 1)]
    return best[-1]


def _stores(costs: Costs, traffic: Traffic) -> Costs:
    """What a written byte costs at each level, against a read one: what copies take longer."""
    ratios: dict[int, list[float]] = {}
    for threads, copies in traffic.copy.items():
        for size, seconds in copies.items():
            level = next(i for i, v in enumerate(costs.levels) if size <= v.size)
            ratios.setdefault(level, []).append(seconds / costs.memory(size, threads) - 1.0)
    found = {i: min(_DEAREST, max(_CHEAPEST, statistics.median(r))) for i, r in ratios.items()}
    levels = tuple(replace(v, store=found.get(i)) for i, v in enumerate(costs.levels))
    return replace(costs, levels=levels, store=statistics.median(found.values()))


# ---- loops
def _launch(costs: Costs, timed: Sequence[Timed], barrier: float) -> Costs:
    """What starting costs: the rest of what small kernels take, and a barrier at least."""
    free = replace(costs, launch=0.0, call=0.0)

    def rest(threads: Callable[[int], bool], least: float) -> float:
        found = [t.seconds - t.case.seconds(free, t.threads) for t in timed
                 if threads(t.threads) and t.case.small]
        return max(least, statistics.median(found)) if found else least

    call = rest(lambda n: n == 1, _CALL)
    return replace(costs, call=call, launch=max(call, rest(lambda n: n > 1, max(barrier, _SHARED))))


def alone(costs: Costs) -> Costs:
    """The same for kernels of which one operand is nearly all that they touch: it shares its level
    with nothing."""
    return replace(costs, levels=tuple(replace(v, size=v.size * _FAIR) for v in costs.levels))


def _products(costs: Costs, mine: Sequence[Timed]) -> Costs:
    """Rates of products, and of each template against the one that most cases tell of; those of
    narrow numbers, and other ways of reading, tell of nothing else."""
    narrow = sorted({t.case.of for t in mine} & {*(o.name for o in narrow_templates(_ANY)),
                                                 DIRECT_TILES})
    alone = [t for t in mine if t.case.of in narrow]
    direct = [t for t in mine if t.case.of in DIRECT]
    followed = [t for t in mine if t.case.of in READ_AS.values()]
    mine = [t for t in mine if t.case.of not in (*narrow, *DIRECT, *READ_AS.values())]
    plain = [t for t in mine if t.case.dtype.name == "f32"]
    names = sorted({t.case.of for t in plain})
    fixed = max(names, key=[t.case.of for t in plain].count, default="")
    parameters: list[Parameter] = [
        (lambda c: c.product_rate, lambda c, v: replace(c, product_rate=v), 1e8, 1e14),
        (lambda c: c.product_half[2], _with_half, 1.0, 512.0),
        (lambda c: c.pack, lambda c, v: replace(c, pack=v), 0.5, 100.0), _OVERLAP_PRODUCTS]
    parameters += [of(n) for n in names if n != fixed for of in (template, reads)]
    costs = searched(costs, plain, parameters, rivals(plain))
    for (op, _), name in READ_AS.items():
        both = [t for t in (*plain, *followed) if t.case.of in (op, name)]
        own = costs.template_reads.get(op, 1.0)
        costs = replace(costs, template_reads={**costs.template_reads, name: own})
        costs = searched(costs, both, [reads(name)], rivals(both))
    ratios = dict(costs.product_dtypes)
    for dtype in {t.case.dtype.name for t in mine} - {"f32"}:
        found = [t for t in mine if t.case.dtype.name == dtype]
        ratios[dtype] = dtype_ratio(costs, found, dtype)
    costs = replace(costs, product_dtypes=ratios)
    for name in narrow:
        costs = searched(costs, [t for t in alone if t.case.of == name], [template(name)])
    return searched(costs, _against_floats(costs, direct), [template("CpuDirectPairs")])


def _against_floats(costs: Costs, direct: Sequence[Timed]) -> list[Timed]:
    """Convolutions of pairs in the times that they would take, were the same of floats as soon as
    predicted: what all products are off by must not make one form dearer than its like."""
    off = {t.case.sizes: t.case.seconds(costs, t.threads) / t.seconds
           for t in direct if t.case.of == "CpuDirect"}
    return [replace(t, seconds=t.seconds * off[t.case.sizes])
            for t in direct if t.case.of == "CpuDirectPairs"]


def _with_half(costs: Costs, value: float) -> Costs:
    return replace(costs, product_half=(*costs.product_half[:2], value))
