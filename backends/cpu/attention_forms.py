"""The form of attention on this device: a row of the op table, its blocks, and what it executes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.backends.cpu.templates import issue_slots, register
from tegg.dim import Dim
from tegg.dtype import DType
from tegg.ir.op import Op
from tegg.ir.template import OWN, SOFTMAX, Execution, Extents, template
from tegg.kernel.contraction_shape import lanes_of, register_tiles

if TYPE_CHECKING:
    from tegg.rewrite.view import View

_ROWS = 24         # queries of a block: their scores stay in L1, and few are computed in vain
_KEYS = 256        # keys of a block: they and their values stay in L2


@dataclass(frozen=True, slots=True)
class Blocks:
    """What the template fixes: a block is ``rows`` queries by ``keys`` keys."""

    rows: int
    keys: int


def register_tile(m: Dim, n: Dim, accumulator: DType, width: int) -> tuple[int, int]:
    """Rows and vectors of the register tile for one of the two products."""
    return register_tiles(m, n, accumulator, width)[0]


@dataclass(frozen=True, slots=True)
class _Executes:
    """The product with the values, and the softmax; that of the scores is priced by itself."""

    width: int

    def __call__(self, own: tuple, e: Extents) -> Execution:
        accumulator = register(e.dtype)
        rows, vectors = register_tile(e.m, e.n, accumulator, self.width)
        across = vectors * lanes_of(accumulator, self.width)
        wide, tall = -(-e.n // across) * across, -(-e.m // rows) * rows
        return Execution(2.0 * e.batch * e.k * tall * wide,
                         rows * vectors / issue_slots(rows, vectors),
                         max(1, e.batch * -(-e.m // own[0])), e.batch * e.k * wide,
                         beside=SOFTMAX * e.batch * e.m * e.k)


@cache
def attention_row(width: int) -> Op:
    """The row for a vector width."""
    return template("CpuAttention", (("rows", "int"), ("keys", "int")), _Executes(width),
                    "scores stay in cache, a block of queries and keys at a time", "Attention")


def blocks_of(attrs: tuple) -> Blocks:
    """The blocks that the template's attributes state."""
    return Blocks(*attrs[OWN:])


@dataclass(frozen=True, slots=True)
class AttentionForms:
    """``(cpu-attention x y i r k)``: attention by the spec i may go in blocks of r queries and k
    keys."""

    width: int
    name = "cpu attention"
    known = 3
    relations = MappingProxyType({"cpu-attention": ("Tensor", "Tensor", "String", "i64", "i64")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What the relation says of scores, values and a spec."""
        return [(_ROWS, _KEYS)]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Attention"):
            for found in self.completions("cpu-attention", *n.args, n.attrs[0]):
                yield ("cpu-attention", *n.args, n.attrs[0], *found)
