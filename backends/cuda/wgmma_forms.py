"""Products of four warps at once: rows of the op table, tiles, and when they are offered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.backends.cuda.mma_forms import MmaTile
from tegg.backends.simt.attention_forms import AttentionForms, Blocks, attention_row, executes
from tegg.backends.simt.templates import BUSY, shares
from tegg.contraction import Spec
from tegg.dim import Shape, hint, product
from tegg.dtype import f32
from tegg.ir.op import Op
from tegg.ir.template import LICENCE, OWN, Execution, Extents, template
from tegg.kernel.simt import THREADS

if TYPE_CHECKING:
    from tegg.rewrite.view import View

ARCHITECTURE = 90  # the one that has them
NAME = "CudaWgmma"
ATTENTION = "CudaWgmmaAttention"
TURNS = "CudaTurnsAttention"
DEPTH = 64         # halves of a line of 128 bytes, as which operands lie
GROUP = 128        # threads that multiply together
ROWS = 64          # of a product of theirs
ALIGNED = 1024     # bytes: what tiles in shared memory begin at a multiple of
ROOM = 227 << 10   # bytes of shared memory that a block may ask for
COLUMNS = 128      # of values in attention at most: threads have registers for sums of so many
_QUERIES = 128     # of a block of attention
_KEYS = (64, 128)  # of one, the second where values have more than 64 columns: it runs alone then
_KINDS = ("f16", "bf16")
# Rows, columns, depth and stages of tiles, largest first: 192, 128 and 96 KiB of shared memory.
_TILES = ((128, 256, DEPTH, 4), (128, 128, DEPTH, 4), (64, 128, DEPTH, 4))
_READ = 20.0       # multiply-adds that reading an element of a tile's sides takes as long as
_MEET = 4.0        # terms of the depth that a barrier takes as long as


class WgmmaTile(MmaTile):
    """A tile of the result, shared out to groups of four warps that have 64 rows each."""

    __slots__ = ()

    @property
    def groups(self) -> tuple[int, int]:
        """Groups of warps down and across."""
        down = min(self.rows // ROWS, THREADS // GROUP)
        return down, THREADS // GROUP // down

    @property
    def width(self) -> int:
        """Columns of a group."""
        return self.columns // self.groups[1]

    @property
    def fragments(self) -> tuple[int, int]:
        """Fragments of 16 rows and of 8 columns that a warp has."""
        return 1, self.width // 8


def _executes(own: tuple, e: Extents) -> Execution:
    """As of other tiles on tensor cores; operands are read from shared memory as they lie."""
    t = WgmmaTile(*own)
    down, across = -(-e.m // t.rows), -(-e.n // t.columns)
    depth = -(-e.k // t.depth) * t.depth
    area = t.rows * t.columns
    speed = area / (area + _READ * (t.rows + t.columns)) * t.depth / (t.depth + _MEET)
    return Execution(2.0 * e.batch * down * across * area * depth, speed,
                     max(1, e.batch * down * across * t.parts),
                     aside=t.parts * e.batch * e.m * e.n if t.parts > 1 else 0,
                     stages=int(t.parts > 1))


@cache
def wgmma_row() -> Op:
    """The row. Its meaning is the exact sum, as of ``CudaMma``."""
    return template(NAME, (("kind", "mode"), ("rows", "int"), ("columns", "int"),
                           ("depth", "int"), ("stages", "int"), ("parts", "int")),
                    _executes, "tiles on tensor cores by four warps at once, of compute "
                    "capability 9.0")


def wgmma_tile_of(attrs: tuple) -> WgmmaTile:
    """The tile that a template's attributes state."""
    return WgmmaTile(*attrs[OWN:])


def wgmma_tiles(x: Shape, y: Shape, spec: str) -> list[tuple[int, int, int, int, int]]:
    """Tiles for a product that it fills half at least, or the smallest; the largest where there is
    work for most of a device. Few of them share out the depth as well, to a tile for each
    multiprocessor: what two had was slower, for partial sums are written and read again."""
    s = Spec.parse(spec)
    size = s.sizes(x, y)
    b, m, n, k = (hint(product(tuple(size[c] for c in letters)))
                  for letters in (s.batch, s.m, s.n, s.k))
    out = []
    found = [t for t in _TILES if 2 * m >= t[0] and 2 * n >= t[1]]
    for t in found or _TILES[-1:]:
        tiles = b * -(-m // t[0]) * -(-n // t[1])
        if t is _TILES[0] and 4 * tiles < BUSY:
            continue
        parts = shares(2 * tiles, k)
        out += [(*t, p) for p in ((1, parts) if parts > 1 else (1,))]
    return out


@dataclass(frozen=True, slots=True)
class WgmmaForms:
    """``(cuda-wgmma x y i d r c k n p)``: as ``cuda-mma``, of products of four warps at once.

    offered: whether they are: on the architecture that has them, where a cost profile says what
    was measured of them.
    """

    offered: Callable[[], bool]
    name = "cuda products of four warps"
    known = 3
    relations = MappingProxyType({
        "cuda-wgmma": ("Tensor", "Tensor", "String", "String", *("i64",) * 5), **LICENCE})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What the first relation says of two operands and a spec."""
        x, y, spec = given
        if relation in LICENCE or not x.dtype is y.dtype is f32 or not self.offered():
            return []
        return [(kind, *tile) for kind in _KINDS for tile in wgmma_tiles(x.shape, y.shape, spec)]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            x, y = (_Operand(view.shape[a], view.dtype[a]) for a in n.args)
            for found in self.completions("cuda-wgmma", x, y, n.attrs[0]):
                yield ("cuda-wgmma", *n.args, n.attrs[0], *found)


def _attends(own: tuple, e: Extents) -> Execution:
    """As of other blocks of attention, a barrier for each block of keys."""
    found, keys = executes(own, e), Blocks(*own).keys
    return replace(found, speed=found.speed * keys / (keys + _MEET))


def wgmma_attention_row() -> Op:
    """The row of attention by such products."""
    return attention_row("CudaWgmma", _attends)


def turns_row() -> Op:
    """The same of two groups that take turns."""
    return attention_row("CudaTurns", _attends)


@dataclass(frozen=True, slots=True)
class WgmmaAttention(AttentionForms):
    """``(cuda-wgmma-attention x y i d r k p)``: as ``cuda-attention``, by such products; and
    ``cuda-turns-attention``, of groups that take turns.

    offered: whether they are, as of ``WgmmaForms``, by a price of their own.
    """

    offered: Callable[[], bool]

    def plain(self, kind: str, queries: int, columns: int) -> list[Blocks]:
        return []

    def matrices(self, columns: int) -> list[Blocks]:
        if columns > COLUMNS or not self.offered():
            return []
        return [Blocks(kind, _QUERIES, keys) for kind in _KINDS
                for keys in (_KEYS if columns > DEPTH else _KEYS[:1])]


@dataclass(frozen=True, slots=True)
class _Operand:
    shape: Shape
    dtype: Any
