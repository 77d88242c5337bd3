"""Direct convolution on this device: a row of the op table, its tiles, its price."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.backends.cpu.instructions import PAIRS, TILES
from tegg.backends.cpu.templates import Operand
from tegg.backends.cpu.windows import nodes_of
from tegg.contraction import Spec
from tegg.dim import Dim, hint, product
from tegg.dtype import DType, bf16, f32
from tegg.ir.graph import Graph
from tegg.ir.op import Op
from tegg.ir.template import OWN, Execution, Extents, template
from tegg.kernel.contraction_held import HELD, TILE, Held
from tegg.kernel.registers import Registers, fitted_rows

if TYPE_CHECKING:
    from tegg.rewrite.view import View

# Places of a row by vectors of filters, by families of registers.
_TILES = {"many": {2: 14, 4: 6, 1: 14}, "few": {2: 6, 1: 8}, "neon": {2: 9, 4: 5, 1: 14}}
_LATENCY = 8         # issue slots until a sum can be used again
_CHANNEL = 20.0      # issue slots in which what a tile reads of a channel comes from L2
_NEAR = 1 << 13      # elements that L1 holds
_LINE = 16           # elements of a cache line
_FILLING = 4.0       # operations that putting an element where it is read from counts as
_STORING = 2.0       # and one result in its place, before what becomes of it
_LAID = 1.0          # the same of results that lie side by side already
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
    """``rows`` places of a row by ``vectors`` of filters in registers, or if ``turned`` so many
    filters by vectors of places; ``slides``: of the windows, the last one across a row. held: how
    operands are, where they are narrower than sums; of tiles, vectors are as long as those."""

    slides: tuple[Slide, ...]
    rows: int
    vectors: int
    width: int
    held: Held | None = None
    turned: bool = False

    @property
    def flat(self) -> bool:
        """Whether the places of a register tile go on from one row to the next."""
        return self.held is not None and self.held.multiply == "tiles"

    @property
    def columns(self) -> int:
        """Filters of a register tile."""
        return self.rows if self.turned else self.vectors * self.width

    @property
    def places(self) -> int:
        """Places of a register tile."""
        return self.vectors * self.width if self.turned else self.rows


def direct_of(op: Op, attrs: tuple, width: int) -> Direct | None:
    """The tiles that the attributes of one of these templates state, or None for another op."""
    if op.name != PLACES and op.name not in DIRECT:
        return None
    _, text, rows, vectors = attrs[OWN:]
    return _stated_by(op.name, text, rows, vectors, width)


def _stated_by(name: str, text: str, rows: int, vectors: int, width: int) -> Direct:
    held, turned = DIRECT.get(name), name in (PLACES, DIRECT_TILES)
    return Direct(slides_of(text), rows, vectors, TILE if name == DIRECT_TILES else width, held,
                  turned)


@dataclass(frozen=True, slots=True)
class _Executes:
    """Products of register tiles, and what is put in place around them."""

    name: str
    width: int

    def __call__(self, own: tuple, e: Extents) -> Execution:
        f, text, rows, vectors = own
        d = _stated_by(self.name, text, rows, vectors, self.width)
        filters, places = (e.n, e.m) if f else (e.m, e.n)
        across = d.slides[-1]
        lines = places // max(1, across.places)
        taps = max(1, hint(product(tuple(s.taps for s in d.slides))))
        whole, left = (-(-filters // d.rows), 0) if d.turned else \
            divmod(-(-filters // d.width), d.vectors)
        panels = whole + bool(left)
        multiplied = whole * d.columns + left * d.width  # filters
        deep = taps * _group(d) * -(-e.k // (taps * _group(d)))
        packed = e.batch * deep * panels * d.columns
        read = lines * across.places * product(tuple(min(s.stride, s.taps) for s in d.slides))
        beside = e.batch * (hint(read) * deep / taps * (_FILLING + (_PAIRING if d.held else 0.0))
                            + filters * places * (_LAID if d.turned else _STORING))
        return Execution(2.0 * e.batch * deep * _computed(d, lines) * multiplied,
                         _efficiency(d, whole, left, e.k // taps),
                         max(1, e.batch * lines * panels), packed,
                         packed, beside=beside, packs=f,
                         itemsize=d.held.itemsize if d.held else 0,
                         rate="CpuDirect" if self.name == PLACES else "")


def _group(d: Direct) -> int:
    """Channels that are multiplied at once."""
    return 1 if d.held is None else d.held.grain if d.flat else d.held.group


def _computed(d: Direct, lines: int) -> int:
    """Places that so many rows of them take: of whole tiles, in each row or of all rows in one,
    where what lies between two rows is computed as well."""
    across = d.slides[-1]
    if d.flat:
        long = across.stride * (across.places - 1) + across.dilation * (across.taps - 1) + 1
        return lines * -(-long // across.stride)
    return lines * -(-across.places // d.places) * d.places


def _efficiency(d: Direct, whole: int, left: int, channels: int) -> float:
    """Of issue slots, those of multiply-adds: in so many whole panels of filters, and a last one of
    so many vectors."""
    if d.flat:
        return 1.0  # two by two tiles, or one by two: loads are never what they wait for
    least = _CHANNEL / max(1, hint(product(tuple(s.taps for s in d.slides)))) \
        if _channel(d) * channels > _NEAR else 0.0
    slots = whole * max(least, _slots(d.rows, d.vectors))
    slots += max(least, _slots(d.rows, left)) if left else 0
    vectors = whole * d.rows * d.vectors + left * d.rows
    return max(1, vectors) / max(1.0, slots)


def _channel(d: Direct) -> int:
    """Elements of a channel that a row of places and a panel of filters read: cache lines of rows,
    and the taps of its filters."""
    *above, across = d.slides
    down = hint(product(tuple(s.taps for s in above)))
    row = across.places * min(across.stride, across.taps) + across.dilation * (across.taps - 1)
    return down * (-(-row // _LINE) * _LINE + across.taps * d.columns)


def _slots(rows: int, vectors: int) -> float:
    """Issue slots of one step: multiply-adds, loads alone, or waiting for results."""
    return max(float(rows * vectors), 1.1 * (rows + vectors), _LATENCY)


def direct_tiles(across: int, filters: int, registers: Registers) -> Iterator[tuple[int, int]]:
    """Places of a row by vectors of filters that fill the registers, where there are so many."""
    most = _TILES[registers.family]
    vectors = -(-filters // registers.width)
    for v in [v for v in most if 1 < v <= vectors] or [1]:
        yield fitted_rows(across, most[v]), v


def places_tile(across: int, filters: int, registers: Registers) -> tuple[int, int]:
    """Filters by vectors of places that fill the registers, in a row of places."""
    most = registers.rows[3 if registers.neon else 2]
    rows = -(-filters // -(-filters // most))
    # Beside sums and places: what compilers load early, on NEON factors of all rows among it.
    beside = registers.count // 4 + rows if registers.neon else registers.count // 8
    vectors = (registers.count - beside) // (rows + 1)
    return rows, min(vectors, _LATENCY, across // registers.width)


_OWN = (("filters", "int"), ("windows", "mode"), ("rows", "int"), ("vectors", "int"))
PLACES, DIRECT_TILES = "CpuPlaces", "CpuDirectTiles"
DIRECT = MappingProxyType({"CpuDirect": None, "CpuDirectPairs": HELD["pairs"],
                           DIRECT_TILES: HELD["tiles"]})  # how they hold


_ABOUT = MappingProxyType({
    "CpuDirect": "windows read where they lie, against vectors of filters",
    "CpuDirectPairs": "the same of bfloat16, two channels and their sum at once",
    DIRECT_TILES: "the same of bfloat16, in tiles of filters by places",
    PLACES: "vectors of places read where they lie, against few filters"})


@cache
def direct_templates(width: int) -> tuple[Op, ...]:
    """The rows for a vector width."""
    return tuple(template(name, _OWN, _Executes(name, width), about, in_order=True)
                 for name, about in _ABOUT.items())


@dataclass(frozen=True, slots=True)
class DirectForms:
    """``(cpu-direct x y i f w r v)``: of the contraction x, y by the spec i, operand f (0 or 1) are
    filters, the other one windows as the text w says; r places by v vectors of filters are worth a
    look. ``(cpu-direct-pairs x y i f w r v)``: so they are of pairs, which the CPU has.
    ``(cpu-places x y i f w r v)``: r filters by v vectors of places are; ``(cpu-direct-tiles x y i
    f w r v)``: by v tiles of places, which the CPU has too."""

    registers: Registers
    features: frozenset[str]
    name = "cpu direct"
    known = 3
    relations = MappingProxyType({r: ("Tensor", "Tensor", "String", "i64", "String", "i64", "i64")
                                  for r in ("cpu-direct", "cpu-direct-pairs", "cpu-direct-tiles",
                                            "cpu-places")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """Tiles for any contraction: the form means what the contraction means, and whether it is
        one of windows decides only what can be lowered."""
        return [(0, str(Slide(1, 1)), 6, 2)]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            x, y = (Operand(view.shape[a], view.dtype[a]) for a in n.args)
            stated = self._stated(x.dtype)
            for f in (0, 1) if stated else ():
                for axes in set(_windows(view, n.args[1 - f])):
                    slides, filters = self._found((x, y), n.attrs[0], f, axes)
                    text = "/".join(map(str, slides))
                    for relation in stated if slides else ():
                        for tile in self._tiles(relation, slides[-1], filters):
                            yield (relation, *n.args, n.attrs[0], f, text, *tile)

    def example(self) -> Graph:
        """A convolution with a stride, to some filters more than a vector."""
        g, width = Graph(), self.registers.width
        x = g.input("x", (width + 1, 4, 3, 3), f32)
        y = g.input("y", (4, 9, width + 2), f32)
        for axis, stride in ((1, 2), (3, 1)):
            y = g.op("Window", y, axis, 3, stride, 1)
        g.op("Contract", x, y, "a,d,e,f;d,b,e,c,f;a,b,c", (width + 1, 4, width))
        return g

    def _stated(self, d: DType) -> list[str]:
        """The relations that may hold of operands of a dtype."""
        return [*["cpu-direct", "cpu-places"] * (d is f32),
                *(r for r, needs in _NEEDS.items() if needs in self.features and d in (f32, bf16))]

    def _tiles(self, relation: str, across: Slide, filters: int) -> Iterable[tuple[int, int]]:
        """The tiles that are worth a look."""
        width = self.registers.width
        if relation == "cpu-direct-tiles":
            return [(min(2, -(-filters // TILE)) * TILE, 2)]
        if relation != "cpu-places":
            return direct_tiles(across.places, filters, self.registers) if 2 * filters >= width \
                else ()
        few = filters % width and filters < 2 * width  # of some vectors much would be empty
        return [places_tile(across.places, filters, self.registers)] \
            if few and across.stride == 1 and across.places >= width else ()

    def _found(self, pair: tuple[Operand, Operand], text: str, filters: int,
               axes: tuple[tuple[int, Slide], ...]) -> tuple[list[Slide], int]:
        """The windows where some axes of the other operand are places, each with its taps after it,
        and how many filters there are; none where a size is not known."""
        spec = Spec.parse(text)
        letters, shape = (spec.x, spec.y)[1 - filters], pair[1 - filters].shape
        free, own = (spec.m, spec.n)[1 - filters], (spec.m, spec.n)[filters]
        size = spec.sizes(pair[0].shape, pair[1].shape)
        count: Dim = product(tuple(size[c] for c in own))
        at, _ = axes[-1]
        across = shape[at]
        known = (isinstance(across, int) and isinstance(count, int)
                 and all(isinstance(size[c], int) for c in spec.k))
        if not known or letters[at] not in free or across < 2 or count < 1 or not spec.k:
            return [], 0
        slides = [Slide(hint(shape[i]), s.taps, s.stride, s.dilation) for i, s in axes[-2:]]
        if all(s.taps == s.stride == 1 for s in slides):
            return [], 0  # no windows at all: a plain product
        return slides, hint(count)


_NEEDS = MappingProxyType({"cpu-direct-pairs": PAIRS, "cpu-direct-tiles": TILES})


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
