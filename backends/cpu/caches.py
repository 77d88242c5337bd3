"""The caches of this machine, as far as kernels are written by them."""

from __future__ import annotations

from pathlib import Path

from tegg.cores import affinity

UNKNOWN = 1 << 60  # bytes: nothing is as large
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_cache(root: Path = Path("/sys/devices/system/cpu")) -> int:
    """Bytes of the last cache that a core of this process shares with others, as Linux tells;
    UNKNOWN where it does not."""
    found = [_cache(folder) for cpu in sorted(affinity())[:1]
             for folder in (root / f"cpu{cpu}" / "cache").glob("index*")]
    return max(found, default=(0, UNKNOWN))[1]


def _cache(folder: Path) -> tuple[int, int]:
    """The level and the bytes of one."""
    try:
        level, size = ((folder / name).read_text().strip() for name in ("level", "size"))
        unit = _UNITS.get(size[-1:], 1)
        return int(level), int(size.rstrip("KMG")) * unit
    except (OSError, ValueError):
        return 0, UNKNOWN
