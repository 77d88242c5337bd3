"""How many threads a run may use: those allowed, one to a physical core."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

from tegg import env
from tegg.cores import affinity, quota

_MOST = 1023  # numbers of threads have 10 bits (native/runtime.c)


def threads() -> int:
    """``TEGG_THREADS``, or the physical cores that this process is allowed (at least 1).

    Two threads of one core share its multipliers: a second one makes products no faster.
    """
    return min(env.THREADS.get() or cores(), _MOST)


def cores() -> int:
    """The physical cores that this process is allowed (at least 1)."""
    if sys.platform == "darwin":
        return _fast_cores() or os.cpu_count() or 1
    return max(1, min(len(set(map(_core, affinity()))), quota(), _MOST))


@cache
def _core(cpu: int) -> tuple[str, str]:
    """Package and core of a CPU, or its own number where the system does not say."""
    place = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return (place / "physical_package_id").read_text(), (place / "core_id").read_text()
    except OSError:
        return str(cpu), ""


def _fast_cores() -> int:
    """The performance cores of a Mac: a slow core would be late with its last piece."""
    value, size = ctypes.c_int(0), ctypes.c_size_t(4)
    try:
        failed = ctypes.CDLL(None).sysctlbyname(b"hw.perflevel0.physicalcpu", ctypes.byref(value),
                                                ctypes.byref(size), None, 0)
    except AttributeError:
        return 0
    return 0 if failed else value.value
