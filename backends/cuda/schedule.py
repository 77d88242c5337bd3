"""What a run starts, in order: kernels as graphs, and products of the library between them.

A call of a library is no node of a graph: what it starts is its own business, and may change with
the sizes. So a run with such calls is several graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .cublas import Product
from .replay import Launch, Replay

if TYPE_CHECKING:
    from .driver import Device

Step = Launch | Product
_Part = Replay | Step


def _groups(steps: Sequence[Step]) -> list[list[Step]]:
    """Kernels that follow one another, and each product by itself."""
    out: list[list[Step]] = []
    for s in steps:
        if out and isinstance(s, Launch) and isinstance(out[-1][-1], Launch):
            out[-1].append(s)
        else:
            out.append([s])
    return out


class Schedule:
    """Steps that are started together, again and again. Freed by ``close``."""

    def __init__(self, device: Device, steps: Sequence[Step]) -> None:
        self._device = device
        self._parts: list[_Part] = []
        try:
            for group in _groups(steps):
                launches = [s for s in group if isinstance(s, Launch)]
                self._parts.append(device.replay(launches) if len(launches) > 1 else group[0])
        except BaseException:
            self.close()
            raise

    def fits(self, steps: Sequence[Step]) -> bool:
        """Whether steps are these kernels and products in this order, with whatever arguments."""
        groups = _groups(steps)
        return len(groups) == len(self._parts) and all(
            p.fits([s for s in group if isinstance(s, Launch)]) if isinstance(p, Replay)
            else len(group) == 1 and type(p) is type(group[0])
            for p, group in zip(self._parts, groups))

    def change(self, steps: Sequence[Step]) -> None:
        """Take over the arguments of steps that fit."""
        for i, group in enumerate(_groups(steps)):
            part = self._parts[i]
            if isinstance(part, Replay):
                part.change([s for s in group if isinstance(s, Launch)])
            else:
                self._parts[i] = group[0]

    def start(self, stream: int) -> None:
        for part in self._parts:
            if isinstance(part, Replay):
                part.start(stream)
            else:
                self._device.start(part, stream)

    def close(self) -> None:
        for part in self._parts:
            if isinstance(part, Replay):
                part.close()
        self._parts = []
