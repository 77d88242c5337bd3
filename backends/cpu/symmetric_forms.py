"""Products of a matrix with itself turned, ``x.T @ x``: their row, price, and where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.contraction import Axes, Spec
from tegg.dim import hint
from tegg.dtype import f32
from tegg.ir.graph import Graph
from tegg.ir.op import Op
from tegg.ir.template import Execution, Extents, template
from tegg.kernel.contraction_shape import upper_share
from tegg.kernel.registers import Registers, lanes_of

from .templates import Operand, Packed, parts, register, tiles

if TYPE_CHECKING:
    from tegg.rewrite.view import View

_LEAST = 64    # rows from which tiles below the diagonal are worth leaving out
_TURNED = 3.0  # operations that a result takes which is stored a second time, turned


@dataclass(frozen=True, slots=True)
class _Executes:
    """Register tiles on the diagonal and above it, which are stored turned as well."""

    registers: Registers

    def __call__(self, own: tuple, e: Extents) -> Execution:
        rows, vectors, _ = own
        columns = vectors * lanes_of(register(e.dtype), self.registers.width)
        share = upper_share(e.m, rows, columns)
        whole = Packed(self.registers)(own, e)
        return replace(whole, flops=whole.flops * share, pieces=max(1, int(whole.pieces * share)),
                       beside=_TURNED * e.batch * e.m * e.n * (1 - share),
                       rate="CpuPacked", reads="CpuPacked")


@cache
def symmetric_row(registers: Registers) -> Op:
    """The row for a processor's registers."""
    return template("CpuSymmetric", (("rows", "int"), ("vectors", "int"), ("parts", "int")),
                    _Executes(registers), alone=True,
                    doc="a matrix by itself turned: tiles below the diagonal are those above it")


@dataclass(frozen=True, slots=True)
class SymmetricForms:
    """``(cpu-symmetric x y i r v p)``: columns of the second operand of the contraction x, y by the
    spec i are the rows of the first; register tiles of r rows by v vectors, in p parts."""

    registers: Registers
    name = "cpu symmetric"
    known = 3
    relations = MappingProxyType({
        "cpu-symmetric": ("Tensor", "Tensor", "String", "i64", "i64", "i64")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """The form means what the contraction means; whether its operands are one decides only
        what can be lowered."""
        x, y, spec = given
        return [(*tile, p) for tile in tiles(x.shape, y.shape, spec, x.dtype, self.registers)
                for p in parts(x.shape, y.shape, spec)]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            (x, y), spec = n.args, Spec.parse(n.attrs[0])
            if not _large(spec, view.shape[x]) or not _turned(view, x, y, spec):
                continue
            operands = (Operand(view.shape[a], view.dtype[a]) for a in n.args)
            for values in self.completions("cpu-symmetric", *operands, n.attrs[0]):
                yield ("cpu-symmetric", x, y, n.attrs[0], *values)

    def example(self) -> Graph:
        """Products of all columns of a matrix with one another."""
        g = Graph()
        x = g.input("x", (8, _LEAST), f32)
        g.op("Contract", x, x, "k,a;k,b;a,b", (_LEAST, _LEAST))
        return g


def _large(spec: Spec, shape: tuple) -> bool:
    """Whether there is one variable of rows, and rows are many."""
    return (len(spec.m) == len(spec.n) == 1 and len(spec.k) > 0
            and hint(shape[spec.x.index(spec.m)]) >= _LEAST)


def _turned(view: View, x: int, y: int, spec: Spec) -> bool:
    """Whether both operands are one value, where rows of the first index it as columns of the
    second do."""
    second = {c: tuple(spec.m if a == spec.n else a for a in axes)
              for c, axes in _sources(view, y, spec.y)}
    return any(second.get(c) == axes for c, axes in _sources(view, x, spec.x))


def _sources(view: View, c: int, axes: Axes) -> Iterator[tuple[int, Axes]]:
    """A class, and those that it is a permutation of, with what indexes their axes."""
    yield c, axes
    for n in view.nodes[c]:
        if n.op.name == "Permute":
            below = dict(zip(n.attrs[0], axes))
            yield n.args[0], tuple(below[i] for i in range(len(axes)))
