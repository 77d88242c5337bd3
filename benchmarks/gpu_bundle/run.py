"""Every program of the bundle on this machine's GPU, against the oracle: ``python run.py``.

Needs Python, NumPy and NVIDIA's driver. Exits with 1 where a result is wrong, with 2 where nothing
can run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
WHEELS = ROOT / "wheels"
sys.path.insert(0, str(ROOT))

from apart import rows, serve
from machine import Program, described
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.driver import Device, open_device
from tegg.errors import BackendError


def missing() -> list[str]:
    """What this machine lacks, and what is left out for it."""
    out = []
    if nvrtc.find() is None:
        out.append("NVRTC: only the machine code of the bundle runs")
    holds = "the driver by ctypes holds the context"
    if WHEELS.exists():
        holds += f"; pip install --no-index --find-links {WHEELS} pycuda"
    for name, what in (("pycuda", holds), ("torch", "nothing is compared with PyTorch")):
        if importlib.util.find_spec(name) is None:
            out.append(f"{name}: {what}")
    return out


def planned(root: Path, device: Device) -> Path:
    """What was planned for the newest architecture that a device has."""
    found = sorted(int(p.name[3:]) for p in root.iterdir())
    usable = [a for a in found if a <= device.architecture]
    if not usable:
        raise BackendError(f"the bundle is planned for {found}, all newer than {device.name}, "
                           f"which is sm_{device.architecture}")
    return root / f"sm_{usable[-1]}"


def folders(device: Device) -> list[Path]:
    """The programs for this device."""
    return sorted(planned(ROOT / "programs", device).iterdir())


def checked(device: Device, folder: Path) -> dict[str, Any]:
    """One program, by its graph and by launches one after the other."""
    about, worst = described(folder), 0.0
    program = Program(device, folder)
    for graph in (True, False):
        program.fill()
        program.run(graph)
        program.wait()
        worst = max(worst, *program.errors())
    return {"family": about["family"], "machine code": program.architecture, "error": worst,
            "ok": worst <= about["tolerance"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--only", default="", help="programs whose names contain this")
    parser.add_argument("--seconds", type=float, default=120.0, help="that one program may take")
    parser.add_argument("--worker", action="store_true", help="run programs that stdin names")
    options = parser.parse_args()
    if options.worker:
        device = open_device()
        root = planned(ROOT / "programs", device)
        return serve(lambda name: checked(device, root / name))
    for line in missing():
        print(f"missing: {line}")
    try:
        device = open_device()
        found = [f for f in folders(device)
                 if options.only in f.name and not described(f)["big"]]
    except BackendError as e:
        print(f"no program can run: {e}")
        return 2
    print(f"{device.name}, sm_{device.architecture}, {device.multiprocessors} multiprocessors, "
          f"driver {device.version}, context by {device.held_by}")
    seen = []
    for row in rows(Path(__file__), (), [f.name for f in found], options.seconds):
        seen.append(row)
        print(f"{'ok  ' if row['ok'] else 'FAIL'} {row['name']:28s} "
              + (f"error {row['error']:.1e}" if "error" in row else row["says"]), flush=True)
    wrong = [r["name"] for r in seen if not r["ok"]]
    print(f"{len(seen) - len(wrong)} of {len(seen)} programs are right")
    if options.json:
        options.json.write_text(json.dumps({"device": device.name, "programs": seen}, indent=1))
    return 1 if wrong or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
