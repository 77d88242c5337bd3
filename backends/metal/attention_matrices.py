"""Attention in simdgroup matrices of 8 x 8: a simdgroup has eight queries, sums are float32."""

from __future__ import annotations

from dataclasses import dataclass

from tegg.backends.simt.attention_forms import AttentionForms, Blocks
from tegg.backends.simt.attention_tiles import AttentionTiles
from tegg.kernel.simt import THREADS, WARP

from .matrices import check_mixed

# Of both kinds a product reads one matrix, as long as half of one of floats takes, or a quarter of
# halves; one in nine moves sums to a new maximum. That is their speed in ``attention_forms``.
FLOATS, HALVES = "matrix", "half"
_SIMDGROUPS = THREADS // WARP
_ROWS, _KEYS = 8 * _SIMDGROUPS, 32
_QUERIES = 32      # terms of all queries that are in threadgroup memory at once
_REGISTERS = 80    # of a thread, for queries and sums: two for a matrix of floats, one of halves
_STRIP = 4         # elements of float32 more in a line of scores, so that columns meet every bank


@dataclass(frozen=True, slots=True)
class MetalAttention(AttentionForms):
    """Those of an Apple GPU. mixed: whether halves are multiplied into sums of float32."""

    mixed: bool = True

    def matrices(self, columns: int) -> list[Blocks]:
        kinds = (FLOATS, *(HALVES,) * self.mixed)
        return [Blocks(kind, _ROWS, _KEYS) for kind in kinds if 2 * columns <= 8 * _REGISTERS]


