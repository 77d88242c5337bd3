"""Memory that C reads: the many small parts of a description, in few blocks.

An array of ``ctypes`` for each would be ten times as large as what it holds, and each length of one
a class of its own.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

_BYTES = 2048  # of a block; a longer part has one of its own
_ALIGN = 8


class Block:
    """Parts, which stay where they are put and live as long as this does."""

    __slots__ = ("_at", "_kept")

    def __init__(self) -> None:
        self._kept: list[ctypes.Array] = []
        self._at = _BYTES  # what is taken of the last one

    def int32s(self, values: Sequence[int]) -> int:
        """The address of numbers."""
        return self._packed("i", values)

    def int64s(self, values: Sequence[int]) -> int:
        """The address of numbers."""
        return self._packed("q", values)

    def pointers(self, values: Sequence[int]) -> int:
        """The address of addresses."""
        return self._packed("P", values)

    def structures(self, values: Sequence[ctypes.Structure]) -> int:
        """The address of copies of structures of one kind."""
        size = ctypes.sizeof(values[0]) if values else 0
        start = self._room(size * len(values))
        for i, value in enumerate(values):
            ctypes.memmove(start + i * size, ctypes.byref(value), size)
        return start

    def _packed(self, code: str, values: Sequence[int]) -> int:
        form = f"{len(values)}{code}"
        data = struct.pack(form, *values)
        start = self._room(len(data))
        ctypes.memmove(start, data, len(data))
        return start

    def _room(self, nbytes: int) -> int:
        """The address of so many bytes that nobody has."""
        nbytes = max(1, -(-nbytes // _ALIGN)) * _ALIGN
        if self._at + nbytes > _BYTES:
            self._kept.append((ctypes.c_char * max(_BYTES, nbytes))())
            self._at = 0
        self._at += nbytes
        return ctypes.addressof(self._kept[-1]) + self._at - nbytes
