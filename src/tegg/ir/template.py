"""Templates of contractions: rows by which a device offers its own forms of a sum of products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from tegg.dtype import DType
from tegg.ir.op import OPS, Op

# What compilers that round state of a product: its operands may be rounded to a dtype. Targets
# whose rules ask for it declare it, so that they can be read without such a compiler.
LICENCE = MappingProxyType({"may-multiply": ("Tensor", "Tensor", "String", "String")})
OWN = len(OPS["Contract"].attrs)  # attributes that a template shares with Contract come first
SOFTMAX = 14.0  # operations of a score: compared, exponentiated, added, its row moved


@dataclass(frozen=True, slots=True)
class Extents:
    """A contraction at the sizes that costs assume: how many batch items, rows of the first
    operand, columns of the second, and terms of each sum; ``dtype`` is that of the operands."""

    batch: int
    m: int
    n: int
    k: int
    dtype: DType

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Execution:
    """What a template executes for one contraction, over all threads.

    flops: of the products, padding of tiles included. speed: the share of the rate of a large
    product that its inner loop can reach. pieces: what threads can share. packed: elements of the
    second operand that are copied first; kept: how many of the copies exist at once, 0 where each
    is used up before the next, so that none is there before a run. aside: elements of partial sums
    and of the first operand that are written and read back. stages: functions that wait for one
    another, beyond the first. beside: scalar operations between products; loops: those of products
    that are generated loops. itemsize: bytes of an element that is packed, 0 for those of the
    operand's dtype. rate: the entry among a profile's ``templates`` that prices it, and reads: that
    among its ``template_reads``, where they are not its op's.
    """

    flops: float
    speed: float = 1.0
    pieces: int = 1
    packed: int = 0
    kept: int = 0
    aside: int = 0
    stages: int = 0
    beside: float = 0.0
    loops: float = 0.0
    packs: int = 1
    itemsize: int = 0
    rate: str = ""
    reads: str = ""


def template(name: str, attrs: tuple[tuple[str, str], ...],
             executes: Callable[[tuple, Extents], Execution], doc: str,
             of: str = "Contract", staged: bool = False, alone: bool = False,
             in_order: bool = False,
             holding: Callable[[tuple], tuple[DType, ...]] | None = None) -> Op:
    """The row of a template: a Contract in all but its name, its own attributes and its price; or
    another op of that kind.

    ``executes`` is given the template's own attributes. ``staged``: nothing is computed on the way
    in or out, as of a library's function: operands lie in memory, moved or widened at most.
    ``alone``: a kernel of this form makes no other product. ``in_order``: it stores results with
    their last axis last, however else they are moved.
    ``holding``: dtypes whose values alone the operands may hold, by its own attributes; others wrap
    around to them.
    """
    whole = OPS[of]
    meaning, expand = whole.meaning, whole.expand
    assert meaning is not None and expand is not None

    def means(arrays, t, s, d):
        if holding is not None:
            arrays = [a.astype(h.numpy).astype(a.dtype) for a, h in zip(arrays, holding(t[OWN:]))]
        return meaning(arrays, t[:OWN], s, d)

    def expanded(b, args, t):
        if holding is not None:
            args = tuple(b.cast(b.cast(x, h), x.dtype) for x, h in zip(args, holding(t[OWN:])))
        return expand(b, args, t[:OWN])

    return Op(name, whole.kind, whole.arity, whole.shape, whole.dtype, means,
              (*whole.attrs, *attrs), expanded, whole.domains, whole.cost,
              whole.tolerance, False, doc, staged=staged, alone=alone, in_order=in_order,
              template=lambda t, e: executes(t[OWN:], e))


def form_of(node) -> tuple:
    """What tells the form of one contraction from another's: the op, its own attributes."""
    return (node.op.name, *node.attrs[OWN:])
