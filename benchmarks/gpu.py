"""Times on this machine's GPU, run inside the bundle: ceilings, then workloads beside PyTorch.

``python gpu.py --json results.json``. Every time is of the device, by events: the median of many
runs. Ratios are PyTorch's time by ours; fractions are of the ceiling that was measured first.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from apart import rows, serve
from arrays import decoded, difference, drawn, places
from gpu_models import models
from gpu_workloads import WORKLOADS, Workload
from machine import Program, described
from run import folders, missing
from tegg.backends.cuda.driver import Device, open_device
from tegg.errors import BackendError

REPEATS = 30
TOGETHER = 2e-3     # seconds of runs that are timed together
CEILINGS = "ceilings"
COMPILED = {"torch.compile": None, "torch.compile graphs": "reduce-overhead"}
COMPARED = 200_000  # elements of a result that are held against float64


def torch_with_gpu() -> Any:
    """PyTorch, where it is here and sees a GPU; else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def torch_seconds(torch: Any, f: Callable[[], Any], repeats: int) -> float:
    """The median time of a run, measured as ``seconds`` measures ours."""
    def taken(each: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(each):
            f()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / each

    first = [taken(1) for _ in range(4)]
    return statistics.median(taken(in_a_row(first[-1])) for _ in range(repeats))


def seconds(program: Program, repeats: int) -> float:
    """The median time of a run, of several one after the other."""
    first = program.seconds(4)
    return statistics.median(program.seconds(repeats, in_a_row(first[-1])))


def in_a_row(took: float) -> int:
    """Runs that are timed together: of short ones so many that waiting for the first is little."""
    return max(1, min(20, int(TOGETHER / took)))


def copy_bandwidth(device: Device, nbytes: int, repeats: int) -> float:
    """Bytes read and written a second by a copy on the device."""
    with device.current():
        a, b = device.allocate(nbytes), device.allocate(nbytes)
        times = []
        for _ in range(3 + repeats):
            begin = device.mark()
            device.copy(b.address, a.address, nbytes)
            times.append(device.seconds(begin, device.mark()))
    return 2 * nbytes / statistics.median(times[3:])


def ceilings(device: Device, torch: Any, nbytes: int, repeats: int) -> dict[str, float]:
    """What the device can do: bytes a second, and operations a second of PyTorch's products."""
    out = {"bandwidth": copy_bandwidth(device, nbytes, repeats)}
    for dtype, n in (("float32", 4096), ("float16", 8192), ("bfloat16", 8192)):
        if torch is not None:
            x = torch.randn(n, n, device="cuda", dtype=getattr(torch, dtype))
            out[dtype] = 2.0 * n**3 / torch_seconds(torch, lambda x=x: x @ x, 10)
    return out


def as_torch(torch: Any, array: np.ndarray, dtype: str) -> Any:
    if dtype == "bf16":
        return torch.tensor(array.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.tensor(array).cuda()


def measured(device: Device, w: Workload, at: Mapping[str, Path], torch: Any,
             options: argparse.Namespace) -> dict[str, Any]:
    """One workload: whether it is right, and how long everybody takes."""
    repeats = options.repeats
    folder = at[f"bench_{w.name}"]
    program = Program(device, folder)
    out: dict[str, Any] = {"about": w.about, "bytes": w.bytes, "flops": w.flops}
    specs = sorted(program.about["input"], key=lambda s: s["slot"])
    program.run()
    if not options.no_reference:
        want = w.numpy(*(decoded(drawn(s), s["dtype"]).astype(np.float64) for s in specs))
        kept = want.reshape(-1)[places(want.size, COMPARED)]
        out["error"] = difference(decoded_output(program), kept)
        out["ok"] = out["error"] <= w.tolerance
    out["tegg"] = seconds(program, repeats)
    out["predicted"] = program.about["predicted_seconds"]
    out["kernels"] = [[n, s] for n, s in program.per_kernel()]
    out["candidates"] = candidates(device, at, folder.name, program, w.tolerance, repeats)
    if torch is not None:
        given = [as_torch(torch, drawn(s), s["dtype"]) for s in specs]
        out |= others(torch, options, lambda *a: w.torch(torch, *a), given)
    return out


def others(torch: Any, options: argparse.Namespace, f: Callable[..., Any],
           given: Sequence[Any]) -> dict[str, Any]:
    """How long PyTorch takes: eager, compiled, and compiled with CUDA graphs."""
    repeats = options.repeats
    with torch.no_grad():
        out: dict[str, Any] = {"torch eager": torch_seconds(torch, lambda: f(*given), repeats)}
        for name in filter(None, options.compiled.split(",")):
            mode = COMPILED[name]
            try:
                torch.compiler.reset()
                made = torch.compile(f, mode=mode)
                out[name] = torch_seconds(torch, lambda made=made: made(*given), repeats)
            except (RuntimeError, ImportError, OSError) as e:  # it needs a compiler and Triton
                out[f"{name} says"] = f"{type(e).__name__}: {e}"[:300]
    return out


def candidates(device: Device, at: Mapping[str, Path], name: str, reference: Program,
               tolerance: float, repeats: int) -> list[dict[str, Any]]:
    """The plans of a workload that were not the best by prediction: their times, and whether they
    give what the best one gives."""
    want = decoded_output(reference)
    out = []
    for number in itertools.count(1):
        folder = at.get(f"{name}__{number}")
        if folder is None:
            return out
        try:
            program = Program(device, folder)
            program.run()
            error = difference(decoded_output(program), want)
            out.append({"plan": number, "templates": program.about["templates"], "error": error,
                        "ok": error <= 2 * tolerance,
                        "predicted": program.about["predicted_seconds"],
                        "tegg": seconds(program, repeats)})
        except BackendError as e:
            out.append({"plan": number, "ok": False, "says": str(e)})


def decoded_output(program: Program) -> np.ndarray:
    """The elements of the first result that are compared."""
    got = program.output(0).reshape(-1)
    return got[places(got.size, COMPARED)].astype(np.float64)


def model_row(device: Device, folder: Path, torch: Any,
              options: argparse.Namespace) -> dict[str, Any]:
    """A model, a run of which is one CUDA graph, beside PyTorch's on weights of the same sizes."""
    program = Program(device, folder)
    out: dict[str, Any] = {"about": "a model", "bytes": 0.0, "flops": 0.0,
                           "tegg": seconds(program, options.repeats),
                           "predicted": program.about["predicted_seconds"]}
    out["kernels"] = [[n, s] for n, s in program.per_kernel()]
    make = models(torch).get(folder.name) if torch is not None else None
    if make is not None:
        out |= others(torch, options, *make())
    return out


def judged(row: dict[str, Any], top: dict[str, float], dtype: str) -> dict[str, Any]:
    """Ratios to the others, and fractions of the ceilings."""
    name = {"f16": "float16", "bf16": "bfloat16"}.get(dtype, "float32")
    if row["bytes"] and "bandwidth" in top:
        row["fraction of bandwidth"] = row["bytes"] / row["tegg"] / top["bandwidth"]
    if row["flops"] and name in top:
        row["fraction of products"] = row["flops"] / row["tegg"] / top[name]
    for other in ("torch eager", "torch.compile", "torch.compile graphs"):
        if other in row:
            row[f"ratio to {other}"] = row[other] / row["tegg"]
    return row


def work(device: Device, at: Mapping[str, Path], options: argparse.Namespace
         ) -> Callable[[str], dict[str, Any]]:
    """What a worker does for a name: the ceilings, a model, or a workload."""
    torch = torch_with_gpu()
    workloads = {f"bench_{w.name}": w for w in WORKLOADS}

    def one(name: str) -> dict[str, Any]:
        if name == CEILINGS:
            return ceilings(device, torch, options.copy_bytes, options.repeats)
        if name in workloads:
            return measured(device, workloads[name], at, torch, options)
        return model_row(device, at[name], torch, options)

    return one


def wanted(at: Mapping[str, Path], only: str) -> dict[str, str]:
    """Workloads, then models, each with the dtype of its products."""
    found = {f"bench_{w.name}": w.inputs[0][1] for w in WORKLOADS
             if only in w.name and f"bench_{w.name}" in at}
    return found | {name: "f32" for name in sorted(at)
                    if only in name and described(at[name])["family"] == "models"}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("results.json"))
    parser.add_argument("--only", default="", help="workloads whose names contain this")
    parser.add_argument("--no-reference", action="store_true", help="times alone")
    parser.add_argument("--compiled", default=",".join(COMPILED),
                        help="ways in which PyTorch compiles, of " + ", ".join(COMPILED))
    parser.add_argument("--copy-bytes", type=int, default=1 << 29)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs that are timed")
    parser.add_argument("--seconds", type=float, default=600.0, help="that one workload may take")
    parser.add_argument("--worker", action="store_true", help="measure what stdin names")
    return parser.parse_args()


def main() -> int:
    options = parsed()
    if not options.worker:
        for line in missing():
            print(f"missing: {line}")
    try:
        device = open_device()
        at = {f.name: f for f in folders(device)}
    except BackendError as e:
        print(f"nothing can be measured: {e}")
        return 2
    if options.worker:
        return serve(work(device, at, options))
    dtypes, seen, top = wanted(at, options.only), [], dict[str, float]()
    given = ["--copy-bytes", str(options.copy_bytes), "--repeats", str(options.repeats),
             *["--no-reference"] * options.no_reference, "--compiled", options.compiled]
    names = (CEILINGS, *dtypes)
    for name, row in zip(names, rows(Path(__file__), given, names, options.seconds)):
        if name == CEILINGS:
            top = {k: v for k, v in row.items() if isinstance(v, float)}
            print(f"{device.name}: " + ", ".join(f"{k} {v:.3g}/s" for k, v in top.items())
                  + row.get("says", ""))
            continue
        row["name"] = name.removeprefix("bench_")
        seen.append(judged(row, top, dtypes[name]) if "tegg" in row else row)
        print(shown(row), flush=True)
        options.json.write_text(json.dumps({"device": device.name, "driver": device.version,
                                            "ceilings": top, "workloads": seen}, indent=1))
    right = top and all(r.get("ok", True) and all(c["ok"] for c in r.get("candidates", ()))
                        for r in seen)
    return 0 if right else 1


def shown(row: dict[str, Any]) -> str:
    if "tegg" not in row:
        return f"{row['name']:20s} FAIL {row['says']}"
    parts = [f"{row['tegg'] * 1e6:10.1f} us", "ok" if row.get("ok", True) else "WRONG"]
    parts += [f"{k} {v:.2f}" for k, v in row.items() if k.startswith(("fraction", "ratio"))]
    others = [c["tegg"] for c in row.get("candidates", ()) if c["ok"]]
    if others:
        parts.append(f"best of {len(others)} other plans {min(others) * 1e6:.1f} us")
    return f"{row['name']:20s} " + "  ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
