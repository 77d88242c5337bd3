"""What it costs that pages lay idle: to read one, and first calls of one contender.

    python benchmarks/peers/idle.py [CONTENDER SECONDS [awake]]

Alone, the time of a page after pauses. With a contender its first calls, one workload after the
other in this process at two threads, with so many seconds of pause before each; ``awake``: after
the pause its pages are read, as ``run.py`` does.
"""

from __future__ import annotations

import mmap
import os
import sys
import time

import numpy as np

from worker import _pages_at_hand, _pages_awake, find
from workloads import SUITE

_PAGES, _THREADS = 8192, 2
_WARM = ("tiny", "softmax")  # what loads and starts a framework
_TIMED = ("matmul_1024", "matmul_64", "matvec", "matvec_t", "attention")


def pages() -> None:
    """Microseconds to read a line of each of many pages, at random, after pauses."""
    memory = mmap.mmap(-1, _PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    lines = np.frombuffer(memory, np.uint8)
    lines[:] = 1
    order = np.random.default_rng(0).permutation(_PAGES) * mmap.PAGESIZE
    lines[order].sum()
    for pause in (0, 0.05, 0.3, 2, 0):
        time.sleep(pause)
        start = time.perf_counter()
        lines[order].sum()
        print(f"{pause} s: {(time.perf_counter() - start) / _PAGES * 1e6:.2f} us a page")


def firsts(name: str, pause: float, awake: bool) -> None:
    """Milliseconds of first calls."""
    cls = find(name)
    os.environ.update(cls.environment(_THREADS))
    contender = cls(_THREADS)
    for workload in (*_WARM, *_TIMED):
        inputs = contender.given(SUITE[workload].inputs())
        _pages_at_hand()
        time.sleep(pause)
        if awake:
            _pages_awake()
        start = time.perf_counter()
        call = contender.build(SUITE[workload], inputs)
        for _ in range(contender.warm_calls):
            call()
        if workload in _TIMED:
            print(f"{workload}: {(time.perf_counter() - start) * 1e3:.0f} ms")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        firsts(sys.argv[1], float(sys.argv[2]), "awake" in sys.argv[3:])
    else:
        pages()
