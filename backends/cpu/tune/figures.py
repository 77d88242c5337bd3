"""What was measured on the way to a profile, in the units that people know."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tegg.contraction import Spec
from tegg.dim import hint
from tegg.extract.cost import Costs
from tegg.ir.op import OPS

from ...tuning.case import Case
from ...tuning.fitting import Timed
from .fit import alone
from .machine import MODES


def figures(taken: Mapping[tuple, float], cases: Mapping[str, Case], costs: Costs,
            timed: Sequence[Timed]) -> dict[str, float]:
    """Name -> number: bandwidth by size, multiply-adds, hand-offs, ops and products."""
    out: dict[str, float] = {}
    for key, seconds in taken.items():
        if key[0] in MODES:
            mode, size, threads = key
            out[f"{mode} {_size(size)} {threads}T GB/s"] = size / seconds / 1e9
        elif key[0] in ("f32", "f64"):
            dtype, threads = key
            out[f"multiply-adds {dtype} {threads}T GFLOP/s"] = 2e-9 * threads / seconds
        elif key[0] == "fresh":
            out["fresh memory GB/s"] = costs.fresh / 1e9
        elif key[0] in ("barrier", "start"):
            out[f"{key[0]} us"] = seconds * 1e6
    names = {id(c): n for n, c in cases.items()}
    for t in timed:
        name = names[id(t.case)]
        if t.case.anchors:
            rate = _flops(t.case) / t.seconds
            out[f"product {name} {t.threads}T GFLOP/s"] = rate / 1e9
            peak = 2.0 * t.threads / taken["f32", t.threads]
            out[f"product {name} {t.threads}T of f32 peak"] = rate / peak
        elif t.case.of in OPS and t.threads == 1 and not t.case.small:
            out[f"{name} 1T G/s"] = t.case.elements / t.seconds / 1e9
    packed = replace(costs, ahead=0.0, ahead_far=0.0)  # as what was timed was, before
    products = alone(packed)
    wrong = sorted(abs(t.case.seconds(products if t.case.anchors else packed, t.threads)
                       / t.seconds - 1.0) for t in timed)
    out["relative error of the fit, median"] = statistics.median(wrong)
    out["relative error of the fit, 90th percentile"] = wrong[math.ceil(0.9 * len(wrong)) - 1]
    return out


def _flops(case: Case) -> float:
    (anchor,) = case.anchors
    x, y = (a.shape for a in anchor.args)
    return 2.0 * math.prod(hint(n) for n in Spec.parse(anchor.attrs[0]).sizes(x, y).values())


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
