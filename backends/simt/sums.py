"""Where the sums of a tile are kept, and what multiplies: here, registers of each thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tegg.backends.simt.language import SimtC
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.templates import Tile


class Sums:
    """A thread makes every sixteenth sum of every sixteenth row, from tiles in shared memory.

    letter: the register of sums. terms: products that one result is made of. held: what elements
    of the tiles in shared memory are.
    """

    pad = 1  # a column more, so that a tile that is filled down its columns meets every bank

    def __init__(self, tile: Tile, language: SimtC, letter: str, terms: int) -> None:
        self.tile, self.language, self.letter, self.terms = tile, language, letter, terms
        self.type = self.held = language.dialect.scalar[letter]

    def shared(self) -> list[str]:
        """Declarations of arrays that a block shares: the tiles of both operands."""
        t, k = self.tile, self.letter
        return [f"{self.language.shared} {self.held} left_{k}[{t.depth}][{t.rows + self.pad}], "
                f"right_{k}[{t.depth}][{t.columns + self.pad}];"]

    def place(self) -> str:
        """What a thread must know of where it stands."""
        return "const int row = thread_id() / 16, column = thread_id() % 16;"

    def start(self, anchor: int) -> list[str]:
        """The sums of one product, none of their terms added."""
        a, b = self.tile.mine
        return [f"{self.type} sums{anchor}[{a}][{b}] = {{}};"]

    def multiply(self, anchor: int) -> list[str]:
        """The terms of the tiles that are in shared memory."""
        (a, b), letter = self.tile.mine, self.letter
        more = (f"s{letter}_fma(x[i], y[j], sums{anchor}[i][j])" if letter in "fd" else
                f"s{letter}_add(sums{anchor}[i][j], s{letter}_mul(x[i], y[j]))")
        return [f"for (int k = 0; k < {self.tile.depth}; k++) {{",
                f"  {self.type} x[{a}], y[{b}];",
                f"  for (int i = 0; i < {a}; i++) x[i] = left_{letter}[k][row + 16 * i];",
                f"  for (int j = 0; j < {b}; j++) y[j] = right_{letter}[k][column + 16 * j];",
                f"  for (int i = 0; i < {a}; i++)",
                f"    for (int j = 0; j < {b}; j++) sums{anchor}[i][j] = {more};",
                "}"]

    @contextmanager
    def results(self, p: SimtPrinter, anchors: Sequence[int]) -> Iterator[list[str]]:
        """Once for each result of a thread, at row ``at_m`` and column ``at_n``: the sums."""
        a, b = self.tile.mine
        with p.braces(f"for (int i = 0; i < {a}; i++)"), p.braces(
                f"for (int j = 0; j < {b}; j++)"):
            p.line(f"const {p.index} at_m = m_from + row + 16 * i, "
                   "at_n = n_from + column + 16 * j;")
            yield [f"sums{anchor}[i][j]" for anchor in anchors]
