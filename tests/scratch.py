"""Scratch memory of CPU kernels that ends at a page which cannot be read, and holds a pattern."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from unittest.mock import patch

from tegg.backends.cpu import library
from tegg.backends.cpu.runtime import runtime
from tegg.testing.kernels import PATTERN
from tegg.testing.memory import Guarded

_ALIGNED = 64  # bytes, as the runtime gives it
_SCRATCH = 2   # its place in the runtime's table: run, barrier, scratch, pieces, next, now, caches
_LAST_CACHE, _OWN_CACHE = 6, 7
_Table = ctypes.c_void_p * 8


class _Scratch:
    """A runtime's table whose scratch is guarded. It is valid until more is asked for."""

    def __init__(self) -> None:
        self._memory: Guarded | None = None
        self._function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(self._give)
        self._table = _Table(*_Table.from_address(runtime().table))
        self._table[_SCRATCH] = ctypes.cast(self._function, ctypes.c_void_p)
        self.table = ctypes.addressof(self._table)

    @contextmanager
    def cached(self, last: int | None, own: int | None) -> Iterator[None]:
        """Kernels take the last cache, and a core's own, for those of so many bytes."""
        before = _Table(*self._table)
        for place, count in ((_LAST_CACHE, last), (_OWN_CACHE, own)):
            if count is not None:
                self._table[place] = count
        try:
            yield
        finally:
            self._table[:] = before[:]

    def _give(self, count: int) -> int:
        if self._memory:
            self._memory.close()
        self._memory = Guarded(max(1, -(-count // _ALIGNED)) * _ALIGNED)
        ctypes.memset(self._memory.address, PATTERN, self._memory.size)
        return self._memory.address


_scratch = cache(_Scratch)


@contextmanager
def guarded() -> Iterator[None]:
    """Kernels that are loaded meanwhile take scratch from here, a thread at a time."""
    with patch.object(library, "runtime", lambda: SimpleNamespace(table=_scratch().table)):
        yield


def cached(last: int | None = None, own: int | None = None):
    """Kernels that were loaded by ``guarded`` take caches for those of so many bytes: the last, and
    a core's own; None leaves the machine's."""
    return _scratch().cached(last, own)
