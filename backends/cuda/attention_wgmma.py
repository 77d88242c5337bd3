"""Attention by products of four warps at once: scores and sums stay in registers, queries, keys and
values are read from shared memory as they lie."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tegg.backends.cuda.attention_mma import AttentionCores
from tegg.backends.cuda.mma_operand import LETTERS, Operand
from tegg.backends.cuda.wgmma_forms import ALIGNED, COLUMNS, GROUP, ROOM, ROWS
from tegg.backends.cuda.wgmma_operand import SharedMatrix
from tegg.backends.simt.attention_block import AttentionBlock
from tegg.backends.simt.attention_forms import Blocks

_STEP = 16               # terms of one product
_WIDTHS = (128, 64, 32)  # columns of the products whose left operand threads hold


@dataclass(slots=True)
class AttentionGroups(AttentionCores):
    """Four warps have 64 rows, each sixteen of them as ``AttentionCores`` has.

    There are two tiles of keys and two of values in shared memory: the next come, copied or
    computed, while the scores of one are made.
    """

    @property
    def width(self) -> int:
        return -(-self.depth // _STEP) * _STEP

    @property
    def across(self) -> int:
        return -(-self.columns // _WIDTHS[-1]) * _WIDTHS[-1]

    @property
    def operands(self) -> tuple[SharedMatrix, SharedMatrix, SharedMatrix]:
        return self.three(SharedMatrix)

    @property
    def at_once(self) -> int:
        """Small heads leave registers for two, if a score is not made of much."""
        return 2 if max(self.width, self.across, self.blocks.keys) <= 64 and self.plain else 1

    @property
    def turn(self) -> int:
        """Bytes of the tiles of keys and values that are worked on together."""
        _, k, v = self.operands
        return k.bytes + v.bytes

    @property
    def tiles_from(self) -> int:
        """Products read the queries where they are, as long as there are keys."""
        return self.operands[0].bytes

    @property
    def shared(self) -> int:
        return self.tiles_from + 2 * self.turn + ALIGNED

    @property
    def asked(self) -> int:
        return self.shared

    @property
    def room(self) -> int:
        return ROOM

    def refused(self) -> str | None:
        if self.columns > COLUMNS:
            return (f"values of {self.columns} columns; four warps have registers for sums of "
                    f"{COLUMNS}")
        return AttentionCores.refused(self)

    def narrower(self) -> Blocks | None:
        """A product makes the scores of 64 keys at least."""
        b = self.blocks
        return replace(b, keys=b.keys // 2) if b.keys > ROWS else None

    def arrays(self) -> list[str]:
        return ["ROOM(given);", "uint8_t *const room = whole_lines(given);"]

    def start(self) -> None:
        """Where things lie is the same number in a register of each lane."""
        p, (q, k, v) = self.at.p, self.operands
        AttentionCores.start(self)
        p.line(f"const int group = __shfl_sync(FULL, thread_id() / {GROUP}, 0);")
        p.line("uint16_t *const left = (uint16_t *)room;")
        first = ROWS * 64 if q.along else q.lines * 64
        p.line(f"const uint64_t q_at = {q.described(f'left + group * {first}')}, "
               f"k_at = {k.described(f'room + {q.bytes}')}, "
               f"v_at = {v.described(f'room + {q.bytes + k.bytes}')};")

    def queries(self) -> None:
        """They are there once the first keys are."""
        with self.at.p.braces(""):
            self.at.p.line(f"const {self.index} k_from = 0;")
            self._start(self.operands[0])

    def over(self, first: str, end: str) -> None:
        p = self.at.p
        with p.braces(""):
            p.line(f"const {self.index} last = {end};")
            p.line("int turn = 0;")
            with p.braces(f"if ({first} < last)"):
                self._come(first, "0")
            p.line("copies_commit();")
            self.whole()
            AttentionBlock.over(self, first, "last")
            p.line("copies_wait(0);")  # of queries that see nothing

    def block(self) -> None:
        """The scores of a block are a group of products, its weighted values another."""
        p, keys = self.at.p, self.blocks.keys
        p.line("copies_wait(0);")
        p.line("shown_to_products();")
        p.line("__syncthreads();")  # all are done with the other tiles as well
        p.line(f"float s[{keys // 8}][4], shrink[2];")
        p.line(f"const uint64_t k_now = k_at + turn * {self.turn // 16}, "
               f"v_now = v_at + turn * {self.turn // 16};")
        p.line("wgmma_fence();")
        self.scores_start("k_now")
        p.line("wgmma_commit();")
        with p.braces(f"if (key_from + {keys} < last)"):
            self._come(f"key_from + {keys}", "(1 - turn)")
        p.line("copies_commit();")
        p.line("__syncwarp();")
        p.line("wgmma_wait(0);")
        p.line(f"wgmma_settle<{keys // 2}>(s[0]);")
        p.line(f"uint32_t x[{keys // _STEP}][4];")
        self.weigh_all()
        p.line("__syncwarp();")
        p.line(f"wgmma_settle<{self.across // 2}>(sums[0]);")
        p.line("wgmma_fence();")
        self.weighted_start("v_now")
        p.line("wgmma_commit();")
        p.line("wgmma_wait(0);")
        p.line(f"wgmma_settle<{self.across // 2}>(sums[0]);")
        p.line("turn = 1 - turn;")

    def scores_start(self, keys: str) -> None:
        """The products of queries and keys whose tile is there start."""
        q, k, _ = self.operands
        letter = LETTERS[self.blocks.kind]
        for kk in range(0, self.width, _STEP):
            self.at.p.line(f"wgmma_{letter}_{self.blocks.keys}<{q.turned}, {k.turned}, "
                           f"{int(kk > 0)}>(s[0], q_at + {q.further(0, kk)}, "
                           f"{keys} + {k.further(0, kk)});")

    def weigh_all(self) -> None:
        """Scores become weights, rounded to what is multiplied; sums go on from the new maximum."""
        p, keys, letter = self.at.p, self.blocks.keys, LETTERS[self.blocks.kind]
        self._weigh()
        self._moved()
        p.line("UNROLL")
        p.line(f"for (int k = 0; k < {keys // _STEP}; k++)")
        p.line("  UNROLL")
        p.line(f"  for (int r = 0; r < 4; r++) x[k][r] = two_{letter}("
               "s[2 * k + r / 2][r % 2 * 2], s[2 * k + r / 2][r % 2 * 2 + 1]);")

    def weighted_start(self, values: str) -> None:
        """The products of weights and values whose tile is there start."""
        _, _, v = self.operands
        for kk in range(0, self.blocks.keys, _STEP):
            for column, n in self._pieces():
                self.at.p.line(f"wgmma_{LETTERS[self.blocks.kind]}_held_{n}<{v.turned}>("
                               f"sums[{column // 8}], x[{kk // _STEP}], "
                               f"{values} + {v.further(column, kk)});")

    def _pieces(self) -> list[tuple[int, int]]:
        """The products that all columns take: where each begins, and how many it has."""
        out, column = [], 0
        while column < self.across:
            n = next(n for n in _WIDTHS if n <= self.across - column)
            out.append((column, n))
            column += n
        return out

    def _start(self, o: Operand) -> None:
        """Copies start, or values are computed to where they lie."""
        if isinstance(o, SharedMatrix) and o.source is None:
            o.computed(self.at, self.a.second.batch, "0")
        else:
            o.copies(self.at, "0")
