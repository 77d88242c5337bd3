"""Winograd's form of a convolution on this device: a row of the op table, its tiles, its price."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.backends.cpu.templates import issue_slots
from tegg.backends.cpu.windows import nodes_of
from tegg.contraction import Spec
from tegg.dim import Shape, product
from tegg.dtype import DType, f32
from tegg.ir.graph import Graph
from tegg.ir.op import Op
from tegg.ir.template import OWN, Execution, Extents, template
from tegg.kernel.registers import Registers

if TYPE_CHECKING:
    from tegg.rewrite.view import View

TAPS, RESULTS = 3, 4             # F(4 x 4, 3 x 3)
POINTS = (TAPS + RESULTS - 1)**2  # products that replace 9 x 16
_LEAST = 16         # channels, and filters, from which the transforms may pay
_CLOSE = 1 << 18    # elements of transformed tiles that stay in L2
_ROWS = 32          # filters whose sums stay in cache until they are transformed
_INPUT, _OUTPUT = 150.0, 120.0  # operations that transforming one tile takes, loads and stores too


@dataclass(frozen=True, slots=True)
class Tiles:
    """Rows of filters by vectors of tiles in registers; a unit is ``segment`` tiles of a row of
    tiles, and ``most`` of them are transformed together."""

    rows: int
    vectors: int
    width: int
    down: int
    across: int

    @property
    def tall(self) -> int:
        """Rows of tiles."""
        return -(-self.down // RESULTS)

    @property
    def segments(self) -> int:
        """Units of one row of tiles."""
        return -(-self._wide // (self.vectors * self.width))

    @property
    def segment(self) -> int:
        return -(-self._wide // self.segments)

    @property
    def most(self) -> int:
        return max(1, self.vectors * self.width // self.segment)

    @property
    def _wide(self) -> int:
        return -(-self.across // RESULTS)

    @property
    def padded(self) -> int:
        """A segment in whole vectors."""
        return -(-self.segment // self.width) * self.width

    @property
    def columns(self) -> int:
        """Room for the tiles of some units, the last of which writes whole vectors."""
        last = (self.most - 1) * self.segment + self.padded
        return -(-last // self.width) * self.width


def tiles_of(attrs: tuple, width: int) -> Tiles:
    """The tiles that the template's attributes state."""
    _, down, across, rows, vectors = attrs[OWN:]
    return Tiles(rows, vectors, width, down, across)


def group_of(m: int, rows: int) -> tuple[int, int]:
    """How many blocks of ``rows`` filters are multiplied before their sums are transformed, and how
    many such groups there are."""
    blocks = -(-m // rows)
    group = -(-blocks // -(-blocks * rows // _ROWS))
    return group, -(-blocks // group)


@dataclass(frozen=True, slots=True)
class _Executes:
    """36 products of filters by tiles, and the transforms around them."""

    width: int

    def __call__(self, own: tuple, e: Extents) -> Execution:
        t = tiles_of((*(None,) * OWN, *own), self.width)
        filters, places = (e.n, e.m) if own[0] else (e.m, e.n)
        channels = -(-e.k // TAPS**2)
        units = places // max(1, t.down * t.across) * t.tall * t.segments
        blocks = -(-units // t.most)
        wide = blocks * -(-t.most * t.segment // self.width) * self.width
        group, groups = group_of(filters, t.rows)
        tall = group * groups * t.rows
        transformed = wide * (channels * _INPUT + filters * _OUTPUT)
        packed = e.batch * POINTS * channels * tall
        return Execution(2.0 * e.batch * POINTS * channels * tall * wide,
                         t.rows * t.vectors / issue_slots(t.rows, t.vectors),
                         max(1, e.batch * units), packed, packed, beside=e.batch * transformed,
                         packs=own[0])


@cache
def winograd_row(width: int) -> Op:
    """The row for a vector width."""
    return template("CpuWinograd", (("filters", "int"), ("down", "int"), ("across", "int"),
                                    ("rows", "int"), ("vectors", "int")), _Executes(width),
                    "3 x 3 taps in transformed tiles of 4 x 4 results", in_order=True)


@dataclass(frozen=True, slots=True)
class WinogradForms:
    """``(cpu-winograd x y i f p q r v)``: of the contraction x, y by the spec i, operand f (0 or 1)
    are filters, the other one windows of 3 by 3 with stride 1 at p by q places; r filters by v
    vectors of tiles are worth a look."""

    registers: Registers
    name = "cpu winograd"
    known = 3
    relations = MappingProxyType({"cpu-winograd": (
        "Tensor", "Tensor", "String", "i64", "i64", "i64", "i64", "i64")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """Tiles for any contraction: the form means what the contraction means, and whether it is
        one of windows decides only what can be lowered."""
        return [(0, 1, 1, 8, 3)]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            shapes = view.shape[n.args[0]], view.shape[n.args[1]]
            for filters in (0, 1):
                for i, j in _windows(view, n.args[1 - filters]):
                    found = self._tiles(shapes, n.attrs[0], view.dtype[n.args[0]], filters, i, j)
                    if found:
                        yield ("cpu-winograd", *n.args, n.attrs[0], *found)

    def example(self) -> Graph:
        """A convolution of as many channels as it takes."""
        g = Graph()
        x, y = g.input("x", (_LEAST, _LEAST, TAPS, TAPS), f32), g.input("y", (_LEAST, 6, 6), f32)
        for axis in (1, 3):
            y = g.op("Window", y, axis, TAPS, 1, 1)
        g.op("Contract", x, y, "a,d,e,f;d,b,e,c,f;a,b,c", (_LEAST, 4, 4))
        return g

    def _tiles(self, shapes: tuple[Shape, Shape], text: str, dtype: DType, filters: int, i: int,
               j: int) -> tuple[int, ...] | None:
        """What the relation says where axes i, i + 1 and j, j + 1 of the other operand are places
        and taps of a convolution that may gain."""
        spec = Spec.parse(text)
        axes, shape = (spec.x, spec.y)[1 - filters], shapes[1 - filters]
        places, taps = (axes[i], axes[j]), (axes[i + 1], axes[j + 1])
        free, own = (spec.m, spec.n)[1 - filters], (spec.m, spec.n)[filters]
        size = spec.sizes(*shapes)
        m, k = (product(tuple(size[c] for c in letters)) for letters in (own, spec.k))
        down, across = shape[i], shape[j]
        known = all(isinstance(n, int) for n in (m, k, down, across))
        if not (dtype is f32 and known and shape[i + 1] == shape[j + 1] == TAPS
                and all(places) and set(places) <= set(free) and down > 1 and across > 1
                and all(taps) and set(taps) <= set(spec.k)
                and m >= _LEAST and k >= _LEAST * TAPS**2):
            return None
        channels = k // TAPS**2
        vectors = next((v for v in (3, 2)
                        if POINTS * channels * v * self.registers.width <= _CLOSE), 1)
        return filters, down, across, -(-m // -(-m // self.registers.rows[vectors])), vectors


def _windows(view: View, c: int) -> list[tuple[int, int]]:
    """Axes i < j of a class that are places of windows of 3 by 3, the taps of each after it."""
    def plain(node: Any) -> bool:
        return node.attrs[1:] == (TAPS, 1, 1)
    return [(m.attrs[0], n.attrs[0]) for n in filter(plain, nodes_of(view, c, "Window"))
            for m in filter(plain, nodes_of(view, n.args[0], "Window"))
            if m.attrs[0] + 1 < n.attrs[0]]
