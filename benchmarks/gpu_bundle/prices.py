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
from tegg.backends.cuda.tune.fit import LIBRARY, fitted, from_figures
from tegg.backends.cuda.tune.measure import plan_of
from tegg.backends.tuning.case import Case
from tegg.backends.tuning.fitting import Timed
from tegg.extract.cost import load_costs
from tegg.extract.profile import Profile
from tegg.planning.plan import Plan


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
    target = Cuda(found["architecture"], model=found["device"], blas=True, wgmma=True)
    base = from_figures(load_costs(target.shipped()), figures.Figures(**found["figures"]),
                        found["multiprocessors"], found["l2_bytes"])
    by_name = {c.name: c for c in cases(target, sizes)}
    timed = [Timed(by_name[name], base.threads, seconds) for name, seconds in found["cases"]
             if name in by_name]
    return Profile(fitted(base, timed), "cuda", target.machine(), base.threads,
                   figures=found["figures"], unrest=found["unrest"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path)
    parser.add_argument("profile", type=Path)
    options = parser.parse_args()
    made = profile(json.loads(options.measured.read_text()))
    print(f"wrote {made.write(options.profile)}, for {made.machine}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
