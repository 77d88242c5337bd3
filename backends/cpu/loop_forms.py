"""Sums of few products as generated loops: a row of the op table, its price, where it is stated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.contraction import Spec
from tegg.dim import Shape, hint, product
from tegg.dtype import f32
from tegg.ir.graph import Graph
from tegg.ir.neighbours import VECTOR
from tegg.ir.op import Op
from tegg.ir.template import Execution, Extents, template

from .templates import read_along
from .windows import slides

if TYPE_CHECKING:
    from tegg.rewrite.view import View

_ROWS = 7        # rows of windows at most: of more, each element of the other is read again
_SHORT = 16      # products of a sum up to which putting operands in panels may not pay
_PRODUCT = 1.6   # operations that a product counts as, added and loaded
_GATHERED = 10.0  # and an operand whose elements lie apart


def _executes(own: tuple, e: Extents) -> Execution:
    (apart,) = own
    products = float(e.batch * e.m * e.n * e.k)
    return Execution(0.0, pieces=max(1, e.batch * e.m * e.n // 16),
                     loops=products * (_PRODUCT + _GATHERED * apart))


@cache
def loops_row() -> Op:
    """The row of the form."""
    return template("CpuLoops", (("apart", "int"),), _executes,
                    "few products: generated loops, whose vectors are results side by side",
                    in_order=True)


@dataclass(frozen=True, slots=True)
class LoopForms:
    """``(cpu-loops x y i a)``: the contraction x, y by the spec i has sums of few products, or few
    rows and windows; a of its operands and results are gathered where results are
    vectors."""

    name = "cpu loops"
    known = 3
    relations = MappingProxyType({"cpu-loops": ("Tensor", "Tensor", "String", "i64")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """The form means what the contraction means, however its operands lie."""
        return [(0,)]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            spec = Spec.parse(n.attrs[0])
            shapes = tuple(view.shape[a] for a in n.args)
            windows = any(slides(view, a) for a in n.args)
            if not _few(spec, shapes, windows):
                continue
            lies = [read_along(view, a) for a in n.args]
            yield ("cpu-loops", *n.args, n.attrs[0], _apart(spec, shapes, lies))

    def example(self) -> Graph:
        """A convolution of each channel by itself."""
        g = Graph()
        x, y = g.input("x", (4, 3, 3), f32), g.input("y", (4, 9, 9), f32)
        for axis in (1, 3):
            y = g.op("Window", y, axis, 3, 1, 1)
        g.op("Contract", x, y, "a,d,e;a,b,d,c,e;a,b,c", (4, 7, 7))
        return g


def _few(spec: Spec, shapes: tuple[Shape, ...], windows: bool) -> bool:
    """Whether sums, or rows of windows, are too few for panels to pay."""
    size = spec.sizes(*shapes)
    m, n, k = (hint(product(tuple(size[c] for c in letters)))
               for letters in (spec.m, spec.n, spec.k))
    return min(m, n, k) > 0 and (k <= _SHORT or windows and min(m, n) <= _ROWS)


def _apart(spec: Spec, shapes: tuple[Shape, ...], lies: list[frozenset[int]]) -> int:
    """How many operands are gathered, and results scattered, where vectors are results along the
    best axis."""
    size = spec.sizes(*shapes)
    free = [c for c in spec.out if c and hint(size[c]) >= VECTOR]
    return min((sum(letter in axes and axes.index(letter) not in beside
                    for axes, beside in zip((spec.x, spec.y), lies)) + (letter != free[-1])
                for letter in free), default=2)
