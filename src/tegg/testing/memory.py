"""Arrays beside unreadable pages: a byte read or written out of bounds ends the process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from tegg.dtype import DType

_PAGE = mmap.PAGESIZE
_CLOSED, _OPEN = 0, mmap.PROT_READ | mmap.PROT_WRITE


def _protect(address: int, how: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert libc.mprotect(address, _PAGE, how) == 0, "the page cannot be protected"


class Guarded:
    """Memory whose last byte, or first byte, lies beside an unreadable page."""

    def __init__(self, size: int, at_end: bool = True) -> None:
        pages = max(1, -(-size // _PAGE))
        self._map = mmap.mmap(-1, (pages + 2) * _PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._ends = base, base + (pages + 1) * _PAGE
        for end in self._ends:
            _protect(end, _CLOSED)
        self.address = base + _PAGE + ((pages * _PAGE - size) if at_end else 0)
        self.size = size

    def array(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        """The memory as an array. It ends with the memory."""
        if not self.size:
            return np.empty(shape, dtype.numpy)
        raw = memoryview((ctypes.c_char * self.size).from_address(self.address))
        return np.frombuffer(raw, dtype.numpy, int(np.prod(shape))).reshape(shape)

    def close(self) -> None:
        """Open the pages again, so that the memory can be given back."""
        for end in self._ends:
            _protect(end, _OPEN)
