"""Parts of an attention's keys: where their sums are left, and how a second kernel joins them."""

from __future__ import annotations

from dataclasses import dataclass

from tegg.backends.cexpr import REGISTER, dim
from tegg.backends.simt.evaluate import Evaluator
from tegg.backends.simt.printer import SimtPrinter
from tegg.dim import Dim, exact_div
from tegg.dtype import DType
from tegg.kernel.attention_classify import Attention
from tegg.kernel.code import Temporary
from tegg.kernel.domain import spread
from tegg.kernel.loops import Store
from tegg.kernel.simt import THREADS

_WORDS = 4  # sums that move at once


def finish(at: Evaluator, a: Attention, result: str) -> None:
    """Store what a result at ``at_m`` and ``at_n`` becomes."""
    (group,) = a.second.groups
    needs = list(dict.fromkeys(v for w in group.writes for v in w.needs()))
    at.unpack("at_m", a.second.m)
    at.unpack("at_n", group.n)
    at.ensure(needs, (*a.second.batch, *a.second.m, *group.n), {group.terms[0].sum.id: result})
    at.p.block([Store(w) for w in group.writes])
    at.p.at.given = {}


@dataclass(frozen=True, slots=True)
class Partial:
    """Two arrays of a kernel's own, from the slot ``first`` on: sums of weighted values of each
    part, and for each row of it the highest score and the sum of weights below that."""

    first: int
    parts: int

    def temporaries(self, a: Attention) -> tuple[Temporary, Temporary]:
        rows = self.parts * spread(a.second.batch) * spread(a.second.m)
        dtype = a.scores.dtype
        return (Temporary(dtype, rows * spread(a.second.groups[0].n)), Temporary(dtype, rows * 2))

    def dtypes(self, a: Attention) -> dict[int, DType]:
        return {self.first: a.scores.dtype, self.first + 1: a.scores.dtype}

    def points(self, a: Attention) -> Dim:
        """All results."""
        return spread(a.second.batch) * spread(a.second.m) * spread(a.second.groups[0].n)

    def store(self, p: SimtPrinter, a: Attention, letter: str, name: str) -> None:
        """The sum of row ``i`` and a column; who has the first column stores what the row needs."""
        batch, m, n = (dim(spread(v)) for v in (a.second.batch, a.second.m, a.second.groups[0].n))
        p.line(f"const {p.index} line = (part * {batch} + item) * {m} + at_m;")
        p.line(f"s{letter}_store(b{self.first} + (line * {n} + at_n), {name});")
        with p.braces("if (at_n == 0)"):
            for k, value in enumerate(("high[i]", "total[i]")):
                p.line(f"s{letter}_store(b{self.first + 1} + (line * 2 + {k}), {value});")

    def store_some(self, p: SimtPrinter, a: Attention, name: str, count: int) -> None:
        """The sums, of float32, of row ``side`` and ``count`` columns from ``first`` on."""
        batch, m, n = (spread(v) for v in (a.second.batch, a.second.m, a.second.groups[0].n))
        with p.braces(f"if (at_m < {dim(m)})"):
            p.line(f"const {p.index} line = (part * {dim(batch)} + item) * {dim(m)} + at_m;")
            some = _WORDS if exact_div(n, _WORDS) is not None else 1
            p.line("UNROLL")
            with p.braces(f"for (int u = 0; u < {count}; u += {some})"), \
                    p.braces(f"if (first + u < {dim(n)})"):
                to = f"b{self.first} + (line * {dim(n)} + first + u)"
                words = ", ".join(f"sf_word({name}[u + {i}])" for i in range(some))
                p.line(f"whole_store_{some}({to}, {words});" if some > 1 else
                       f"sf_store({to}, {name}[u]);")
            with p.braces("if (first == 0)"):
                for k, value in enumerate(("high", "total")):
                    p.line(f"sf_store(b{self.first + 1} + (line * 2 + {k}), "
                           f"side ? {value}[1] : {value}[0]);")

    def total(self, at: Evaluator, a: Attention) -> None:
        """The parts of each result, always in the same order, and what it becomes."""
        p, letter = at.p, REGISTER[a.scores.dtype.name]
        kind, maths = ("double", "sd_") if letter == "d" else ("float", "s_")
        m, n = dim(spread(a.second.m)), dim(spread(a.second.groups[0].n))
        rows, points = dim(spread(a.second.batch) * spread(a.second.m)), dim(self.points(a))
        with p.braces(f"for ({p.index} point = ({p.index})block_id() * {THREADS} + thread_id(); "
                      f"point < {points}; point += ({p.index})block_count() * {THREADS})"):
            p.line(f"const {p.index} at_n = point % {n}, line = point / {n}, at_m = line % {m};")
            at.unpack(f"line / {m}", a.second.batch)
            p.line(f"{kind} high = -__builtin_inf{'' if letter == 'd' else 'f'}(), all = 0, "
                   "sum = 0;")
            loop = f"for (int part = 0; part < {self.parts}; part++)"
            highest, weights = (f"s{letter}_load(b{self.first + 1} + ((part * {rows} + line) * 2 "
                                f"+ {k}))" for k in (0, 1))
            with p.braces(loop):
                p.line(f"high = s{letter}_max(high, {highest});")
            p.line(f"const {kind} base = {maths}base(high);")
            with p.braces(loop):
                p.line(f"const {kind} weight = {maths}weight({highest}, base);")
                p.line(f"all += weight * {weights};")
                p.line(f"sum += weight * s{letter}_load(b{self.first} + (part * {points} + "
                       "point));")
            p.line(f"const {kind} result = sum * (1 / all);")
            finish(at, a, "result")
