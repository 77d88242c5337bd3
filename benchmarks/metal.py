"""``make metal``: on a Mac, is every family of kernels right, and how fast is it.

    python benchmarks/metal.py [--scale 1.0] [--only softmax,matmul] [--json FILE]

First each family runs on the GPU and is compared with the CPU backend, then a small sentence
encoder. Then come times, beside NumPy and MLX where it is installed: the seconds of kernels (one
command buffer each, with the wait for it), bytes and flops a second, and the targets: 85 % of the
speed of a copy for what memory bounds, 1.2 times of MLX's time for products.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import tegg
from tegg.errors import BackendError
from tegg.models.bert import Bert, BertConfig, SentenceEncoder

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
    "mlp": Family(lambda x, w, v: (x @ w).gelu() @ v, ((1024, 512), (512, 2048), (2048, 512)),
                  "flops"),
    "attention": Family(_attention, ((16, 512, 64), (16, 512, 64), (16, 512, 64)), "flops"),
}


def arrays(family: Family, scale: float) -> list[np.ndarray]:
    """Arguments of a family; extents are multiples of 16, but for the smallest."""
    kind = tegg.dtype(family.dtype).numpy
    return [RNG.standard_normal([max(1, round(n * scale / 16)) * 16 for n in shape]).astype(kind)
            for shape in family.shapes]


def error_of(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference, relative to the largest value."""
    got, want = (np.asarray(a).astype(np.float64) for a in (got, want))
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30))


def check(family: Family, scale: float) -> float:
    """How far the GPU is from the CPU."""
    given = arrays(family, min(scale, 0.0625))
    return error_of(tegg.compile(family.fn, device="metal")(*given),
                    tegg.compile(family.fn)(*given))


def check_encoder() -> float:
    """The same of a sentence encoder of the shape of MiniLM, two layers of it, random weights."""
    encoder = SentenceEncoder(Bert(BertConfig(
        vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128, max_position_embeddings=32)))
    ids, mask = RNG.integers(0, 64, (2, 11)), np.ones((2, 11), np.int64)
    mask[0, 7:] = 0
    return error_of(tegg.compile(encoder, device="metal")(ids, mask),
                    tegg.compile(encoder)(ids, mask))


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
    program = tegg.trace(family.fn, given).graph.compile([tegg.Generic()], device="metal")
    rows = program.profile(*given, repeats=repeats)
    out = {"seconds": sum(r["seconds"] for r in rows), "dispatches": float(len(rows))}
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
    p.add_argument("--only", default="", help="comma-separated families")
    p.add_argument("--repeats", type=int, default=20)
    p.add_argument("--json", type=Path, default=None, help="default: results/DATE-metal.json")
    args = p.parse_args(argv)
    chosen = args.only.split(",") if args.only else list(FAMILIES)
    try:
        tegg.Metal()
    except BackendError as e:
        print(e, file=sys.stderr)
        return 2
    report: dict[str, Any] = {"machine": platform.platform(), "scale": args.scale, "errors": {},
                              "times": {}}
    for name in chosen:
        report["errors"][name] = check(FAMILIES[name], args.scale)
        print(f"{name:12} differs by {report['errors'][name]:.1e}")
    report["errors"]["encoder"] = check_encoder()
    print(f"{'encoder':12} differs by {report['errors']['encoder']:.1e}")
    wrong = [n for n, e in report["errors"].items()
             if not e < (2e-2 if n in FAMILIES and FAMILIES[n].dtype != "f32" else 1e-3)]
    for name in chosen if not wrong else ():
        row = report["times"][name] = measure(FAMILIES[name], args.scale, args.repeats)
        print(f"{name:12} " + "  ".join(f"{k} {v:.3g}" for k, v in row.items()))
    report["targets"] = verdicts(report["times"])
    for what, met in report["targets"].items():
        print(f"{'met ' if met else 'MISSED'}  {what}")
    path = args.json or HERE / "results" / f"{date.today()}-metal.json"
    path.write_text(json.dumps(report, indent=1))
    print(f"{path}{'; WRONG: ' + ', '.join(wrong) if wrong else ''}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
