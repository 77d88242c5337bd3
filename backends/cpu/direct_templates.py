"""Direct convolutions on this device: rows of the op table, their tiles, their prices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from tegg.dim import hint, product
from tegg.ir.op import Op
from tegg.ir.template import OWN, Execution, Extents, template
from tegg.kernel.contraction_held import HELD, TILE, Held
from tegg.kernel.registers import Registers, fitted_rows

# Places of a row by vectors of filters, by families of registers.
_TILES = {"many": {2: 14, 3: 8, 4: 6, 1: 14}, "few": {2: 6, 1: 8}, "neon": {2: 9, 4: 5, 1: 14}}
_PASSING = 0.7       # issue slots of a vector of filters on its way from L2: 14 by 2 beat 4 by 4
_STEP = 0.8          # of each step: what a tile of few sums does beside multiplying
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
    passing, step = (0.0, 0.0) if d.turned else (_PASSING, _STEP)
    slots = whole * (max(least, _slots(d.rows, d.vectors) + passing * d.vectors) + step)
    slots += max(least, _slots(d.rows, left) + passing * left) + step if left else 0
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
    """Places of a row by vectors of filters that fill the registers, where there are so many. By
    three vectors only where a row has too few places for two to fill them."""
    rows = {v: fitted_rows(across, most) for v, most in _TILES[registers.family].items()}
    vectors = -(-filters // registers.width)
    for v in [v for v in rows if 1 < v <= vectors] or [1]:
        if v != 3 or 3 * rows[3] > 2 * rows[2]:
            yield rows[v], v


def places_tile(across: int, filters: int, registers: Registers) -> tuple[int, int]:
    """Filters by vectors of places that fill the registers, in a row of places."""
    most = registers.rows[3 if registers.neon else 2]
    rows = -(-filters // -(-filters // most))
    # Beside sums and places: what compilers load early, on NEON factors of all rows among it.
    beside = registers.count // 4 + rows if registers.neon else registers.count // 8
    vectors = (registers.count - beside) // (rows + 1)
    return rows, min(vectors, _LATENCY, across // registers.width)


def first_tile(name: str, across: int, filters: int, registers: Registers) -> tuple[int, int]:
    """The tile of a template that is worth the first look."""
    if name == PLACES:
        return places_tile(across, filters, registers)
    if name == DIRECT_TILES:
        return min(2, -(-filters // TILE)) * TILE, 2
    return next(direct_tiles(across, filters, registers))


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
