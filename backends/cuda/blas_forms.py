"""Products by cuBLAS: the row of the op table, what it costs, and which products it can make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.dim import Shape
from tegg.dtype import DType
from tegg.ir.op import Op
from tegg.ir.template import LICENCE, OWN, Execution, Extents, template

if TYPE_CHECKING:
    from tegg.rewrite.view import View

# The kinds in which operands of a dtype can be multiplied, with the oldest architecture of each.
# Another kind than the dtype's own rounds operands, which is for may-multiply to say.
_KINDS = MappingProxyType({"f32": {"f32": 50, "tf32": 80, "f16": 70, "bf16": 80},
                           "f64": {"f64": 50}, "f16": {"f16": 53}, "bf16": {"bf16": 80}})
_TILES = ((128, 128), (128, 64), (64, 64), (32, 32))  # about what the library has
_READ = 8.0       # multiply-adds that reading an element of a tile's sides takes as long as
_FEW = 16         # rows or columns up to which a product is one of few, and tiles of a deep one
_DEEP = 512       # terms of a sum that a part of the depth has at least
_MOST_PARTS = 64


def _executes(own: tuple, e: Extents) -> Execution:
    """The tile that wastes least of a product, with the depth in parts where tiles are few.

    The library tells nobody what it does; this is what its shape classes are known for, and the
    profile's entry ``BlasGemm KIND`` says how fast it does it, or that with `` few`` or `` deep``
    behind it, of few rows or columns and of few tiles with long sums.
    """
    (kind,) = own
    few = min(e.m, e.n) <= _FEW

    def padded(tile: tuple[int, int]) -> tuple[float, float]:
        rows, columns = tile
        area = -(-e.m // rows) * rows * (-(-e.n // columns)) * columns
        return area, rows * columns / (rows * columns + _READ * (rows + columns))

    rows, columns = min(_TILES, key=lambda t: padded(t)[0] / padded(t)[1])
    area, speed = (e.m * e.n, 0.5) if few else padded((rows, columns))
    parts = max(1, min(_MOST_PARTS, e.k // _DEEP))
    tiles = e.batch * -(-e.m // rows) * -(-e.n // columns)
    shape = " few" if few else " deep" if tiles <= _FEW and parts > 1 else ""
    return Execution(2.0 * e.batch * area * e.k, speed, max(1, tiles * parts),
                     rate=f"BlasGemm {kind}{shape}")


@cache
def blas_row() -> Op:
    """The row. ``staged``: its operands lie in memory, and so does its result before anything
    reads it. Its meaning is the exact sum; what it gives is within the licence's rounding."""
    return template("BlasGemm", (("kind", "mode"),), _executes,
                    "a product by NVIDIA's library", staged=True)


def kind_of(attrs: tuple) -> str:
    """The dtype as which a template's operands are multiplied."""
    return str(attrs[OWN])


def oldest(dtype: DType, kind: str) -> int:
    """The first architecture on which operands of a dtype are multiplied as a kind."""
    return _KINDS[dtype.name][kind]


@dataclass(frozen=True, slots=True)
class BlasForms:
    """``(cuda-blas x y i h d)``: cuBLAS is there, and multiplies x by y by i as d, where h holds:
    ``own``, as the operands are; ``f16`` or ``bf16``, where they come from that; ``rounded``, where
    ``may-multiply`` says that they may be rounded to d.
    """

    architecture: int
    name = "cuda blas"
    known = 3
    relations = MappingProxyType({"cuda-blas": ("Tensor", "Tensor", "String", "String", "String"),
                                  **LICENCE})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What the first relation says of two operands and a spec."""
        x, y, _ = given
        if relation in LICENCE or x.dtype is not y.dtype:
            return []
        own = x.dtype.name
        kinds = [k for k, least in _KINDS.get(own, {}).items() if least <= self.architecture]
        return [(how, kind) for kind in kinds for how in (
            ("own",) if kind == own else ("rounded",) if kind == "tf32" else (kind, "rounded"))]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            x, y = (_Operand(view.shape[a], view.dtype[a]) for a in n.args)
            for found in self.completions("cuda-blas", x, y, n.attrs[0]):
                yield ("cuda-blas", *n.args, n.attrs[0], *found)


@dataclass(frozen=True, slots=True)
class _Operand:
    shape: Shape
    dtype: DType
