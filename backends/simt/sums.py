"""Where the sums of a tile are kept, and what multiplies: here, registers of each thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tegg.backends.simt.language import SimtC
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.templates import Tile

_DEEP = 64  # bytes of the depth whose operands a compiler may have in registers at a time


class Sums:
    """A thread makes up to four neighbouring sums at a time of as many rows, every sixteen times as
    many, from tiles in shared memory.

    letter: the register of sums. terms: products that one result is made of. held: what elements
    of the tiles in shared memory are.
    """

    pad = 4  # columns more, so that a tile that is filled down its columns meets more of the banks

    def __init__(self, tile: Tile, language: SimtC, letter: str, terms: int) -> None:
        self.tile, self.language, self.letter, self.terms = tile, language, letter, terms
        self.type = self.held = language.dialect.scalar[letter]

    @property
    def together(self) -> int:
        """Neighbouring columns whose sums a thread has."""
        return min(4, self.tile.mine[1])

    @property
    def itemsize(self) -> int:
        """Bytes of a sum."""
        return 8 if self.letter in "dl" else 4

    @property
    def buffers(self) -> int:
        """Tiles of an operand that shared memory holds: two, where there is room, so that the next
        one is written while one is read."""
        t = self.tile
        size = self.itemsize * t.depth * (t.rows + t.columns + 2 * self.pad)
        return 2 if 2 * size <= self.language.room else 1

    def tiles(self, side: str, buffer: str) -> str:
        """The tile of one side, ``left`` or ``right``, in one of the buffers."""
        return f"{side}_{self.letter}{f'[{buffer}]' if self.buffers > 1 else ''}"

    def shared(self) -> list[str]:
        """Declarations of arrays that a block shares: the tiles of both operands."""
        t, some = self.tile, self.tiles("{}", str(self.buffers))
        return [f"{self.language.shared} {self.held} "
                f"{some.format('left')}[{t.depth}][{t.rows + self.pad}], "
                f"{some.format('right')}[{t.depth}][{t.columns + self.pad}];"]

    def place(self) -> str:
        """What a thread must know of where it stands. A warp makes four rows by eight columns of
        threads, so that it reads little of shared memory; two threads that follow one another
        read the same columns, and the next two the same rows, which banks serve at once."""
        return ("const int row = thread_id() / 64 * 4 + thread_id() / 16 % 2 * 2 + "
                "thread_id() % 2, column = thread_id() / 32 % 2 * 8 + thread_id() / 2 % 8;")

    def start(self, anchor: int) -> list[str]:
        """The sums of one product, none of their terms added."""
        a, b = self.tile.mine
        return [f"{self.type} sums{anchor}[{a}][{b}] = {{}};"]

    def multiply(self, anchor: int) -> list[str]:
        """The terms of the tiles that are in shared memory."""
        (a, b), letter, four = self.tile.mine, self.letter, self.together
        down = min(4, a)
        row, column = _place("row", "i", down), _place("column", "j", four)
        more = (f"s{letter}_fma(x[i], y[j], sums{anchor}[i][j])" if letter in "fd" else
                f"s{letter}_add(sums{anchor}[i][j], s{letter}_mul(x[i], y[j]))")
        left, right = (self.tiles(side, "now") for side in ("left", "right"))
        return [f"UNROLL_BY({_DEEP // self.itemsize})",
                f"for (int k = 0; k < {self.tile.depth}; k++) {{",
                f"  {self.type} x[{a}], y[{b}];",
                "  UNROLL",
                f"  for (int i = 0; i < {a}; i++) x[i] = {left}[k][{row}];",
                "  UNROLL",
                f"  for (int j = 0; j < {b}; j++) y[j] = {right}[k][{column}];",
                "  UNROLL",
                f"  for (int i = 0; i < {a}; i++)",
                "    UNROLL",
                f"    for (int j = 0; j < {b}; j++) sums{anchor}[i][j] = {more};",
                "}"]

    @contextmanager
    def results(self, p: SimtPrinter, anchors: Sequence[int], count: int) -> Iterator[list[str]]:
        """Once for every ``count`` neighbours of a thread, at row ``at_m`` from column ``from_n``
        on: the sums."""
        (a, b), index = self.tile.mine, p.dialect.index
        down, four = min(4, a), self.together
        p.line("UNROLL")
        with p.braces(f"for (int i = 0; i < {a}; i++)"):
            p.line("UNROLL")
            with p.braces(f"for (int j = 0; j < {b}; j += {count})"):
                p.line(f"const {index} at_m = m_from + {_place('row', 'i', down)}, "
                       f"from_n = n_from + {_place('column', 'j', four)};")
                yield [f"sums{anchor}[i][j + {{u}}]" for anchor in anchors]


def _place(of: str, number: str, some: int) -> str:
    """Where the numbered one of a thread's rows or columns lies, of which ``some`` are
    neighbours."""
    return f"{of} * {some} + {number} / {some} * {16 * some} + {number} % {some}"
