"""The shape of a contraction, the tile that a template gives it, and what it then executes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tegg.dim import Dim, hint
from tegg.dtype import DType
from tegg.kernel.contraction_held import TILE, Held
from tegg.kernel.registers import Registers, known_or_more, lanes_of, panels_at_once

Form = Literal["packed", "rows", "dots"]
Unit = Literal["free", "k", "none"]  # which variable of an operand is contiguous in memory

_DEPTH = 1 << 12   # bytes along k before partial sums are set aside: rows and a panel stay in L2
_HELD_DEPTH = 1 << 11  # the same of operands that are narrower than their sums
_ROWS = 384        # bytes across the rows of A that are kept in L2 together
_TILED_DEPTH = 1 << 9  # the same of what is held for tiles, of as many rows as are kept together
_TILED_NEAR = 1 << 10  # bytes of it that a panel stays in L1 for; rows pass by
_TURNS = 4         # tiles of rows that take turns at a panel there: their sums stay too
_TILED_ROWS = 256  # rows of A for tiles, which wait longer for a panel that is not in L2 yet
_DEEPER = 16       # times as deep blocks of few rows for tiles are at most: a panel stays in L2
_WHOLE = 4         # times as deep those of many rows are, if no sums are set aside then
_CLOSE = 1 << 16   # bytes of an operand that stay in L1
_FAR = 1 << 20     # bytes of panels that no cache of a thread keeps
_LINES = 16        # values of a vector, two or three of which are lines of a cache: of such tiles
_MANY = 1024       # so many rows of A may be read again for each piece of B,
_NOT_MANY = 256    # of narrower ones these,
_NARROW = 2        # and so many tiles of rows meet a B where it lies
_SHALLOW = 64      # terms of sums up to which a B is packed sooner than read where it lies,
_FEW = 24          # by more rows of A than these
_BLOCKS = 4        # of rows that a piece of B meets while it lies packed: their sums stay in L2
DOTS = 4           # columns whose dot products are taken at once
_LONG = 1024       # terms of dot products from which a column is read by itself
_NEAR = 2          # rows of A that stay in L1 meanwhile
_STRETCH = 4096    # columns times rows whose sums stay in L1
_SUMS = 1 << 20    # bytes of partial sums a thread keeps
_PIECE = 256       # columns that are packed together: a piece of a block of B stays in L2
_WIDE_PIECE = 1024  # the same where columns are many: rows from far away in long pieces
WIDE = 4 * _WIDE_PIECE
_RUNS = 8          # rows of B that are added at once to sums, or columns of it, side by side
IN_ORDER, BESIDE = 1, 2  # how a B that is read where it lies is asked for, where it is


@dataclass(frozen=True, slots=True)
class Tile:
    """What a template fixes. ``packed``: register tiles of ``rows`` by ``vectors``, over packed
    panels of B; ``rows``: B is read row by row, ``vectors`` columns of vectors at a time;
    ``dots``: B is read along k, against ``rows`` rows at once; neither packs B.

    parts: of the depth. Each is summed by itself, and the sums are added in their order.
    passing: panels pass by, whatever they are packed from. held: how ``packed`` holds operands that
    are narrower than their sums. asked: how a B that is not packed is asked for ahead of its use:
    ``IN_ORDER``, so that a single row of A may go through it in the order in which it lies;
    ``BESIDE``, several runs of it side by side; or not at all: as many runs, which hardware follows
    by itself. symmetric: columns of B are rows of A, so that the tiles of ``packed`` below the
    diagonal are those above it, turned.
    """

    form: Form
    rows: int = 1
    vectors: int = 4
    parts: int = 1
    held: Held | None = None
    passing: bool = False
    asked: int = IN_ORDER
    symmetric: bool = False


@dataclass(frozen=True, slots=True)
class GemmShape:
    """What a choice of tiles depends on.

    n: columns per group; terms: contractions per group. accumulator: the dtype of sums. a_unit and
    b_units: which variable is contiguous. a_cost, b_cost: operations of one element of an operand.
    b_batched: whether B differs between batch items. b_constant: whether it is computed from
    weights only, so that packing happens once. a_plain, b_plain: whether an operand can be
    read where it lies.
    """

    batch: Dim
    m: Dim
    n: tuple[Dim, ...]
    k: Dim
    accumulator: DType
    terms: tuple[int, ...] = (1,)
    a_unit: Unit = "k"
    b_units: tuple[Unit, ...] = ("free",)
    a_plain: bool = False
    b_plain: bool = False
    a_cost: float = 1.0
    b_cost: float = 1.0
    out_cost: float = 1.0
    b_batched: bool = False
    b_constant: bool = False

    @property
    def flops(self) -> float:
        """Multiplications and additions of the contractions, at the hints."""
        across = sum(hint(n) * t for n, t in zip(self.n, self.terms))
        return 2.0 * hint(self.batch) * hint(self.m) * across * hint(self.k)


@dataclass(frozen=True, slots=True)
class GemmParams:
    """A tile, and the sizes of blocks around it: mr x (nv x lanes) are the register tiles.

    depth: k per block. rows: rows of A kept together. span: panels per pass where partial sums are
    set aside. piece: panels packed together. inline: B is packed by the thread that uses it.
    in_place: A is read where it lies. abreast: rows of A that ``dots`` takes at once. together:
    runs of a B that is read where it lies, which are read side by side. panels: that are multiplied
    at once where one tile holds all rows. held, asked, symmetric: as of the tile. passing: a thread
    packs one piece of a block of B, multiplies it by ``tall`` rows, and packs the next in its
    place. lying: but for columns that are no whole vector it packs nothing, and products read B
    where it lies.
    """

    form: Form
    lanes: int
    mr: int
    nv: int
    depth: int
    rows: int
    span: int
    piece: int
    inline: bool
    in_place: bool = False
    abreast: int = 1
    together: int = 0
    parts: int = 1
    passing: bool = False
    held: Held | None = None
    panels: int = 1
    asked: int = IN_ORDER
    symmetric: bool = False
    lying: bool = False

    @property
    def ahead(self) -> int:
        """Runs of B that are read side by side and asked for; 0 where nothing is."""
        return self.together if self.asked else 0

    @property
    def beside(self) -> bool:
        """Whether they are asked for side by side."""
        return self.asked == BESIDE

    @property
    def nr(self) -> int:
        """Columns of a register tile, and of a panel."""
        return self.nv * self.lanes

    @property
    def turns(self) -> int:
        """Tiles of rows that take turns at a panel, a part of the depth at a time."""
        return _TURNS if self.held is not None and self.held.multiply == "tiles" else 1

    @property
    def near(self) -> int:
        """That part of the depth."""
        assert self.held is not None, "only whole tiles take turns"
        return _TILED_NEAR // self.held.itemsize

    @property
    def tiles(self) -> int:
        """Register tiles whose sums are held until they are stored: one of each panel at hand,
        those that take turns, or those of all rows of a panel, which are stored turned as well."""
        return self.rows // self.mr if self.symmetric else max(self.panels, self.turns)

    @property
    def tall(self) -> int:
        """Rows that meet a piece of B while it passes by."""
        return _BLOCKS * self.rows


@dataclass(frozen=True, slots=True)
class GemmEstimate:
    """What a run executes, at the hints and for a number of threads.

    flops: of the products, padding of tiles included. packed_bytes: panels of B written (and
    read back). a_evaluations, b_evaluations: how often each element of an operand is evaluated.
    """

    flops: float
    packed_bytes: float
    a_evaluations: float
    b_evaluations: float


def blocked(shape: GemmShape, tile: Tile, registers: Registers) -> GemmParams:
    """The sizes of blocks that a tile takes, from how much of each operand stays in caches."""
    size, lanes = shape.accumulator.itemsize, lanes_of(shape.accumulator, registers.width)
    form, mr, nv = tile.form, tile.rows, tile.vectors
    if form != "packed":
        stretch = max(1, _STRETCH // hint(shape.m) // (nv * lanes)) if hint(shape.m) else 1
        together = _RUNS if form == "rows" else dots_at_once(mr, shape.k, tile.asked, registers)
        return GemmParams(form, lanes, 1, nv, _STRETCH, 1, stretch, 1, True, True, mr, together,
                          tile.parts, asked=tile.asked)
    rows = _rows(shape, mr, size, _most_rows(tile.held, size))
    if tile.held is not None and tile.held.multiply == "tiles":
        lanes = TILE
    sums = rows * nv * lanes * size * max(shape.terms)
    in_place = shape.a_plain and (tile.held is None or tile.held.rows is None)
    lying = in_place and _lying(shape, tile, registers)
    passing = lying or tile.passing or (in_place and _passing(shape, tile, registers))
    inline = tile.parts > 1 or passing or (shape.b_batched and not shape.b_constant)
    whole = None if passing else _whole_depth(shape, mr, size)
    depth = whole or _depth(shape.k, tile.held, size, rows)
    return GemmParams(form, lanes, mr, nv, depth, rows,
                      max(1, _SUMS // sums), _piece(shape, nv * lanes, passing), inline, in_place,
                      parts=tile.parts, passing=passing, held=tile.held,
                      panels=1 if passing or tile.symmetric else _panels(shape, tile, lanes,
                                                                         registers),
                      symmetric=tile.symmetric, lying=lying)


def dots_at_once(rows: int, depth: Dim, asked: int, registers: Registers) -> int:
    """Columns of B whose dot products with so many rows of A are taken at once. Of long ones that
    are asked for in order it is one, with several sums, as long as the rows stay in L1; side by
    side they are as many as leave half of the registers."""
    if asked == BESIDE:
        return _RUNS if 2 * rows * _RUNS <= registers.count else DOTS
    return 1 if asked and rows <= _NEAR and hint(depth) >= _LONG else DOTS


def _piece(shape: GemmShape, nr: int, passing: bool) -> int:
    """Panels that are packed together: of a B that is contiguous along k one, which is written in
    order, and of another some, so that its rows are read in long pieces."""
    if passing:
        return max(1, _PIECE // nr)
    if all(unit == "k" for unit in shape.b_units):
        return 1
    few, many = pieces_of(nr)
    return many if all(hint(n) >= WIDE for n in shape.n) else few


def pieces_of(nr: int) -> tuple[int, int]:
    """Panels of nr columns that are packed together, of less than ``WIDE`` columns, and of more."""
    return max(1, _PIECE // nr), max(1, _WIDE_PIECE // nr)


def _panels(shape: GemmShape, tile: Tile, lanes: int, registers: Registers) -> int:
    """Panels that are multiplied at once: two where each is read once, if the registers have room
    for the sums of both. Memory gives more where it is read in several places."""
    held = tile.held
    once = isinstance(shape.m, int) and shape.m <= tile.rows and tile.parts == 1
    several = any(known_or_more(n) > tile.vectors * lanes for n in shape.n)
    return panels_at_once(tile.rows, tile.vectors, registers) if once and several and not (
        held and held.multiply == "tiles") else 1


def _passing(shape: GemmShape, tile: Tile, registers: Registers) -> bool:
    """Whether few enough rows of an A that is read where it lies meet each panel of a B that is
    packed in a run: then panels need not leave the cache."""
    return (tile.parts == 1 and not tile.symmetric
            and isinstance(shape.m, int)
            and shape.m <= (_MANY if registers.width >= _LINES else _NOT_MANY)
            and shape.batch == 1 and not shape.b_constant
            and hint(shape.k) * sum(map(hint, shape.n)) * shape.accumulator.itemsize > _FAR)


def _lying(shape: GemmShape, tile: Tile, registers: Registers) -> bool:
    """Whether few enough rows of an A that is read where it lies meet a B that can be, too. Tiles
    that are one line of a cache wide read as many lines as rows, far apart, for each tile of
    rows, which takes longer than packing."""
    most = _MANY if registers.width >= _LINES else _NARROW * tile.rows
    return (shape.b_plain and len(shape.n) == 1 and hint(shape.m) <= most
            and (hint(shape.k) > _SHALLOW or hint(shape.m) <= _FEW)
            and not shape.b_constant and tile.held is None and tile.parts == 1
            and not tile.symmetric)


def of_many_rows(params: GemmParams, accumulator: DType) -> GemmParams:
    """The sizes of blocks where as many rows are kept together as ever are."""
    size = accumulator.itemsize
    rows = max(params.rows, _most_rows(params.held, size) // params.mr * params.mr)
    return replace(params, rows=rows, span=max(1, _SUMS // (rows * params.nr * size)))


def _most_rows(held: Held | None, size: int) -> int:
    """Rows of A that are kept together, of sums of so many bytes."""
    return _TILED_ROWS if held is not None and held.multiply == "tiles" else _ROWS // size


def _rows(shape: GemmShape, mr: int, size: int, most: int) -> int:
    """Rows of A kept together: few where all of B stays close by anyway, so that both are."""
    most = min(most, known_or_more(shape.m) + mr - 1)
    if (isinstance(shape.k, int) and all(isinstance(n, int) for n in shape.n)
            and shape.k * sum(shape.n) * size <= _CLOSE):
        most = min(most, _CLOSE // 2 // (max(1, shape.k) * size))
    return max(1, most // mr) * mr


def _whole_depth(shape: GemmShape, mr: int, size: int) -> int | None:
    """The whole depth where one register tile holds all rows, which stay in L1: each panel is read
    once, in order, and no sums are set aside. The most that it could be where it is not known."""
    k, m = shape.k, shape.m
    if not isinstance(m, int) or m > mr:
        return None
    most = _CLOSE // 2 // (mr * size)
    if not isinstance(k, int):
        return most
    return k if 0 < k <= most else None


def _depth(k: Dim, held: Held | None, size: int, rows: int) -> int:
    """Depth of a block; blocks of one contraction are equally deep. Of few rows for tiles they are
    deeper: there is room in L2, and sums are set aside less often."""
    if held is None:
        most = _DEPTH // size
    elif held.multiply == "tiles":
        most = _TILED_DEPTH // held.itemsize * deeper(held, rows, k)
    else:
        most = _HELD_DEPTH // held.itemsize
    if not isinstance(k, int):
        return most
    if k <= most:
        return max(k, 1)
    grain = max(8, held.grain) if held else 8
    blocks = -(-k // most)
    return -(-k // (blocks * grain)) * grain


def deeper(held: Held, rows: int, k: Dim) -> int:
    """How many times as deep blocks of so many rows are: of up to half of the most, or of a depth
    that is known to be all in one block then."""
    if held.multiply != "tiles":
        return 1
    times = _TILED_ROWS // max(1, rows)
    if times > 1:
        return min(_DEEPER, 4 * times)
    return _WHOLE if known_or_more(k) * held.itemsize <= _WHOLE * _TILED_DEPTH else 1


def estimate(shape: GemmShape, params: GemmParams, threads: int = 1) -> GemmEstimate:
    """What a shape executes with given tiles, so that a cost model can price it."""
    batch, m, k = hint(shape.batch), hint(shape.m), hint(shape.k)
    size = shape.accumulator.itemsize
    across = [(hint(n), t) for n, t in zip(shape.n, shape.terms)]
    columns = sum(n * t for n, t in across)
    if params.form != "packed":
        flops = 2.0 * batch * m * columns * k
        return GemmEstimate(flops, 0.0, min(threads, max(1, columns // params.lanes)), 1.0)
    padded = sum(-(-n // params.lanes) * params.lanes * t for n, t in across)
    flops = 2.0 * batch * -(-m // params.mr) * params.mr * padded * k
    if params.symmetric:
        flops *= upper_share(m, params.mr, params.nr)
    panels = sum(-(-n // params.nr) for n, _ in across)
    tall = -(-m // params.mr)
    _, by_rows, by_columns = _grid(batch, tall, panels, threads)
    mine = -(-panels // by_columns)
    together = params.piece if params.passing else params.span if k > params.depth else mine
    passes = -(-mine // max(1, together))
    wide = sum(-(-n // params.nr) * params.nr * t for n, t in across)
    packed = (params.held.itemsize if params.held else size) * k * wide if not params.lying else 0
    repeats = by_rows if params.inline else 1
    if params.passing:
        repeats *= max(1, -(-(-(-tall // by_rows) * params.mr) // params.tall))
    return GemmEstimate(flops, packed * (batch if shape.b_batched else 1) * repeats,
                        float(by_columns * passes), float(repeats))


def upper_share(m: int, rows: int, columns: int) -> float:
    """Which share of the register tiles of a square of m by m is not all below the diagonal."""
    tall, across = -(-m // rows), -(-m // columns)
    short = min(across, tall * rows // columns)  # panels that do not reach the last row
    above = _floor_sum(short, rows, columns, columns + rows - 1) + (across - short) * tall
    return above / max(1, tall * across)


def _floor_sum(n: int, m: int, a: int, b: int) -> int:
    """The sum of ``(a * i + b) // m`` for i < n, by the steps of Euclid's algorithm: n may be
    anything."""
    total = 0
    while True:
        total += n * (n - 1) // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        n, b, m, a = (a * n + b) // m, (a * n + b) % m, a, m
        if n == 0:
            return total


def _grid(batch: int, rows: int, columns: int, threads: int) -> tuple[int, int, int]:
    """How threads share batch items, row panels and column panels: least for the busiest."""
    best = None
    for x in range(1, min(threads, batch) + 1):
        for y in range(1, min(threads // x, rows) + 1):
            z = max(1, min(threads // (x * y), columns))
            cost = -(-batch // x) * -(-rows // y) * -(-columns // z)
            if best is None or cost < best[0]:
                best = cost, (x, y, z)
    return best[1] if best else (1, 1, 1)
