"""Products of few rows, as decoding has them: each operand is read once, and no tile is padded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.backends.cexpr import REGISTER, dim
from tegg.backends.simt.evaluate import Evaluator, follows
from tegg.backends.simt.language import MOST_SHARED, SimtC
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.products import (
    Products, loads, nothing, products_of, stage)
from tegg.backends.simt.templates import register
from tegg.contraction import Spec
from tegg.dim import exact_div, hint, product
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.ir.op import Op
from tegg.ir.template import OWN, Execution, Extents, template
from tegg.kernel.code import KernelCode
from tegg.kernel.contraction_classify import Group, Term
from tegg.kernel.domain import spread
from tegg.kernel.loops import Store
from tegg.kernel.simt import THREADS, WARP

if TYPE_CHECKING:
    from tegg.rewrite.view import View

_MOST = 8      # rows that a thread has sums of
_STEP = 4      # neighbours of the depth that a thread takes at once
_AHEAD = 4     # steps of the depth whose loads are under way at once
_WARPS = THREADS // WARP


def _executes(own: tuple, e: Extents) -> Execution:
    (rows,) = own
    return Execution(2.0 * e.batch * -(-e.m // rows) * rows * e.n * e.k, 0.5,
                     max(1, e.batch * -(-e.m // rows) * -(-e.n // WARP)))


@cache
def rows_row(device: str) -> Op:
    """The row of a device, whose name its begins with."""
    return template(f"{device}Rows", (("rows", "int"),), _executes,
                    "few rows: a warp for each column, or a thread and eight parts of the depth")


def rows_of(attrs: tuple) -> int:
    """The rows that the template's attributes state."""
    return int(attrs[OWN])


