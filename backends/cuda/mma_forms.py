"""Products on tensor cores: the row of the op table, its tiles, and which are worth a look."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.backends.simt.templates import BUSY, PARTS_DEEP, shares
from tegg.contraction import Spec
from tegg.dim import Shape, hint, product
from tegg.dtype import f32
from tegg.ir.op import Op
from tegg.ir.template import LICENCE, OWN, Execution, Extents, template

if TYPE_CHECKING:
    from tegg.rewrite.view import View

WARPS = 8
PLAIN_SHARED = 48 << 10  # bytes of shared memory that a block gets without being asked for
# Rows, columns, depth and stages of tiles, largest first. The large ones take 96 KiB of shared
# memory, which devices from 8.0 on give to a block that asks.
_LARGE = ((128, 256, 32, 4), (128, 128, 64, 3))
_LARGE_LEAST = 80
_HALF = ((128, 128, 32, 3), (64, 64, 32, 4), (32, 64, 32, 4), (16, 128, 32, 4))
_WHOLE = ((128, 128, 16, 2), (64, 64, 16, 3), (32, 64, 16, 4), (16, 128, 16, 3))
_LEAST = {"f16": 75, "bf16": 80, "tf32": 80}  # the architecture that multiplies a kind
_READ = 40.0        # multiply-adds that reading an element of a tile's sides takes as long as
_MEET = 4.0         # terms of the depth that a barrier takes as long as


@dataclass(frozen=True, slots=True)
class MmaTile:
    """A tile of the result: operands rounded to ``kind``, ``depth`` terms at a time, of which
    ``stages`` are in shared memory; the depth is shared out to ``parts`` blocks."""

    kind: str
    rows: int
    columns: int
    depth: int
    stages: int
    parts: int = 1

    @property
    def warps(self) -> tuple[int, int]:
        """Warps down and across: the squarest that whole fragments allow."""
        fits = [(w, WARPS // w) for w in (1, 2, 4, 8)
                if self.rows % (16 * w) == 0 and self.columns % (16 * (WARPS // w)) == 0]
        return min(fits, key=lambda w: self.rows // w[0] + self.columns // w[1])

    @property
    def fragments(self) -> tuple[int, int]:
        """Fragments of 16 rows and of 8 columns that a warp has."""
        down, across = self.warps
        return self.rows // down // 16, self.columns // across // 8

    @property
    def step(self) -> int:
        """The depth of one fragment."""
        return 8 if self.kind == "tf32" else 16


def _executes(own: tuple, e: Extents) -> Execution:
    """Each step of the depth has a barrier, which takes as long as some of its terms."""
    t = MmaTile(*own)
    down, across = -(-e.m // t.rows), -(-e.n // t.columns)
    depth = -(-e.k // t.depth) * t.depth
    area = t.rows * t.columns
    speed = area / (area + _READ * (t.rows + t.columns)) / (2 if t.kind == "tf32" else 1)
    speed *= t.depth / (t.depth + _MEET)
    return Execution(2.0 * e.batch * down * across * area * depth, speed,
                     max(1, e.batch * down * across * t.parts),
                     aside=t.parts * e.batch * e.m * e.n if t.parts > 1 else 0,
                     stages=int(t.parts > 1))


@cache
def mma_row() -> Op:
    """The row. Its meaning is the exact sum; what a kernel gives is within the licence's rounding
    of the operands."""
    return template("CudaMma", (("kind", "mode"), ("rows", "int"), ("columns", "int"),
                                ("depth", "int"), ("stages", "int"), ("parts", "int")),
                    _executes, "tiles on tensor cores, operands rounded, sums in float32")


def mma_tile_of(attrs: tuple) -> MmaTile:
    """The tile that a template's attributes state."""
    return MmaTile(*attrs[OWN:])


def mma_tiles(x: Shape, y: Shape, spec: str, kind: str,
              architecture: int) -> list[tuple[int, int, int, int, int]]:
    """Tiles for a product that it fills half at least, or the one that wastes least; few of them
    share out the depth as well. Large ones, where there is work for most of a device."""
    s = Spec.parse(spec)
    size = s.sizes(x, y)
    b, m, n, k = (hint(product(tuple(size[c] for c in letters)))
                  for letters in (s.batch, s.m, s.n, s.k))
    tiles = _WHOLE if kind == "tf32" else _HALF
    found = [t for t in tiles if 2 * m >= t[0] and 2 * n >= t[1]]
    found = found[:2] or [min(tiles, key=lambda t: -(-m // t[0]) * t[0] * (-(-n // t[1])) * t[1])]
    if kind != "tf32" and architecture >= _LARGE_LEAST and k >= PARTS_DEEP:
        found = [*(t for t in _LARGE if 4 * b * -(-m // t[0]) * -(-n // t[1]) >= BUSY), *found]
    out = []
    for t in found:
        out.append((*t, 1))
        parts = shares(b * -(-m // t[0]) * -(-n // t[1]), k)
        if parts > 1:
            out.append((*t, parts))
    return out


@dataclass(frozen=True, slots=True)
class MmaForms:
    """``(cuda-mma x y i d r c k n p)``: the product of x and y by i could be made on tensor cores
    of kind d, in tiles of r rows, c columns and k terms, n of them at hand, p parts of the depth.

    Whether operands of another dtype may be rounded to d is for ``may-multiply`` to say.
    """

    architecture: int
    name = "cuda tensor cores"
    known = 3
    relations = MappingProxyType({
        "cuda-mma": ("Tensor", "Tensor", "String", "String", *("i64",) * 5), **LICENCE})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What the first relation says of two operands and a spec."""
        x, y, spec = given
        if relation in LICENCE or not x.dtype is y.dtype is f32:
            return []
        return [(kind, *tile) for kind, least in _LEAST.items() if least <= self.architecture
                for tile in mma_tiles(x.shape, y.shape, spec, kind, self.architecture)]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            x, y = (_Operand(view.shape[a], view.dtype[a]) for a in n.args)
            for found in self.completions("cuda-mma", x, y, n.attrs[0]):
                yield ("cuda-mma", *n.args, n.attrs[0], *found)


@dataclass(frozen=True, slots=True)
class _Operand:
    shape: Shape
    dtype: Any
