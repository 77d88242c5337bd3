"""Loads that run along another loop than stores do, on devices of thread blocks: a block brings a
tile of them to memory of its own as they lie, and reads it from there as results do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tegg.dim import Dim, hint
from tegg.kernel.accesses import WIDEST, Access, Even, accesses
from tegg.kernel.domain import spread
from tegg.kernel.index import Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Let, Stmt, Store
from tegg.kernel.tile import crossing
from tegg.kernel.value import Val

LEAST = 16              # values of a loop, and elements of a stride, from which turning pays
_ROOM = 17 << 10        # bytes of a block's memory: so few that many blocks have them at a time
_AREAS = (1 << 14, 1 << 13, 1 << 12, 1 << 11, 1 << 10)  # values of a tile
_TILES = 512            # from which blocks keep the device busy
_PAD = 4                # bytes by which its lines are longer: neighbours across lie in other banks


@dataclass(frozen=True, slots=True)
class Turned:
    """The tile that a block has at a time: ``columns`` values of ``along``, which stores are
    contiguous in, by ``rows`` values of ``across``, which the ``loads`` are."""

    along: Var
    across: Var
    columns: int
    rows: int
    loads: tuple[Val, ...]

    @property
    def sides(self) -> dict[Var, int]:
        return {self.across: self.rows, self.along: self.columns}

    def count(self, v: Val, even: Even) -> int:
        """How many neighbours of a load one access brings."""
        (a,) = accesses([Let(v)])
        return a.chunk(self.across, WIDEST // v.dtype.itemsize, even)

    def pitch(self, v: Val) -> int:
        """Elements from a line of the tile to the next."""
        return self.rows + max(1, _PAD // register(v))

    def nbytes(self, loads: Sequence[Val]) -> int:
        """What the tiles of some loads take."""
        return sum(self.columns * self.pitch(v) * register(v) for v in loads)

    def count_of(self, vars: Sequence[Var]) -> tuple[Dim, int]:
        """How many tiles loops have, as a dim that is divided by a number. Where a size is symbolic
        some of them may be empty."""
        tiles: Dim = 1
        each = 1
        for v in vars:
            side = self.sides.get(v, 1)
            if isinstance(v.extent, int):
                tiles = tiles * -(-v.extent // side)
            else:
                tiles, each = tiles * (v.extent + (side - 1)), each * side
        return tiles, each


def register(v: Val) -> int:
    """Bytes of a value as threads, and their block's memory, hold it."""
    if v.dtype.kind == "bool" or v.dtype.is_float:
        return max(4, v.dtype.itemsize)
    return v.dtype.itemsize


def turned(body: Sequence[Stmt], vars: Sequence[Var], lanes: Lanes) -> Turned | None:
    """The tile of a nest of straight code, where some of its loads are better turned."""
    stores = [s.write.form for s in body if isinstance(s, Store)]
    loads = [s.value for s in body if isinstance(s, Let) and s.value.op == "load"
             and not any(f.gathered() for f in s.value.forms())]
    found = crossing([v for v in vars if hint(v.extent) >= LEAST], stores, loads, lanes)
    if found is None:
        return None
    along, across, strided = found
    far = [v for v in strided if abs(hint(lanes.coefficient(v.attr.form, along) or 0)) >= LEAST]
    values = hint(spread(vars))
    shapes = [Turned(along, across, *_sides(area, along, across), ()) for area in _AREAS
              if area == _AREAS[-1] or values >= area * _TILES]
    shape = next((s for s in shapes if s.nbytes(far) <= _ROOM), shapes[-1])
    fits = tuple(v for n, v in enumerate(far) if shape.nbytes(far[:n + 1]) <= _ROOM)
    return Turned(along, across, shape.columns, shape.rows, fits) if fits else None


def bringing(t: Turned) -> Iterator[Access]:
    """The accesses by which a tile comes."""
    for v in t.loads:
        yield from accesses([Let(v)])


def same(t: Turned, a: Even, b: Even) -> bool:
    """Whether a tile comes by the same accesses whatever of two is so."""
    return all(t.count(v, a) == t.count(v, b) for v in t.loads)


def _sides(area: int, along: Var, across: Var) -> tuple[int, int]:
    """Columns and rows of a tile: as square as a loop that is short allows."""
    rows = min(1 << (area.bit_length() - 1) // 2, _above(across))
    columns = min(area // rows, _above(along))
    return columns, min(area // columns, _above(across))


def _above(v: Var) -> int:
    """The power of two that holds a loop whose length is known; else more than any tile has."""
    return 1 << (v.extent - 1).bit_length() if isinstance(v.extent, int) else _AREAS[0]