@dataclass(slots=True)
class AttentionMatrices(AttentionTiles):
    """Queries and sums are matrices of a simdgroup. Scores pass through a strip of threadgroup
    memory, where four threads make weights of each row, since which lane holds which element of a
    matrix is nowhere said; so sums move to a new maximum by a product with a diagonal matrix.

    Of blocks of halves operands and weights are halves as they are multiplied, all else float32.
    """

    step = 8

    @property
    def pad(self) -> int:
        return 16 // self.itemsize

    @property
    def held(self) -> str:
        """What is multiplied."""
        return "half" if self.blocks.kind == HALVES else "float"

    @property
    def itemsize(self) -> int:
        return 2 if self.held == "half" else 4

    @property
    def lanes(self) -> int:
        return 4

    @property
    def sizes(self) -> dict[str, int]:
        room = max(AttentionTiles.sizes.fget(self)["room"], _ROWS * (_QUERIES + self.pad))
        rounded = {"rounded": _ROWS * (self.blocks.keys + self.pad)} if self.held == "half" else {}
        return {"room": room, **rounded, "scores": _ROWS * self.pitch, "diagonal": 64 * _SIMDGROUPS}

    def arrays(self) -> list[str]:
        return [f"{self.at.language.shared} {self._type(name)} {name}[{size}];"
                for name, size in self.sizes.items()]

    @property
    def shared(self) -> int:
        return sum(size * (4 if self._type(name) == "float" else 2)
                   for name, size in self.sizes.items())

    def _type(self, array: str) -> str:
        return self.held if array in ("room", "rounded") else "float"

    def kept(self, value: str) -> str:
        return f"f_to_h({value})" if self.held == "half" else value

    def weigh(self, key: str) -> str:
        if self.held == "half":
            return f"rounded[row * {self.blocks.keys + self.pad} + {key}] = f_to_h(e);"
        return f"scores[row * {self.pitch} + {key}] = e;"

    @property
    def deep(self) -> int:
        """Matrices of a row's terms."""
        return -(-self.depth // 8)

    @property
    def wide(self) -> int:
        """Matrices of a row's sums."""
        return self.across // 8

    @property
    def pitch(self) -> int:
        """Elements from row to row of the strip."""
        return self.blocks.keys + _STRIP

    def refused(self) -> str | None:
        if self.held == "half":
            check_mixed(self.at.language)
        if self.itemsize // 2 * self.deep + 2 * self.wide > _REGISTERS:
            return (f"scores of {self.depth} terms and values of {self.columns} columns take more "
                    f"than {_REGISTERS} registers of a thread")
        return AttentionTiles.refused(self)

    def start(self) -> None:
        p = self.at.p
        p.line(f"const int row = thread_id() / 4, column = thread_id() % 4, "
               f"group = thread_id() / {WARP};")
        p.line(f"for (int e = lane_id(); e < 64; e += {WARP}) diagonal[group * 64 + e] = 0;")
        self._zeros("sums", self.wide)

    def strip(self, place: str) -> str:
        """An element of this simdgroup's scores."""
        return f"scores[group * {8 * self.pitch} + {place}]"

    def _zeros(self, name: str, count: int) -> None:
        for n in range(count):
            self.at.p.line(f"simdgroup_float8x8 {name}{n} = "
                           "make_filled_simdgroup_matrix<float, 8, 8>(0.0f);")

    def queries(self) -> None:
        """All matrices of the rows, through threadgroup memory."""
        p, barrier = self.at.p, self.at.language.barrier
        for n in range(self.deep):
            p.line(f"simdgroup_{self.held}8x8 q{n};")
        for first in range(0, 8 * self.deep, _QUERIES):
            width = min(_QUERIES, 8 * self.deep - first)
            p.line(barrier)
            self.fill_queries("room", first, width)
            p.line(barrier)
            for k in range(0, width, 8):
                self._load(f"q{(first + k) // 8}", f"room[group * {8 * (width + self.pad)} + {k}]",
                           width + self.pad)

    def _load(self, name: str, place: str, pitch: int, turned: bool = False) -> None:
        self.at.p.line(f"simdgroup_load({name}, &{place}, {pitch}, ulong2(0, 0), "
                       f"{'true' if turned else 'false'});")

    def _more(self, sums: str, x: str, y: str) -> None:
        self.at.p.line(f"simdgroup_multiply_accumulate({sums}, {x}, {y}, {sums});")

    def scores(self) -> None:
        p, keys, (count, width) = self.at.p, self.blocks.keys, self.slices
        pitch, barrier = width + self.pad, self.at.language.barrier
        with p.braces(""):
            self._zeros("made", keys // 8)
            p.line(f"simdgroup_{self.held}8x8 y;")
            for first in range(0, count * width, width):
                p.line(barrier)
                self.fill_keys(str(first), width, first + width <= self.depth)
                p.line(barrier)
                for d in range(0, min(width, 8 * self.deep - first), 8):
                    for j in range(keys // 8):
                        self._load("y", f"room[{8 * j * pitch + d}]", pitch, True)
                        self._more(f"made{j}", f"q{(first + d) // 8}", "y")
            for j in range(keys // 8):
                self._keep(f"made{j}", 8 * j)
        p.line("simdgroup_barrier(mem_flags::mem_threadgroup);")
        p.line(f"for (int j = 0; j < {self.mine[1]}; j++) s[0][j] = "
               f"{self.strip(f'lane_id() / 4 * {self.pitch} + column + 4 * j')};")

    def _keep(self, name: str, column: int) -> None:
        """A matrix to the strip."""
        self.at.p.line(f"simdgroup_store({name}, &{self.strip(str(column))}, {self.pitch}, "
                       "ulong2(0, 0), false);")

    def weighted(self) -> None:
        p, keys, here, barrier = self.at.p, self.blocks.keys, self.values, self.at.language.barrier
        p.line("if (column == 0) diagonal[group * 64 + lane_id() / 4 * 9] = shrink[0];")
        p.line("simdgroup_barrier(mem_flags::mem_threadgroup);")
        with p.braces(""):
            p.line("simdgroup_float8x8 x;")
            self._load("x", "diagonal[group * 64]", 8)
            for n in range(self.wide):
                with p.braces(""):
                    self._zeros("moved", 1)
                    self._more("moved0", "x", f"sums{n}")
                    p.line(f"sums{n} = moved0;")
        with p.braces(f"for (int first = 0; first < {keys}; first += {here})"):
            p.line(barrier)
            self.fill_values()
            p.line(barrier)
            p.line(f"simdgroup_{self.held}8x8 x, y;")
            for k in range(0, here, 8):
                self._weights_of(f"first + {k}")
                for n in range(self.wide):
                    self._load("y", f"room[{k * (self.across + self.pad) + 8 * n}]",
                               self.across + self.pad)
                    self._more(f"sums{n}", "x", "y")

    def _weights_of(self, key: str) -> None:
        """The weights of eight keys."""
        if self.held == "half":
            pitch = self.blocks.keys + self.pad
            self._load("x", f"rounded[group * {8 * pitch} + {key}]", pitch)
        else:
            self._load("x", self.strip(key), self.pitch)

    def ends(self) -> None:
        """Sums come to the strip, as many matrices at a time as there is room for."""
        p, most = self.at.p, self.blocks.keys // 8
        for first in range(0, self.wide, most):
            count = min(most, self.wide - first)
            p.line("simdgroup_barrier(mem_flags::mem_threadgroup);")
            for j in range(count):
                self._keep(f"sums{first + j}", 8 * j)
            p.line("simdgroup_barrier(mem_flags::mem_threadgroup);")
            self.results(self.strip(f"lane_id() / 4 * {self.pitch} + column + 4 * j"), 2 * count, 1,
                         f"{8 * first} + column + 4 * j")
