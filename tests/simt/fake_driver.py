"""A driver without a GPU: ``libcuda.cpp`` in the place of libcuda.so.1, and g++ in that of NVRTC."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from simt import machine_code
from simt.simulator import HERE, built, machine, machine_path, run_compiler
from tegg.backends.cuda import driver, libcuda, nvrtc

DEFAULTS = {"devices": 1, "major": 9, "minor": 0, "version": 12090, "memory": 256 << 20,
            "pools": 1, "multiprocessors": 1, "dry": 0}


class Compiler:
    """In place of NVRTC: a shared object that the fake driver loads."""

    version, architectures = "simulated", (75, 80, 86, 89, 90)

    def compile(self, source: str, architecture: int) -> tuple[bytes, str]:
        machine_code.check(machine_code.kernels(source))
        path, names = built(source)
        log = "".join(f"ptxas info    : Compiling entry function '{n}' for 'sm_{architecture}'\n"
                      f"ptxas info    : Used 32 registers, 64 bytes smem\n" for n in names)
        return path.read_bytes(), log


@functools.cache
def library_path() -> Path:
    """The fake, compiled, beside the machine that it runs on. It has a name of its own:
    other libraries that look for a libcuda.so.1 in the process would take it for a whole one."""
    path = machine_path().parent / "libcuda.so.1"
    run_compiler(["g++", "-std=c++20", "-O0", "-fPIC", "-shared", "-Wl,-soname,libcuda-played.so",
                  str(HERE / "libcuda.cpp"), str(machine_path()), "-o", str(path), "-ldl"])
    return path


class Fake:
    """The fake driver as tests see it: what it is like, what it was asked, what is to fail."""

    def __init__(self) -> None:
        machine()
        self._library = ctypes.CDLL(str(library_path()))
        self._library.fake_log.restype = ctypes.c_char_p
        for name in ("fake_count", "fake_used", "fake_foreign"):
            getattr(self._library, name).restype = ctypes.c_int64
        self._library.fake_set.argtypes = (ctypes.c_char_p, ctypes.c_long)
        self._library.fake_foreign.argtypes = (ctypes.c_size_t, ctypes.c_int, ctypes.c_int)

    def reset(self) -> None:
        self._library.fake_reset()
        self.set(**DEFAULTS)

    def set(self, **settings: int) -> None:
        for name, value in settings.items():
            self._library.fake_set(name.encode(), value)

    def fail(self, call: str, code: int, after: int = 0) -> None:
        """A call gives an error, once, after it has succeeded some times."""
        self._library.fake_fail(call.encode(), code, after)

    def count(self, call: str) -> int:
        return self._library.fake_count(call.encode())

    @property
    def used(self) -> int:
        """Bytes that are allocated."""
        return self._library.fake_used()

    @property
    def launched(self) -> list[tuple[str, int, int]]:
        """Of every kernel that ran: its name, blocks, threads."""
        lines = (line.split() for line in self._library.fake_log().decode().splitlines())
        return [(name, int(blocks), int(threads)) for name, blocks, threads in lines]

    def foreign(self, nbytes: int, device: int = 0, context: int = 0) -> int:
        """Memory of another device or context, or made by another library."""
        return self._library.fake_foreign(nbytes, device, context)

    def write(self, address: int, data: bytes) -> None:
        """As another library writes memory of the device."""
        ctypes.memmove(address, data, len(data))
        machine().simt_known(ctypes.c_void_p(address), ctypes.c_size_t(len(data)))


@functools.cache
def fake() -> Fake:
    return Fake()


def forget() -> None:
    """As in a process that has opened no device."""
    libcuda.library.cache_clear()
    driver.opened.cache_clear()


@contextmanager
def installed() -> Iterator[Fake]:
    """A machine with the simulated device, and without PyCUDA."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr(libcuda, "NAMES", (str(library_path()),))
        m.setattr(nvrtc, "find", Compiler)
        m.setitem(sys.modules, "pycuda", None)
        fake().reset()
        forget()
        try:
            yield fake()
        finally:
            forget()
            fake().reset()
