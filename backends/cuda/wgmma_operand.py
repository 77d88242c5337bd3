"""One operand of products of four warps: its tiles as the instruction reads them."""

from __future__ import annotations

from tegg.backends.cuda.mma_operand import Operand
from tegg.backends.cuda.wgmma_forms import DEPTH
from tegg.backends.simt.evaluate import Evaluator
from tegg.kernel.index import Var

_EIGHT = 1024  # bytes of eight lines


class SharedMatrix(Operand):
    """The tiles of one side, in lines of 128 bytes whose chunks are exchanged by the line's number.

    A line goes along the depth of a tile, or along 64 places: then each 64 places have the lines of
    all terms, and the next 64 come after them.
    """

    __slots__ = ()

    def place(self, line: str, chunk: str) -> str:
        """The position of a chunk in a tile."""
        if self.along:
            return f"(({line}) * 8 + (({chunk}) ^ ({line}) % 8)) * {self.chunk}"
        return (f"((({chunk}) / 8 * {DEPTH} + ({line})) * 8 + (({chunk}) % 8 ^ ({line}) % 8)) * "
                f"{self.chunk}")

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
        """The descriptor of what begins at some places, a multiple of 64, and at some depth."""
        inner = depth if self.along else f"{depth} * {DEPTH}"
        steps = f"0, {_EIGHT}" if self.along else f"{DEPTH * 128}, {_EIGHT}"
        return f"matrix_at({self.name}_now + {places} * {DEPTH} + {inner}, {steps})"
