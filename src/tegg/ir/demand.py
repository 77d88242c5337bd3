"""What a kernel executes, as numbers: elements read, operations, products, pieces for threads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tegg.dim import hint
from tegg.dtype import DType
from tegg.ir.op import Op, OpTable
from tegg.ir.template import Execution, Extents


def axis_of(node) -> int:
    """The axis that a reduction or an idiom works along; the last one where it names none."""
    return next((v for v, (_, kind) in zip(node.attrs, node.op.attrs) if kind == "axis"), -1)


@dataclass(frozen=True, slots=True)
class Step:
    """An op over values, as an e-node is."""

    op: Op
    args: tuple[int, ...]
    attrs: tuple


@dataclass(slots=True)
class Values:
    """Shapes at the sizes that costs assume, and dtypes, of the values that kernels are made of."""

    shape: dict[int, tuple[int, ...]]
    dtype: Mapping[int, DType]
    table: OpTable
    size: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def of(shapes: Mapping[int, tuple], dtypes: Mapping[int, DType], table: OpTable) -> Values:
        """The values of classes (or nodes): every symbolic dim at its hint."""
        out = Values({c: tuple(map(hint, s)) for c, s in shapes.items()}, dtypes, table)
        out.size = {c: math.prod(s) for c, s in out.shape.items()}
        return out


@dataclass(frozen=True, slots=True)
class Product:
    """A contraction: extents of its loops, and what the template ``op`` executes for them (None
    for a plain contraction). ready: whether the operand that it packs is known before a run."""

    extents: Extents
    op: str = "Contract"
    execution: Execution | None = None
    ready: bool = False


@dataclass(slots=True)
class Footprint:
    """How an idiom over an axis reads its operands: per operand ``(index, pass, share)``.

    The rest per element of the result, from the expansion. late, late_evaluations: what is done
    in the last pass, and so again in each further pass that wants the result. again: operations
    that are done once more where nothing is kept from pass to pass.
    """

    reads: tuple[tuple[tuple[int, int, float], ...], ...]
    passes: int
    values: int
    evaluations: float
    late: float
    late_evaluations: float
    again: float = 0.0


@dataclass(slots=True)
class Demand:
    """What a kernel executes. ``reads``: leaf -> elements read from memory, each at most once.

    writes: output -> elements written, where those are not all of them.
    loops: ``(dtype, scalar operations)`` of everything outside templates, repeats included.
    values: distinct (value, index) pairs, which is what generated code grows with.
    rows: independent pieces that threads can share, or None where every element is one.
    splits: stages before the last, in which parts of reductions are summed up.
    """

    reads: dict[int, int] = field(default_factory=dict)
    writes: dict[int, int] = field(default_factory=dict)
    loops: list[tuple[DType, float]] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    values: int = 0
    evaluations: float = 0.0
    rows: int | None = None
    splits: int = 0
