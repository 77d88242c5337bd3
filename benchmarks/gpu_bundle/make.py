"""Write the bundle: programs planned and compiled here, to be run on a machine with a GPU.

``python benchmarks/gpu_bundle/make.py FOLDER`` needs tegg, and no GPU.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import tegg
from arrays import drawn, places
from cases import FAMILIES, SPECS, Case, models
from prices import write_prices
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.program import prelude
from tegg.backends.cuda.resources import resources_of
from tegg.backends.cuda.target import Cuda
from tegg.backends.cuda.tune.cases import FULL, Sizes
from tegg.dim import evaluate
from tegg.errors import BackendError, ExtractionError
from tegg.extract.alternatives import Wanted
from tegg.ir import oracle
from tegg.ir.signature import Signature
from tegg.runtime.driver import Options, candidate_plans, compile_graph, plan_graph
from tegg.trace import ArraySpec, trace

ARCHITECTURES = (80, 90)
LIMIT = 60 << 20   # bytes of the whole bundle
KEPT = 50_000      # elements of a result that are compared
RUNTIME = ("__init__", "capture", "context", "cublas", "driver", "failures", "libcuda", "nvrtc",
           "replay", "streams")
Compile = Callable[[str, int], tuple[bytes, str]]


class Watching(Cuda):
    """The target, which notes the templates that it lowers, and leaves some out."""

    def __init__(self, architecture: int, without: frozenset[str]) -> None:
        super().__init__(architecture)
        self.without, self.used = without, set[str]()

    def unsupported(self, op: Any, dtype: Any) -> str | None:
        return "it is left out" if op.name in self.without else super().unsupported(op, dtype)

    def lower(self, fragment: Any, name: str, constant: frozenset[int]) -> Any:
        self.used |= {a.op.name for a in fragment.anchors if a.op.template is not None}
        return super().lower(fragment, name, constant)


def specs_of(case: Case) -> list[dict[str, Any]]:
    """How the inputs of a case are drawn."""
    return [{"shape": list(x.shape), "dtype": x.dtype, "seed": i + 1, "low": x.low, "high": x.high}
            for i, x in enumerate(case.inputs)]


def as_values(spec: dict[str, Any]) -> np.ndarray:
    """An input as the oracle takes it."""
    made = drawn(spec)
    return made.view(tegg.bf16.numpy) if spec["dtype"] == "bf16" else made


class Written:
    """One case, planned for an architecture and written to a folder."""

    def __init__(self, case: Case, architecture: int) -> None:
        self.case, self.specs = case, specs_of(case)
        arrays = [ArraySpec(x.shape, tegg.dtype(x.dtype)) for x in case.inputs]
        self.traced = trace(case.fn, tuple(arrays), dims=case.dims)
        self.graph = self.traced.graph
        self.signature = Signature.of(self.graph)
        target = Watching(architecture, case.without)
        stack = (tegg.Generic(), *(s() for s in case.stack), tegg.Compiler(name="t", target=target))
        self.options = Options(compilers=stack, cache=False)
        self.plan = plan_graph(self.graph, self.options)
        self.used = target.used
        self.inputs: dict[int, np.ndarray] = {}
        self.sizes = self.signature.sizes([np.broadcast_to(0, x.shape) for x in case.inputs])

    def others(self, most: int, seconds: float = 10.0) -> Iterator[Written]:
        """The same with other plans, in the order of their predicted times."""
        found = candidate_plans(self.graph, self.options, Wanted(most, seconds))
        for plan in sorted(found[1:], key=lambda p: p.seconds):
            other = copy.copy(self)
            other.plan = plan
            yield other

    def write(self, folder: Path, architectures: Iterable[int], compile_: Compile | None) -> None:
        folder.mkdir(parents=True)
        source = "\n".join(k.source for k in self.plan.kernels)
        (folder / "kernels.cu").write_text(source)
        about = self.about(folder)
        for a in architectures if compile_ else ():
            assert compile_ is not None
            code, log = compile_(prelude() + source, a)
            (folder / f"sm_{a}.cubin").write_bytes(code)
            about["resources"][f"sm_{a}"] = [r.show() for r in resources_of(log)]
        (folder / "program.json").write_text(json.dumps(about))

    def about(self, folder: Path) -> dict[str, Any]:
        plan, layout = self.plan, self.plan.layout(self.sizes)
        inputs = [{**s, "slot": slot} for slot, s in zip(self.traced.slots, self.specs)]
        return {
            "name": self.case.name, "family": self.case.family, "arena": layout.peak,
            "big": self.case.big, "tolerance": self.case.tolerance, "sizes": self.sizes,
            "templates": sorted(self.used),
            "predicted_seconds": plan.seconds, "resources": {},
            "buffers": [{"kind": b.kind, "index": b.index, "bytes": max(1, b.bytes(self.sizes)),
                         "offset": layout.offsets.get(i, 0)} for i, b in enumerate(plan.buffers)],
            "ahead": self.stages(plan.ahead), "run": self.stages(plan.run),
            "before": self.copies(plan.before), "after": self.copies(plan.after),
            "input": inputs, "weight": self.weights(folder), "output": self.results(folder)}

    def stages(self, calls: Sequence[Any]) -> list[list[Any]]:
        """What calls start: function, blocks, threads, shared memory, buffers, sizes."""
        out = []
        for call in calls:
            kernel = self.plan.kernels[call.kernel]
            for i in call.stages:
                launch = kernel.stages[i].launch
                out.append([kernel.stages[i].function, launch.blocks(self.sizes, 2**31 - 1),
                            launch.threads, launch.shared,
                            [call.buffers[b] for b in launch.buffers],
                            [self.sizes[s] for s in kernel.symbols]])
        return out

    def copies(self, pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
        return [[a, b, self.plan.buffers[a].bytes(self.sizes)] for a, b in pairs]

    def weights(self, folder: Path) -> list[dict[str, Any]]:
        out = []
        for slot, spec in enumerate(self.graph.inputs):
            if spec.kind == "weight":
                known = SPECS.get(id(spec.source))
                source: Any = spec.source
                self.inputs[slot] = np.asarray(getattr(source, "data", source))
                if known is None:
                    known = {"file": f"weight{slot}.npy"}
                    np.save(folder / known["file"], self.inputs[slot])
                out.append({**known, "slot": slot})
        return out

    def results(self, folder: Path) -> list[dict[str, Any]]:
        """Outputs and states, with what the oracle says of them."""
        nodes = [*self.graph.outputs.values(), *self.graph.updates.values()]
        where = [("output", i) for i in range(len(self.graph.outputs))]
        where += [("input", slot) for slot in self.graph.updates]
        described = [{"kind": kind, "slot": slot, "dtype": n.dtype.name,
                      "shape": [evaluate(d, self.sizes) for d in n.shape]}
                     for (kind, slot), n in zip(where, nodes)]
        if self.case.big:
            return described
        self.inputs |= self.values()
        values = (self.on_the_cpu() if self.case.family == "models" else
                  oracle.evaluate(nodes, self.inputs, self.sizes))
        kept = {}
        for i, v in enumerate(values):
            flat = v.astype(np.float64).reshape(-1)
            kept[f"o{i}"] = flat[places(flat.size, KEPT)].astype(
                np.float32 if v.dtype.kind in "fV" else v.dtype)
        np.savez_compressed(folder / "expected.npz", **kept)
        return described

    def values(self) -> dict[int, np.ndarray]:
        """The arguments, by slot."""
        return {slot: as_values(s) for slot, s in zip(self.traced.slots, self.specs)}

    def on_the_cpu(self) -> list[np.ndarray]:
        """Outputs and states by the CPU's program: the oracle takes each product apart, and would
        need more memory than there is for a model's."""
        program = compile_graph(self.graph, Options(cache=False))
        arrays = {a.slot: self.inputs[a.slot].copy() for a in self.signature.arguments}
        made = program(*arrays.values())
        return [*made.values(), *(arrays[slot] for slot in self.graph.updates)]


