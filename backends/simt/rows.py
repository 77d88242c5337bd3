"""Products of few rows, as decoding has them: each operand is read once, and no tile is padded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.backends.simt.evaluate import NEIGHBOURS, Evaluator
from tegg.backends.simt.language import MOST_SHARED, SimtC
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.products import (
    Products, loads, nothing, products_of, stage)
from tegg.backends.simt.row_sums import Room, RowSums
from tegg.contraction import Spec
from tegg.dim import hint, product
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.ir.op import Op
from tegg.ir.template import OWN, Execution, Extents, template
from tegg.kernel.code import KernelCode
from tegg.kernel.simt import THREADS, WARP

if TYPE_CHECKING:
    from tegg.rewrite.view import View

_MOST = 8      # rows that a thread has sums of
_ACROSS = "rows across"  # among the prices of reading: where columns lie side by side


def _executes(own: tuple, e: Extents) -> Execution:
    rows, along = own
    few, wide = sorted((e.m, e.n))
    down, columns = -(-few // rows), THREADS // WARP if along else WARP  # of a block
    return Execution(2.0 * e.batch * down * rows * wide * e.k, 0.5,
                     max(1, e.batch * down * -(-wide // columns)),
                     reads="" if along else _ACROSS)


@cache
def rows_row(device: str) -> Op:
    """The row of a device, whose name its begins with."""
    return template(f"{device}Rows", (("rows", "int"), ("along", "int")), _executes,
                    "few rows: a warp for each column, or a thread and eight parts of the depth")


def rows_of(attrs: tuple) -> int:
    """The rows that the template's attributes state."""
    return int(attrs[OWN])  # which layout it was priced for, lowering sees by itself


@dataclass(frozen=True, slots=True)
class RowForms:
    """``(DEVICE-rows x y i r a)``: the product of x and y by i has few rows, made r at a time; a is
    1 where the depth of a column lies side by side, so that a warp has each, else 0."""

    device: str
    known = 3

    @property
    def name(self) -> str:
        return f"{self.device} rows"

    @property
    def relations(self) -> Mapping[str, tuple[str, ...]]:
        return MappingProxyType({f"{self.device}-rows": ("Tensor", "Tensor", "String",
                                                         "i64", "i64")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What the relation says of two operands and a spec."""
        x, y, text = given
        spec = Spec.parse(text)
        size = spec.sizes(x.shape, y.shape)
        m, n = (hint(product(tuple(size[c] for c in side))) for side in (spec.m, spec.n))
        few, other = min(m, n), spec.y if m <= n else spec.x  # either operand can be the rows
        inner = [c for c in other if c][-1:]
        along = int(bool(inner) and inner[0] in spec.k)
        rows = min(_MOST, 1 << max(0, few - 1).bit_length())
        return [(rows, along)] if few <= 2 * _MOST else []

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
        index = found.index(max(self.rows, WARP * NEIGHBOURS), 1)
        p = SimtPrinter(replace(self.language.dialect, index=index), c.propagation.algebra)
        nests: list[tuple[Any, int]] = []
        rooms: list[Room] = []
        for g in c.groups:
            at = Evaluator(c.propagation, self.language, p)
            nests.append(RowSums(c, g, at, self.rows, rooms).write())
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
