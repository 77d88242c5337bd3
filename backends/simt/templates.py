"""Forms of a contraction on blocks of threads: rows of the op table, and which could win."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.contraction import Spec
from tegg.dim import Shape, hint, product
from tegg.dtype import DType, f32
from tegg.ir.op import Op
from tegg.ir.template import OWN, Execution, Extents, template

if TYPE_CHECKING:
    from tegg.rewrite.view import View

# Rows, columns and depth of tiles. Each thread of a block makes rows * columns / 256 sums.
TILES = ((128, 128, 8), (64, 64, 16), (32, 32, 32))
BUSY = 264         # tiles that keep a device busy
PARTS_DEEP = 256   # terms of a sum that a part has at least
_PARTS = 64         # parts of a sum at most
_READ = 2.0  # multiply-adds that a read of shared memory takes as long as


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of the result in sums: ``rows x columns`` of a block, ``depth`` terms at a time; the
    whole depth is shared out to ``parts`` blocks."""

    rows: int
    columns: int
    depth: int
    parts: int = 1

    @property
    def side(self) -> int:
        """Threads of a block along each side of the tile."""
        return 16

    @property
    def mine(self) -> tuple[int, int]:
        """Rows and columns of one thread."""
        return self.rows // self.side, self.columns // self.side


def register(d: DType) -> DType:
    """The dtype in which sums are kept: halves accumulate in float32."""
    return f32 if d.is_float and d.itemsize == 2 else d


def _executes(own: tuple, e: Extents) -> Execution:
    tile = Tile(*own)
    down, across = -(-e.m // tile.rows), -(-e.n // tile.columns)
    depth = -(-e.k // tile.depth) * tile.depth
    a, b = tile.mine
    return Execution(2.0 * e.batch * down * tile.rows * across * tile.columns * depth,
                     a * b / (a * b + _READ * (a + b)),
                     max(1, e.batch * down * across * tile.parts),
                     aside=tile.parts * e.batch * e.m * e.n if tile.parts > 1 else 0,
                     stages=int(tile.parts > 1))


@cache
def templates(device: str) -> tuple[Op, ...]:
    """The rows of a device, whose name theirs begin with."""
    return (template(f"{device}Tiled", (("rows", "int"), ("columns", "int"), ("depth", "int"),
                                          ("parts", "int")),
                     _executes, "tiles of both operands in shared memory, sums in registers"),)


def tile_of(attrs: tuple) -> Tile:
    """The tile that a template's attributes state."""
    return Tile(*attrs[OWN:])


def tiles(x: Shape, y: Shape, spec: str) -> list[tuple[int, int, int, int]]:
    """Tiles for a product: the smallest, and those that the result fills half at least. Where they
    are few, and sums are long, the depth is shared out as well."""
    s = Spec.parse(spec)
    size = s.sizes(x, y)
    b, m, n, k = (hint(product(tuple(size[c] for c in letters)))
                  for letters in (s.batch, s.m, s.n, s.k))
    out = []
    for t in TILES:
        if t == TILES[-1] or (2 * m >= t[0] and 2 * n >= t[1]):
            out.append((*t, 1))
            parts = shares(b * -(-m // t[0]) * -(-n // t[1]), k)
            if parts > 1:
                out.append((*t, parts))
    return out


def shares(blocks: int, depth: int) -> int:
    """How many parts of a depth keep a device busy that has so many tiles to make."""
    parts = 1
    while 2 * parts * blocks <= BUSY and depth // (2 * parts) >= PARTS_DEEP and parts < _PARTS:
        parts *= 2
    return parts


@dataclass(frozen=True, slots=True)
class Forms:
    """Which forms of a contraction x, y, spec could win on a device, for rules to build.

    ``(DEVICE-tile x y i r c d p)``: tiles of r rows and c columns, d terms at a time, p parts of
    the depth.
    """

    device: str
    known = 3

    @property
    def name(self) -> str:
        return f"{self.device} forms"

    @property
    def relations(self) -> Mapping[str, tuple[str, ...]]:
        return MappingProxyType({
            f"{self.device}-tile": ("Tensor", "Tensor", "String", *("i64",) * 4)})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What a relation says of two operands and a spec."""
        x, y, spec = given
        return list(tiles(x.shape, y.shape, spec))

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            x, y = (view.shape[a] for a in n.args)
            for tile in tiles(x, y, n.attrs[0]):
                yield (f"{self.device}-tile", *n.args, n.attrs[0], *tile)
