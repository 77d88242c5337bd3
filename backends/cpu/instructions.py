"""Instructions for narrow numbers: which of them this machine has, and may use."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Collection
from functools import lru_cache

PAIRS, BYTES, TILES, BYTE_TILES = "bf16-dots", "byte-dots", "bf16-tiles", "byte-tiles"
ESTIMATES = "estimates"  # of functions, with as many bits as bfloat16 wants
_ARCH_PRCTL, _ASK, _TILE_DATA = 158, 0x1023, 18  # of Linux on x86-64


def instructions(features: Collection[str], lanes: int) -> frozenset[str]:
    """What a compiler's view of the CPU amounts to, in vectors of so many lanes."""
    wide = lanes == 16
    found = {PAIRS: wide and "avx512bf16" in features, BYTES: wide and "avx512vnni" in features,
             ESTIMATES: wide and "avx512dq" in features}
    if {"amx-tile", "amx-bf16", "amx-int8"}.issubset(features) and tiles_granted():
        found |= {TILES: True, BYTE_TILES: True}
    return frozenset(name for name, is_there in found.items() if is_there)


@lru_cache(maxsize=1)
def tiles_granted() -> bool:
    """Whether the system lets this process use the registers of AMX, which must be asked for once.

    Where it does not (an older kernel, a filter of system calls, another system), tiles are not
    offered, and products take other forms.
    """
    if not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return False
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return False
    call.restype = ctypes.c_long
    return call(ctypes.c_long(_ARCH_PRCTL), ctypes.c_long(_ASK), ctypes.c_long(_TILE_DATA)) == 0
