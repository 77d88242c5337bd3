"""What kernels that tests emit for CUDA take of a GPU, as NVIDIA's assembler says: registers,
shared memory and spills, by test and architecture, to benchmarks/results/cuda-kernels.json.

    python tools/cuda_report.py          # runs the tests: minutes
    python tools/cuda_report.py FILE     # of what tests have written with TEGG_KERNEL_REPORT=FILE
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "benchmarks" / "results" / "cuda-kernels.json"


def run_tests(path: Path) -> int:
    """The tests that emit kernels for CUDA, whose kernels go to a file."""
    tests = sorted(str(p) for p in (ROOT / "tests").glob("test_*.py")
                   if "simt" in p.read_text(encoding="utf-8"))
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not long", *tests]
    environment = {**os.environ, "TEGG_KERNEL_REPORT": str(path)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def summary(lines: Iterable[str]) -> list[dict[str, Any]]:
    """A row for each test and architecture."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in map(json.loads, lines):
        groups[row["test"].partition("[")[0], row["sm"]].append(row)
    return [{"test": test, "sm": sm, "kernels": len(rows),
             "registers": {"median": median(r["registers"] for r in rows),
                           "most": max(r["registers"] for r in rows)},
             "shared bytes": max(r["shared"] for r in rows),
             "spilling": {r["kernel"]: r["spilled"] for r in rows if r["spilled"]}}
            for (test, sm), rows in sorted(groups.items())]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        given = sys.argv[1:]
        path = Path(given[0]) if given else Path(folder) / "kernels.jsonl"
        failed = 0 if given else run_tests(path)
        if not path.is_file():
            print("no kernel was compiled: pip install nvidia-cuda-nvrtc-cu12")
            return 2
        rows = summary(path.read_text(encoding="utf-8").splitlines())
    RESULT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    kernels = sum(r["kernels"] for r in rows)
    print(f"{RESULT.relative_to(ROOT)}: {kernels} kernels, "
          f"{sum(len(r['spilling']) for r in rows)} of them spill")
    return failed


if __name__ == "__main__":
    sys.exit(main())
