"""How many threads a run may use: those allowed, one to a physical core."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from pathlib import Path

from tegg import env


def threads() -> int:
    """``TEGG_THREADS``, or the physical cores that this process is allowed (at least 1).

    Two threads of one core share its multipliers: a second one makes products no faster.
    """
    return min(env.THREADS.get() or _cores(), 1023)


def available() -> int:
    """The CPUs that this process may keep busy: its affinity, less what a quota takes away."""
    return max(1, min(len(_affinity()), _quota()))


def _cores() -> int:
    if sys.platform == "darwin":
        return _fast_cores() or os.cpu_count() or 1
    cores = set()
    for cpu in _affinity():
        place = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            cores.add(((place / "physical_package_id").read_text(),
                       (place / "core_id").read_text()))
        except OSError:
            cores.add((str(cpu), ""))
    return max(1, min(len(cores), _quota()))


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _fast_cores() -> int:
    """The performance cores of a Mac: work is split evenly, so a slow core would delay all."""
    value, size = ctypes.c_int(0), ctypes.c_size_t(4)
    try:
        failed = ctypes.CDLL(None).sysctlbyname(b"hw.perflevel0.physicalcpu", ctypes.byref(value),
                                                ctypes.byref(size), None, 0)
    except AttributeError:
        return 0
    return 0 if failed else value.value


def _quota(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Whole CPUs of the tightest cgroup quota, version 2 or 1; many where there is none."""
    limits = [math.inf]
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        lines = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        base = root if controllers == "" else root / "cpu" if "cpu" in controllers.split(",") \
            else None
        inner = Path(path.lstrip("/"))
        for folder in () if base is None else (base / inner, *(base / p for p in inner.parents)):
            limits.append(_quota_v2(folder) if controllers == "" else _quota_v1(folder))
    least = min(limits)
    return 1 << 20 if least == math.inf else max(1, math.ceil(least))


def _quota_v2(folder: Path) -> float:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return math.inf


def _quota_v1(folder: Path) -> float:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
        return quota / period if quota > 0 and period > 0 else math.inf
    except (OSError, ValueError):
        return math.inf
