"""From the figures of a GPU and the times of our kernels on it to its profile."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from tegg.dtype import dtype as as_dtype
from tegg.extract.cost import Costs

from ...tuning.fitting import (
    Parameter,
    Timed,
    chains,
    dtype_ratio,
    error,
    searched,
    template,
    weights,
)
from .figures import Figures

_WORD = 4.0  # bytes of a load
LIBRARY = "BlasGemm"  # what rates of cuBLAS begin with
PLAIN = "CudaTiled"  # the form whose rate is the profile's; others are told against it


def from_figures(shipped: Costs, found: Figures, multiprocessors: int, l2_bytes: int) -> Costs:
    """A profile with what was measured of the machine in the place of what is shipped."""
    near, far = shipped.levels[0], shipped.levels[-1]
    levels = (replace(near, size=float(l2_bytes) / 2, thread=found.l2 / multiprocessors,
                      total=found.l2),
              replace(far, thread=1.05 * found.memory / multiprocessors, total=found.memory))
    rate = found.multiply_adds / multiprocessors
    both = 2.0 / (1.0 / found.to_device + 1.0 / found.to_host)  # as much in as out
    return replace(shipped, name="cuda/measured", threads=multiprocessors, launch=found.launch,
                   loop_rate=0.5 * rate, product_rate=0.6 * rate, levels=levels, copy=found.copy,
                   copy_rate=both, own_rate=found.shared / multiprocessors)


def fitted(base: Costs, timed: Sequence[Timed]) -> Costs:
    """The profile that tells these times best; what none tells of stays as in ``base``.

    Loops are as fast as their loads come, one for an operation, not as a chain of additions is:
    what sums products without tiles reads two values for each.
    """
    mine = without_events(base, timed)
    loops = [t for t in mine if not t.case.anchors]
    costs = _as_loads_come(chains(base, loops), {t.case.of for t in loops if t.case.steps})
    return _products(weights(costs, loops), [t for t in mine if t.case.anchors])


def without_events(costs: Costs, timed: Sequence[Timed]) -> list[Timed]:
    """The times less what events add to them: as much as to a kernel that does nothing."""
    added = min((max(0.0, t.seconds - costs.launch) for t in timed if t.case.small), default=0.0)
    least = 0.1 * costs.launch
    return [replace(t, seconds=max(least, t.seconds - added)) for t in timed]


def _as_loads_come(costs: Costs, timed: AbstractSet[str]) -> Costs:
    """Rates of loops that are no higher than those of loads, of each dtype that was timed."""
    rate = min(costs.loop_rate, costs.own_rate / _WORD)
    dtypes = {d: max(as_dtype(d).itemsize / _WORD, v * rate / costs.loop_rate) if d in timed else v
              for d, v in costs.loop_dtypes.items()}
    return replace(costs, loop_rate=rate, loop_dtypes=dtypes)


def _products(costs: Costs, mine: Sequence[Timed]) -> Costs:
    """The rate of tiles in float32, then every other form against it, the library's by the kind
    and shape of its products, then other dtypes."""
    plain = [t for t in mine if t.case.dtype.name == "f32" and t.case.of == PLAIN]
    rate: Parameter = (lambda c: c.product_rate, lambda c, v: replace(c, product_rate=v), 1e8, 1e14)
    costs = searched(costs, plain, [rate])
    narrow = ("f32", "f16", "bf16")  # all of which sum float32
    for name in sorted({t.case.of for t in mine} - {PLAIN}):
        costs = _rated(costs, [t for t in mine if t.case.of == name
                               and t.case.dtype.name in narrow and not _as_halves(t)], name)
    ratios = dict(costs.product_dtypes)
    wide = [t for t in mine if t.case.dtype.name not in narrow]
    ours = [t for t in wide if not t.case.of.startswith(LIBRARY)]
    for dtype in sorted({t.case.dtype.name for t in ours}):
        ratios[dtype] = dtype_ratio(costs, [t for t in ours if t.case.dtype.name == dtype], dtype)
    costs = replace(costs, product_dtypes=ratios)
    for name in sorted({t.case.of for t in wide} - {t.case.of for t in ours}):
        costs = _rated(costs, [t for t in wide if t.case.of == name], name)
    return costs


def _as_halves(t: Timed) -> bool:
    """Whether the library multiplies halves as they are: by the form that is named after them, and
    by those of float32, whose price is of operands of float32."""
    return (t.case.of.startswith((f"{LIBRARY} f32", f"{LIBRARY} tf32"))
            and t.case.dtype.itemsize == 2)


def _rated(costs: Costs, timed: Sequence[Timed], name: str) -> Costs:
    """What a form takes, searched from the best of a coarse grid: where memory is what kernels wait
    for, small changes tell nothing."""
    if not timed:
        return costs
    rate = template(name)
    starts = [costs, *(rate[1](costs, 0.02 * 3.0**i) for i in range(8))]
    return searched(min(starts, key=lambda c: error(c, timed)), timed, [rate])
