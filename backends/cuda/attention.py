"""Lowers fragments around attention: blocks of scores that never leave their block of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.backends.cuda.attention_forms import MOST, Blocks
from tegg.backends.cuda.emit import CudaC
from tegg.backends.simt.evaluate import Evaluator, follows, padded
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.products import below, loads, nothing, stage
from tegg.dim import hint
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.kernel.attention_classify import Attention, classify_attention
from tegg.kernel.code import KernelCode, Work
from tegg.kernel.domain import spread
from tegg.kernel.flops import flops
from tegg.kernel.index import Var
from tegg.kernel.loops import Store
from tegg.kernel.lower import kernel_symbols
from tegg.kernel.simt import THREADS
from tegg.kernel.value import Val

_SOFTMAX = 14  # operations of a score that is exponentiated and summed


def lower_attention(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
                    language: CudaC, blocks: Blocks) -> KernelCode:
    """The kernel that computes ``outputs`` from an attention; ``anchors``: the contraction of its
    scores, and the attention.

    What lies below the operands of both products is evaluated while their tiles are loaded, what
    lies between the products on scores in registers, what lies above while results are stored.
    Raises LoweringError where the fragment has another form; the message says why.
    """
    live = [o for o in outputs if 0 not in tuple(map(graph.facts.canonical, o.shape))]
    if not live:
        return nothing(name)
    first = max([len(graph.inputs)] + [n.attrs[0] + 1 for n in graph.reachable(outputs)
                                       if n.op.name == "Input"])
    slots = [first + i for i, o in enumerate(outputs) if o in live]
    attention = classify_attention(graph, live, anchors, language.native, slots)
    _check(attention)
    return _Kernel(name, attention, language, blocks, kernel_symbols(graph, outputs)).code()


def _check(a: Attention) -> None:
    depth, columns = a.first.depth, spread(a.second.groups[0].n)
    if not (isinstance(depth, int) and isinstance(columns, int) and max(depth, columns) <= MOST):
        raise LoweringError(f"scores of {depth} terms and values of {columns} columns; a block has "
                            f"room for {MOST} of each. Lower the products by themselves")
    (first,), (second,) = a.first.groups, a.second.groups
    wanted = [a.first.a, first.terms[0].b, second.terms[0].b,
              *(v for w in second.writes for v in w.needs())]
    if any(v.op == "red" for v in below(wanted, frozenset({second.terms[0].sum.id}))):
        raise LoweringError("a reduction beside an attention would be made for every element; store "
                            "it, and read it in the attention's kernel")


@dataclass(slots=True)
class _Kernel:
    """One kernel being written."""

    name: str
    attention: Attention
    language: CudaC
    blocks: Blocks
    symbols: tuple[str, ...]

    def code(self) -> KernelCode:
        a = self.attention
        p = SimtPrinter(self.language.dialect, a.first.propagation.algebra)
        _Block(a, self.blocks, Evaluator(a.first.propagation, self.language, p)).write()
        (group,), total = a.second.groups, a.second.groups[0].terms[0].sum.id
        own = frozenset({total, a.product.id})
        reads = loads([a.first.a, a.first.groups[0].terms[0].b, group.terms[0].b])
        reads |= loads([a.scores, *(b.value for b in a.bounds),
                        *(v for w in group.writes for v in w.needs())], own)
        tiles = (spread(a.second.batch) * padded(spread(a.second.m), self.blocks.rows),
                 self.blocks.rows)
        source, made = stage(self.language, self.name, self.symbols, p.lines, reads,
                             {w.slot: w.value.dtype for w in group.writes}, (tiles,))
        return KernelCode(self.name, source, (made,), (), self.symbols, self._work(),
                          (f"{self.blocks}",))

    def _work(self) -> Work:
        a = self.attention
        batch, m, n = (hint(spread(v)) for v in (a.second.batch, a.second.m,
                                                 a.second.groups[0].n))
        keys, depth = hint(a.second.depth), hint(a.first.depth)
        scores = batch * m * keys
        each = _SOFTMAX + flops(a.scores, frozenset(), frozenset({a.product.id}))
        return Work(int(scores * (2 * depth + 2 * n + each)), int(scores * (depth + n)),
                    4 * batch * (m * depth + keys * (depth + n)), 4 * batch * m * n)


@dataclass(slots=True)
class _Block:
    """A block of threads, 16 by 16: a thread has the scores of every sixteenth row and key, and
    the results of every sixteenth row and column."""

    a: Attention
    blocks: Blocks
    at: Evaluator

    @property
    def mine(self) -> tuple[int, int, int]:
        """Rows, keys and columns of one thread."""
        return self.blocks.rows // 16, self.blocks.keys // 16, -(-self.columns // 16)

    @property
    def columns(self) -> int:
        return hint(spread(self.a.second.groups[0].n))

    @property
    def depth(self) -> int:
        return hint(self.a.first.depth)

    def write(self) -> None:
        a, p, (rows, keys) = self.a, self.at.p, (self.blocks.rows, self.blocks.keys)
        i, _, n = self.mine
        wide = max(self.depth, 16 * n) + 1
        p.line(f"__shared__ float queries[{rows} * {self.depth + 1}], room[{keys} * {wide}], "
               f"weights[{rows} * {keys + 1}];")
        m, count = dim(spread(a.second.m)), dim(a.second.depth)
        p.line("const int row = thread_id() / 16, column = thread_id() % 16;")
        p.line(f"const int64_t down = ({m} + {rows - 1}) / {rows};")
        with p.braces(f"for (int64_t tile = block_id(); tile < {dim(spread(a.second.batch))} * down; "
                      "tile += block_count())"):
            self.at.unpack("tile / down", a.second.batch)
            p.line(f"const int64_t m_from = tile % down * {rows};")
            p.line(f"float sums[{i}][{n}] = {{}}, high[{i}], total[{i}] = {{}};")
            p.line(f"int64_t from[{i}], to[{i}], low = {count}, end = 0;")
            self._seen()
            self._fill("queries", a.first.a, a.first.m, "m_from", rows, m, a.first.k, self.depth)
            with p.braces(f"for (int64_t key_from = low / {keys} * {keys}; key_from < end; "
                          f"key_from += {keys})"):
                self._keys()
            p.line("__syncthreads();")
            self._results()

    def _seen(self) -> None:
        """Which keys each row sees, and the block."""
        a, p = self.a, self.at.p
        p.line("UNROLL")
        with p.braces(f"for (int i = 0; i < {self.mine[0]}; i++)"):
            p.line("const int64_t at_m = m_from + row + 16 * i;")
            p.line("high[i] = -__builtin_inff();")
            p.line(f"from[i] = {dim(a.second.depth)}, to[i] = 0;")
            with p.braces(f"if (at_m < {dim(spread(a.second.m))})"):
                p.line(f"from[i] = 0, to[i] = {dim(a.second.depth)};")
                self.at.unpack("at_m", a.second.m)
                if a.bounds:
                    self.at.ensure([b.value for b in a.bounds], (*a.second.batch, *a.second.m))
                for b in a.bounds:
                    end, text = ("to", "<") if b.upper else ("from", ">")
                    p.line(f"if ({p.ref(b.value)} {text} {end}[i]) {end}[i] = {p.ref(b.value)};")
            p.line("if (from[i] < to[i] && from[i] < low) low = from[i];")
            p.line("if (from[i] < to[i] && to[i] > end) end = to[i];")
        p.line("low = -block_max_l(-low);")
        p.line("end = block_max_l(end);")

    def _fill(self, array: str, value: Val, vars: tuple[Var, ...], first: str, lines: int,
              limit: str, inner: tuple[Var, ...], width: int) -> None:
        """A tile of an operand, ``lines`` places by ``width``, with zeros beyond its edge."""
        p, batch = self.at.p, self.a.second.batch
        p.line("UNROLL_BY(4)")
        with p.braces(f"for (int e = thread_id(); e < {lines * width}; e += {THREADS})"):
            p.line(f"const int r = e / {width}, c = e % {width};"
                   if follows(value, (inner or (None,))[-1], (vars or (None,))[-1]) else
                   f"const int r = e % {lines}, c = e / {lines};")
            p.line("float value = 0;")
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
        p.line(f"float s[{i}][{j}] = {{}}, shrink[{i}];")
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
        p.line(f"float x[{rows}], y[{columns}];")
        p.line("UNROLL")
        p.line(f"for (int i = 0; i < {rows}; i++) x[i] = {left};")
        p.line("UNROLL")
        p.line(f"for (int j = 0; j < {columns}; j++) y[j] = {right};")
        p.line("UNROLL")
        p.line(f"for (int i = 0; i < {rows}; i++)")
        p.line("  UNROLL")
        p.line(f"  for (int j = 0; j < {columns}; j++) "
               f"{sums}[i][j] = sf_fma(x[i], y[j], {sums}[i][j]);")

    def _weights(self) -> None:
        """Sums of products become scores, and scores weights; a row is sixteen threads'."""
        a, p, (i, j, _) = self.a, self.at.p, self.mine
        p.line("UNROLL")
        with p.braces(f"for (int i = 0; i < {i}; i++)"):
            p.line("float top = -__builtin_inff(), more = 0;")
            p.line("UNROLL")
            with p.braces(f"for (int j = 0; j < {j}; j++)"):
                p.line("const int64_t at_m = m_from + row + 16 * i, "
                       "at_key = key_from + column + 16 * j;")
                with p.braces("if (at_key >= from[i] && at_key < to[i])"):
                    self._score("s[i][j]")
                p.line("else s[i][j] = -__builtin_inff();")
                p.line("top = sf_max(top, s[i][j]);")
            p.line("for (int d = 8; d; d /= 2) top = sf_max(top, __shfl_xor_sync(FULL, top, d));")
            p.line("const float now = sf_max(high[i], top), "
                   "base = now == -__builtin_inff() ? 0 : now;")
            p.line("UNROLL")
            with p.braces(f"for (int j = 0; j < {j}; j++)"):
                p.line("const float e = s_exp(s[i][j] - base);")
                p.line(f"weights[(row + 16 * i) * {self.blocks.keys + 1} + column + 16 * j] = e;")
                p.line("more += e;")
            p.line("for (int d = 8; d; d /= 2) more += __shfl_xor_sync(FULL, more, d);")
            p.line("shrink[i] = high[i] == -__builtin_inff() ? 0 : s_exp(high[i] - base);")
            p.line("total[i] = total[i] * shrink[i] + more;")
            p.line("high[i] = now;")

    def _score(self, name: str) -> None:
        """What the sum of a row and a key becomes."""
        a, p = self.a, self.at.p
        self.at.unpack("at_m", a.second.m)
        self.at.unpack("at_key", a.keys)
        self.at.ensure([a.scores], (*a.second.batch, *a.second.m, *a.keys), {a.product.id: name})
        p.line(f"{name} = {p.ref(a.scores)};")
        p.at.given = {}

    def _results(self) -> None:
        """Store what the sums become, divided by what their weights sum to."""
        a, p, (i, _, n) = self.a, self.at.p, self.mine
        (group,) = a.second.groups
        needs = list(dict.fromkeys(v for w in group.writes for v in w.needs()))
        p.line("UNROLL")
        p.line(f"for (int i = 0; i < {i}; i++)")
        p.line("UNROLL")
        with p.braces(f"for (int j = 0; j < {n}; j++)"):
            p.line("const int64_t at_m = m_from + row + 16 * i, at_n = column + 16 * j;")
            with p.braces(f"if (at_m < {dim(spread(a.second.m))} && at_n < {self.columns})"):
                p.line("const float result = sums[i][j] * (1 / total[i]);")
                self.at.unpack("at_m", a.second.m)
                self.at.unpack("at_n", group.n)
                self.at.ensure(needs, (*a.second.batch, *a.second.m, *group.n),
                               {group.terms[0].sum.id: "result"})
                p.block([Store(w) for w in group.writes])
        p.at.given = {}
