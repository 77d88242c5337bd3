"""What a run moves between the host and the GPU: the copies of a plan, as the driver makes them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from tegg.dim import symbols
from tegg.planning.plan import Plan

from .driver import Device


class Transfers:
    """The copies of one plan. A buffer of an argument or a result has a side on the host, and one
    on the device if a copy or a kernel of the plan names it; of an array that is ``resident`` there
    is the device's alone, and its copies are none.

    there: numbers of buffers that have a side on the device.
    """

    def __init__(self, plan: Plan, device: Device) -> None:
        self._plan, self._device = plan, device
        moved = [(plan.kernels[c.kernel].moves, c.buffers[0]) for c in plan.run]
        self._inward = tuple(dict.fromkeys(b for to, b in moved if to == "device"))
        self._outward = tuple(dict.fromkeys(b for to, b in moved if to == "host"))
        self._each_time = tuple(i for i, b in enumerate(plan.buffers)
                                if b.kind == "weight" and symbols(b.size))
        given = {i for i, b in enumerate(plan.buffers) if b.kind in ("input", "output")}
        self.there = frozenset({b for c in (*plan.ahead, *plan.run) for b in c.buffers}
                               | {i for i, _ in enumerate(plan.buffers)} - given)
        changed = {call.buffers[w] for call in plan.run for s in call.stages
                   for w in plan.kernels[call.kernel].stages[s].writes}
        changed |= {to for _, to in plan.after} & self.there
        # results that stay on the device by themselves, for callers who give arrays of the host
        self._left = tuple(sorted(changed & given - set(self._outward)))
        self._given = tuple(given)

    @property
    def weights(self) -> tuple[int, ...]:
        """Weights that go along each time, since a symbol sizes them."""
        return self._each_time

    def bring(self, buffers: Any, addresses: Sequence[int], nbytes: Sequence[int],
              resident: AbstractSet[int], stream: int) -> None:
        """Copies to the device, and results that are arguments."""
        for i in (*self._inward, *self._each_time):
            self.copy("device", i, buffers, addresses, nbytes, resident, stream)
        for source, to in self._plan.before:
            self._move(source, to, buffers, addresses, nbytes, resident, stream)

    def copy(self, to: str, i: int, buffers: Any, addresses: Sequence[int],
             nbytes: Sequence[int], resident: AbstractSet[int], stream: int) -> None:
        """One copy of the plan."""
        if i in resident:
            return
        if to == "device":
            self._device.upload(addresses[i], buffers[i], nbytes[i], stream)
        else:
            self._device.download(buffers[i], addresses[i], nbytes[i], stream)

    def give(self, buffers: Any, addresses: Sequence[int], nbytes: Sequence[int],
             resident: AbstractSet[int], stream: int) -> None:
        """Copies back to the host. Returns when arrays of the host are read and written."""
        if any(not self._sided(to, resident) for _, to in self._plan.after):
            self._device.wait(stream)  # what was brought may still be on its way
        for source, to in self._plan.after:
            self._move(source, to, buffers, addresses, nbytes, resident, stream)
            if to not in self._given:  # put aside: what it was may be overwritten now
                self._device.wait(stream)
        for i in (*self._outward, *self._left):
            self.copy("host", i, buffers, addresses, nbytes, resident, stream)
        if self._each_time or any(i not in resident for i in self._given):
            self._device.wait(stream)

    def _sided(self, i: int, resident: AbstractSet[int]) -> bool:
        return i in resident or i in self.there

    def _move(self, source: int, to: int, buffers: Any, addresses: Sequence[int],
              nbytes: Sequence[int], resident: AbstractSet[int], stream: int) -> None:
        """One buffer's bytes to another's: on the device where both have a side there."""
        device, size = self._device, nbytes[source]
        if self._sided(to, resident):
            if self._sided(source, resident):
                device.copy(addresses[to], addresses[source], size, stream)
            else:
                device.upload(addresses[to], buffers[source], size, stream)
        elif source in resident or source not in self._given:
            device.download(buffers[to], addresses[source], size, stream)
        else:
            ctypes.memmove(buffers[to], buffers[source], size)
