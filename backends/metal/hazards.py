"""Which kernels of a run must wait for others: those that touch what another one writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """Some bytes of a Metal buffer that a kernel is handed. written: it may write them."""

    buffer: Any
    offset: int = 0
    nbytes: int = 0
    written: bool = False

    def meets(self, other: Place) -> bool:
        """Whether one writes what the other touches."""
        return (self.buffer is other.buffer and (self.written or other.written)
                and self.offset < other.offset + other.nbytes
                and other.offset < self.offset + self.nbytes)


@dataclass(slots=True)
class Together:
    """Kernels since the last barrier, which may run at once and in any order."""

    places: list[Place] = field(default_factory=list)

    def waits(self, places: Sequence[Place]) -> bool:
        """Take one more kernel. Whether a barrier must stand before it."""
        found = any(mine.meets(p) for mine in self.places for p in places)
        if found:
            self.places.clear()
        self.places += places
        return found
