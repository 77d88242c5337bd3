"""The CPUs that this process may use: its affinity, and the quota of its control group."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def available() -> int:
    """The CPUs that this process may keep busy: its affinity, less what a quota takes away."""
    return max(1, min(len(affinity()), quota()))


def affinity() -> set[int]:
    """The CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def side_by_side(do: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
    """``map``, on as many threads as there are CPUs: for work that waits for other processes.

    Raises what the first of the calls that fail raises, when all have ended.
    """
    from concurrent.futures import ThreadPoolExecutor  # hardly ever needed, once all is cached
    with ThreadPoolExecutor(max(1, min(len(arguments[0]), available()))) as pool:
        return list(pool.map(do, *arguments))


def quota(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
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
