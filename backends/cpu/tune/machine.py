"""The machine's own limits: bandwidth by size, multiply-adds, and hand-offs between threads."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from importlib.resources import files

import numpy as np

from tegg.cache import default

from .. import toolchain
from ..library import prelude
from ..runtime import runtime

MODES = ("read", "write", "copy", "runs")  # in the order of machine.c
FRESH = 64 << 20      # bytes of memory that is taken from the system for a sample
_PAGE = 4096
_SMALLEST = 16 << 10
_LARGEST = 256 << 20
_SHARE = 16           # of the memory of this machine that the largest buffer may take
_SAMPLE = 3e-4        # seconds that one sample works at least, by a first guess of its rate
_GUESS = 20e9         # bytes a second
_STEPS = 20_000       # rounds of multiply-adds of a sample
_WAITS = 200          # barriers, or hand-offs, of a sample

Sample = Callable[[], float]  # seconds of what it measures, 0 where the pool was busy


class Machine:
    """The functions of machine.c on two buffers. ``largest``: bytes of the largest one."""

    def __init__(self, largest: int = _LARGEST) -> None:
        compiler = toolchain.find()
        text = files("tegg.backends.cpu.tune").joinpath("machine.c").read_text()
        path = compiler.shared_object(default(), {"machine": f"{prelude(compiler.lanes)}\n{text}"},
                                      "the measures of the machine")
        self._lib = ctypes.CDLL(str(path))
        self._lib.tegg_bind(ctypes.c_void_p(runtime().table))
        for name in ("tegg_traffic", "tegg_multiply_add", "tegg_barrier", "tegg_start"):
            getattr(self._lib, name).restype = ctypes.c_double
        self._lib.tegg_traffic.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                                           ctypes.c_int, ctypes.c_int, ctypes.c_int]
        self._lib.tegg_multiply_add.argtypes = [ctypes.c_int64, ctypes.c_int, ctypes.c_int]
        self.largest = min(largest, _memory() // _SHARE)
        self._from, self._to = (np.ones(self.largest + 64, np.uint8) for _ in range(2))

    def sizes(self) -> list[int]:
        """Bytes of buffers to measure at: by factors of two."""
        out = [_SMALLEST]
        while out[-1] * 2 <= self.largest:
            out.append(out[-1] * 2)
        return out

    def traffic(self, size: int, mode: str, threads: int) -> Sample:
        """Seconds to read, write or copy a buffer of ``size`` bytes over and over, or (``runs``) to
        read four parts of it side by side."""
        repeats = max(1, int(_SAMPLE * _GUESS / size))
        pointers = [a.ctypes.data + -a.ctypes.data % 64 for a in (self._from, self._to)]
        number = MODES.index(mode)
        return lambda: self._lib.tegg_traffic(*pointers, size, number, repeats, threads)

    def fresh(self) -> float:
        """Seconds until FRESH bytes of memory that was not used before are there."""
        start = time.perf_counter()
        np.empty(FRESH, np.uint8)[::_PAGE] = 1
        return time.perf_counter() - start

    def multiply_add(self, wide: bool, threads: int) -> Sample:
        """Seconds of one multiply-add of one lane, while ``threads`` do the same."""
        return lambda: self._lib.tegg_multiply_add(_STEPS, wide, threads)

    def barrier(self, threads: int) -> Sample:
        """Seconds of one barrier."""
        return lambda: self._lib.tegg_barrier(_WAITS, threads)

    def start(self, threads: int) -> Sample:
        """Seconds to hand a task to threads and to wait for them."""
        return lambda: self._lib.tegg_start(_WAITS, threads)


def _memory() -> int:
    """Bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 4 << 30
