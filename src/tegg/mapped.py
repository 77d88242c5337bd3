"""Memory maps of files that tegg reads: whole pages, which a device may take over as they lie."""

from __future__ import annotations

import mmap
import weakref

import numpy as np

_known: weakref.WeakValueDictionary[int, mmap.mmap] = weakref.WeakValueDictionary()


def remember(pages: mmap.mmap) -> None:
    """Arrays may lie in this map as long as it lives."""
    _known[start_of(pages)] = pages


def start_of(pages: mmap.mmap) -> int:
    """The address at which a map begins."""
    return int(np.frombuffer(pages, np.uint8).ctypes.data)


def mapped(address: int, nbytes: int) -> tuple[mmap.mmap, int] | None:
    """The map that some bytes lie in, and how far from its start; None where no map is known."""
    for start, pages in list(_known.items()):
        if start <= address and address + nbytes <= start + len(pages):
            return pages, address - start
    return None
