"""``make bench``: tegg beside NumPy and PyTorch, models and their parts beside ONNX Runtime, too;
interleaved in one run; a table and JSON.

    python benchmarks/run.py [--suite along|wide] [--threads 2] [--only softmax,mlp] [--no-compile]
                             [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from datetime import date
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--suite", default="models", choices=("models", "along", "wide"),
                   help="models, ops along an axis, or parts of other models")
    p.add_argument("--only", default="", help="comma-separated workload names")
    p.add_argument("--no-compile", action="store_true", help="leave torch.compile out (slow)")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--json", type=Path, default=None, help="default: results/DATE-CPU-Nt.json")
    return p.parse_args()


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(x.split(":")[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    import importlib.metadata as m
    out = {"python": platform.python_version()}
    for name in ("tegg", "numpy", "egglog", "torch", "onnxruntime"):
        try:
            out[name] = m.version(name)
        except m.PackageNotFoundError:
            continue
    try:
        out["cc"] = subprocess.run(["cc", "--version"], capture_output=True, text=True,
                                   check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError):
        pass
    return out


def halved(tensors):
    """The weights of a model in bfloat16."""
    return {k: v.bfloat16() if v.is_floating_point() else v for k, v in tensors.items()}


def in_torch(out, first, fn, tensors, use_compile, suffix=""):
    """Add PyTorch, eager and compiled, to the contenders."""
    import torch

    def timed(f):
        def run():
            with torch.inference_mode():
                return f(*tensors)
        return run

    out[f"torch{suffix}"] = timed(fn)
    if use_compile:
        name = f"torch.compile{suffix}"
        torch._dynamo.reset()  # the lambdas of other workloads share its code
        out[name] = timed(torch.compile(fn))
        start = time.perf_counter()
        out[name]()
        first[name] = time.perf_counter() - start


def in_onnx(out, first, fn, tensors):
    """Add ONNX Runtime to the contenders, where it is installed."""
    import torch
    from onnx_models import session
    if all(importlib.util.find_spec(p) for p in ("onnx", "onnxruntime")):
        out["onnxruntime"], first["onnxruntime"] = session(torch, fn, tensors,
                                                           torch.get_num_threads())


def contenders(w, arrays, use_compile: bool):
    """Name -> function of no arguments, and name -> seconds of the first call."""
    import numpy as np

    import tegg
    values = list(arrays.values())
    first: dict[str, float] = {}
    out = {}

    weights = {k: arrays[k] for k in w.weights}
    free = [k for k in arrays if k not in w.weights]

    def body(*xs):
        given = {**weights, **dict(zip(free, xs))}
        return w.tegg(tegg, *[given[k] for k in arrays])

    start = time.perf_counter()
    program = tegg.compile(body)
    inputs = [arrays[k] for k in free]
    got = program(*inputs)
    first["tegg"] = time.perf_counter() - start
    reference = w.numpy(np, *[v.astype(np.float64) for v in values])
    worst = float(np.max(np.abs(got - reference)) / np.max(np.abs(reference)))
    assert worst < 1e-4, f"{w.name}: tegg differs from NumPy by {worst:.1e}"
    out["tegg"] = lambda: program(*inputs)
    bound = program.bind(*inputs)
    out["tegg.bind"] = bound
    out["numpy"] = lambda: w.numpy(np, *values)
    try:
        import torch
    except ImportError:
        return out, first
    tensors = [torch.from_numpy(v) for v in values]
    in_torch(out, first, lambda *xs: w.torch(torch, *xs), tensors, use_compile)
    return out, first


def wide_contenders(w, use_compile):
    """As ``contenders``; what a case is, is said once for both libraries."""
    import numpy as np
    from wide import Functions

    import tegg
    first: dict[str, float] = {}
    start = time.perf_counter()
    program = tegg.compile(lambda *xs: w.fn(tegg, *xs, *w.weights))
    got = program(*w.inputs)
    first["tegg"] = time.perf_counter() - start
    out = {"tegg": lambda: program(*w.inputs), "tegg.bind": program.bind(*w.inputs)}
    try:
        import torch
    except ImportError:
        return out, first
    f = Functions(torch.nn.functional, torch)
    weights = [torch.from_numpy(v) for v in w.weights]
    inputs = [torch.from_numpy(v) for v in w.inputs]
    in_torch(out, first, lambda *xs: w.fn(f, *xs, *weights), inputs, use_compile)
    try:
        in_onnx(out, first, lambda *xs: w.fn(f, *xs, *weights), inputs)
    except torch.onnx.errors.OnnxExporterError as e:
        print(f"{w.name}: not in ONNX Runtime: {str(e).splitlines()[0]}", file=sys.stderr)
    want = out["torch"]().numpy().astype(np.float64)  # bytes wrap around

    def off(a):
        return float(np.abs(a.astype(np.float64) - want).max() / np.abs(want).max())
    assert off(got) < 1e-4, f"{w.name}: tegg and PyTorch differ by {off(got):.1e}"
    if "onnxruntime" in out and off(out["onnxruntime"]()) >= 1e-4:
        print(f"{w.name}: what is exported to ONNX Runtime is something else", file=sys.stderr)
        del out["onnxruntime"], first["onnxruntime"]
    return out, first


def minilm_contenders(size, use_compile):
    """As ``contenders``, with what the compiled program is made of."""
    import minilm
    from contender import has_bf16

    import tegg
    program, out, first = minilm.contenders(*size)
    given = minilm.batch(*size)
    if has_bf16():
        halves = minilm.in_tegg(*given, tegg.Generic(), tegg.Bf16())
        out["tegg.bf16"] = lambda: halves(*given)
    try:
        import torch
    except ImportError:
        return out, first, program.stats
    tensors = [torch.from_numpy(a) for a in given]
    in_torch(out, first, minilm.in_torch(), tensors, use_compile)
    in_onnx(out, first, minilm.in_torch(), tensors)
    if has_bf16():
        in_torch(out, first, minilm.in_torch("bfloat16"), tensors, use_compile, ".bf16")
    agree("MiniLM", out, {"tegg": 1e-4, "onnxruntime": 1e-4, "tegg.bf16": 5e-2})
    return out, first, program.stats


def image_contenders(w, use_compile):
    """As ``contenders``, with what the compiled program is made of."""
    import numpy as np
    from contender import has_bf16
    from images import pixels

    import tegg
    model, image = w.tegg(), pixels()
    start = time.perf_counter()
    plain = tegg.compile(model)
    plain(image)
    first = {"tegg": time.perf_counter() - start}
    out = {"tegg": lambda: plain(image)}
    if w.winograd:
        tiled = tegg.compile(model, tegg.Generic(), tegg.Winograd())
        out["tegg.winograd"] = lambda: tiled(image)
    if has_bf16():
        halves = tegg.compile(model, tegg.Generic(), tegg.Bf16())
        out["tegg.bf16"] = lambda: halves(image)
    try:
        import torch
    except ImportError:
        return out, first, plain.program(image).stats
    weights = {k: torch.from_numpy(np.array(v)) for k, v in model.state_dict().items()}
    pixel = torch.from_numpy(image)
    in_torch(out, first, w.torch(torch, weights), [pixel], use_compile)
    in_onnx(out, first, w.torch(torch, weights), [pixel])
    if has_bf16():
        in_torch(out, first, w.torch(torch, halved(weights)), [pixel.bfloat16()], use_compile,
                 ".bf16")
    agree(w.name, out, {"tegg": 1e-4, "tegg.winograd": 1e-4, "onnxruntime": 1e-4,
                        "tegg.bf16": 5e-2})
    return out, first, plain.program(image).stats


def decoder_contenders(w, use_compile):
    """As ``image_contenders``: the programs of a Generator. ONNX Runtime is none of them: PyTorch's
    exporter takes the caches for constants."""
    import decoders
    import numpy as np
    from contender import has_bf16

    import tegg
    model = decoders.model()
    start = time.perf_counter()
    program, run = decoders.in_tegg(model, w)
    run()
    first = {"tegg": time.perf_counter() - start}
    _, halves = decoders.in_tegg(model, w, tegg.Generic(), tegg.Bf16())
    out = {"tegg": run, "tegg.bf16": halves}
    try:
        import torch
    except ImportError:
        return out, first, program.stats
    weights = {k: torch.from_numpy(np.array(v)) for k, v in model.state_dict().items()}
    tokens = [torch.from_numpy(w.tokens())]
    in_torch(out, first, decoders.in_torch(torch, weights, w), tokens, use_compile)
    if has_bf16():
        in_torch(out, first, decoders.in_torch(torch, halved(weights), w), tokens, use_compile,
                 ".bf16")
    agree(w.name, out, {"tegg": 1e-4, "tegg.bf16": 5e-2})
    return out, first, program.stats


def agree(workload, out, limits):
    """That contenders give what PyTorch gives, over its largest value."""
    import numpy as np
    reference = out["torch"]().numpy()
    for name in out.keys() & limits.keys():
        worst = float(np.abs(out[name]() - reference).max() / np.abs(reference).max())
        assert worst < limits[name], f"{workload}: {name} and PyTorch differ by {worst:.1e}"


def main() -> int:
    args = parse()
    os.environ.setdefault("OMP_NUM_THREADS", str(args.threads))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(args.threads))
    os.environ["TEGG_THREADS"] = str(args.threads)
    sys.path[:0] = [str(HERE), str(HERE / "peers")]
    from rich.console import Console
    from rich.table import Table
    import decoders
    import minilm
    from along import ALONG
    from images import IMAGES
    from suite import SUITE
    from timing import interleaved
    from windows import WINDOWS
    try:
        import torch
        torch.set_num_threads(args.threads)
    except ImportError:
        pass
    only = set(filter(None, args.only.split(",")))
    rows = []
    cases = (*SUITE, *WINDOWS) if args.suite == "models" else ALONG
    if args.suite == "wide":
        from wide import WIDE as cases
    for w in cases:
        if only and w.name not in only:
            continue
        fs, first = (wide_contenders(w, not args.no_compile) if args.suite == "wide"
                     else contenders(w, w.inputs(), not args.no_compile))
        timings = interleaved(fs, args.rounds)
        rows.append({"workload": w.name, "about": w.about, "first_call_s": first,
                     "ms": {k: t.median * 1e3 for k, t in timings.items()},
                     "best_ms": {k: t.best * 1e3 for k, t in timings.items()}})
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    whole = [(f"minilm_{b}x{t}", f"all-MiniLM-L6-v2, {b} x {t} tokens",
              partial(minilm_contenders, (b, t))) for b, t in minilm.SIZES]
    whole += [(w.name, w.about, partial(image_contenders, w)) for w in IMAGES]
    whole += [(w.name, w.about, partial(decoder_contenders, w)) for w in decoders.DECODERS]
    for name, about, made in whole if args.suite == "models" else ():
        if only and name not in only:
            continue
        fs, first, stats = made(not args.no_compile)
        timings = interleaved(fs, args.rounds, 0.3)
        rows.append({"workload": name, "about": about, "first_call_s": first,
                     "ms": {k: t.median * 1e3 for k, t in timings.items()},
                     "best_ms": {k: t.best * 1e3 for k, t in timings.items()}, "stats": stats})
    names = list(dict.fromkeys(k for r in rows for k in r["ms"]))
    table = Table(title=f"median ms, {args.threads} threads, {cpu_name()}")
    for c in ("workload", *names):
        table.add_column(c, justify="left" if c == "workload" else "right")
    for r in rows:
        table.add_row(r["workload"], *(f"{r['ms'][n]:.4g}" if n in r["ms"] else "-" for n in names))
    Console(width=160).print(table)
    for r in rows:
        print(f"{r['workload']}: first call " + ", ".join(
            f"{k} {v:.2f} s" for k, v in r["first_call_s"].items()))
        if "stats" in r:
            st = r["stats"]
            print(f"{r['workload']}: arena {st['arena_bytes'] / 2**20:.1f} MB, "
                  f"{st['arena_bytes'] / max(1, st['live_bytes']):.2f} of the largest live set; "
                  f"saturation {st['saturate_seconds']:.2f} s, extraction "
                  f"{st['extract_seconds']:.2f} s, lowering {st['lower_seconds']:.2f} s")
    record = {"date": date.today().isoformat(), "machine": cpu_name(), "cores": os.cpu_count(),
              "threads": args.threads, "versions": versions(), "rows": rows}
    slug = "-".join("".join(c if c.isalnum() else " " for c in cpu_name()).lower().split())
    suite = "" if args.suite == "models" else f"-{args.suite}"
    name = f"{record['date']}-{slug}-{args.threads}t{suite}.json"
    path = args.json or HERE / "results" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
