"""Sums in simdgroup matrices of 8 x 8, the units of Apple GPUs that multiply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.backends.simt.language import MOST_SHARED, SimtC
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.sums import Sums
from tegg.backends.simt.templates import Tile
from tegg.contraction import Spec
from tegg.dim import Shape, hint, product
from tegg.dtype import f16, f32
from tegg.errors import LoweringError
from tegg.ir.graph import Graph
from tegg.ir.op import Op
from tegg.ir.template import LICENCE, Execution, Extents, template
from tegg.kernel.simt import THREADS, WARP

from .emit import Msl

if TYPE_CHECKING:
    from tegg.rewrite.view import View

# Rows, columns, depth and kind of tiles; the eight simdgroups of a block stand 4 x 2 in each.
TILES = ((128, 64, 16, "f32"), (64, 64, 16, "f32"), (32, 32, 32, "f32"))
HALVES = ((128, 64, 32, "f16"), (64, 64, 32, "f16"), (32, 32, 32, "f16"))
_KINDS = MappingProxyType({"f32": ("float", 4), "f16": ("half", 2)})  # the type, its bytes
_DOWN, _ACROSS = 4, 2
_SIMDGROUPS = THREADS // WARP


@dataclass(frozen=True, slots=True)
class MatrixTile(Tile):
    """A tile of the result in matrices. kind: what operands are when they are multiplied."""

    kind: str = "f32"

    @property
    def matrices(self) -> tuple[int, int]:
        """Matrices of one simdgroup, down and across."""
        return self.rows // (8 * _DOWN), self.columns // (8 * _ACROSS)


def matrix_tile(own: tuple[Any, ...]) -> MatrixTile:
    """The tile that a template's own attributes state, in the order of ``TILES``."""
    rows, columns, depth, kind = own
    return MatrixTile(rows, columns, depth, kind=kind)


class MatrixSums(Sums):
    """A simdgroup makes a rectangle of matrices of sums, in float32, from tiles in threadgroup
    memory, of float32 or of halves. A result passes through a strip of that memory, since which
    lane holds which element of a matrix is nowhere said."""

    together = 1
    buffers = 1  # more blocks at a time are worth more than a barrier

    def __init__(self, tile: MatrixTile, language: SimtC, letter: str, terms: int) -> None:
        super().__init__(tile, language, letter, terms)
        if letter != "f":
            raise LoweringError("simdgroup matrices are of float32 here; integers have tiles in "
                                "registers")
        self.down, self.across = tile.matrices
        self.held, itemsize = _KINDS[tile.kind]
        if tile.kind != "f32":
            check_mixed(language)
        self.matrix = f"simdgroup_{self.held}8x8"
        self.pad = 16 // itemsize
        self.strip = 8 * 8 * self.across  # elements of one row of matrices
        size = (itemsize * tile.depth * (tile.rows + tile.columns + 2 * self.pad)
                + 4 * terms * _SIMDGROUPS * self.strip)
        if size > MOST_SHARED:
            raise LoweringError(f"tiles and strips of {terms} products take {size} bytes of "
                                f"threadgroup memory; there are {MOST_SHARED}")

    def shared(self) -> list[str]:
        return [*super().shared(), *(
            f"{self.language.shared} float strip{i}[{_SIMDGROUPS}][{self.strip}];"
            for i in range(self.terms))]

    def place(self) -> str:
        return (f"const int group = thread_id() / {WARP}, "
                f"down_from = group / {_ACROSS} * {8 * self.down}, "
                f"across_from = group % {_ACROSS} * {8 * self.across};")

    def start(self, anchor: int) -> list[str]:
        return [f"simdgroup_float8x8 sums{anchor}_{i}_{j} = "
                f"make_filled_simdgroup_matrix<float, 8, 8>(0.0f);"
                for i in range(self.down) for j in range(self.across)]

    def multiply(self, anchor: int) -> list[str]:
        """Matrices are named one by one, for they live in registers alone. The left tile lies with
        its depth outside, so it is read transposed."""
        t = self.tile
        lines = [f"for (int k = 0; k < {t.depth}; k += 8) {{"]
        for i in range(self.down):
            lines += [f"  {self.matrix} x{i};",
                      f"  simdgroup_load(x{i}, &left_f[k][down_from + {8 * i}], "
                      f"{t.rows + self.pad}, ulong2(0, 0), true);"]
        for j in range(self.across):
            lines += [f"  {self.matrix} y{j};",
                      f"  simdgroup_load(y{j}, &right_f[k][across_from + {8 * j}], "
                      f"{t.columns + self.pad}, ulong2(0, 0), false);"]
        lines += [f"  simdgroup_multiply_accumulate(sums{anchor}_{i}_{j}, x{i}, y{j}, "
                  f"sums{anchor}_{i}_{j});" for i in range(self.down) for j in range(self.across)]
        return [*lines, "}"]

    @contextmanager
    def results(self, p: SimtPrinter, anchors: Sequence[int], count: int) -> Iterator[list[str]]:
        width = 8 * self.across
        with p.braces(f"for (int i = 0; i < {self.down}; i++)"):
            for i in range(self.down):
                with p.braces(f"if (i == {i})"):
                    for number, anchor in enumerate(anchors):
                        for j in range(self.across):
                            p.line(f"simdgroup_store(sums{anchor}_{i}_{j}, &strip{number}[group]"
                                   f"[{8 * j}], {width}, ulong2(0, 0), false);")
            p.line("simdgroup_barrier(mem_flags::mem_threadgroup);")
            with p.braces(f"for (int e = lane_id(); e < {self.strip}; e += {WARP})"):
                p.line(f"const {p.index} at_m = m_from + down_from + 8 * i + e / {width}, "
                       f"from_n = n_from + across_from + e % {width};")
                yield [f"strip{number}[group][e]" for number in range(len(anchors))]
            p.line("simdgroup_barrier(mem_flags::mem_threadgroup);")


