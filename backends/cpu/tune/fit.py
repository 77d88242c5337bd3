"""From measured seconds to the numbers of a profile."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tegg.extract.cost import Costs, Level
from tegg.ir.op import OPS

from .kernels import Case

_CALL = 1e-7      # seconds that a stage takes at least: its code and buffers are seldom at hand
_LEVELS = 6       # of memory that a profile tells apart
_WORTH = 0.04     # by how much a further level must lessen the squared errors of logarithms
_FAIR = 2.0       # a buffer shares its level with others: so many times its size must fit
_CHEAPEST, _DEAREST = 0.3, 10.0     # of stores, against loads
_LIGHTEST, _HEAVIEST = 0.25, 200.0  # operations that an op may count as
_INERTIA = 0.02   # what moving a number by a factor of e must gain: noise moves nothing far
_STEPS = (1.5, 1.2, 1.07, 1.02)     # factors that the search tries, one after another


@dataclass(frozen=True, slots=True)
class Timed:
    """A case, by so many threads, in seconds."""

    case: Case
    threads: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """Seconds to read and to copy buffers, by threads and bytes; and of one barrier."""

    read: Mapping[int, Mapping[int, float]]
    copy: Mapping[int, Mapping[int, float]]
    barrier: float


def fitted(base: Costs, threads: int, traffic: Traffic, timed: Sequence[Timed]) -> Costs:
    """The profile that tells these times best; what was not measured stays as in ``base``.

    Rates are those of one thread, which prices share among all: times of several threads, which
    any other program on the machine disturbs, tell of starting and of what memory gives to all.
    """
    levels = levels_of(traffic.read[1], traffic.read[threads])
    costs = _stores(replace(base, threads=threads, levels=levels), traffic)
    one = [t for t in timed if t.threads == 1]
    costs = _chains(costs, one)
    costs = _weights(costs, one)
    costs = _launch(costs, timed, traffic.barrier)
    costs = _searched(costs, [t for t in one if t.case.of == "stream"], _OVERLAP)
    costs = _weights(costs, one)
    return _products(costs, [t for t in one if t.case.anchors])


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
def _is_loop(case: Case) -> bool:
    return not case.anchors


def _chains(costs: Costs, one: Iterable[Timed]) -> Costs:
    """The rate of additions, and what other dtypes take, from chains of two lengths."""
    pairs: dict[str, list[tuple[int, float]]] = {}
    for t in one:
        if t.case.steps:
            pairs.setdefault(t.case.of, []).append((t.case.steps, t.seconds))
    slopes = {}
    for dtype, found in pairs.items():
        (short, fast), (long, slow) = sorted(found)
        slopes[dtype] = max((slow - fast) / (long - short), 0.1 * slow / long)
    if "f32" not in slopes:
        return costs
    elements = next(t.case for t in one if t.case.steps and t.case.of == "f32").elements
    ratios = {d: s / slopes["f32"] for d, s in slopes.items() if d != "f32"}
    return replace(costs, loop_rate=elements / slopes["f32"],
                   loop_dtypes={**costs.loop_dtypes, **ratios})


def _weights(costs: Costs, one: Iterable[Timed]) -> Costs:
    """How many operations each op counts as: so many that its own kernel takes what it took."""
    ops = dict(costs.ops)
    for t in one:
        if t.case.of not in OPS or not _is_loop(t.case):
            continue

        def predicted(weight: float, t: Timed = t) -> float:
            return t.case.seconds(replace(costs, ops={**ops, t.case.of: weight}), 1)
        low, high = _LIGHTEST, _HEAVIEST
        for _ in range(24):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if predicted(middle) < t.seconds else (low, middle)
        ops[t.case.of] = low
    return replace(costs, ops=ops)


def _launch(costs: Costs, timed: Sequence[Timed], barrier: float) -> Costs:
    """What starting costs: the rest of what small kernels take, and a barrier at least."""
    free = replace(costs, launch=0.0, call=0.0)

    def rest(threads: Callable[[int], bool], least: float) -> float:
        found = [t.seconds - t.case.seconds(free, t.threads) for t in timed
                 if threads(t.threads) and t.case.small]
        return max(least, statistics.median(found)) if found else least

    call = rest(lambda n: n == 1, _CALL)
    return replace(costs, call=call, launch=max(call, rest(lambda n: n > 1, barrier)))


# ---- a search that changes one number at a time
Parameter = tuple[Callable[[Costs], float], Callable[[Costs, float], Costs], float, float]
_OVERLAP: tuple[Parameter, ...] = (
    (lambda c: 1.0 - c.overlap, lambda c, v: replace(c, overlap=1.0 - v), 0.02, 1.0),)


def _products(costs: Costs, mine: Sequence[Timed]) -> Costs:
    """Rates of products, and of each template against the one that most cases tell of."""
    plain = [t for t in mine if t.case.dtype.name == "f32"]
    names = sorted({t.case.of for t in plain})
    fixed = max(names, key=[t.case.of for t in plain].count, default="")
    parameters: list[Parameter] = [
        (lambda c: c.product_rate, lambda c, v: replace(c, product_rate=v), 1e8, 1e14),
        (lambda c: c.product_half[2], _with_half, 1.0, 512.0),
        (lambda c: c.pack, lambda c, v: replace(c, pack=v), 0.5, 100.0)]
    parameters += [_template(n) for n in names if n != fixed]
    costs = _searched(costs, plain, parameters)
    ratios = dict(costs.product_dtypes)
    for dtype in {t.case.dtype.name for t in mine} - {"f32"}:
        found = [t for t in mine if t.case.dtype.name == dtype]
        ratios[dtype] = _dtype_ratio(costs, found, dtype)
    return replace(costs, product_dtypes=ratios)


def _with_half(costs: Costs, value: float) -> Costs:
    return replace(costs, product_half=(*costs.product_half[:2], value))


def _template(name: str) -> Parameter:
    return (lambda c: c.templates.get(name, 1.0),
            lambda c, v: replace(c, templates={**c.templates, name: v}), 0.1, 50.0)


def _dtype_ratio(costs: Costs, timed: Sequence[Timed], dtype: str) -> float:
    parameter: Parameter = (
        lambda c: c.product_dtypes.get(dtype, 1.0),
        lambda c, v: replace(c, product_dtypes={**c.product_dtypes, dtype: v}), 0.05, 200.0)
    return _searched(costs, timed, [parameter]).product_dtypes.get(dtype, 1.0)


def error(costs: Costs, timed: Sequence[Timed]) -> float:
    """The mean distance of logarithms: a factor of two too much is as bad as one too little."""
    return statistics.fmean(abs(math.log(t.case.seconds(costs, t.threads) / t.seconds))
                            for t in timed)


def _searched(costs: Costs, timed: Sequence[Timed], parameters: Sequence[Parameter]) -> Costs:
    if not timed:
        return costs
    first = [math.log(get(costs)) for get, *_ in parameters]

    def price(c: Costs) -> float:
        moves = sum(abs(math.log(get(c)) - was) for (get, *_), was in zip(parameters, first))
        return error(c, timed) + _INERTIA * moves

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
