"""The physical limits of this machine, measured by a small C program."""

from __future__ import annotations

import platform
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workloads import Workload


@dataclass(frozen=True, slots=True)
class Limits:
    """``flops`` per second, and bytes per second for working sets of some sizes."""

    flops: float
    bytes: dict[float, float]

    def seconds(self, w: Workload) -> float:
        """The least time for the operations and the compulsory traffic of a workload."""
        return max(w.flops / self.flops, w.bytes / self.bytes[w.bytes])


def measure(threads: int, workloads: Iterable[Workload]) -> Limits:
    """Compile ``limits.c`` for this CPU and run it. Working sets are those of the workloads."""
    sizes = sorted({w.bytes for w in workloads})
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "limits")
        wide = ["-mprefer-vector-width=512"] if platform.machine() in ("x86_64", "AMD64") else []
        subprocess.run(["cc", "-O3", "-march=native", *wide, "-pthread",
                        Path(__file__).with_name("limits.c"), "-o", program], check=True)
        out = subprocess.run([program, str(threads), *(str(int(s)) for s in sizes)], check=True,
                             capture_output=True, text=True).stdout.split()
    fmas, *rates = map(float, out)
    return Limits(2 * fmas, dict(zip(sizes, rates, strict=True)))
