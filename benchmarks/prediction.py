"""How well costs are predicted: per kernel, and in which order they put plans of one graph.

    python benchmarks/prediction.py [--threads 2] [--only softmax,mlp] [--plans 12] [--no-tune]
                                    [--json FILE]

Measures the machine first (tegg tune) unless --no-tune, which takes the profile of the cache. Per
kernel of the suite: the relative error of the predicted time, by the profile that is shipped for
such a processor and by the measured one. Per workload: covers that are the best under other prices,
or without a form or a kernel of the best one; Spearman's rank correlation of their predicted and
measured times, and the share of pairs in the right order, of those whose times differ by more than
a tenth. Writes benchmarks/results/prediction.md and .json, unless --only leaves workloads out.
Takes some minutes; best run while the machine does nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Sequence
from datetime import date
from itertools import combinations
from pathlib import Path

HERE = Path(__file__).parent
ROUNDS = 15
LIVES = 3       # of each plan in memory of its own: some is twice as fast as other
LOOKING = 1.5   # seconds in which the covers of one workload are looked for
APART = 0.1     # times that differ by less are in no order
WORST = 12      # kernels that the table names


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--only", default="", help="comma-separated workload names")
    p.add_argument("--plans", type=int, default=12,
                   help="of one workload by one profile, at most; 0 leaves them out")
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
    arguments = [a.copy() for a in free.values()]
    seen: dict[str, list[list[float]]] = {p: [] for p in profiles}
    calls = {}
    for _ in range(ROUNDS):
        for p, f in programs.items():
            calls[p] = f.profile(*arguments)
            seen[p].append([c["seconds"] for c in calls[p]])
    return [{"workload": name, "profile": p, "kernel": c["what"], "predicted_s": c["predicted"],
             "measured_s": statistics.median(times)}
            for p in profiles for c, times in zip(calls[p], zip(*seen[p]))]


def plans(name: str, profile: str, costs, count: int) -> dict:
    """The plans of one workload: predicted and measured time, and how well their orders agree."""
    import graphs
    from timing import interleaved
    from tegg.extract import Wanted
    from tegg.ir.signature import Signature
    from tegg.runtime.compiled import Compiled
    from tegg.runtime.driver import Options, candidate_plans, resolve
    graph, (_, free) = graphs.graph(name), graphs.workload(name)
    options = Options(priced(costs), cache=False)
    found = candidate_plans(graph, options, Wanted(count - 1, LOOKING))
    weights = {i: s.source for i, s in enumerate(graph.inputs) if s.kind == "weight"}
    _, target = resolve(options)
    kept, seen = [], []
    for _ in range(LIVES):
        kept.append({str(i): Compiled(Signature.of(graph), p, weights, target).bind(
            *[a.copy() for a in free.values()]) for i, p in enumerate(found)})
        seen.append([t.median for t in interleaved(kept[-1], rounds=3, budget_s=0.02).values()])
    times = [statistics.median(t) for t in zip(*seen)]
    predicted = [p.seconds for p in found]
    right, pairs = ordered(predicted, times)
    return {"workload": name, "profile": profile, "plans": len(found), "pairs": pairs,
            "right": right, "spearman": spearman(predicted, times),
            "lost": times[0] / min(times) - 1.0, "predicted_s": predicted, "measured_s": times}


def ordered(predicted: Sequence[float], times: Sequence[float]) -> tuple[int, int]:
    """Of the pairs whose times differ: how many are predicted in the right order, and how many
    there are."""
    right = pairs = 0
    for (p, s), (q, t) in combinations(zip(predicted, times), 2):
        if max(s, t) > (1.0 + APART) * min(s, t):
            right += (p - q) * (s - t) > 0
            pairs += 1
    return right, pairs


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """The correlation of ranks, ties at their middle; None below three pairs."""
    if len(a) < 3:
        return None
    x, y = _ranks(a), _ranks(b)
    return statistics.correlation(x, y) if len(set(x)) > 1 and len(set(y)) > 1 else None


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values]


def summary(rows: list[dict], ranks: list[dict], profile: str) -> dict:
    """The figures of one profile."""
    mine = [r for r in rows if r["profile"] == profile]
    wrong = sorted(abs(r["predicted_s"] / r["measured_s"] - 1.0) for r in mine)
    out = {"profile": profile, "kernels": len(wrong), "error_median": statistics.median(wrong),
           "error_p90": wrong[-(-9 * len(wrong) // 10) - 1],
           "rank_kernels": spearman([r["predicted_s"] for r in mine],
                                    [r["measured_s"] for r in mine])}
    found = [r for r in ranks if r["profile"] == profile]
    if found:
        known = [r["spearman"] for r in found if r["spearman"] is not None]
        pairs = sum(r["pairs"] for r in found)
        out |= {"plans": sum(r["plans"] for r in found), "pairs": pairs,
                "pairs_right": sum(r["right"] for r in found) / pairs if pairs else None,
                "spearman_median": statistics.median(known) if known else None,
                "lost_median": statistics.median(r["lost"] for r in found),
                "lost_most": max(r["lost"] for r in found)}
    return out


# ---- the report
def text(record: dict) -> str:
    """The figures as Markdown."""
    lines = [f"# Predicted against measured times\n\n{record['machine']}, {record['cores']} cores, "
             f"{record['threads']} threads, {record['date']}: `python benchmarks/prediction.py`.\n",
             *table(record["summary"])]
    if record["plans"]:
        lines += ["", "## Plans of one graph\n",
                  "right: of the pairs of plans whose times differ by a tenth. lost: by how much "
                  "the plan that is predicted to be the best is slower than the best.\n",
                  *table([{"workload": r["workload"], "profile": r["profile"],
                           "plans": r["plans"], "right": f"{r['right']} of {r['pairs']}",
                           "spearman": r["spearman"], "lost": r["lost"]}
                          for r in record["plans"]])]
    for p in (f["profile"] for f in record["summary"]):
        worst = sorted((r for r in record["kernels"] if r["profile"] == p),
                       key=lambda r: -abs(math.log(r["predicted_s"] / r["measured_s"])))[:WORST]
        lines += ["", f"## Kernels that are farthest off by the {p} profile\n",
                  *table([{"workload": r["workload"], "kernel": r["kernel"],
                           "predicted us": r["predicted_s"] * 1e6,
                           "measured us": r["measured_s"] * 1e6,
                           "ratio": r["predicted_s"] / r["measured_s"]} for r in worst])]
    return "\n".join(lines) + "\n"


def table(rows: Sequence[dict]) -> list[str]:
    """The lines of a table."""
    def cell(v: object) -> str:
        return "-" if v is None else f"{v:.3g}" if isinstance(v, float) else str(v)
    return [f"| {' | '.join(rows[0])} |", "|---" * len(rows[0]) + "|",
            *(f"| {' | '.join(map(cell, r.values()))} |" for r in rows)]


def main() -> int:
    args = parse()
    os.environ["TEGG_THREADS"] = str(args.threads)
    sys.path.insert(0, str(HERE))
    import graphs
    from run import cpu_name, versions
    from tegg.backends.cpu.target import target
    from tegg.extract.cost import load_costs
    start = time.monotonic()
    measured = target().costs() if args.no_tune else target().tune().costs
    shipped = target().shipped
    profiles = {shipped.removeprefix("cpu/"): load_costs(shipped, args.threads),
                "measured": measured}
    chosen = [n for n in graphs.names() if not args.only or n in args.only.split(",")]
    rows, ranks = [], []
    for name in chosen:
        rows += kernels(name, profiles)
        if args.plans:
            ranks += [plans(name, p, c, args.plans) for p, c in profiles.items()]
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    record = {"date": date.today().isoformat(), "machine": cpu_name(), "cores": os.cpu_count(),
              "threads": args.threads, "versions": versions(), "profile": measured.name,
              "seconds": time.monotonic() - start,
              "summary": [summary(rows, ranks, p) for p in profiles], "kernels": rows,
              "plans": ranks}
    print(text(record))
    path = args.json or (None if args.only else HERE / "results" / "prediction.json")
    if path is not None:
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(text(record), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
