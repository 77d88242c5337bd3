"""One operand of products of four warps: its tiles as the instruction reads them."""

from __future__ import annotations

from tegg.backends.cuda.mma_operand import Operand
from tegg.backends.cuda.wgmma_forms import DEPTH
from tegg.backends.simt.evaluate import Evaluator
from tegg.kernel.index import Var

_EIGHT = 1024  # bytes of eight lines
_HALF = 2      # bytes of an element
_CHUNK = 16    # bytes that addresses in descriptors count


class SharedMatrix(Operand):
    """The tiles of one side, in lines of 128 bytes whose chunks are exchanged by the line's number.

    A line goes along the depth of a tile, or along its places. What is longer than 64 of them goes
    on in a line further down: each 64 have the lines of all of the other side, and the next 64 come
    after those.
    """

    __slots__ = ()

    @property
    def line_step(self) -> int:
        return DEPTH

    @property
    def stage(self) -> int:
        return -(-self.line // DEPTH) * self.lines * DEPTH

    def place(self, line: str, chunk: str) -> str:
        """The position of a chunk in a tile."""
        if self.line <= DEPTH:
            return f"(({line}) * 8 + (({chunk}) ^ ({line}) % 8)) * {self.chunk}"
        return (f"((({chunk}) / 8 * {self.lines} + ({line})) * 8 + (({chunk}) % 8 ^ ({line}) % 8)) "
                f"* {self.chunk}")

    @property
    def held(self) -> str:
        return "held"

    def computed(self, at: Evaluator, batch: tuple[Var, ...], stage: str) -> None:
        """Compute the tile at ``m_from``, ``n_from``, ``k_from``, a chunk after the other: products
        go on meanwhile, and so no chunk has to be kept in registers."""
        with self._each(at, unrolled="UNROLL_BY(2)"):
            at.p.line("uint32_t held[4];")
            self._chunk(at, batch)
            self._put(at, stage)

    @property
    def turned(self) -> int:
        """Whether lines go along places, as the instruction is told."""
        return 0 if self.along else 1

    def matrix(self, places: str, depth: str) -> str:
        """The descriptor of what begins at some places, a multiple of 64, and some terms."""
        inner = depth if self.along else f"{depth} * {DEPTH}"
        outer = DEPTH if self.along else self.lines
        return self.described(f"{self.name}_now + {places} * {outer} + {inner}")

    def described(self, first: str) -> str:
        """The descriptor of a matrix whose first element is there."""
        leading = 0 if self.along else self.lines * DEPTH * _HALF
        return f"matrix_at({first}, {leading}, {_EIGHT})"

    def further(self, places: int, depth: int) -> int:
        """What a descriptor of the first matrix becomes that of a later one by, which begins at a
        multiple of 64 places, or of 8 where lines go along the depth, and of 16 terms."""
        line, at = (places, depth) if self.along else (depth, places)
        return ((at // DEPTH * self.lines + line) * DEPTH + at % DEPTH) * _HALF // _CHUNK
