"""How far from the best cover each way to choose kernels ends, on a fixed set of graphs.

    python benchmarks/gap.py [--only encoder,resblock] [--seconds 60]

Per graph: what greedy choice, the heuristic search and stitching of repeated blocks cost above the
cover that the integer program proves to be the best, by the generic profile, and the seconds each
takes. Writes benchmarks/results/gap.md and .json, unless --only leaves graphs out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
LAYERS = (1, 2, 6, 12)
WAYS = ("greedy", "heuristic", "stitched")


def graphs() -> dict[str, Callable]:
    """Name -> what gives the graph: the suite, and encoders of several layers."""
    import graphs as suite
    from encoder import Encoder
    out: dict[str, Callable] = {n: lambda n=n: suite.graph(n) for n in suite.names()}
    out.update({f"encoder of {n} layers": lambda n=n: Encoder(n, 8, 128).g for n in LAYERS})
    return out


def measured(graph, target, costs, seconds: float) -> dict:
    """What each way costs above the optimum, and the seconds it takes."""
    from tegg.extract import problem_of
    from tegg.extract.heuristic import search
    from tegg.extract.milp import solve
    from tegg.extract.stitch import stitch
    from tegg.rewrite.compiler import Generic, lowering
    from tegg.rewrite.egraph import saturate
    classes = saturate(graph, (Generic(), lowering(target)),
                       features=(target.name, *target.features)).classes
    problem = problem_of(classes, costs, lowerable=target.unsupported, target=target.name)
    start = time.perf_counter()
    best = solve(problem, seconds, gap=0.0)
    row = {"candidates": len(problem.kernels), "values": len(problem.rank),
           "optimal": best.optimal, "seconds": {"milp": time.perf_counter() - start}}
    least = problem.total(best.used) if best.optimal and best.used is not None else best.bound
    start = time.perf_counter()
    found = search(problem, time.monotonic() + seconds)
    row["seconds"]["heuristic"] = time.perf_counter() - start
    start = time.perf_counter()
    stitched = stitch(problem, time.monotonic() + seconds)
    row["seconds"]["stitched"] = time.perf_counter() - start
    costs_of = {"greedy": found.first, "heuristic": found.cost,
                "stitched": None if stitched is None else stitched.cost}
    row["best_us"] = least * 1e6
    row["gap"] = {w: None if c is None else _share(c, least) for w, c in costs_of.items()}
    return row


def _share(cost: float, least: float) -> float:
    """How much more a cover costs; below the solver's tolerance, nothing."""
    from tegg.extract.milp import TOLERANCE
    share = cost / least - 1.0
    return share if share > TOLERANCE else 0.0


def text(rows: dict[str, dict]) -> str:
    """The table as Markdown."""
    lines = ["| graph | kernels to choose from | best, us predicted | proven | "
             + " | ".join(WAYS) + " | ms: milp, heuristic, stitched |",
             "|---|---:|---:|---|" + "---:|" * (len(WAYS) + 1)]
    for name, r in rows.items():
        gaps = ["-" if r["gap"][w] is None else f"{r['gap'][w]:.2%}" for w in WAYS]
        took = ", ".join(f"{r['seconds'][w] * 1e3:.0f}" for w in ("milp", "heuristic", "stitched"))
        lines.append(f"| {name} | {r['candidates']} | {r['best_us']:.1f} | "
                     f"{'yes' if r['optimal'] else 'no'} | {' | '.join(gaps)} | {took} |")
    worst = {w: max((r["gap"][w] for r in rows.values() if r["gap"][w] is not None),
                    default=math.nan) for w in WAYS}
    lines += ["", "Largest gap: " + ", ".join(f"{w} {v:.2%}" for w, v in worst.items()) + ".", ""]
    return "\n".join(lines)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--only", default="", help="comma-separated names of graphs")
    p.add_argument("--seconds", type=float, default=60.0, help="for the integer program")
    args = p.parse_args()
    os.environ.setdefault("TEGG_THREADS", "2")
    sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
    from run import cpu_name
    from tegg.extract.cost import load_costs
    from tegg.planning.target import find
    target, costs = find("cpu"), load_costs("cpu/generic", 2)
    rows = {}
    for name, graph in graphs().items():
        if not args.only or name in args.only.split(","):
            rows[name] = measured(graph(), target, costs, args.seconds)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    record = {"date": date.today().isoformat(), "machine": cpu_name(), "cores": os.cpu_count(),
              "profile": costs.name, "threads": costs.threads, "graphs": rows}
    out = (f"# Gaps to the best cover\n\n{record['machine']}, {record['cores']} cores, "
           f"{record['date']}. By the profile {costs.name}, {costs.threads} threads; "
           f"what each way costs above the optimum.\n\n{text(rows)}")
    print(out)
    if not args.only:
        (HERE / "results" / "gap.md").write_text(out, encoding="utf-8")
        (HERE / "results" / "gap.json").write_text(json.dumps(record, indent=1) + "\n",
                                                   encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
