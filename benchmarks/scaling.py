"""How compiling grows with a model: saturation and extraction of encoders of 2 to 64 layers.

    python benchmarks/scaling.py [LAYERS...]

Each size runs in a new process, so that nothing is warm: rules are read, checked and declared.
Prints a table with bars, and writes it to benchmarks/results/scaling.md and .json.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LAYERS = (2, 4, 8, 16, 32, 64)
ROUNDS = 3
BAR = 40  # characters

ONE = """
import sys, time, json
sys.path.insert(0, {tests!r})
from encoder import Encoder
from tegg.extract import extract
from tegg.planning.target import find
from tegg.rewrite.compiler import Generic
from tegg.rewrite.egraph import saturate
graph, target = Encoder({layers}, 1, 128).g, find("cpu")
costs = target.costs()
start, at = time.perf_counter(), time.process_time()
done = saturate(graph, Generic())
middle = time.process_time()
cover = extract(done.classes, costs, lowerable=target.unsupported, target=target.name)
end, wall = time.process_time(), time.perf_counter() - start
print(json.dumps([done.report.loaded, done.report.enodes, len(cover.kernels), middle - at,
                  end - middle, wall]))
"""


def measured(layers: int) -> dict:
    """Medians over new processes."""
    code = ONE.format(tests=str(HERE.parent / "tests"), layers=layers)
    runs = [json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                                      check=True).stdout) for _ in range(ROUNDS)]
    nodes, enodes, kernels, *_ = runs[0]
    saturate, extract = (statistics.median(r[i] for r in runs) for i in (3, 4))
    return {"layers": layers, "nodes": nodes, "enodes": enodes, "kernels": kernels,
            "saturate_s": round(saturate, 4), "extract_s": round(extract, 4),
            "total_s": round(saturate + extract, 4), "best_wall_s": round(min(
                r[5] for r in runs), 4),
            "ms_per_layer": round((saturate + extract) / layers * 1e3, 2)}


def text(rows: list[dict]) -> str:
    """The table as Markdown, and a bar per size: of equal length per layer where growth is linear.
    """
    head = list(rows[0])
    lines = [f"| {' | '.join(head)} |", f"|{'---:|' * len(head)}",
             *(f"| {' | '.join(str(r[k]) for k in head)} |" for r in rows), "", "```"]
    most = max(r["total_s"] for r in rows)
    for r in rows:
        first, second = (round(r[k] / most * BAR) for k in ("saturate_s", "extract_s"))
        lines.append(f"{r['layers']:3} layers {'#' * first}{'=' * second} {r['total_s']:.2f} s")
    return "\n".join([*lines, "```", "", "`#` saturation, `=` extraction; C is not compiled.", ""])


def main(layers: list[int]) -> None:
    rows = [measured(n) for n in layers or LAYERS]
    where = f"{platform.machine()}, {os.cpu_count()} threads, Python {platform.python_version()}"
    out = (f"# Saturation and extraction by layers\n\n{where}, cold: seconds of processor time, "
           f"medians of {ROUNDS}\nnew processes, and the best of the wall clock.\n\n{text(rows)}")
    print(out)
    if not layers:
        (HERE / "results" / "scaling.md").write_text(out, encoding="utf-8")
        (HERE / "results" / "scaling.json").write_text(
            json.dumps({"machine": where, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main([int(a) for a in sys.argv[1:]])
