"""Memory of runs: one arena and one pointer table per run in flight, kept for the next."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from tegg.errors import BackendError
from tegg.planning.plan import ALIGN, Layout, Plan

_LARGE = 1 << 20  # bytes from which where an output begins is worth a view
_PAGE = 1 << 21   # bytes of a large page
KEPT_SIZES = 8  # sizes of the symbols whose workspaces are kept; the oldest go first


def aligned(nbytes: int) -> np.ndarray:
    """Fresh bytes that begin at a multiple of ALIGN; those that fill pages of 2 MB lie in such,
    where the system has them (Linux), so that caches and tables of pages are used evenly. What is
    left of them lies in small ones: a large page would be memory for nothing. Raises BackendError
    where there are none."""
    unit = _PAGE if nbytes >= _PAGE else ALIGN
    try:
        raw = np.empty(nbytes + unit, np.uint8)
    except (MemoryError, ValueError):
        raise BackendError(f"a run needs {nbytes:,} bytes for values between its kernels, and this "
                           f"machine does not have them free; use smaller inputs") from None
    start = -raw.ctypes.data % unit
    found = raw[start:start + nbytes]
    if unit == _PAGE and (advise := _madvise()) is not None:  # wishes, which cannot fail
        at, full = found.ctypes.data, nbytes // _PAGE * _PAGE
        advise(at, full, mmap.MADV_HUGEPAGE)
        rest = (raw.ctypes.data + raw.nbytes - at - full) // mmap.PAGESIZE * mmap.PAGESIZE
        advise(at + full, rest, mmap.MADV_NOHUGEPAGE)  # NumPy asks for them for all that is large
    return found


@cache
def _madvise() -> Callable[[int, int, int], int] | None:
    """The system's call, where large pages can be asked for."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return advise


def result(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A fresh array for an output; a large one begins at a cache line, so that kernels may write
    it past the caches."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < _LARGE:
        return np.empty(shape, dtype)
    return aligned(nbytes).view(dtype).reshape(shape)


def address(array: Any) -> int:
    """Where an array's data begins, on the host or on a device."""
    if isinstance(array, np.ndarray):
        return array.__array_interface__["data"][0]
    return array.address


@dataclass(slots=True)
class Workspace:
    """Pointers of every buffer of a plan and the sizes, ready for the executable."""

    pointers: ctypes.Array
    sizes: ctypes.Array
    layout: Layout
    arena: np.ndarray
    keep: Sequence[np.ndarray]  # what the fixed pointers point at lives as long as they do
    generation: int


@dataclass(slots=True)
class Workspaces:
    """Workspaces by the sizes of the symbols. ``take`` and ``give`` are safe between threads."""

    plan: Plan
    elsewhere: bool = False  # the arena is on a device, and not ours
    fixed: Mapping[int, np.ndarray] = field(default_factory=dict)  # buffer -> weight, or ahead
    generation: int = 0
    _free: dict[tuple[int, ...], list[Workspace]] = field(default_factory=dict)

    def refresh(self, fixed: Mapping[int, np.ndarray]) -> None:
        """New weights, and new memory for what is computed from them."""
        self.fixed = fixed
        self.generation += 1
        self._free = {}

    def take(self, key: tuple[int, ...]) -> Workspace:
        """A workspace that nobody else uses. ``key``: the sizes in the plan's order."""
        try:
            return self._free[key].pop()
        except (KeyError, IndexError):
            return self._make(key)

    def give(self, key: tuple[int, ...], space: Workspace) -> None:
        """Put a workspace back, unless the weights have moved since."""
        if space.generation != self.generation:
            return
        free = self._free
        free.setdefault(key, []).append(space)
        while len(free) > KEPT_SIZES:
            free.pop(next(iter(free)), None)

    def _make(self, key: tuple[int, ...]) -> Workspace:
        generation, fixed = self.generation, self.fixed
        layout = self.plan.layout(dict(zip(self.plan.symbols, key)))
        arena = aligned(0 if self.elsewhere else layout.peak)
        pointers = (ctypes.c_void_p * max(1, len(self.plan.buffers)))()
        start = address(arena)
        for i, offset in () if self.elsewhere else layout.offsets.items():
            pointers[i] = start + offset
        for i, array in fixed.items():
            pointers[i] = address(array)
        sizes = (ctypes.c_int64 * max(1, len(key)))(*key)
        return Workspace(pointers, sizes, layout, arena, tuple(fixed.values()), generation)
