"""The record of tools/cuda_report.py as a page of tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_HEAD = """# CUDA kernels, as they are compiled

Written by `make cuda-report` from `benchmarks/results/cuda-kernels.json`; no GPU has a part in it.
NVRTC {version} compiles every program of the bundle for GPUs that is a kernel family, in each form
that competes, a workload, or a model cut to two layers. Registers and shared memory (bytes, of a
block) are the most of any kernel of a program, all else is of all its kernels: bytes that are
spilled, tensor-core instructions, and accesses of global memory by how many bits each moves, as
`nvdisasm` lists them (copies go to shared memory past registers, by `cp.async`). An instruction
counts once, however often it is executed: ends of rows, and a second form for rows that begin
anywhere, are narrow accesses beside the wide ones. Bytes are those that threads read and write in
the simulator, over those that the plan counts, which it prices programs by: it counts each array
once, and what rows share, a bias or indices, is read by each of them, from caches on a GPU.

"""
_WHOLE = ("architecture", "programs", "kernels", "most registers", "kernels that spill",
          "most bytes spilled", "kernels with tensor cores")
_COLUMNS = ("program", "kernels", "registers", "shared", "spilled", "tensor", "loads", "stores",
            "copies", "bytes read", "written")


def page(record: Mapping[str, Any]) -> str:
    """The page of a record."""
    rows = record["programs"]
    out = [_HEAD.format(version=record["compiler"]), _line(_WHOLE), _line(["---"] * len(_WHOLE))]
    architectures = sorted({r["sm"] for r in rows})
    for a in architectures:
        out.append(_line(_whole(a, [r for r in rows if r["sm"] == a])))
    latest = [r for r in rows if r["sm"] == architectures[-1]]
    for family in dict.fromkeys(r["family"] for r in latest):
        out += [f"\n## {family}, sm_{architectures[-1]}\n\n", _line(_COLUMNS),
                _line(["---"] * len(_COLUMNS))]
        out += [_line(_cells(r)) for r in latest if r["family"] == family]
    return "".join(out)


def _line(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def _whole(architecture: int, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    kernels = [k for r in rows for k in r["kernels"]]
    spilling = [k["spilled"] for k in kernels if k["spilled"]]
    return [f"sm_{architecture}", len(rows), len(kernels), max(k["registers"] for k in kernels),
            len(spilling), max(spilling, default=0), sum(k["tensor"] > 0 for k in kernels)]


def _cells(row: Mapping[str, Any]) -> list[Any]:
    kernels = row["kernels"]
    return [row["program"], len(kernels), max(k["registers"] for k in kernels),
            max(k["shared"] for k in kernels), sum(k["spilled"] for k in kernels),
            sum(k["tensor"] for k in kernels), *(_widths(kernels, n) for n in (
                "loads", "stores", "copies")), _bytes(kernels, 0), _bytes(kernels, 1)]


def _widths(kernels: Sequence[Mapping[str, Any]], name: str) -> str:
    total: Counter[int] = Counter()
    for k in kernels:
        total.update({int(bits): n for bits, n in k.get(name, {}).items()})
    return ", ".join(f"{n} of {bits}" for bits, n in sorted(total.items(), reverse=True))


def _bytes(kernels: Sequence[Mapping[str, Any]], side: int) -> str:
    """What was moved over what was planned; nothing where it was not counted."""
    counted = [k for k in kernels if "planned" in k and "moved" in k]
    moved = sum(k["moved"][side] for k in counted)
    planned = sum(k["planned"][side] for k in counted)
    return f"{moved:,} / {planned:,}" if counted else ""
