"""The vector registers of a processor, and the tiles of sums that fill them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tegg.dim import Dim
from tegg.dtype import DType

# Rows of a tile by vectors across: sums, vectors of columns, and a row's factor at a time; in NEON
# the factors of all rows, which compilers load together there.
_TILES = MappingProxyType({"many": {4: 6, 3: 8, 2: 12, 1: 14}, "few": {3: 4, 2: 6, 1: 8},
                           "neon": {4: 5, 3: 7, 2: 10, 1: 12}})


@dataclass(frozen=True, slots=True)
class Registers:
    """Vector registers of ``width`` float32 values: of x86, or of ``neon``, which has more."""

    width: int
    neon: bool = False

    @property
    def count(self) -> int:
        """How many there are."""
        return 32 if self.neon or self.width == 16 else 16

    @property
    def family(self) -> Literal["many", "few", "neon"]:
        """What tables of tiles are kept by."""
        return "neon" if self.neon else "many" if self.count == 32 else "few"

    @property
    def rows(self) -> Mapping[int, int]:
        """The rows of a tile that fills them, by vectors across."""
        return _TILES[self.family]


def lanes_of(accumulator: DType, width: int) -> int:
    """Values in a vector register that holds ``width`` float32."""
    return width * 4 // accumulator.itemsize


def known_or_more(n: Dim) -> int:
    """A size where it is known, else one that is larger than any tile."""
    return n if isinstance(n, int) else 1 << 30


def fitted_rows(m: Dim, most: int) -> int:
    """The tile that works through the rows soonest, each tile with half a row of its own; all of
    the registers where m is not known."""
    if not isinstance(m, int):
        return most
    if m <= most:
        return max(m, 1)
    return min(range(most, most // 2, -1), key=lambda r: -(-m // r) * (r + 0.5))


def register_tiles(m: Dim, n: Dim, accumulator: DType,
                   registers: Registers) -> list[tuple[int, int]]:
    """The tiles of rows by vectors that fill the registers, fitted to a shape: few enough that each
    may be priced. A size that is not known does not limit them."""
    lanes = lanes_of(accumulator, registers.width)
    step = max(1, registers.width // lanes)  # panels are whole vectors of the printer
    across = -(-known_or_more(n) // (lanes * step)) * step
    found = [nv for nv in registers.rows if nv % step == 0 and nv <= max(step, across)]
    widest = sorted(found, reverse=True)[:3]
    return list(dict.fromkeys((fitted_rows(m, registers.rows[nv]), nv) for nv in widest))


def panels_at_once(rows: int, vectors: int, registers: Registers) -> int:
    """Panels whose sums, by one register tile of all rows, the registers have room for; two at
    most."""
    factors = rows if registers.neon else 1
    return 2 if (2 * rows + 1) * vectors + factors <= registers.count else 1
