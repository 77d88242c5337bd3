"""Machine code by NVIDIA's compiler, where it is installed: its instructions, and what spills."""

from __future__ import annotations

import ctypes
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
    flags = [f.encode() for f in (f"--gpu-architecture=sm_{architecture}", *nvrtc.FLAGS,
                                  "--ptxas-options=-v") if "ptxas" not in f or f.endswith("-v")]
    library, program = compiler._lib, ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"k.cu", 0, None, None)
    failed = library.nvrtcCompileProgram(program, len(flags),
                                         (ctypes.c_char_p * len(flags))(*flags))
    log = _bytes(library, program, "ProgramLog").decode(errors="replace")
    assert not failed, log[:2000]
    code = _bytes(library, program, "CUBIN")
    library.nvrtcDestroyProgram(ctypes.byref(program))
    words = np.frombuffer(code[:len(code) // 16 * 16], np.uint64)[::2] & 0xfff
    spilled = re.findall(r"(\d+) bytes spill", log)
    assert len(spilled) >= 2 * len(codes), log
    return {name for name, op in OPCODES.items() if np.any(words == op)}, sum(map(int, spilled))


def _bytes(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    out = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, out)
    return out.raw
