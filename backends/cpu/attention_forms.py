"""The form of attention on this device: a row of the op table, its blocks, and what it executes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.backends.cpu.instructions import PAIRS, TILES
from tegg.backends.cpu.narrow_forms import filled, narrow_execution, sizes_of
from tegg.backends.cpu.templates import Operand, by_rows, issue_slots, register
from tegg.contraction import Spec
from tegg.dim import Dim, Shape, hint, product
from tegg.dtype import DType, f32
from tegg.ir.op import Op
from tegg.ir.template import OWN, SOFTMAX, Execution, Extents, template
from tegg.kernel.contraction_held import HELD, TILE, Held
from tegg.kernel.registers import Registers, lanes_of, register_tiles

if TYPE_CHECKING:
    from tegg.rewrite.view import View

_ROWS = 24         # queries of a block: their scores stay in L1, and few are computed in vain
_KEYS = 256        # keys of a block: they and their values stay in L2
PLAIN = "plain"    # products of what the accumulators are
ROWS = "rows"      # the same, of few queries: keys and values are read where they lie
_FEW, _MORE_KEYS = 4, 512  # queries of such a block, and keys: their scores stay in L1
# How narrow products hold their operands: what they need, the rate that prices them, queries.
_NARROW = MappingProxyType({"pairs": (PAIRS, "CpuPairs", _ROWS), "tiles": (TILES, "CpuTiles", 32)})


@dataclass(frozen=True, slots=True)
class Blocks:
    """What the template fixes: a block is ``rows`` queries by ``keys`` keys, and both products are
    of a ``kind``: plain, rows, or as ``HELD`` says."""

    kind: str
    rows: int
    keys: int

    @property
    def held(self) -> Held | None:
        """How operands are held, where they are narrower than their sums."""
        return HELD.get(self.kind)

    def register_tile(self, m: Dim, n: Dim, accumulator: DType,
                      registers: Registers) -> tuple[int, int]:
        """Rows and vectors of the register tile for one of the two products."""
        if self.held is None or self.held.multiply != "tiles":
            return register_tiles(m, n, accumulator, registers)[0]
        return TILE * (1 + (hint(m) > TILE)), 1 + (hint(n) > TILE)


@dataclass(frozen=True, slots=True)
class _Executes:
    """The product with the values, and the softmax; that of the scores is priced by itself."""

    registers: Registers

    def __call__(self, own: tuple, e: Extents) -> Execution:
        blocks, accumulator = Blocks(*own), register(e.dtype)
        lanes = lanes_of(accumulator, self.registers.width)
        rows, vectors = blocks.register_tile(e.m, e.n, accumulator, self.registers)
        pieces, beside = max(1, e.batch * -(-e.m // blocks.rows)), SOFTMAX * e.batch * e.m * e.k
        if blocks.held is not None:
            done = narrow_execution(blocks.kind, self.registers.width, (rows, vectors), e)
            return replace(done, pieces=pieces, kept=0, beside=beside, rate=_NARROW[own[0]][1])
        if blocks.kind == ROWS:
            return Execution(*by_rows(lanes, e), pieces, beside=beside, rate="CpuRows")
        across = vectors * lanes
        wide, tall = -(-e.n // across) * across, -(-e.m // rows) * rows
        return Execution(2.0 * e.batch * e.k * tall * wide,
                         rows * vectors / issue_slots(rows, vectors), pieces,
                         e.batch * e.k * wide, beside=beside)


@cache
def attention_row(registers: Registers) -> Op:
    """The row for a processor's registers. Its meaning is exact; narrow products are within their
    licence's rounding."""
    return template("CpuAttention", (("kind", "mode"), ("rows", "int"), ("keys", "int")),
                    _Executes(registers),
                    "scores stay in cache, a block of queries and keys at a time", "Attention")


def blocks_of(attrs: tuple) -> Blocks:
    """The blocks that the template's attributes state."""
    return Blocks(*attrs[OWN:])


@dataclass(frozen=True, slots=True)
class AttentionForms:
    """``(cpu-attention x y i d r k)``: attention by the spec i may go in blocks of r queries and k
    keys, of kind d: ``plain``, or of few queries ``rows``; ``(cpu-narrow-attention x y i d r k)``:
    with products of kind d, ``pairs`` or ``tiles`` of bfloat16, where the CPU has them."""

    features: frozenset[str]
    name = "cpu attention"
    known = 3
    relations = MappingProxyType({
        "cpu-attention": ("Tensor", "Tensor", "String", "String", "i64", "i64"),
        "cpu-narrow-attention": ("Tensor", "Tensor", "String", "String", "i64", "i64")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What a relation says of scores, values and a spec."""
        x, y, spec = given
        queries = _queries(x.shape, y.shape, spec)
        if relation == "cpu-attention":
            few = [(ROWS, _FEW, _MORE_KEYS)] if queries <= _FEW else []
            return [(PLAIN, _ROWS, _KEYS), *few]
        if not x.dtype is y.dtype is f32 or queries < 2:
            return []
        sooner = filled(self.features, "tiles", *sizes_of(x.shape, y.shape, spec))
        return [(kind, rows, _KEYS) for kind, (needs, _, rows) in _NARROW.items()
                if needs in self.features and not (sooner and kind == "pairs")]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Attention"):
            x, y = (Operand(view.shape[a], view.dtype[a]) for a in n.args)
            for relation in self.relations:
                for found in self.completions(relation, x, y, n.attrs[0]):
                    yield (relation, *n.args, n.attrs[0], *found)


def _queries(x: Shape, y: Shape, text: str) -> int:
    """Rows of the scores; of a single one memory is waited for, not products."""
    spec = Spec.parse(text)
    size = spec.sizes(x, y)
    return hint(product(tuple(size[c] for c in spec.m)))
