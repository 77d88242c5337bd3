"""NVIDIA's run-time compiler by ctypes: CUDA C to machine code, with or without a GPU at hand."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tegg.errors import BackendError

FLAGS = ("--fmad=false", "--std=c++17")  # a multiply-add is one where the kernel says so

# Products of four warps at once: a call of theirs in a kernel, below the header that defines it.
# Only machine code of one architecture alone has them, not that of its generation.
_OF_ONE = re.compile(r"^ +wgmma_fence\(\);$", re.MULTILINE)
_ONE = 90


@functools.cache
def find() -> Nvrtc | None:
    """The library of the CUDA toolkit, or of the wheel ``nvidia-cuda-nvrtc-cu12``; None without."""
    for path in _places():
        try:
            for builtins in sorted(path.parent.glob("libnvrtc-builtins.so*")):
                if ".alt." not in builtins.name:  # found by its bare name later
                    ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            return Nvrtc(ctypes.CDLL(str(path)))
        except OSError:
            continue
    return None


def _places() -> Iterator[Path]:
    roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    folders = [Path(root) / "lib64" for root in roots if root]
    folders += [found for entry in sys.path for found in Path(entry).glob("nvidia/*/lib")]
    for folder in folders:
        for path in sorted(folder.glob("libnvrtc.so*"), reverse=True):
            if ".alt." not in path.name:
                yield path
    for version in (13, 12, 11):  # wherever the loader looks
        yield Path(f"libnvrtc.so.{version}")


def machine_of(source: str, architecture: int) -> str:
    """The machine that a source is compiled for: ``sm_90``, or ``sm_90a``, whose code runs on no
    other, where its kernels need that. Raises BackendError where the architecture is another."""
    if _OF_ONE.search(source) is None:
        return f"sm_{architecture}"
    if architecture != _ONE:
        raise BackendError(f"the kernels use wgmma, which compute capability {_ONE / 10} alone "
                           f"has, not {architecture / 10}; compile the program for this GPU, with "
                           f"architecture= left out")
    return f"sm_{architecture}a"


class CompileFailed(BackendError):
    """A source is not taken by a compiler, in the compiler's words."""


class Nvrtc:
    """The library, loaded."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._lib = library
        self._lib.nvrtcGetErrorString.restype = ctypes.c_char_p

    @property
    def version(self) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return f"{major.value}.{minor.value}"

    @property
    def architectures(self) -> tuple[int, ...]:
        """Those that it compiles for."""
        count = ctypes.c_int()
        self._check(self._lib.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        found = (ctypes.c_int * count.value)()
        self._check(self._lib.nvrtcGetSupportedArchs(found))
        return tuple(found)

    def compile(self, source: str, architecture: int) -> tuple[bytes, str]:
        """Machine code for ``machine_of`` an architecture, and what the compiler says of it:
        registers, spills, shared memory of each kernel. Raises CompileFailed with the compiler's
        words."""
        if architecture not in self.architectures:
            raise BackendError(f"NVRTC {self.version} does not know sm_{architecture}; it knows "
                               f"{', '.join(f'sm_{a}' for a in self.architectures)}; install a "
                               f"CUDA toolkit, or a wheel of nvidia-cuda-nvrtc, that does")
        machine, program = machine_of(source, architecture), ctypes.c_void_p()
        self._check(self._lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(),
                                                 b"kernels.cu", 0, None, None))
        try:
            flags = [f.encode() for f in (f"--gpu-architecture={machine}",
                                          "--ptxas-options=-v", *FLAGS)]
            failed = self._lib.nvrtcCompileProgram(program, len(flags),
                                                   (ctypes.c_char_p * len(flags))(*flags))
            if failed:
                raise CompileFailed(f"NVRTC {self.version} does not compile kernels for "
                                    f"{machine}: {self._text(program)[:2000]}")
            return self._bytes(program, "CUBIN"), self._text(program)
        finally:
            self._lib.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p) -> str:
        return self._bytes(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")

    def _bytes(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        out = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._lib, f"nvrtcGet{what}")(program, out))
        return out.raw

    def _check(self, result: int) -> None:
        if result:
            raise BackendError(f"NVRTC: {self._lib.nvrtcGetErrorString(result).decode()}")
