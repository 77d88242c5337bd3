"""What the kernels of a bundle are made of: ``python benchmarks/gpu_bundle/report.py build/gpu``.

Per kernel: registers, shared memory and spills as the assembler said, then what the disassembly
has: widths of loads and stores, tensor-core instructions. Needs nvdisasm, and no GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tegg.backends.cuda.disassembly import instructions_of
from tegg.errors import BackendError


def lines(folder: Path, only: str) -> Iterator[str]:
    """A line for each kernel of each program."""
    for path in sorted(folder.glob("programs/sm_*/*/sm_*.cubin")):
        about = json.loads((path.parent / "program.json").read_text())
        if only not in about["name"]:
            continue
        yield f"{path.parent.name}, {path.stem}"
        said = about["resources"].get(path.stem, ())
        for made in instructions_of(path.read_bytes()):
            resources = next((r for r in said if r.startswith(f"{made.kernel}:")), "")
            yield f"    {made.show()} | {resources.partition(': ')[2]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="programs whose names contain this")
    options = parser.parse_args()
    try:
        for line in lines(options.folder, options.only):
            print(line)
    except BackendError as e:
        print(f"no report: {e}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
