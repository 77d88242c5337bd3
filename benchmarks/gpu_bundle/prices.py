"""Kernels that tell what a GPU's kernels cost, as a program of the bundle; the fit of a profile.

``python benchmarks/gpu_bundle/prices.py prices.json FILE.toml`` fits the profile of a GPU on which
the bundle's ``tune.py`` wrote ``prices.json``. It needs tegg, and no GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tegg.backends.cuda.blas_calls import product_of
from tegg.backends.cuda.program import prelude
from tegg.backends.cuda.target import Cuda
from tegg.backends.cuda.tune import figures
from tegg.backends.cuda.tune.cases import FULL, Sizes, cases
from tegg.backends.cuda.tune.fit import LIBRARY, fitted, from_figures, without_events
from tegg.backends.cuda.tune.measure import plan_of
from tegg.backends.tuning.case import Case
from tegg.backends.tuning.fitting import Timed
from tegg.extract.cost import Costs, load_costs
from tegg.extract.profile import Profile
from tegg.planning.plan import Plan

FAR = 1.05  # times the fastest form's, from which a choice is listed


def write_prices(folder: Path, architecture: int, sizes: Sizes,
                 compile_: Callable[[str, int], tuple[bytes, str]] | None) -> None:
    """The measuring kernels of a device, and all cases as one program."""
    folder.mkdir(parents=True)
    target = Cuda(architecture, blas=True, wgmma=True)
    wanted = cases(target, sizes)
    plan, made = plan_of([c for c in wanted if not c.of.startswith(LIBRARY)], target)
    library = plan_of([c for c in wanted if c.of.startswith(LIBRARY)], target)
    (folder / "library.json").write_text(json.dumps(calls(*library)))
    layout = plan.layout({})
    source = "\n".join(k.source for k in plan.kernels)
    (folder / "kernels.cu").write_text(source)
    (folder / "figures.cu").write_text(figures.source(architecture))
    for name, text in (("sm", source), ("figures", figures.source(architecture))):
        if compile_ is not None:
            (folder / f"{name}_{architecture}.cubin").write_bytes(compile_(prelude() + text,
                                                                      architecture)[0])
    stages = []
    for call in plan.run:
        for i in call.stages:
            stage = plan.kernels[call.kernel].stages[i]
            stages.append([stage.function, stage.launch.blocks({}, 2**31 - 1),
                           stage.launch.threads, stage.launch.shared,
                           [call.buffers[b] for b in stage.launch.buffers], []])
    about: dict[str, Any] = {
        "name": "prices", "arena": layout.peak, "ahead": [], "run": stages, "before": [],
        "after": [], "input": [], "output": [],
        "calls": [[c.name, len(call.stages)] for c, call in zip(made, plan.run)],
        "buffers": [{"kind": b.kind, "index": b.index, "bytes": max(1, b.bytes({})),
                     "offset": layout.offsets.get(i, 0)} for i, b in enumerate(plan.buffers)],
        "weight": [{"shape": [b.bytes({}) // b.dtype.itemsize], "dtype": b.dtype.name, "seed": i,
                    "low": 0.5 if b.dtype.is_float else 1.0, "high": 2.0 if b.dtype.is_float
                    else 4.0, "slot": b.index}
                   for i, b in enumerate(plan.buffers) if b.kind == "weight"]}
    (folder / "program.json").write_text(json.dumps(about))


def calls(plan: Plan, made: Sequence[Case]) -> list[dict[str, Any]]:
    """Products for cuBLAS to make: each with how its matrices lie in arrays of so many bytes."""
    out = []
    for case, call in zip(made, plan.run):
        (stage,) = plan.kernels[call.kernel].stages
        assert stage.product is not None
        product = product_of(stage.product, {}, [0] * len(call.buffers))
        assert product is not None
        sizes = {side: plan.buffers[call.buffers[getattr(stage.product, side).slot]].bytes({})
                 for side in ("x", "y", "out")}
        out.append({"name": case.name, "bytes": sizes, **asdict(product)})
    return out


def profile(found: dict[str, Any], sizes: Sizes = FULL) -> Profile:
    """What ``tune.py`` measured, as a profile. Times of cases that are no longer made are left."""
    target = _target(found)
    base = from_figures(load_costs(target.shipped()), figures.Figures(**found["figures"]),
                        found["multiprocessors"], found["l2_bytes"])
    timed = _timed(found, sizes)
    return Profile(fitted(base, timed), "cuda", target.machine(), base.threads,
                   figures=found["figures"], unrest=found["unrest"])


def _target(found: dict[str, Any]) -> Cuda:
    return Cuda(found["architecture"], model=found["device"], blas=True, wgmma=True)


def _timed(found: dict[str, Any], sizes: Sizes) -> list[Timed]:
    by_name = {c.name: c for c in cases(_target(found), sizes)}
    return [Timed(by_name[name], found["multiprocessors"], seconds)
            for name, seconds in found["cases"] if name in by_name]


def choices(found: dict[str, Any], costs: Costs, sizes: Sizes = FULL) -> dict[str, float]:
    """Of each product that was timed in several forms of ours: the time of the form that costs
    choose over that of the fastest one."""
    forms: dict[str, list[tuple[float, float]]] = {}
    for t in without_events(costs, _timed(found, sizes)):
        if t.case.anchors and not t.case.of.startswith(LIBRARY):
            product = t.case.name.split(") ", 1)[1]
            forms.setdefault(product, []).append((t.case.seconds(costs, t.threads), t.seconds))
    return {product: min(of)[1] / min(seconds for _, seconds in of)
            for product, of in forms.items() if len(of) > 1}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path)
    parser.add_argument("profile", type=Path)
    options = parser.parse_args()
    found = json.loads(options.measured.read_text())
    made = profile(found)
    print(f"wrote {made.write(options.profile)}, for {made.machine}")
    told = choices(found, made.costs)
    far = {product: ratio for product, ratio in told.items() if ratio > FAR}
    print(f"{len(told) - len(far)} of {len(told)} products: the form that it chooses takes at most "
          f"{FAR} of the fastest's time")
    for product, ratio in far.items():
        print(f"  {product}: {ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
