"""What machine code does, read off its disassembly: widths of accesses, tensor cores, spills."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tegg.errors import BackendError


@dataclass(frozen=True, slots=True)
class Instructions:
    """Counts in the text of one kernel. loads, stores: of global memory, by bits. copies: from
    there to shared memory past registers, by bits. spills: loads and stores of the stack."""

    kernel: str
    count: int
    loads: Mapping[int, int]
    stores: Mapping[int, int]
    copies: Mapping[int, int]
    tensor: int
    spills: int

    def show(self) -> str:
        parts = [f"{self.kernel}: {self.count} instructions"]
        for name, found in (("loads", self.loads), ("stores", self.stores),
                            ("copies", self.copies)):
            if found:
                widths = ", ".join(f"{n} of {bits}" for bits, n in sorted(found.items()))
                parts.append(f"{name} {widths} bits")
        return "; ".join([*parts, f"{self.tensor} tensor", f"{self.spills} spills"])


@functools.cache
def disassembler() -> str:
    """NVIDIA's nvdisasm: of the wheel ``nvidia-cuda-nvdisasm``, or of a toolkit."""
    roots = [Path(r) for r in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if r]
    places = [*(p for e in sys.path for p in sorted(Path(e).glob("nvidia/*/bin/nvdisasm"))),
              *(r / "bin" / "nvdisasm" for r in roots)]
    for place in places:
        if place.is_file():
            return str(place)
    found = shutil.which("nvdisasm")
    if found is None:
        raise BackendError("nvdisasm is not here to read machine code; "
                           "pip install 'tegg[nvdisasm]', or install a CUDA toolkit")
    return found


def instructions_of(code: bytes) -> tuple[Instructions, ...]:
    """Of each kernel of machine code. Raises BackendError without a disassembler, or for what it
    cannot read."""
    tool = disassembler()
    with tempfile.TemporaryDirectory(prefix="tegg-") as folder:
        path, run = Path(folder) / "kernels.cubin", Path(folder) / "nvdisasm"
        path.write_bytes(code)
        if not os.access(tool, os.X_OK):  # as wheels are unpacked
            shutil.copy(tool, run)
            run.chmod(0o755)
            tool = str(run)
        done = subprocess.run([tool, "-c", str(path)], capture_output=True, text=True,
                              check=False)
    if done.returncode:
        raise BackendError(f"nvdisasm cannot read the machine code: {done.stderr[:500]}")
    return read(done.stdout)


_KERNEL = re.compile(r"^\.text\.(\w+):$", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)", re.MULTILINE)
_WIDTH = re.compile(r"\.(128|64|[US]?16|[US]?8)(?=\.|$)")


def read(text: str) -> tuple[Instructions, ...]:
    """Counts of a disassembly."""
    parts = _KERNEL.split(text)
    return tuple(_counted(name, _INSTRUCTION.findall(body))
                 for name, body in zip(parts[1::2], parts[2::2]))


def _counted(kernel: str, found: list[str]) -> Instructions:
    widths: dict[str, Counter[int]] = {k: Counter() for k in ("LDG", "STG", "LDGSTS")}
    bare = Counter(name.partition(".")[0] for name in found)
    for name in found:
        first = name.partition(".")[0]
        if first in widths:
            width = _WIDTH.search(name)
            widths[first][int(width[1].lstrip("US")) if width else 32] += 1
    return Instructions(kernel, len(found), widths["LDG"], widths["STG"], widths["LDGSTS"],
                        sum(bare[n] for n in ("HMMA", "IMMA", "DMMA", "HGMMA")),
                        bare["LDL"] + bare["STL"])
