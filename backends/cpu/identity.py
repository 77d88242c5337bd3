"""Which processor this is, in words: what was measured on one is for that one."""

from __future__ import annotations

import platform
import sys
from functools import lru_cache
from pathlib import Path

from .toolchain import Toolchain

_FIELDS = ("vendor_id", "cpu family", "model", "stepping", "model name",  # x86
           "cpu implementer", "cpu part", "cpu variant", "cpu revision")  # ARM
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def processor(toolchain: Toolchain) -> str:
    """The processor, its caches, and the instructions that are compiled for."""
    features = " ".join(sorted(toolchain.features))
    return f"{_name()}; {features}"


@lru_cache(maxsize=1)
def _name() -> str:
    parts = [platform.machine(), *_described()]
    for index in sorted(_CACHES.glob("index*")):
        try:
            parts.append("L" + "".join((index / f).read_text().strip()
                                       for f in ("level", "type", "size")))
        except OSError:
            continue
    return " ".join(parts)


def _described(source: Path = Path("/proc/cpuinfo")) -> list[str]:
    """The first processor of the list that Linux keeps, or the name that the platform gives."""
    try:
        text = source.read_text()
    except OSError:
        return [platform.processor() or sys.platform]
    first: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        first.setdefault(key.strip().lower(), " ".join(value.split()))
    return [first[f] for f in _FIELDS if f in first]
