"""How a template holds the operands of a product, where they are narrower than its sums."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tegg.dtype import DType, bf16, f16, i8, u8

Multiply = Literal["widen", "dot", "tiles"]


@dataclass(frozen=True, slots=True)
class Held:
    """panel, rows: dtypes of the panels of B and of the rows of A; rows None: as the sums.

    multiply: ``widen`` (numbers of a panel become wide ones in registers), ``dot`` (one
    instruction adds up the products of a group), ``tiles`` (one does a whole tile).
    group: neighbours along the depth that lie side by side. grain: the depth of what is packed
    is filled up with zeros to a multiple of it.
    """

    panel: DType
    rows: DType | None
    multiply: Multiply
    group: int
    grain: int

    @property
    def itemsize(self) -> int:
        """Bytes of an element of a panel."""
        return self.panel.itemsize

    def swapped(self) -> Held:
        """The same with the operands in each other's place."""
        return self if self.rows is None else Held(self.rows, self.panel, self.multiply,
                                                   self.group, self.grain)


# Of integers, the first operand of a product is the unsigned one, as the instructions want it.
HELD = MappingProxyType({
    "bf16": Held(bf16, None, "widen", 2, 2),
    "f16": Held(f16, None, "widen", 1, 1),
    "pairs": Held(bf16, bf16, "dot", 2, 2),
    "tiles": Held(bf16, bf16, "tiles", 2, 32),
    "bytes": Held(i8, u8, "dot", 4, 4),
    "byte tiles": Held(i8, u8, "tiles", 4, 64)})
TILE = 16  # rows and columns of a tile of sums
