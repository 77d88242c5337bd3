"""The call of the library that a product of a plan is, at given sizes and addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tegg.dim import Dim, evaluate
from tegg.errors import BackendError
from tegg.kernel.gemm import Gemm, Matrix

from .blas import LARGEST
from .cublas import REMEDY, Product, Side


def product_of(g: Gemm, sizes: Mapping[str, int], addresses: Sequence[int]) -> Product | None:
    """The call of a product at given sizes; None where it has no results.

    ``addresses``: of the kernel's buffers. Raises BackendError for what the calls cannot count.
    """
    def at(d: Dim) -> int:
        value = evaluate(d, sizes)
        if not 0 <= value <= LARGEST:
            raise BackendError(f"a product of {m} x {k} by {k} x {n} elements, whose rows are "
                               f"{value} apart or as many, is beyond what cuBLAS counts to; "
                               f"{REMEDY}")
        return value

    def side(x: Matrix, columns: int) -> Side:
        row, column = evaluate(x.row, sizes), evaluate(x.column, sizes)
        turned = column != 1 or row < columns
        return Side(addresses[x.slot] + evaluate(x.first, sizes) * x.dtype.itemsize, x.dtype.name,
                    at(x.column if turned else x.row), evaluate(x.batch, sizes), turned)

    m, n, k = (evaluate(d, sizes) for d in (g.m, g.n, g.k))
    if not (evaluate(g.batch, sizes) and m and n):
        return None
    return Product(g.kind, at(g.batch), at(g.m), at(g.n), at(g.k), side(g.x, k), side(g.y, n),
                   side(g.out, n))
