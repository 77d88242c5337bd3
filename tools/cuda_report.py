"""What NVIDIA's compiler makes of our kernels, and what they move: no GPU is needed.

    python tools/cuda_report.py            # minutes; --only WORD for programs whose names have it
    python tools/cuda_report.py --tests FILE    # a summary of what tests have written to a file
                                                # with TEGG_KERNEL_REPORT=FILE

Every program of the bundle for GPUs that is a kernel family (in each form), a workload or a model
cut to two layers is planned for each architecture and compiled by NVRTC. Of each kernel: registers,
shared memory and spills as the assembler says, widths of accesses and tensor-core instructions as
the disassembly (nvidia-cuda-nvdisasm) has them, and, of small programs, the bytes that its threads
read and wrote in the simulator beside those that the plan counts. To
benchmarks/results/cuda-kernels.json, and as tables to docs/cuda-kernels.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / p) for p in ("benchmarks/gpu_bundle", "benchmarks", "tests", "tools")]

import gpu_workloads
from cases import FAMILIES, Case, decoder_step, gpt2, minilm, vit
from cuda_report_page import page
from make import Written, candidates
from simt.simulator import Memory, Module
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.disassembly import Instructions, disassembler, instructions_of
from tegg.backends.cuda.program import source_of
from tegg.backends.cuda.resources import resources_of

from tegg.errors import BackendError

RESULT = ROOT / "benchmarks" / "results" / "cuda-kernels.json"
PAGE = ROOT / "docs" / "cuda-kernels.md"
ARCHITECTURES = (75, 80, 90)
MOVED = ("elementwise", "rows", "reductions", "movement")  # families whose bytes are counted
BLOCKS = 264  # as many as an H100 has multiprocessors, twice: the simulator's grids


def programs(only: str) -> Iterator[tuple[Case, int]]:
    """Each case with how many forms of it are wanted."""
    yield from ((c, 4) for c in FAMILIES if only in c.name)
    rest = [*gpu_workloads.cases(), minilm(2, 1000), minilm(2, 1000, half=True),
            decoder_step(2), decoder_step(2, half=True), gpt2(2), vit(2)]
    yield from ((c, 1) for c in rest if only in c.name)


def forms(case: Case, architecture: int, most: int) -> Iterator[tuple[str, Written]]:
    """The plans of a case, by name."""
    if most > 1:
        yield from candidates(case, architecture, most)
    else:
        yield case.name, Written(case, architecture)


def described(name: str, made: Written, architecture: int,
              compiler: nvrtc.Nvrtc) -> dict[str, Any]:
    """A program's row."""
    code, log = compiler.compile(source_of(made.plan), architecture)
    told = {r.kernel: r for r in resources_of(log)}
    seen = {i.kernel: i for i in instructions_of(code)}
    moved = (moved_bytes(made) if architecture == ARCHITECTURES[-1]
             and made.case.family in MOVED else {})
    kernels = []
    for call in (*made.plan.ahead, *made.plan.run):
        kernel = made.plan.kernels[call.kernel]
        for i in call.stages:
            stage = kernel.stages[i]
            assert stage.launch is not None
            said, has = told[stage.function], seen[stage.function]
            kernels.append({
                "kernel": stage.function, "is": call.label, "threads": stage.launch.threads,
                "registers": said.registers, "shared": said.shared_bytes + stage.launch.shared,
                "spilled": said.spill_stores + said.spill_loads, **_counts(has)})
        if kernel.stages and made.case.family in MOVED:
            kernels[-1]["planned"] = [kernel.work.loaded, kernel.work.stored]
            if moved:
                parts = [moved[kernel.stages[i].function] for i in call.stages]
                kernels[-1]["moved"] = [sum(p) for p in zip(*parts)]
    return {"program": name, "family": made.case.family, "sm": architecture, "kernels": kernels}


def _counts(i: Instructions) -> dict[str, Any]:
    out: dict[str, Any] = {"instructions": i.count, "tensor": i.tensor}
    for name, found in (("loads", i.loads), ("stores", i.stores), ("copies", i.copies)):
        if found:
            out[name] = {str(bits): n for bits, n in sorted(found.items())}
    return out


