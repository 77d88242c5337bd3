"""Forms of attention on blocks of threads: rows of the op table, blocks, what they execute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.contraction import Spec
from tegg.dim import Shape, product
from tegg.dtype import DType, f32
from tegg.ir.op import Op
from tegg.ir.template import LICENCE, OWN, Execution, Extents, template

if TYPE_CHECKING:
    from tegg.rewrite.view import View

MOST = 256         # columns of values, and terms of a score: what a block has room for
PLAIN = "plain"    # products of the dtype that there is
_SOFTMAX = 14.0    # operations of a score: compared, exponentiated, added, its row moved on
_PLAIN = MappingProxyType({"f32": (32, 32), "f64": (16, 16)})
_SPEED = MappingProxyType({PLAIN: 0.3, "matrix": 0.93, "f16": 10.0, "bf16": 10.0})  # of float32


@dataclass(frozen=True, slots=True)
class Blocks:
    """A block is ``rows`` queries by ``keys`` keys; products are of ``kind``, or ``plain``: of the
    dtype that there is."""

    kind: str
    rows: int
    keys: int


def _executes(own: tuple, e: Extents) -> Execution:
    """The product with the values, and the softmax; that of the scores is priced by itself."""
    b = Blocks(*own)
    down, deep = -(-e.m // b.rows) * b.rows, -(-e.k // b.keys) * b.keys
    return Execution(2.0 * e.batch * down * deep * e.n, _SPEED[b.kind],
                     max(1, e.batch * -(-e.m // b.rows)), beside=_SOFTMAX * e.batch * e.m * e.k)


@cache
def attention_row(device: str) -> Op:
    """The row of a device, whose name its begins with. Its meaning is exact; products of halves
    are within their licence's rounding."""
    return template(f"{device}Attention", (("kind", "mode"), ("rows", "int"), ("keys", "int")),
                    _executes, "scores stay in a block, a block of queries and keys at a time",
                    "Attention")


def blocks_of(attrs: tuple) -> Blocks:
    """The blocks that the template's attributes state."""
    return Blocks(*attrs[OWN:])


@dataclass(frozen=True, slots=True)
class AttentionForms:
    """``(DEVICE-attention x y i d r k)``: attention of scores x and values y by the spec i may go
    in blocks of r queries by k keys, with products of kind d: ``plain``, or one of the device's
    units of matrices.

    dtypes: what it computes in.
    """

    device: str
    dtypes: frozenset[str]
    known = 3

    @property
    def name(self) -> str:
        return f"{self.device} attention"

    @property
    def relations(self) -> Mapping[str, tuple[str, ...]]:
        return MappingProxyType({
            f"{self.device}-attention": ("Tensor", "Tensor", "String", "String", "i64", "i64"),
            **LICENCE})

    def matrices(self, columns: int) -> list[Blocks]:
        """Blocks with products of float32 in units of matrices, for so many columns."""
        return []

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What the first relation says of scores, values and a spec."""
        x, y, text = given
        spec = Spec.parse(text)
        size = spec.sizes(x.shape, y.shape)
        columns = product(tuple(size[c] for c in spec.n))
        if relation in LICENCE or x.dtype.name not in self.dtypes or not (
                isinstance(columns, int) and columns <= MOST):
            return []
        found = [Blocks(PLAIN, *_PLAIN[x.dtype.name])]
        if x.dtype is f32:
            found += self.matrices(columns)
        return [astuple(b) for b in found]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Attention"):
            x, y = (_Operand(view.shape[a], view.dtype[a]) for a in n.args)
            for found in self.completions(f"{self.device}-attention", x, y, n.attrs[0]):
                yield (f"{self.device}-attention", *n.args, n.attrs[0], *found)


@dataclass(frozen=True, slots=True)
class _Operand:
    shape: Shape
    dtype: DType
