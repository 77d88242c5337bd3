"""Machine code by NVIDIA's compiler, where it is installed: its instructions, and what spills."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from simt.cases import prelude
from tegg.backends.cuda import nvrtc

from tegg.kernel.code import KernelCode

OPCODES = {"HMMA": 0x23c, "LDSM": 0x83b, "LDGSTS": 0xfae}  # the low twelve bits of an instruction


def assembled(codes: Sequence[KernelCode], architecture: int) -> tuple[set[str], int] | None:
    """The opcodes in the machine code of kernels, and the bytes that they spill; None without the
    compiler. Whether an opcode is there is read off every sixteenth byte of all sections."""
    compiler = nvrtc.find()
    if compiler is None:
        return None
    text = "\n".join([prelude(), *(c.source for c in codes)])
    code, log = compiler.compile(text, architecture)
    words = np.frombuffer(code[:len(code) // 16 * 16], np.uint64)[::2] & 0xfff
    spilled = re.findall(r"(\d+) bytes spill", log)
    assert len(spilled) >= 2 * len(codes), log
    return {name for name, op in OPCODES.items() if np.any(words == op)}, sum(map(int, spilled))
