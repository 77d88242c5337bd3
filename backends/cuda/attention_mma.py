"""Attention on tensor cores: a warp has sixteen rows, whose scores and sums stay in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

from tegg.backends.cuda.mma_forms import MmaTile
from tegg.backends.cuda.mma_operand import LETTERS, Operand
from tegg.backends.simt.attention_block import REDUCED, AttentionBlock
from tegg.backends.simt.attention_forms import PLAIN, AttentionForms, Blocks
from tegg.backends.simt.products import below

_ROWS = 128  # queries of a block: sixteen for each warp
_WIDE = 64   # of heads whose sums two warps share, and of those that have no room for more
# Queries and keys without tensor cores, of up to _WIDE columns and of more, for which threads have
# registers; and since when blocks have room for them.
_LARGE, _LARGE_SINCE = ((64, 64), (64, 32)), 80
_COLUMNS = 8  # neighbours of a row that a lane gets together
_PLAIN = 8   # values that a score is made of at most, to have a text of its own for whole blocks
T = TypeVar("T", bound=Operand)
_SINCE = MappingProxyType({"f16": 75, "bf16": 80})  # the architecture that multiplies a kind


@dataclass(frozen=True, slots=True)
class CudaAttention(AttentionForms):
    """Those of an NVIDIA GPU of an architecture."""

    architecture: int

    def plain(self, kind: str, queries: int, columns: int) -> list[Blocks]:
        """Larger ones too, which read less of shared memory, where that has room for any head."""
        rows, keys = _LARGE[columns > _WIDE]
        large = kind == "f32" and queries >= rows and self.architecture >= _LARGE_SINCE
        return [*AttentionForms.plain(self, kind, queries, columns),
                *[Blocks(PLAIN, rows, keys)] * large]

    def matrices(self, columns: int) -> list[Blocks]:
        sizes = ([(_ROWS, 64)] if columns <= 64 else [(_ROWS, 32), (_WIDE, 32)] if columns <= 128
                 else [(_WIDE, 16)])  # the second has room for scores of more terms
        return [Blocks(kind, rows, keys) for kind, since in _SINCE.items() for rows, keys in sizes
                if self.architecture >= since]


@dataclass(slots=True)
class AttentionCores(AttentionBlock):
    """A lane has rows ``lane / 4`` and that plus 8 of its warp's, and every fourth pair of keys.
    Where there are fewer rows than warps have, two warps make the same scores, and each weighs half
    of the columns.

    There are two tiles of keys and two of values in shared memory, of which one of each comes while
    the other is worked on. Where one is computed, or there is no room for two, there is one: values
    come while scores are computed, and the next keys while these are weighed.
    """

    @property
    def width(self) -> int:
        """Terms of a score, filled up with zeros."""
        return _whole(self.depth)

    @property
    def across(self) -> int:
        """Columns of values, filled up with zeros."""
        return _whole(self.columns)

    @property
    def sides(self) -> int:
        """Warps that share rows."""
        return _ROWS // self.blocks.rows

    @property
    def mine(self) -> int:
        """Columns of one warp."""
        return self.across // self.sides

    @property
    def rows_from(self) -> str:
        """The first row of this warp."""
        return f"thread_id() / 32 % {self.blocks.rows // 16} * 16"

    @property
    def columns_from(self) -> str:
        """The first column of this warp."""
        return f"thread_id() / 32 / {self.blocks.rows // 16} * {self.mine}"

    @property
    def operands(self) -> tuple[Operand, Operand, Operand]:
        """Queries, keys and values."""
        return self.three(Operand)

    def three(self, kind: type[T]) -> tuple[T, T, T]:
        """The operands, of a kind."""
        a, b = self.a, self.blocks
        scores = MmaTile(b.kind, b.rows, b.keys, self.width, 1)
        values = MmaTile(b.kind, b.rows, self.across, b.keys, 1)
        (first,), (second,) = a.first.groups, a.second.groups
        return (kind(scores, "m", a.first.a, a.first.m, a.first.k, a.first.depth),
                kind(scores, "n", first.terms[0].b, a.keys, a.first.k, a.first.depth),
                kind(values, "n", second.terms[0].b, second.n, a.keys, a.second.depth))

    @property
    def halves(self) -> int:
        return 2

    @property
    def at_once(self) -> int:
        """For two, NVIDIA's compiler spills a little of small heads."""
        return 1

    def row(self, i: str) -> str:
        return f"{self.rows_from} + {i} * 8 + lane_id() / 4"

    @property
    def shared(self) -> int:
        q, k, v = self.operands
        return max(q.bytes, (k.bytes + v.bytes) * (2 if self.twofold else 1))

    @property
    def tiles_from(self) -> int:
        """Where tiles of keys and values begin: these take the place of the queries."""
        return 0

    @property
    def twofold(self) -> bool:
        """Whether there are two tiles of keys, and two of values."""
        _, k, v = self.operands
        return (k.source is not None and v.source is not None
                and 2 * (k.bytes + v.bytes) + REDUCED <= self.at.language.room)

    def narrower(self) -> Blocks | None:
        """Fewer queries first, which have the room before keys and values do."""
        b = self.blocks
        return replace(b, rows=_WIDE) if b.rows > _WIDE else AttentionBlock.narrower(self)

    def arrays(self) -> list[str]:
        return [f"__shared__ __align__(16) uint8_t room[{self.shared}];"]

    def start(self) -> None:
        self.at.p.line(f"float sums[{self.mine // 8}][4] = {{}};")

    def queries(self) -> None:
        self.at.p.line(f"uint32_t q[{self.width // 16}][4];")
        self._queries(self.operands[0])

    def ends(self) -> None:
        """Lanes exchange sums, so that each has eight neighbours of one row."""
        p, count = self.at.p, self.mine // 8
        p.line("for (int d = 2; d > 0; d /= 2)")
        p.line("  for (int i = 0; i < 2; i++) total[i] += across(total[i], d);")
        if count % 2:
            self.results("sums[j][e]", count, 2,
                         f"{self.columns_from} + 8 * j + lane_id() % 4 * 2 + e % 2")
            return
        p.line("const int side = lane_id() / 2 % 2;")
        p.line(f"const {self.index} at_m = m_from + {self.row('side')};")
        p.line("UNROLL")
        with p.braces(f"for (int j = 0; j < {count}; j += 2)"):
            p.line(f"float all[{_COLUMNS}];")
            p.line("eight_columns(all, sums[j], sums[j + 1]);")
            p.line(f"const {self.index} first = {self.columns_from} + 8 * j + lane_id() % 2 * 8;")
            if self.partial is not None:
                self.partial.store_some(p, self.a, "all", _COLUMNS)
            else:
                p.line("UNROLL")
                p.line(f"for (int u = 0; u < {_COLUMNS}; u++) "
                       "all[u] = all[u] * (1 / (side ? total[1] : total[0]));")
                self.neighbours("all[c + {u}]", _COLUMNS)

    def _queries(self, q: Operand) -> None:
        """The fragments of this warp's rows, through shared memory."""
        p = self.at.p
        with p.braces(""):
            p.line("uint16_t *const left = (uint16_t *)room, *const left_now = left;")
            p.line(f"const {self.index} k_from = 0;")
            self._start(q)
            self._arrive(q)
            p.line("UNROLL")
            with p.braces(f"for (int kk = 0; kk < {self.width}; kk += 16)"):
                q.fragments(self.at, 1, self.rows_from)
                p.line("UNROLL")
                p.line("for (int r = 0; r < 4; r++) q[kk / 16][r] = x[0][r];")
            p.line("__syncthreads();")

    def _start(self, o: Operand) -> None:
        """Copies start, or values are computed into registers."""
        if o.source is not None:
            o.copies(self.at, "0")
        else:
            self.at.p.line(f"uint32_t held_{o.name}[{o.chunks}][4];")
            o.fetch(self.at, self.a.second.batch)

    def _arrive(self, o: Operand) -> None:
        """What was started is there for all."""
        p = self.at.p
        if o.source is None:
            o.put(self.at, "0")
        p.line("copies_commit();")
        p.line("copies_wait(0);")
        p.line("__syncthreads();")

    def over(self, first: str, end: str) -> None:
        """The keys of the first block come before all others, those of the next while values are
        weighed."""
        p, k = self.at.p, self.operands[1]
        with p.braces(""):
            p.line(f"const {self.index} last = {end};")
            if self.twofold:
                p.line("int turn = 0;")
            with p.braces(f"if ({first} < last)"):
                if self.twofold:
                    self._come(first, "0")
                    p.line("copies_commit();")
                else:
                    self._as("0", first, lambda: (self._start(k), self._arrive(k)))
            self.whole()
            AttentionBlock.over(self, first, "last")

    def block(self) -> None:
        p, keys, (_, k, v) = self.at.p, self.blocks.keys, self.operands
        if self.twofold:
            return self._one_of_two()
        p.line(f"float s[{keys // 8}][4] = {{}}, shrink[2];")
        if v.source is not None:
            self._as(f"{k.bytes}", "0", lambda: self._start(v), "key_from")
        self._as("0", "key_from", lambda: self._scores(k))
        self._weigh()
        self._as(f"{k.bytes}", "0", lambda: (v.source is None and self._start(v), self._arrive(v)),
                 "key_from")
        if k.source is not None:
            with p.braces(f"if (key_from + {keys} < last)"):
                self._as("0", f"key_from + {keys}", lambda: self._start(k))
        self._as(f"{k.bytes}", "0", lambda: self._weighted(v), "key_from")
        with p.braces(f"if (key_from + {keys} < last)"):
            self._as("0", f"key_from + {keys}", lambda: (
                k.source is None and self._start(k), k.source is None and k.put(self.at, "0")))
        p.line("copies_commit();")
        p.line("copies_wait(0);")
        p.line("__syncthreads();")

    def _one_of_two(self) -> None:
        """The keys from ``key_from`` on, while the next come to the other tiles."""
        p, keys, (_, k, v) = self.at.p, self.blocks.keys, self.operands
        here = f"{self.tiles_from} + turn * {k.bytes + v.bytes}"
        p.line("copies_wait(0);")
        p.line("__syncthreads();")  # all are done with the other tiles as well
        with p.braces(f"if (key_from + {keys} < last)"):
            self._come(f"key_from + {keys}", "(1 - turn)")
        p.line("copies_commit();")
        p.line(f"float s[{keys // 8}][4] = {{}}, shrink[2];")
        self._as(here, "key_from", lambda: self._scores(k))
        self._weigh()
        self._as(f"{here} + {k.bytes}", "0", lambda: self._weighted(v), "key_from")
        p.line("turn = 1 - turn;")

    def _come(self, key: str, turn: str) -> None:
        """Copies of the keys from one on, and of their values, start."""
        _, k, v = self.operands
        there = f"{self.tiles_from} + {turn} * {k.bytes + v.bytes}"
        self._as(there, key, lambda: self._start(k))
        self._as(f"{there} + {k.bytes}", "0", lambda: self._start(v), key)

    def _as(self, offset: str, n_from: str, write: Callable[[], object],
            k_from: str = "0") -> None:
        """Something about an operand that lies at an offset; its places begin at ``n_from``, the
        terms at ``k_from``."""
        p = self.at.p
        with p.braces(""):
            p.line(f"uint16_t *const right = (uint16_t *)(room + {offset}), "
                   "*const right_now = right;")
            p.line(f"const {self.index} n_from = {n_from}, k_from = {k_from};")
            p.line("(void)right, (void)right_now, (void)n_from, (void)k_from;")
            write()

    def _scores(self, k: Operand) -> None:
        p, keys, letter = self.at.p, self.blocks.keys, LETTERS[self.blocks.kind]
        p.line("UNROLL")
        with p.braces(f"for (int kk = 0; kk < {self.width}; kk += 16)"):
            k.fragments(self.at, keys // 8, "0")
            p.line("UNROLL")
            p.line(f"for (int j = 0; j < {keys // 8}; j++) "
                   f"mma_{letter}(s[j], q[kk / 16], {k.fragment('j')});")

    def _weighted(self, v: Operand) -> None:
        """Weights, rounded, times values: registers of sums are those of a left operand."""
        p, letter = self.at.p, LETTERS[self.blocks.kind]
        self._moved()
        p.line("UNROLL")
        with p.braces(f"for (int kk = 0; kk < {self.blocks.keys}; kk += 16)"):
            p.line("uint32_t x[4];")
            p.line("UNROLL")
            p.line(f"for (int r = 0; r < 4; r++) x[r] = two_{letter}(s[kk / 8 + r / 2][r % 2 * 2], "
                   "s[kk / 8 + r / 2][r % 2 * 2 + 1]);")
            v.fragments(self.at, self.mine // 8, self.columns_from)
            p.line("UNROLL")
            p.line(f"for (int j = 0; j < {self.mine // 8}; j++) "
                   f"mma_{letter}(sums[j], x, {v.fragment('j')});")

    def _moved(self) -> None:
        """Sums go on from the new maximum of their rows."""
        p = self.at.p
        p.line("UNROLL")
        p.line(f"for (int j = 0; j < {self.mine // 8}; j++)")
        p.line("  UNROLL")
        p.line("  for (int e = 0; e < 4; e++) sums[j][e] *= shrink[e / 2];")

    # ---- rows of weights
    @property
    def plain(self) -> bool:
        """Whether a score is made of few values."""
        return len(below([self.a.scores])) <= _PLAIN

    def whole(self) -> None:
        """Which keys both rows of a thread see."""
        if self.plain:
            self.at.p.line(f"const {self.index} both_from = from[0] > from[1] ? from[0] : from[1], "
                           "both_to = to[0] < to[1] ? to[0] : to[1];")

    def _weigh(self) -> None:
        """Scores, and weights below the highest score so far. A row is four lanes', each of which
        has the sum of its own weights until the end."""
        p = self.at.p
        if self.plain:  # most blocks are seen whole: no comparison for each score
            with p.braces("if (both_from <= key_from && "
                          f"key_from + {self.blocks.keys} <= both_to)"):
                self._scored(seen=True)
            with p.braces("else"):
                self._scored()
        else:
            self._scored()
        p.line("UNROLL")
        with p.braces("for (int i = 0; i < 2; i++)"):
            p.line("float top = -__builtin_inff(), more = 0;")
            with self._each():
                p.line("top = sf_max(top, s[j][e]);")
            self.raised(4)
            with self._each():
                p.line(f"s[j][e] = {self.weight('s[j][e]')};")
                p.line("more += s[j][e];")
            self.moved(1)

    def _scored(self, seen: bool = False) -> None:
        self.at.p.line("UNROLL")
        self.at.p.line("for (int i = 0; i < 2; i++)")
        with self._each():
            self.at.p.line(f"const {self.index} at_m = m_from + {self.row('i')}, "
                           "at_key = key_from + 8 * j + lane_id() % 4 * 2 + e % 2;")
            self.at.p.line("(void)at_m, (void)at_key;")
            self.score("s[j][e]", seen)

    @contextmanager
    def _each(self) -> Iterator[None]:
        """Every score of row ``i`` that a thread has."""
        p = self.at.p
        p.line("UNROLL")
        p.line(f"for (int j = 0; j < {self.blocks.keys // 8}; j++)")
        p.line("UNROLL")
        with p.braces("for (int e = 2 * i; e < 2 * i + 2; e++)"):
            yield

    @property
    def maths(self) -> str:
        """Weights are rounded before they are multiplied."""
        return "sq_"


def _whole(n: int) -> int:
    """The least that holds n of what lines of chunks are turned in: 16, 32, or whole 64."""
    return -(-n // 64) * 64 if n > 32 else 32 if n > 16 else 16