def candidates(case: Case, architecture: int, most: int = 4) -> Iterator[tuple[str, Written]]:
    """The plan of a case, then others: of workloads the next best by prediction, tiles among them,
    and of families those without the templates that were chosen before."""
    for i, made in enumerate(_plans(case, architecture, most)):
        yield case.name + (f"__{i}" if i else ""), made
        if case.family not in ("contractions", "attention", "workloads"):
            return


def _plans(case: Case, architecture: int, most: int) -> Iterator[Written]:
    if case.family == "workloads":
        first = Written(case, architecture)
        yield first
        if first.used:
            yield from first.others(most)
        return
    without: frozenset[str] = frozenset()
    for _ in range(most):
        try:
            made = Written(replace(case, without=without), architecture)
        except ExtractionError:
            return
        yield made
        if not made.used:
            return
        attends = frozenset(t for t in made.used if t.endswith("Attention"))
        without |= attends or made.used  # attention first: it needs a product to make its scores


def copied_runtime(folder: Path) -> None:
    """The part of tegg that runs programs, which needs nothing but Python."""
    package = Path(tegg.__file__).parent
    cuda = Path(sys.modules[Cuda.__module__].__file__ or "").parent
    for name in ("tegg", "tegg/backends"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text('"""The part of tegg that runs programs."""\n')
    shutil.copy(package / "errors.py", folder / "tegg")
    (folder / "tegg/backends/cuda").mkdir()
    for name in RUNTIME:
        shutil.copy(cuda / f"{name}.py", folder / "tegg/backends/cuda")
    (folder / "tegg/backends/cuda/tune").mkdir()
    for name in ("__init__", "figures"):
        shutil.copy(cuda / "tune" / f"{name}.py", folder / "tegg/backends/cuda/tune")
    for name in ("__main__", "apart", "arrays", "machine", "run", "tune"):
        shutil.copy(HERE / f"{name}.py", folder)
    for name in ("gpu", "gpu_models", "gpu_workloads"):
        shutil.copy(HERE.parent / f"{name}.py", folder)
    (folder / "prelude.h").write_text(prelude())


def make(folder: Path, cases: Iterable[Case], architectures: Sequence[int],
         compile_: Compile | None, wheels: Path | None = None,
         prices: Sizes | None = None) -> int:
    """Write the bundle; gives its size. prices: how large the kernels are that a cost profile is
    fitted to, if they are wanted. Raises BackendError where it is too large."""
    folder.mkdir(parents=True)
    copied_runtime(folder)
    for wheel in sorted(wheels.glob("*.whl")) if wheels else ():
        (folder / "wheels").mkdir(exist_ok=True)
        shutil.copy(wheel, folder / "wheels")
    for case in cases:
        for a in architectures:
            for name, made in candidates(case, a):
                made.write(folder / "programs" / f"sm_{a}" / name, (a,), compile_)
                print(f"sm_{a} {name}: {len(made.plan.run)} calls, {', '.join(sorted(made.used))}",
                      flush=True)
    for a in architectures if prices is not None else ():
        write_prices(folder / "prices" / f"sm_{a}", a, prices, compile_)
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    if size > LIMIT:
        raise BackendError(f"the bundle is of {size / 2**20:.1f} MB, more than "
                           f"{LIMIT >> 20} MB; leave cases out")
    return size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--wheels", type=Path, help="a folder with wheels of PyCUDA")
    parser.add_argument("--architecture", type=int, choices=ARCHITECTURES,
                        help="for GPUs of this compute capability times ten alone")
    options = parser.parse_args()
    compiler = nvrtc.find()
    if compiler is None:
        print("missing: NVRTC; the bundle has sources alone, to be compiled where it runs "
              "(pip install 'tegg[nvrtc]')")
    from gpu_workloads import cases as workloads
    wanted = [c for c in (*FAMILIES, *models(), *workloads()) if options.only in c.name]
    shutil.rmtree(options.folder, ignore_errors=True)
    architectures = (options.architecture,) if options.architecture else ARCHITECTURES
    size = make(options.folder, wanted, architectures, compiler.compile if compiler else None,
                options.wheels, None if options.only else FULL)
    print(f"{options.folder}: {size / 2**20:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
