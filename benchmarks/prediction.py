"""How well costs are predicted: per kernel, and in which order they put plans of one graph.

    python benchmarks/prediction.py [--threads 2] [--only softmax,mlp] [--seconds 20] [--no-tune]
                                    [--json FILE]

Measures the machine first (tegg tune) unless --no-tune, which takes the profile of the cache. Per
kernel of the suite: the relative error of the predicted time, by the generic profile and by the
measured one. Per workload: Spearman's rank correlation of predicted and measured time over the
plans that search="measure" tries. Best run while the machine does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
ROUNDS = 15


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--only", default="", help="comma-separated workload names")
    p.add_argument("--seconds", type=float, default=20.0,
                   help="for the plans of one workload by one profile; 0 leaves them out")
    p.add_argument("--no-tune", action="store_true", help="take the profile of the cache")
    p.add_argument("--json", type=Path, default=None)
    return p.parse_args()


def priced(costs):
    """A stack that compiles for this CPU at given costs."""
    import tegg
    from tegg.backends.cpu.target import Cpu

    class Priced(Cpu):
        def costs(self):
            return costs
    return tegg.Generic(), tegg.Compiler(target=Priced(), name=costs.name)


def kernels(name: str, profiles: dict) -> list[dict]:
    """Predicted and measured seconds of every kernel, by each profile, in turns."""
    import tegg
    from graphs import workload
    body, free = workload(name)
    programs = {p: tegg.compile(body, *priced(c)) for p, c in profiles.items()}
    seen: dict[str, list[list[float]]] = {p: [] for p in profiles}
    calls = {}
    for _ in range(ROUNDS):
        for p, f in programs.items():
            calls[p] = f.profile(*[a.copy() for a in free.values()])
            seen[p].append([c["seconds"] for c in calls[p]])
    return [{"workload": name, "profile": p, "kernel": c["what"], "predicted_s": c["predicted"],
             "measured_s": statistics.median(times)}
            for p in profiles for c, times in zip(calls[p], zip(*seen[p]))]


def plans(name: str, profile: str, costs, seconds: float) -> dict:
    """The plans of one workload: predicted and measured time, and how well their orders agree."""
    import tegg
    from graphs import workload
    body, free = workload(name)
    f = tegg.compile(body, *priced(costs), search="measure", search_s=seconds, cache=False)
    tried = [t for t in f.program(*free.values()).plan.tried if t.seconds is not None]
    rank = spearman([t.predicted for t in tried], [t.seconds for t in tried])
    return {"workload": name, "profile": profile, "plans": len(tried), "spearman": rank,
            "best_is_first": min(tried, key=lambda t: t.seconds) is tried[0],
            "lost": tried[0].seconds / min(t.seconds for t in tried) - 1.0,
            "tried": [asdict(t) for t in tried]}


def spearman(a: list[float], b: list[float]) -> float | None:
    """The correlation of ranks, ties at their middle; None below three pairs."""
    if len(a) < 3:
        return None
    x, y = _ranks(a), _ranks(b)
    return statistics.correlation(x, y) if len(set(x)) > 1 and len(set(y)) > 1 else None


def _ranks(values: list[float]) -> list[float]:
    return [sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values]


def summary(rows: list[dict], ranks: list[dict], profile: str) -> dict:
    """The figures of one profile."""
    wrong = sorted(abs(r["predicted_s"] / r["measured_s"] - 1.0) for r in rows
                   if r["profile"] == profile)
    mine = [r for r in ranks if r["profile"] == profile]
    known = [r["spearman"] for r in mine if r["spearman"] is not None]
    return {"profile": profile, "kernels": len(wrong), "error_median": statistics.median(wrong),
            "error_p90": wrong[-(-9 * len(wrong) // 10) - 1],
            "spearman_median": statistics.median(known) if known else None,
            "lost_median": statistics.median(r["lost"] for r in mine) if mine else None}


def main() -> int:
    args = parse()
    os.environ["TEGG_THREADS"] = str(args.threads)
    sys.path.insert(0, str(HERE))
    from rich.console import Console
    from rich.table import Table

    import graphs
    from run import cpu_name, versions
    from tegg.backends.cpu.target import target
    from tegg.extract.cost import load_costs
    if not args.no_tune:
        target().tune().write()
    measured = target().costs()
    profiles = {"generic": load_costs("cpu/generic", args.threads), "measured": measured}
    chosen = [n for n in graphs.names() if not args.only or n in args.only.split(",")]
    rows, ranks = [], []
    for name in chosen:
        rows += kernels(name, profiles)
        if args.seconds:
            ranks += [plans(name, p, c, args.seconds) for p, c in profiles.items()]
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    table = Table(title=f"predicted against measured, {args.threads} threads, {cpu_name()}")
    figures = [summary(rows, ranks, p) for p in profiles]
    for column in figures[0]:
        table.add_column(column)
    for f in figures:
        table.add_row(*("-" if v is None else f"{v:.3g}" if isinstance(v, float) else str(v)
                        for v in f.values()))
    Console(width=140).print(table)
    record = {"date": date.today().isoformat(), "machine": cpu_name(), "cores": os.cpu_count(),
              "threads": args.threads, "versions": versions(), "profile": measured.name,
              "summary": figures, "kernels": rows, "plans": ranks}
    slug = "-".join("".join(c if c.isalnum() else " " for c in cpu_name()).lower().split())
    path = args.json or HERE / "results" / (
        f"{record['date']}-{slug}-{args.threads}t-prediction.json")
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
