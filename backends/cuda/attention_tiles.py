"""Attention in float32: scores of a block of queries and keys, and sums, in registers."""

from __future__ import annotations

from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.backends.cuda.attention_block import AttentionBlock
from tegg.backends.simt.evaluate import follows
from tegg.kernel.domain import spread
from tegg.kernel.index import Var
from tegg.kernel.simt import THREADS
from tegg.kernel.value import Val


@dataclass(slots=True)
class AttentionTiles(AttentionBlock):
    """A block of threads, 16 by 16: a thread has the scores of every sixteenth row and key, and
    the results of every sixteenth row and column."""

    @property
    def mine(self) -> tuple[int, int, int]:
        """Rows, keys and columns of one thread."""
        return self.blocks.rows // 16, self.blocks.keys // 16, -(-self.columns // 16)

    @property
    def halves(self) -> int:
        return self.blocks.rows // 16

    def row(self, i: str) -> str:
        return f"row + 16 * {i}"

    def write(self) -> None:
        a, p, (rows, keys) = self.a, self.at.p, (self.blocks.rows, self.blocks.keys)
        i, _, n = self.mine
        wide = max(self.depth, 16 * n) + 1
        p.line(f"__shared__ {self.type} queries[{rows} * {self.depth + 1}], room[{keys} * {wide}], "
               f"weights[{rows} * {keys + 1}];")
        p.line("const int row = thread_id() / 16, column = thread_id() % 16;")
        with self.tiles():
            p.line(f"{self.type} sums[{i}][{n}] = {{}};")
            self.seen()
            self._fill("queries", a.first.a, a.first.m, "m_from", rows,
                       dim(spread(a.second.m)), a.first.k, self.depth)
            with p.braces(f"for (int64_t key_from = low / {keys} * {keys}; key_from < end; "
                          f"key_from += {keys})"):
                self._keys()
            p.line("__syncthreads();")
            self.results("sums[i][j]", n, 1, "column + 16 * j")

    def _fill(self, array: str, value: Val, vars: tuple[Var, ...], first: str, lines: int,
              limit: str, inner: tuple[Var, ...], width: int) -> None:
        """A tile of an operand, ``lines`` places by ``width``, with zeros beyond its edge."""
        p, batch = self.at.p, self.a.second.batch
        p.line("UNROLL_BY(4)")
        with p.braces(f"for (int e = thread_id(); e < {lines * width}; e += {THREADS})"):
            p.line(f"const int r = e / {width}, c = e % {width};"
                   if follows(value, (inner or (None,))[-1], (vars or (None,))[-1]) else
                   f"const int r = e % {lines}, c = e / {lines};")
            p.line(f"{self.type} value = 0;")
            with p.braces(f"if ({first} + r < {limit})"):
                self.at.unpack(f"{first} + r", vars)
                self.at.unpack("c", inner)
                self.at.ensure([value], (*batch, *vars, *inner))
                p.line(f"value = {p.ref(value)};")
            p.line(f"{array}[r * {width + 1} + c] = value;")

    def _keys(self) -> None:
        """One block of keys: scores, weights below the highest score so far, and their sums."""
        a, p, keys = self.a, self.at.p, self.blocks.keys
        i, j, n = self.mine
        (first,), (second,), count = a.first.groups, a.second.groups, dim(a.second.depth)
        self._fill("room", first.terms[0].b, a.keys, "key_from", keys, count, a.first.k, self.depth)
        p.line("__syncthreads();")
        p.line(f"{self.type} s[{i}][{j}] = {{}}, shrink[{i}];")
        p.line("UNROLL_BY(8)")
        with p.braces(f"for (int d = 0; d < {self.depth}; d++)"):
            self._product("s", i, j, f"queries[(row + 16 * i) * {self.depth + 1} + d]",
                          f"room[(column + 16 * j) * {self.depth + 1} + d]")
        self._weights()
        p.line("__syncthreads();")
        self._fill("room", second.terms[0].b, a.keys, "key_from", keys, count, second.n,
                   self.columns)
        p.line("__syncthreads();")
        p.line("UNROLL")
        p.line(f"for (int i = 0; i < {i}; i++)")
        p.line(f"  for (int j = 0; j < {n}; j++) sums[i][j] *= shrink[i];")
        p.line("UNROLL_BY(8)")
        with p.braces(f"for (int d = 0; d < {keys}; d++)"):
            wide = "" if self.columns % 16 == 0 else f"column + 16 * j >= {self.columns} ? 0 : "
            self._product("sums", i, n, f"weights[(row + 16 * i) * {keys + 1} + d]",
                          f"{wide}room[d * {self.columns + 1} + column + 16 * j]")
        p.line("__syncthreads();")

    def _product(self, sums: str, rows: int, columns: int, left: str, right: str) -> None:
        p = self.at.p
        p.line(f"{self.type} x[{rows}], y[{columns}];")
        p.line("UNROLL")
        p.line(f"for (int i = 0; i < {rows}; i++) x[i] = {left};")
        p.line("UNROLL")
        p.line(f"for (int j = 0; j < {columns}; j++) y[j] = {right};")
        p.line("UNROLL")
        p.line(f"for (int i = 0; i < {rows}; i++)")
        p.line("  UNROLL")
        p.line(f"  for (int j = 0; j < {columns}; j++) "
               f"{sums}[i][j] = s{self.letter}_fma(x[i], y[j], {sums}[i][j]);")

    def _weights(self) -> None:
        """Sums of products become scores, and scores weights; a row is sixteen threads'."""
        p, (i, j, _) = self.at.p, self.mine
        p.line("UNROLL")
        with p.braces(f"for (int i = 0; i < {i}; i++)"):
            kind, largest, lowest = self.type, f"s{self.letter}_max", self.lowest
            exp = "sd_exp" if self.letter == "d" else "s_exp"
            p.line(f"{kind} top = {lowest}, more = 0;")
            p.line("UNROLL")
            with p.braces(f"for (int j = 0; j < {j}; j++)"):
                p.line("const int64_t at_m = m_from + row + 16 * i, "
                       "at_key = key_from + column + 16 * j;")
                self.score("s[i][j]")
                p.line(f"top = {largest}(top, s[i][j]);")
            p.line(f"for (int d = 8; d; d /= 2) "
                   f"top = {largest}(top, __shfl_xor_sync(FULL, top, d));")
            p.line(f"const {kind} now = {largest}(high[i], top), base = now == {lowest} ? 0 : now;")
            p.line("UNROLL")
            with p.braces(f"for (int j = 0; j < {j}; j++)"):
                p.line(f"const {kind} e = {exp}(s[i][j] - base);")
                p.line(f"weights[(row + 16 * i) * {self.blocks.keys + 1} + column + 16 * j] = e;")
                p.line("more += e;")
            p.line("for (int d = 8; d; d /= 2) more += __shfl_xor_sync(FULL, more, d);")
            p.line(f"shrink[i] = high[i] == {lowest} ? 0 : {exp}(high[i] - base);")
            p.line("total[i] = total[i] * shrink[i] + more;")
            p.line("high[i] = now;")
