"""A record of the suite as a table in Markdown, the one that the README shows.

    python benchmarks/peers/page.py [RECORD.json]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from report import OWN, Row

RECORD = Path(__file__).resolve().parent.parent / "results" / "peers.json"


def duration(seconds: float) -> str:
    """Milliseconds in three digits, or microseconds where there are fewer than a hundredth."""
    ms = seconds * 1e3
    return f"{seconds * 1e6:.2f} us" if ms < 0.01 else f"{ms:.2f}" if ms < 10 else f"{ms:.1f}"


def ratio(x: float | None) -> str:
    return "" if x is None else f"{x:.2f}"


def _pair(row: Row) -> list[str]:
    """Our best call, in bold where no rival's is shorter, and the best rival's."""
    rival = row.fastest(False, "best")
    ours = duration(row.best[OWN])
    if row.best[OWN] <= row.best[rival]:
        ours = f"**{ours}**"
    if "tegg.winograd" in row.best:
        ours += f" ({duration(row.best['tegg.winograd'])})"
    return [ours, f"{duration(row.best[rival])} {rival}"]


def page(record: Mapping) -> str:
    """Best calls of each number of threads; the other columns are of the most threads."""
    names = [f.name for f in fields(Row)]
    runs = {r["threads"]: [Row(**{n: x[n] for n in names}) for x in r["rows"]]
            for r in record["runs"]}
    heads = [h for n in runs for h in (f"tegg, {n} thread" + "s" * (n > 1), "best peer")]
    heads += ["of the limit", "in bf16", "memory", "first call, s", "torch.compile"]
    out = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for rows in zip(*runs.values(), strict=True):
        row = rows[-1]
        cells = [c for r in rows for c in _pair(r)]
        cells += [ratio(row.fraction), ratio(row.ratio("best", bf16=True)), ratio(row.memory),
                  ratio(row.first[OWN]), ratio(row.first.get("torch.compile"))]
        out.append(f"| {row.workload} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(page(json.loads(Path(sys.argv[1] if len(sys.argv) > 1 else RECORD).read_text())), end="")
