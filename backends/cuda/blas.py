"""Lowers a contraction that stands alone to one call of cuBLAS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tegg.dim import hint
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode, Stage, Work
from tegg.kernel.contraction_classify import classify
from tegg.kernel.gemm import Gemm
from tegg.kernel.gemm_classify import plain_gemm
from tegg.kernel.lower import kernel_symbols
from tegg.kernel.slots import slots_of

from .blas_forms import oldest
from .emit import CudaC

LARGEST = 2**31 - 1  # an extent or a step that the calls take


def lower_blas(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
               language: CudaC, kind: str, architecture: int = 90) -> KernelCode:
    """The call that computes the one output, which is a product of arrays in memory. What lies
    there in 16 bits is multiplied as it is, whatever the kind: its products are exact in float32.

    Raises LoweringError for anything else, and for what the library's calls cannot count.
    """
    slots = slots_of(graph, outputs, anchors)
    if not slots.live:
        return KernelCode(name, "", (), (), (), Work(0, 0, 0, 0))
    g = plain_gemm(classify(graph, slots.live, slots.anchors, language.native, slots.slots,
                            language.doubles), kind)
    for size in (g.m, g.n, g.k, g.batch, *(s for x in (g.x, g.y, g.out)
                                           for s in (x.row, x.column))):
        if isinstance(size, int) and size > LARGEST:
            raise LoweringError(f"{size} is more than cuBLAS counts to")
    if g.x.dtype.itemsize == 2:
        g = replace(g, kind=g.x.dtype.name)
    if architecture < oldest(g.x.dtype, g.kind):
        raise LoweringError(f"cuBLAS does not multiply {g.kind} on compute capability "
                            f"{architecture / 10}")
    stage = Stage(name, frozenset((g.x.slot, g.y.slot)), frozenset((g.out.slot,)), True,
                  product=g)
    return KernelCode(name, "", (stage,), (), kernel_symbols(graph, outputs), _work(g),
                      (f"cuBLAS {g.kind}",))


def _work(g: Gemm) -> Work:
    batch, m, n, k = map(hint, (g.batch, g.m, g.n, g.k))
    return Work(2 * batch * m * n * k, batch * m * n * k,
                batch * k * (m + n) * g.x.dtype.itemsize, batch * m * n * g.out.dtype.itemsize)