@dataclass(frozen=True, slots=True)
class RowForms:
    """``(DEVICE-rows x y i r)``: the product of x and y by i has few rows, made r at a time."""

    device: str
    known = 3

    @property
    def name(self) -> str:
        return f"{self.device} rows"

    @property
    def relations(self) -> Mapping[str, tuple[str, ...]]:
        return MappingProxyType({f"{self.device}-rows": ("Tensor", "Tensor", "String", "i64")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What the relation says of two operands and a spec."""
        x, y, text = given
        spec = Spec.parse(text)
        size = spec.sizes(x.shape, y.shape)
        m, n = (hint(product(tuple(size[c] for c in side))) for side in (spec.m, spec.n))
        few = min(m, n)  # either operand can be the rows
        return [(min(_MOST, 1 << max(0, few - 1).bit_length()),)] if few <= 2 * _MOST else []

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            x, y = (_Operand(view.shape[a]) for a in n.args)
            for found in self.completions(f"{self.device}-rows", x, y, n.attrs[0]):
                yield (f"{self.device}-rows", *n.args, n.attrs[0], *found)


@dataclass(frozen=True, slots=True)
class _Operand:
    shape: tuple


def lower_rows(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
               language: SimtC, rows: int) -> KernelCode:
    """The kernel that computes ``outputs`` from products, ``rows`` rows at a time.

    Raises LoweringError where the fragment has another form.
    """
    found = products_of(graph, outputs, anchors, name, language)
    return nothing(name) if found is None else _Kernel(name, found, rows, language).code()


@dataclass(slots=True)
class _Kernel:
    """One kernel being written."""

    name: str
    products: Products
    rows: int
    language: SimtC

    def code(self) -> KernelCode:
        found, c = self.products, self.products.contraction
        index = found.index(max(self.rows, WARP * _STEP), 1)
        p = SimtPrinter(replace(self.language.dialect, index=index), c.propagation.algebra)
        nests: list[tuple[Any, int]] = []
        rooms: list[_Room] = []
        for g in c.groups:
            writer = _Rows(self, g, Evaluator(c.propagation, self.language, p), rooms)
            nests.append(writer.write())
        ends = loads(found.results, found.sums)
        size = sum(room.size for room in rooms)
        if size > MOST_SHARED:
            raise LoweringError(f"{len(rooms)} products of {self.rows} rows share {size} bytes; "
                                f"there are {MOST_SHARED}")
        source, made = stage(self.language, self.name, found.symbols,
                             [*(f"  {room.text}" for room in rooms), *p.lines],
                             {**loads(found.operands), **ends}, found.writes, tuple(nests),
                             blocks=1, index=index)
        b = found.before
        return KernelCode(self.name, "\n".join([*b.sources, source]), (*b.stages, made),
                          b.temporaries, found.symbols, found.work(), (f"rows {self.rows}",))


@dataclass(frozen=True, slots=True)
class _Room:
    """An array that a block shares: its declaration, and bytes."""

    text: str
    size: int


@dataclass(slots=True)
class _Rows:
    """The results of one group. rooms: what its blocks share, of all groups."""

    kernel: _Kernel
    group: Group
    at: Evaluator
    rooms: list[_Room]

    def write(self) -> tuple[Any, int]:
        """The code; gives the points that are dealt out, and how many a block takes at a time."""
        c = self.kernel.products.contraction
        down = _ceiling(spread(c.m), self.kernel.rows)
        inner, column = (c.k or (None,))[-1], (self.group.n or (None,))[-1]
        if all(follows(t.b, inner, column) for t in self.group.terms):
            self._along()
            return spread(c.batch) * down * spread(self.group.n), _WARPS
        self._across()
        return spread(c.batch) * down * _ceiling(spread(self.group.n), WARP), 1

    @property
    def letter(self) -> str:
        return REGISTER[register(self.group.terms[0].sum.dtype).name]

    @property
    def type(self) -> str:
        return self.kernel.language.dialect.scalar[self.letter]

    def _sizes(self) -> tuple[str, str, str]:
        c = self.kernel.products.contraction
        return dim(spread(c.batch)), dim(spread(c.m)), dim(spread(self.group.n))

    def _tile(self, columns: str) -> str:
        """Where a tile of rows and one or more columns begins; how many tiles there are."""
        p, (batch, m, _), r = self.at.p, self._sizes(), self.kernel.rows
        p.line(f"const {p.index} down = ({m} + {r - 1}) / {r}, across = {columns};")
        return f"{batch} * down * across"

    def _at(self) -> None:
        p, c = self.at.p, self.kernel.products.contraction
        self.at.unpack("tile / (down * across)", c.batch)
        p.line(f"const {p.index} m_from = tile / across % down * {self.kernel.rows};")

    # ---- memory is contiguous along the depth: a warp for each column
    def _along(self) -> None:
        p, c = self.at.p, self.kernel.products.contraction
        _, m, _ = self._sizes()
        with p.braces(""):
            tiles = self._tile(dim(spread(self.group.n)))
            with p.braces(f"for ({p.index} tile = ({p.index})block_id() * {_WARPS} + "
                          f"thread_id() / {WARP}; tile < {tiles}; "
                          f"tile += ({p.index})block_count() * {_WARPS})"):
                self._at()
                p.line(f"const {p.index} at_n = tile % across;")
                step = _STEP if c.k and exact_div(c.k[-1].extent, _STEP) is not None else 1
                for t in self.group.terms:
                    p.line(f"{self.type} sums{t.anchor}[{self.kernel.rows}] = {{}};")
                    p.line(f"UNROLL_BY({_AHEAD})")
                    with p.braces(f"for ({p.index} at_k = lane_id() * {step}; "
                                  f"at_k < {dim(c.depth)}; at_k += {WARP * step})"):
                        self._step(t, step)
                for t in self.group.terms:
                    p.line(f"{self.type} sum{t.anchor} = 0;")
                    p.line("UNROLL")
                    with p.braces(f"for (int r = 0; r < {self.kernel.rows}; r++)"):
                        p.line(f"const {self.type} all = "
                               f"warp_add_{self.letter}(sums{t.anchor}[r]);")
                        p.line(f"if (lane_id() == r) sum{t.anchor} = all;")
                p.line(f"const {p.index} at_m = m_from + lane_id();")
                with p.braces(f"if (lane_id() < {self.kernel.rows} && at_m < {m})"):
                    self._ends({t.sum.id: f"sum{t.anchor}" for t in self.group.terms})

    # ---- neighbours are columns: a thread for each, and the warps of a block share the depth
    def _across(self) -> None:
        p, c, r = self.at.p, self.kernel.products.contraction, self.kernel.rows
        _, m, n = self._sizes()
        with p.braces(""):
            for t in self.group.terms:
                self.rooms.append(_Room(
                    f"{self.kernel.language.shared} {self.type} "
                    f"room{t.anchor}[{_WARPS}][{r}][{WARP}];",
                    _WARPS * r * WARP * register(t.sum.dtype).itemsize))
            tiles = self._tile(f"({n} + {WARP - 1}) / {WARP}")
            with p.braces(f"for ({p.index} tile = block_id(); tile < {tiles}; "
                          "tile += block_count())"):
                self._at()
                p.line(f"const {p.index} n_from = tile % across * {WARP};")
                p.line(f"const int warp = thread_id() / {WARP};")
                with p.braces(""):
                    p.line(f"const {p.index} at_n = n_from + lane_id();")
                    for t in self.group.terms:
                        p.line(f"{self.type} sums{t.anchor}[{r}] = {{}};")
                        with p.braces(f"if (at_n < {n})"):
                            p.line(f"UNROLL_BY({_AHEAD})")
                            with p.braces(f"for ({p.index} at_k = warp; at_k < {dim(c.depth)}; "
                                          f"at_k += {_WARPS})"):
                                self._step(t, 1)
                        p.line("UNROLL")
                        p.line(f"for (int r = 0; r < {r}; r++) "
                               f"room{t.anchor}[warp][r][lane_id()] = sums{t.anchor}[r];")
                p.line(self.kernel.language.barrier)
                with p.braces(f"for (int e = thread_id(); e < {r * WARP}; e += {THREADS})"):
                    p.line(f"const {p.index} at_m = m_from + e / {WARP}, "
                           f"at_n = n_from + e % {WARP};")
                    with p.braces(f"if (at_m < {m} && at_n < {n})"):
                        self._totals()
                p.line(self.kernel.language.barrier)

    def _totals(self) -> None:
        """What the warps have summed, always in the same order."""
        p = self.at.p
        for t in self.group.terms:
            room = f"room{t.anchor}[{{}}][e / {WARP}][e % {WARP}]"
            p.line(f"{self.type} sum{t.anchor} = {room.format(0)};")
            p.line(f"for (int w = 1; w < {_WARPS}; w++) sum{t.anchor} = "
                   f"s{self.letter}_add(sum{t.anchor}, {room.format('w')});")
        self._ends({t.sum.id: f"sum{t.anchor}" for t in self.group.terms})

    # ---- one step of the depth, and the end
    def _step(self, t: Term, step: int) -> None:
        """``step`` neighbours of the depth, of one column and all rows."""
        c, p = self.kernel.products.contraction, self.at.p
        _, m, _ = self._sizes()
        self.at.unpack("at_k", c.k)
        self.at.unpack("at_n", self.group.n)
        with p.wide(c.k[-1] if step > 1 else None, step):
            self.at.ensure([t.b], (*c.batch, *self.group.n, *c.k))
            for u in range(step):
                p.line(f"const {self.type} y{u} = {p.ref(t.b, u)};")
            p.line("UNROLL")
            with p.braces(f"for (int r = 0; r < {self.kernel.rows}; r++)"):
                p.line(f"const {p.index} at_m = m_from + r;")
                with p.braces(f"if (at_m < {m})"):
                    self.at.unpack("at_m", c.m)
                    self.at.ensure([t.a], (*c.batch, *c.m, *c.k))
                    for u in range(step):
                        so_far, x = f"sums{t.anchor}[r]", p.ref(t.a, u)
                        more = (f"s{self.letter}_fma({x}, y{u}, {so_far})" if self.letter in "fd"
                                else f"s{self.letter}_add({so_far}, s{self.letter}_mul({x}, y{u}))")
                        p.line(f"{so_far} = {more};")

    def _ends(self, given: dict[int, str]) -> None:
        c = self.kernel.products.contraction
        needs = list(dict.fromkeys(v for w in self.group.writes for v in w.needs()))
        self.at.unpack("at_m", c.m)
        self.at.unpack("at_n", self.group.n)
        self.at.ensure(needs, (*c.batch, *c.m, *self.group.n), given)
        self.at.p.block([Store(w) for w in self.group.writes])
        self.at.p.at.given = {}


def _ceiling(n: Any, by: int) -> Any:
    """At least ``n / by``; of a symbolic size n itself, where that is the least that is known."""
    return -(-n // by) if isinstance(n, int) else n
