"""All that the bundle tells of this machine's GPU: ``python FOLDER``. Results, prices, times; what
fails is said, and the rest goes on."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent
SCRIPTS = (("run.py", "correct.json"), ("tune.py", "prices.json"), ("gpu.py", "results.json"))
SECONDS = 3600.0  # that one of them may take
NOTHING = 2       # their status where nothing can run


def main() -> int:
    if importlib.util.find_spec("numpy") is None:
        print("missing: NumPy, without which nothing can run; pip install numpy")
        return NOTHING
    worst = 0
    for script, results in SCRIPTS:
        print(f"== {script}", flush=True)
        try:
            status = subprocess.run([sys.executable, str(ROOT / script), "--json",
                                     str(ROOT / results)], check=False, timeout=SECONDS).returncode
        except subprocess.TimeoutExpired:
            print(f"{script} did not end in {SECONDS:.0f} s, and was ended")
            status = 1
        if status == NOTHING and script == SCRIPTS[0][0]:
            return NOTHING
        worst = max(worst, abs(status))
    return worst


if __name__ == "__main__":
    sys.exit(main())
