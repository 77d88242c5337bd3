"""The caches of this machine, as far as kernels are written by them."""

from __future__ import annotations

from pathlib import Path

from tegg.cores import affinity

UNKNOWN = 1 << 60  # bytes: nothing is as large
_OWN = 2           # the level of the largest cache that a core mostly has for itself
_CPUS = Path("/sys/devices/system/cpu")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_cache(root: Path = _CPUS) -> int:
    """Bytes of the last cache that a core of this process shares with others, as Linux tells;
    UNKNOWN where it does not."""
    return max(_caches(root), default=(0, UNKNOWN))[1]


def own_cache(root: Path = _CPUS) -> int:
    """Bytes of the second cache of a core of this process; UNKNOWN where Linux does not tell."""
    return next((size for level, size in _caches(root) if level == _OWN), UNKNOWN)


def _caches(root: Path) -> list[tuple[int, int]]:
    """The level and the bytes of each."""
    return [_cache(folder) for cpu in sorted(affinity())[:1]
            for folder in (root / f"cpu{cpu}" / "cache").glob("index*")]


def _cache(folder: Path) -> tuple[int, int]:
    """The level and the bytes of one."""
    try:
        level, size = ((folder / name).read_text().strip() for name in ("level", "size"))
        unit = _UNITS.get(size[-1:], 1)
        return int(level), int(size.rstrip("KMG")) * unit
    except (OSError, ValueError):
        return 0, UNKNOWN
