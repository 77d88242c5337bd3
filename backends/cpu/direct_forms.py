"""Direct convolution on this device: a row of the op table, its tiles, its price."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.backends.cpu.instructions import PAIRS
from tegg.backends.cpu.templates import Operand
from tegg.backends.cpu.windows import nodes_of
from tegg.contraction import Spec
from tegg.dim import Dim, hint, product
from tegg.dtype import DType, bf16, f32
from tegg.ir.graph import Graph
from tegg.ir.op import Op
from tegg.ir.template import OWN, Execution, Extents, template
from tegg.kernel.contraction_held import HELD, Held
from tegg.kernel.registers import Registers, fitted_rows

if TYPE_CHECKING:
    from tegg.rewrite.view import View

# Places of a row by vectors of filters, by families of registers.
_TILES = {"many": {2: 14, 4: 6, 1: 14}, "few": {2: 6, 1: 8}, "neon": {2: 9, 4: 5, 1: 14}}
_LATENCY = 8         # issue slots until a sum can be used again
_FILLING = 4.0       # operations that putting an element where it is read from counts as
_STORING = 2.0       # and one result in its place, before what becomes of it
_PAIRING = 2.0       # what making it a half of a word adds to putting it there


@dataclass(frozen=True, slots=True)
class Slide:
    """Windows along one axis: how many, of how many taps, how far apart both are."""

    places: int
    taps: int
    stride: int = 1
    dilation: int = 1

    def __str__(self) -> str:
        return f"{self.places}.{self.taps}.{self.stride}.{self.dilation}"


def slides_of(text: str) -> tuple[Slide, ...]:
    """The windows that a text states, outermost first."""
    return tuple(Slide(*map(int, s.split("."))) for s in text.split("/"))


@dataclass(frozen=True, slots=True)
class Direct:
    """``rows`` places of a row by ``vectors`` of filters in registers; ``slides``: of the windows,
    the last one across a row. held: how operands are, where they are narrower than sums."""

    slides: tuple[Slide, ...]
    rows: int
    vectors: int
    width: int
    held: Held | None = None

    @property
    def columns(self) -> int:
        """Filters of a register tile."""
        return self.vectors * self.width


def direct_of(op: Op, attrs: tuple, width: int) -> Direct | None:
    """The tiles that the attributes of one of these templates state, or None for another op."""
    if op.name not in DIRECT:
        return None
    _, text, rows, vectors = attrs[OWN:]
    return Direct(slides_of(text), rows, vectors, width, DIRECT[op.name])


@dataclass(frozen=True, slots=True)
class _Executes:
    """Products of register tiles, and what is put in place around them."""

    width: int
    held: Held | None

    def __call__(self, own: tuple, e: Extents) -> Execution:
        f, text, rows, vectors = own
        d = Direct(slides_of(text), rows, vectors, self.width, self.held)
        filters, places = (e.n, e.m) if f else (e.m, e.n)
        across = d.slides[-1]
        lines = places // max(1, across.places)
        whole, left = divmod(-(-filters // self.width), d.vectors)
        slots = whole * _slots(d.rows, d.vectors) + (_slots(d.rows, left) if left else 0)
        wide = whole * d.vectors + left
        padded = lines * -(-across.places // d.rows) * d.rows
        taps = max(1, hint(product(tuple(s.taps for s in d.slides))))
        deep = e.k if d.held is None else taps * -(-e.k // (taps * d.held.group)) * d.held.group
        packed = e.batch * deep * (whole + bool(left)) * d.columns
        read = lines * across.places * product(tuple(min(s.stride, s.taps) for s in d.slides))
        beside = e.batch * (hint(read) * deep / taps * (_FILLING + (_PAIRING if d.held else 0.0))
                            + filters * places * _STORING)
        return Execution(2.0 * e.batch * deep * padded * wide * self.width,
                         max(1, wide) * d.rows / max(1.0, slots),
                         max(1, e.batch * lines * (whole + bool(left))), packed,
                         packed, beside=beside, packs=f,
                         itemsize=d.held.itemsize if d.held else 0)


def _slots(rows: int, vectors: int) -> float:
    """Issue slots of one step: multiply-adds, loads alone, or waiting for results."""
    return max(float(rows * vectors), 1.1 * (rows + vectors), _LATENCY)


def direct_tiles(across: int, filters: int, registers: Registers) -> Iterator[tuple[int, int]]:
    """Places of a row by vectors of filters that fill the registers, where there are so many."""
    most = _TILES[registers.family]
    vectors = -(-filters // registers.width)
    for v in [v for v in most if 1 < v <= vectors] or [1]:
        yield fitted_rows(across, most[v]), v


_OWN = (("filters", "int"), ("windows", "mode"), ("rows", "int"), ("vectors", "int"))
DIRECT = MappingProxyType({"CpuDirect": None, "CpuDirectPairs": HELD["pairs"]})  # how they hold


@cache
def direct_templates(width: int) -> tuple[Op, ...]:
    """The rows for a vector width."""
    return (
        template("CpuDirect", _OWN, _Executes(width, DIRECT["CpuDirect"]),
                 "windows read where they lie, against vectors of filters"),
        template("CpuDirectPairs", _OWN, _Executes(width, DIRECT["CpuDirectPairs"]),
                 "the same of bfloat16, two channels and their sum at once"))


@dataclass(frozen=True, slots=True)
class DirectForms:
    """``(cpu-direct x y i f w r v)``: of the contraction x, y by the spec i, operand f (0 or 1) are
    filters, the other one windows as the text w says; r places by v vectors of filters are worth a
    look. ``(cpu-direct-pairs x y i f w r v)``: so they are of pairs, which the CPU has."""

    registers: Registers
    features: frozenset[str]
    name = "cpu direct"
    known = 3
    relations = MappingProxyType({r: ("Tensor", "Tensor", "String", "i64", "String", "i64", "i64")
                                  for r in ("cpu-direct", "cpu-direct-pairs")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """Tiles for any contraction: the form means what the contraction means, and whether it is
        one of windows decides only what can be lowered."""
        return [(0, str(Slide(1, 1)), 6, 2)]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            x, y = (Operand(view.shape[a], view.dtype[a]) for a in n.args)
            stated = self._stated(x.dtype)
            for filters in (0, 1) if stated else ():
                for axes in set(_windows(view, n.args[1 - filters])):
                    for found in self._tiles((x, y), n.attrs[0], filters, axes):
                        for relation in stated:
                            yield (relation, *n.args, n.attrs[0], *found)

    def example(self) -> Graph:
        """A convolution with a stride."""
        g = Graph()
        x, y = g.input("x", (16, 4, 3, 3), f32), g.input("y", (4, 9, 9), f32)
        for axis in (1, 3):
            y = g.op("Window", y, axis, 3, 2, 1)
        g.op("Contract", x, y, "a,d,e,f;d,b,e,c,f;a,b,c", (16, 4, 4))
        return g

    def _stated(self, d: DType) -> list[str]:
        """The relations that may hold of operands of a dtype."""
        pairs = PAIRS in self.features and d in (f32, bf16)
        return [*["cpu-direct"] * (d is f32), *["cpu-direct-pairs"] * pairs]

    def _tiles(self, pair: tuple[Operand, Operand], text: str, filters: int,
               axes: tuple[tuple[int, Slide], ...]) -> Iterator[tuple[Any, ...]]:
        """What the relation says where some axes of the other operand are places, each with its
        taps after it."""
        spec = Spec.parse(text)
        letters, shape = (spec.x, spec.y)[1 - filters], pair[1 - filters].shape
        free, own = (spec.m, spec.n)[1 - filters], (spec.m, spec.n)[filters]
        size = spec.sizes(pair[0].shape, pair[1].shape)
        count: Dim = product(tuple(size[c] for c in own))
        at, _ = axes[-1]
        across = shape[at]
        known = (isinstance(across, int) and isinstance(count, int)
                 and all(isinstance(size[c], int) for c in spec.k))
        if (not known or letters[at] not in free or across < 2
                or 2 * count < self.registers.width or not spec.k):
            return
        slides = [Slide(hint(shape[i]), s.taps, s.stride, s.dilation) for i, s in axes[-2:]]
        if all(s.taps == s.stride == 1 for s in slides):
            return  # no windows at all: a plain product
        for tile in direct_tiles(across, count, self.registers):
            yield filters, "/".join(map(str, slides)), *tile


def _windows(view: View, c: int) -> Iterator[tuple[tuple[int, Slide], ...]]:
    """Axes of a class that are places of windows, outermost first, the taps of each after it: of
    its own, or of what it splits into groups of channels."""
    yield from _chains(view, c)
    for n in nodes_of(view, c, "Reshape"):
        here, there = view.shape[c], view.shape[n.args[0]]
        moved = len(here) - len(there)
        for chain in _chains(view, n.args[0]):
            if here[chain[0][0] + moved:] == there[chain[0][0]:]:
                yield tuple((i + moved, s) for i, s in chain)


def _chains(view: View, c: int) -> Iterator[tuple[tuple[int, Slide], ...]]:
    """Windows of windows, as many as there are."""
    for n in nodes_of(view, c, "Window"):
        axis, taps, stride, dilation = n.attrs
        own = (axis, Slide(1, taps, stride, dilation))
        below = [b for b in _chains(view, n.args[0]) if b[-1][0] + 1 < axis]
        yield from ((*b, own) for b in below or [()])