# ---- bytes, by the simulator
def moved_bytes(made: Written) -> dict[str, list[int]]:
    """The bytes that each kernel reads and writes, run once on what the case is run on."""
    plan, sizes = made.plan, made.sizes
    unit, layout = Module(source_of(plan)), plan.layout(made.sizes)
    arena = Memory(max(1, layout.peak), "arena")
    held: dict[tuple[str, int], Memory] = {}
    places = []
    for i, b in enumerate(plan.buffers):
        if b.kind == "arena":
            places.append(arena.address + layout.offsets.get(i, 0))
            continue
        key = (b.kind, b.index if b.index >= 0 else i)
        if key not in held:
            held[key] = Memory(max(1, b.bytes(sizes)), f"{b.kind} {b.index}")
            if b.kind in ("input", "weight"):
                held[key].write(made.values()[b.index])
        places.append(held[key].address)
    try:
        return {n: m for call in (*plan.ahead, *plan.run)
                for n, m in _run(unit, plan, call, places, sizes)}
    finally:
        for m in (arena, *held.values()):
            m.free()


def _run(unit: Module, plan: Any, call: Any, places: Sequence[int],
         sizes: Mapping[str, int]) -> Iterator[tuple[str, list[int]]]:
    kernel = plan.kernels[call.kernel]
    for i in call.stages:
        stage, before = kernel.stages[i], list(unit.moved)
        blocks = stage.launch.blocks(sizes, BLOCKS)
        if blocks:
            given = [places[call.buffers[b]] for b in stage.launch.buffers]
            unit.run(stage.function, blocks, stage.launch.threads,
                     [*given, *(sizes[s] for s in kernel.symbols)], shared=stage.launch.shared)
        yield stage.function, [a - b for a, b in zip(unit.moved, before)]


# ---- what tests have written
def summary(lines: Iterable[str]) -> list[dict[str, Any]]:
    """A row for each test and architecture."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in map(json.loads, lines):
        groups[row["test"].partition("[")[0], row["sm"]].append(row)
    return [{"test": test, "sm": sm, "kernels": len(rows),
             "registers": {"median": median(r["registers"] for r in rows),
                           "most": max(r["registers"] for r in rows)},
             "shared bytes": max(r["shared"] for r in rows),
             "spilling": {r["kernel"]: r["spilled"] for r in rows if r["spilled"]}}
            for (test, sm), rows in sorted(groups.items())]


def _of_tests(path: Path) -> int:
    if not path.is_file():
        print("no kernel was compiled: pip install nvidia-cuda-nvrtc-cu12")
        return 2
    rows = summary(path.read_text(encoding="utf-8").splitlines())
    print(json.dumps(rows, indent=1))
    print(f"{sum(r['kernels'] for r in rows)} kernels, "
          f"{sum(len(r['spilling']) for r in rows)} of them spill", file=sys.stderr)
    return 0


def write(rows: Sequence[dict[str, Any]], version: str) -> None:
    """The record, a line for each program, and its page."""
    lines = ",\n".join(json.dumps(r) for r in rows)
    RESULT.write_text(f'{{"compiler": {json.dumps(version)}, "programs": [\n{lines}\n]}}\n',
                      encoding="utf-8")
    PAGE.write_text(page(json.loads(RESULT.read_text(encoding="utf-8"))), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose names contain this; not kept")
    parser.add_argument("--tests", type=Path, help="summarise what tests have written")
    options = parser.parse_args()
    if options.tests is not None:
        return _of_tests(options.tests)
    compiler = nvrtc.find()
    if compiler is None:
        print("no kernel can be compiled: pip install nvidia-cuda-nvrtc-cu12")
        return 2
    try:
        disassembler()
    except BackendError as e:
        print(f"no report: {e}")
        return 2
    rows = []
    for case, most in programs(options.only):
        for architecture in ARCHITECTURES:
            for name, made in forms(case, architecture, most):
                rows.append(described(name, made, architecture, compiler))
                print(f"sm_{architecture} {name}: {len(rows[-1]['kernels'])} kernels", flush=True)
    if options.only:
        print(page({"compiler": compiler.version, "programs": rows}))
    else:
        write(rows, compiler.version)
    kernels = [k for r in rows for k in r["kernels"]]
    print(f"{len(kernels)} kernels, {sum(k['spilled'] > 0 for k in kernels)} of them spill")
    return 0


if __name__ == "__main__":
    sys.exit(main())
