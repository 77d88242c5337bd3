"""A record of the suite as a table in Markdown, the one that the README shows.

    python benchmarks/peers/page.py [RECORD.json] [--halves]

With --halves that of bfloat16 alone, beside our float32.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from report import OWN, Row

HALVES, WINOGRAD = f"{OWN}.bf16", f"{OWN}.winograd"
RECORD = Path(__file__).resolve().parent.parent / "results" / "peers.json"


def duration(seconds: float) -> str:
    """Milliseconds in three digits, or microseconds where there is less than a tenth."""
    ms = seconds * 1e3
    return f"{seconds * 1e6:.2f} us" if ms < 0.1 else f"{ms:.2f}" if ms < 10 else f"{ms:.1f}"


def ratio(x: float | None) -> str:
    return "" if x is None else f"{x:.2f}"


def _pair(row: Row, own: str) -> list[str]:
    """Our median, in bold where it is not behind, and the best rival's with the ratio."""
    rival = row.rival(own)
    ours, over = duration(row.median[own]), row.against(own, rival)
    return [f"**{ours}**" if over <= 1 else ours,
            f"{duration(row.median[rival])} {rival} ({ratio(over)})"]


def _float32(row: Row) -> list[str]:
    ours, theirs = _pair(row, OWN)
    if WINOGRAD in row.median:
        ours += f" ({duration(row.median[WINOGRAD])})"
    return [ours, theirs]


def _heads(own: str, threads: int) -> tuple[str, str]:
    return f"{own}, {threads} thread" + "s" * (threads > 1), "best peer (ratio)"


def _runs(record: Mapping) -> dict[int, list[Row]]:
    names = [f.name for f in fields(Row)]
    return {r["threads"]: [Row(**{n: x[n] for n in names if n in x}) for x in r["rows"]]
            for r in record["runs"]}


def halves(record: Mapping) -> str:
    """Medians in bfloat16 of each number of threads, beside the best rival's and our float32."""
    runs = _runs(record)
    heads = [h for n in runs for h in (*_heads(HALVES, n), OWN)]
    out = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for rows in zip(*runs.values(), strict=True):
        cells = []
        for row in rows:
            if HALVES in row.median and row.rival(HALVES):
                cells += [*_pair(row, HALVES), duration(row.median[OWN])]
        if cells:
            out.append(f"| {rows[0].workload} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def page(record: Mapping) -> str:
    """Medians of each number of threads; the other columns are of the most threads."""
    runs = _runs(record)
    heads = [h for n in runs for h in _heads(OWN, n)]
    heads += ["of the limit", "in bf16", "memory", "first call, s", "torch.compile"]
    out = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for rows in zip(*runs.values(), strict=True):
        row = rows[-1]
        cells = [c for r in rows for c in _float32(r)]
        cells += [ratio(row.fraction), ratio(row.ratio(bf16=True)), ratio(row.memory),
                  ratio(row.first[OWN]), ratio(row.first.get("torch.compile"))]
        out.append(f"| {row.workload} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    given = [a for a in sys.argv[1:] if a != "--halves"]
    table = halves if "--halves" in sys.argv else page
    print(table(json.loads(Path(given[0] if given else RECORD).read_text())), end="")