def check_mixed(language: SimtC) -> None:
    """Raises LoweringError for a version of MSL in which nobody is known to have multiplied
    matrices of halves into sums of float32."""
    if not (isinstance(language, Msl) and language.mixed):
        raise LoweringError("matrices of halves are multiplied into sums of float32 from MSL 3.1 "
                            "on; in 2.3, which metalcompute compiles, multiply float32")


# ---- forms that compete
def _executes(own: tuple, e: Extents) -> Execution:
    tile = matrix_tile(own)
    down, across = -(-e.m // tile.rows), -(-e.n // tile.columns)
    depth = -(-e.k // tile.depth) * tile.depth
    a, b = tile.matrices
    read = 0.125 * _KINDS[tile.kind][1]  # multiplications that reading a matrix takes as long as
    return Execution(2.0 * e.batch * down * tile.rows * across * tile.columns * depth,
                     a * b / (a * b + read * (a + b)), max(1, e.batch * down * across))


@cache
def matrix_row() -> Op:
    """The row of contractions in simdgroup matrices."""
    return template("MetalMatrix", (("rows", "int"), ("columns", "int"), ("depth", "int"),
                                    ("kind", "mode")), _executes,
                    "tiles of both operands in threadgroup memory, sums in matrices")


def tiles(x: Shape, y: Shape, spec: str) -> list[tuple[int, int, int, str]]:
    """Tiles that a product fills half at least, in rows and in columns."""
    s = Spec.parse(spec)
    size = s.sizes(x, y)
    m, n = (hint(product(tuple(size[c] for c in letters))) for letters in (s.m, s.n))
    return [t for t in (*TILES, *HALVES) if 2 * m >= t[0] and 2 * n >= t[1]]


@dataclass(frozen=True, slots=True)
class MatrixForms:
    """Which matrices of sums a contraction x, y, spec of floats could win with.

    ``(metal-matrix x y i r c k d)``: tiles of r rows and c columns, k terms at a time, which are
    multiplied as values of d. Whether operands may be rounded to d is for rules to say.
    mixed: whether halves can be.
    """

    mixed: bool = True
    name = "metal matrices"
    known = 3
    relations = MappingProxyType({
        "metal-matrix": ("Tensor", "Tensor", "String", "i64", "i64", "i64", "String"), **LICENCE})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """Tiles for any product of floats: the form means what the contraction means, and whether
        it fills them decides only what is worth a look."""
        found = relation not in LICENCE and given[0].dtype.is_float
        return [t for t in (*TILES, *HALVES) if found and (self.mixed or t[-1] == "f32")]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            x, y = (view.shape[a] for a in n.args)
            if view.dtype[n.args[0]].is_float:
                for tile in tiles(x, y, n.attrs[0]):
                    if self.mixed or tile[-1] == "f32":
                        yield ("metal-matrix", *n.args, n.attrs[0], *tile)

    def example(self) -> Graph:
        """A product that fills a tile, and one of halves."""
        g, (rows, columns, depth, _) = Graph(), TILES[-1]
        shapes = ((rows, depth), (depth, columns))
        whole = [g.input(f"x{i}", s, f32) for i, s in enumerate(shapes)]
        halves = [g.op("Cast", g.input(f"h{i}", s, f16), f32) for i, s in enumerate(shapes)]
        for x, y in (whole, halves):
            g.op("Contract", x, y, "a,k;k,b;a,b", (rows, columns))
        return g
