"""``make metal``: on a Mac, is every family of kernels right, and how fast is it.

    python benchmarks/metal.py [--scale 1.0] [--only softmax,matmul] [--through metal]

First each family runs on the GPU and is compared with the CPU backend, then small demo models:
a sentence encoder, GPT-2 and Llama with their caches, ViT, ResNet. Then come times, beside NumPy
and MLX where it is installed: the seconds of kernels (one command buffer each, with the wait for
it), bytes and flops a second, and the targets: 85 % of the speed of a copy for what memory bounds,
1.2 times of MLX's time for products. The models are timed at real sizes, with random weights.
What fails is told and kept in the report, and the rest goes on; the exit status is 1 then, or where
something is wrong, and 2 where there is no GPU to run on.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import tegg
from tegg.errors import BackendError

sys.path.insert(0, str(Path(__file__).parent))
import metal_models
from metal_models import error_of

HERE = Path(__file__).parent
COPY_SHARE, MLX_SHARE = 0.85, 1.2
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Family:
    """fn: in tegg. shapes: of its arguments at scale 1. bound: "bytes", or "flops" of a product."""

    fn: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    bound: str = "bytes"
    numpy: Callable[..., Any] | None = None
    mlx: Callable[..., Any] | None = None
    dtype: str = "f32"


def _attention(q, k, v):
    return ((q @ k.swapaxes(-1, -2)) * 0.125).softmax(-1) @ v


def _grouped(q, k, v):
    return tegg.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def _mlx_attention(mx, q, k, v, mask=None):
    q, k, v = (a if a.ndim == 4 else a[None] for a in (q, k, v))
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask=mask)


def _norm(x, g):
    d = x - x.mean(-1, keepdim=True)
    return d / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt() * g


def _np_softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


FAMILIES = {
    "copy": Family(lambda x: x * 1.5, ((4096, 4096),), numpy=lambda x: x * 1.5,
                   mlx=lambda mx, x: x * 1.5),
    "gelu": Family(lambda x, b: (x + b).gelu(), ((4096, 4096), (4096,))),
    "transpose": Family(lambda x: x.T + 1, ((4096, 4096),), numpy=lambda x: x.T + 1,
                        mlx=lambda mx, x: x.T + 1),
    "softmax": Family(lambda x: x.softmax(-1), ((4096, 4096),), numpy=_np_softmax,
                      mlx=lambda mx, x: mx.softmax(x, axis=-1)),
    "norm": Family(_norm, ((4096, 4096), (4096,))),
    "row sums": Family(lambda x: x.sum(-1), ((4096, 4096),), numpy=lambda x: x.sum(-1),
                       mlx=lambda mx, x: x.sum(axis=-1)),
    "column sums": Family(lambda x: x.sum(0), ((4096, 4096),), numpy=lambda x: x.sum(0),
                          mlx=lambda mx, x: x.sum(axis=0)),
    "sum": Family(lambda x: x.sum(), ((4096, 4096),), numpy=np.sum, mlx=lambda mx, x: x.sum()),
    "running sum": Family(lambda x: x.cumsum(-1), ((1024, 1024),)),
    "gather": Family(lambda x, y: x[(y * 0).cast("i32")], ((4096, 64), (4096,))),
    "half": Family(lambda x: x * 2 + 1, ((4096, 4096),), dtype="f16"),
    "bf16": Family(lambda x: x * 2 + 1, ((4096, 4096),), dtype="bf16"),
    "matmul": Family(lambda x, w: x @ w, ((2048, 2048), (2048, 2048)), "flops", np.matmul,
                     lambda mx, x, w: x @ w),
    "matmul f16": Family(lambda x, w: x @ w, ((2048, 2048), (2048, 2048)), "flops", None,
                         lambda mx, x, w: x @ w, "f16"),
    "matmul bf16": Family(lambda x, w: x @ w, ((2048, 2048), (2048, 2048)), "flops",
                          dtype="bf16"),
    "one row": Family(lambda x, w: x @ w, ((1, 4096), (4096, 4096)), "bytes", np.matmul,
                      lambda mx, x, w: x @ w),
    "one row turned": Family(lambda x, w: x @ w.T, ((1, 4096), (4096, 4096)), "bytes",
                             lambda x, w: x @ w.T, lambda mx, x, w: x @ w.T),
    "few rows f16": Family(lambda x, w: x @ w.T, ((8, 4096), (4096, 4096)), "bytes", None,
                           lambda mx, x, w: x @ w.T, "f16"),
    "scatter": Family(lambda x, y: x.index_add(0, (y * 0).cast("i32"), x), ((4096, 64), (4096,))),
    "mlp": Family(lambda x, w, v: (x @ w).gelu() @ v, ((1024, 512), (512, 2048), (2048, 512)),
                  "flops"),
    "attention": Family(_attention, ((16, 512, 64),) * 3, "flops", None, _mlx_attention),
    "attention f16": Family(tegg.scaled_dot_product_attention, ((16, 512, 64),) * 3, "flops",
                            None, _mlx_attention, "f16"),
    "attention grouped": Family(_grouped, ((1, 16, 512, 64), *((1, 4, 512, 64),) * 2), "flops",
                                None, lambda mx, *a: _mlx_attention(mx, *a, mask="causal")),
}


def arrays(family: Family, scale: float) -> list[np.ndarray]:
    """Arguments of a family; extents of 64 and more are scaled, to multiples of 16."""
    kind = tegg.dtype(family.dtype).numpy
    return [RNG.standard_normal([n if n < 64 else max(1, round(n * scale / 16)) * 16
                                 for n in shape]).astype(kind) for shape in family.shapes]


def check(family: Family, scale: float) -> float:
    """How far the GPU is from the CPU."""
    given = arrays(family, min(scale, 0.0625))
    return error_of(tegg.compile(family.fn, *metal_models.gpu())(*given),
                    tegg.compile(family.fn)(*given))


def best(run: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def measure(family: Family, scale: float, repeats: int) -> dict[str, float]:
    """Seconds, and bytes or flops a second of the kernels."""
    given = arrays(family, scale)
    program = tegg.trace(family.fn, given).graph.compile(metal_models.gpu())
    rows = program.profile(*given, repeats=repeats)
    out = {"seconds": sum(r["seconds"] for r in rows), "kernels": float(len(rows)),
           "predicted_seconds": sum(r["predicted"] for r in rows)}
    result = program(*given)
    moved = sum(a.nbytes for a in (*given, *result.values()))
    out["bytes_per_second"] = moved / out["seconds"]
    if family.bound == "flops" and len(given) == 2:
        (m, k), (_, n) = (a.shape for a in given)
        out["flops_per_second"] = 2 * m * n * k / out["seconds"]
    if family.numpy is not None:
        out["numpy_seconds"] = best(lambda: family.numpy(*given), repeats)
    if family.mlx is not None and importlib.util.find_spec("mlx") is not None:
        import mlx.core as mx
        there = [mx.array(a) for a in given]
        mx.eval(there)
        out["mlx_seconds"] = best(lambda: mx.eval(family.mlx(mx, *there)), repeats)
    return out


def verdicts(times: dict[str, dict[str, float]]) -> dict[str, bool]:
    """Which targets are met, of those that were measured."""
    copy = times.get("copy", {}).get("bytes_per_second")
    out = {}
    for name, row in times.items():
        if name not in FAMILIES:
            continue
        if FAMILIES[name].bound == "bytes" and copy:
            out[f"{name} at {COPY_SHARE:.0%} of a copy"] = (
                row["bytes_per_second"] >= COPY_SHARE * copy)
        if FAMILIES[name].bound == "flops" and "mlx_seconds" in row:
            out[f"{name} within {MLX_SHARE} of MLX"] = (
                row["seconds"] <= MLX_SHARE * row["mlx_seconds"])
    return out


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--scale", type=float, default=1.0, help="of every extent")
    p.add_argument("--only", type=_named(FAMILIES), default=list(FAMILIES),
                   help=f"comma-separated, of {', '.join(FAMILIES)}")
    p.add_argument("--repeats", type=int, default=20)
    p.add_argument("--models", type=_named(metal_models.MODELS), default=list(metal_models.MODELS),
                   help=f"comma-separated, of {', '.join(metal_models.MODELS)}; '' for none")
    p.add_argument("--small", action="store_true", help="time the models at the sizes of the check")
    p.add_argument("--through", choices=("metalcompute", "metal"), default="metalcompute",
                   help="the package, or Apple's framework itself")
    p.add_argument("--json", type=Path, default=None, help="default: results/DATE-metal.json")
    args = p.parse_args(argv)
    metal_models.THROUGH = args.through
    try:
        device = metal_models.gpu()[1].target.chip
    except BackendError as e:
        print(f"make metal runs on the GPU of a Mac: {e}", file=sys.stderr)
        return 2
    mlx = importlib.util.find_spec("mlx") is not None
    print(f"{device}, {platform.platform()}, through {args.through}; "
          f"{'beside MLX' if mlx else 'without MLX (pip install mlx to compare)'}")
    report: dict[str, Any] = {
        "machine": platform.platform(), "through": args.through, "device": device,
        "tegg": tegg.__version__, "scale": args.scale, "failures": {}}
    names, failures = (*args.only, *args.models), report["failures"]
    print(f"\nIs it right? {len(names)} programs on the GPU, beside the CPU")
    report["errors"] = errors_of(names, args.scale, failures)
    wrong = [n for n, e in report["errors"].items() if not e < allowed(n)]
    right = [n for n in report["errors"] if n not in wrong]
    print(f"\nHow fast is it? {len(right)} programs that are right; best of {args.repeats} runs")
    report["times"] = times_of(right, args, failures)
    report["targets"] = verdicts(report["times"])
    print()
    for what, met in report["targets"].items():
        print(f"{'met   ' if met else 'MISSED'}  {what}")
    path = args.json or HERE / "results" / f"{date.today()}-metal.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1))
    for label, bad in (("WRONG", wrong), ("FAILED", sorted(failures))):
        if bad:
            print(f"{label}: {', '.join(bad)}")
    print(f"all of it is in {path}")
    return int(bool(wrong or failures))


def _named(known: Iterable[str]) -> Callable[[str], list[str]]:
    """A comma-separated list of what there is."""
    def names(text: str) -> list[str]:
        found = [n for n in text.split(",") if n]
        for n in found:
            if n not in known:
                raise argparse.ArgumentTypeError(f"there is no {n!r}; there are {', '.join(known)}")
        return found
    return names


def allowed(name: str) -> float:
    """How far a family or model may be from the CPU."""
    return 2e-2 if name in FAMILIES and FAMILIES[name].dtype != "f32" else 1e-3


def errors_of(names: Sequence[str], scale: float, failures: dict[str, str]) -> dict[str, float]:
    """How far families and models are from the CPU; said as they come."""
    def one(name: str) -> tuple[float, str]:
        e = check(FAMILIES[name], scale) if name in FAMILIES else metal_models.check(name)
        return e, f"differs by {e:.1e}{'' if e < allowed(name) else '  WRONG'}"

    return _each(names, one, failures)


def times_of(names: Sequence[str], args: argparse.Namespace,
             failures: dict[str, str]) -> dict[str, dict[str, float]]:
    """What was measured of families and models; said as it comes."""
    def one(name: str) -> tuple[dict[str, float], str]:
        found = (measure(FAMILIES[name], args.scale, args.repeats) if name in FAMILIES else
                 metal_models.measure(name, args.repeats, args.small))
        return found, "  ".join(f"{k} {v:.3g}" for k, v in found.items())

    return _each(names, one, failures)


def _each(names: Sequence[str], one: Callable[[str], tuple[Any, str]],
          failures: dict[str, str]) -> dict[str, Any]:
    """What is found of each, by name; of one that fails the words are kept, and others go on."""
    out = {}
    for name in names:
        try:
            out[name], words = one(name)
        except Exception as e:  # noqa: BLE001  a first run on a Mac shall tell all it can
            failures[name] = f"{type(e).__name__}: {e}"
            words = f"FAILED  {failures[name].splitlines()[0]}"
        print(f"{name:18} {words}", flush=True)
    return out


if __name__ == "__main__":
    sys.exit(main())
