"""What this machine's GPU and the bundle's kernels take, for a cost profile: ``python tune.py``.

Writes ``prices.json``, of which ``benchmarks/gpu_bundle/prices.py`` makes a profile where tegg is
installed. Needs Python, NumPy and NVIDIA's driver.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

import numpy as np
from machine import Program, machine_code
from run import planned
from tegg.backends.cuda import cublas, nvrtc
from tegg.backends.cuda.driver import Device, Memory, open_device
from tegg.backends.cuda.tune.figures import figures, shown
from tegg.errors import BackendError

ROUNDS = 15


def measured(device: Device, folder: Path, rounds: int, quick: bool) -> dict[str, Any]:
    """Figures of the device, and the median seconds of each case."""
    kept = folder / f"figures_{folder.name[3:]}.cubin"
    source = (ROOT / "prelude.h").read_text() + (folder / "figures.cu").read_text()
    compiler = nvrtc.find()
    _, architecture = machine_code(folder, device.architecture)
    if kept.exists() and f"sm_{architecture}" == folder.name:
        code = kept.read_bytes()
    elif compiler is not None:
        code = compiler.compile(source, device.architecture)[0]
    else:
        raise BackendError(f"the bundle has no machine code of its measures for "
                           f"sm_{device.architecture}, and NVRTC is not here to compile them")
    small = {"far": 1 << 16, "rounds": 4} if quick else {}
    found = figures(device, code, quick, **small)
    program = Program(device, folder)
    program.per_kernel()
    seen = [[s for _, s in program.per_kernel()] for _ in range(rounds)]
    stages, at, out = [list(t) for t in zip(*seen)], 0, []
    for name, count in program.about["calls"]:
        out.append([name, sum(statistics.median(t) for t in stages[at:at + count])])
        at += count
    library = json.loads((folder / "library.json").read_text())
    out += map(list, library_times(device, library, rounds))
    return {"device": device.name, "architecture": device.architecture,
            "multiprocessors": device.multiprocessors, "l2_bytes": device.l2_bytes,
            "driver": device.version, "figures": dict(shown(found)), "cases": out,
            "unrest": statistics.median(statistics.median(t) / min(t) - 1.0 for t in stages)}


def library_times(device: Device, wanted: Sequence[Mapping[str, Any]],
                  rounds: int) -> Iterator[tuple[str, float]]:
    """Each product of cuBLAS with its median seconds; none where the library is missing."""
    try:
        cublas.library()
    except BackendError as e:
        print(f"missing: {e}")
        return
    held: dict[tuple[str, int], Memory] = {}
    for about in wanted:
        with device.current():
            sides = {}
            for side, nbytes in about["bytes"].items():
                if (side, nbytes) not in held:
                    held[side, nbytes] = device.allocate(nbytes)
                    # of any float a small number; zeros would be multiplied with less power
                    some = np.random.default_rng(0).integers(0x30, 0x3c, nbytes, np.uint8)
                    device.upload(held[side, nbytes].address, some.ctypes.data, nbytes)
                    device.wait(0)
                at = about[side]["address"] + held[side, nbytes].address
                sides[side] = cublas.Side(**{**about[side], "address": at})
            numbers = {n: about[n] for n in ("kind", "batch", "m", "n", "k")}
            product = cublas.Product(**numbers, **sides)
            try:
                times = device.times([[product]] * (rounds + 1))
            except BackendError as e:
                print(f"left out: {about['name']}, {e}")
                continue
        yield about["name"], statistics.median(times[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("prices.json"))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="figures on little memory")
    options = parser.parse_args()
    try:
        device = open_device()
        found = measured(device, planned(ROOT / "prices", device), options.rounds, options.quick)
    except BackendError as e:
        print(f"nothing can be measured: {e}")
        return 2
    options.json.write_text(json.dumps(found, indent=1))
    print(f"{device.name}: " + ", ".join(f"{k} {v:.3g}" for k, v in found["figures"].items()))
    print(f"{len(found['cases'])} kernels timed, wrote {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
