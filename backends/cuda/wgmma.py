"""Lowers fragments around contractions to products that four warps make at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tegg.backends.cuda.emit import CudaC
from tegg.backends.cuda.mma import CoreKernel, CoreProduct, check_sums
from tegg.backends.cuda.mma_operand import LETTERS
from tegg.backends.cuda.wgmma_forms import ALIGNED, GROUP, ROWS, WgmmaTile
from tegg.backends.cuda.wgmma_operand import SharedMatrix
from tegg.backends.simt.evaluate import Evaluator
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.products import nothing, products_of
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode
from tegg.kernel.contraction_classify import Group, Term


def lower_wgmma(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
                language: CudaC, tile: WgmmaTile) -> KernelCode:
    """The kernel that computes ``outputs``, whose products are ``anchors``, by four warps at once.

    As ``lower_mma`` in what is computed on the way in and out. Raises LoweringError where the
    fragment has another form.
    """
    found = products_of(graph, outputs, anchors, name, language)
    if found is None:
        return nothing(name)
    check_sums(found.contraction, tile)
    return _Kernel(name, found, tile, language).code()


class _Kernel(CoreKernel):
    """One kernel being written."""

    __slots__ = ()
    tile: WgmmaTile

    def product(self, group: Group) -> CoreProduct:
        return _Product(self, group)

    def _room(self, p: SimtPrinter, nbytes: int) -> int:
        """Shared memory comes by the launch, and begins anywhere."""
        p.line("ROOM(given);")
        p.line("uint8_t *const room = whole_lines(given);")
        return nbytes + ALIGNED


@dataclass(slots=True)
class _Product(CoreProduct):
    """The tiles of one group of results."""

    def operands(self, term: Term) -> tuple[SharedMatrix, SharedMatrix]:
        c, tile = self.kernel.contraction, self.kernel.tile
        return (SharedMatrix(tile, "m", term.a, c.m, c.k, c.depth),
                SharedMatrix(tile, "n", term.b, self.group.n, c.k, c.depth))

    @property
    def tile(self) -> WgmmaTile:
        tile = self.kernel.tile
        assert isinstance(tile, WgmmaTile)
        return tile

    def _stand(self, at: Evaluator) -> None:
        """Which group of warps this thread is of: the same number in a register of each lane; and
        where the results of its warp begin."""
        _, across = self.tile.groups
        at.p.line(f"const int group = __shfl_sync(FULL, thread_id() / {GROUP}, 0), "
                  f"group_m = group / {across} * {ROWS}, group_n = group % {across} * "
                  f"{self.tile.width};")
        at.p.line("const int warp_m = group_m + thread_id() / 32 % 4 * 16, warp_n = group_n;")

    def _sum(self, at: Evaluator, term: Term) -> None:
        """The products of one term, a pipeline of stages. Those of a step go on while the step
        before is waited for; once all groups have, which a barrier tells, its stage is free, and
        copies of the step that will take its place start."""
        t, p, index = self.tile, at.p, at.p.dialect.index
        x, y = self.operands(term)
        ahead = t.stages - 1
        p.line("uint16_t *const left = (uint16_t *)room;")
        p.line(f"uint16_t *const right = (uint16_t *)(room + {x.bytes});")
        sums = f"sums{term.anchor}[0][0]"
        settled = f"wgmma_settle<{t.width // 2}>({sums});"
        p.line(settled)
        with p.braces(f"for ({index} ahead = first; ahead < first + {ahead}; ahead++)"):
            self._bring_ahead(at, (x, y))
        with p.braces(f"for ({index} step = first; step < end; step++)"):
            p.line(f"copies_wait({ahead - 1});")
            p.line("shown_to_products();")
            p.line("__syncthreads();")
            p.line("wgmma_fence();")
            self._start(at, x, y, sums)
            p.line("wgmma_commit();")
            p.line("wgmma_wait(1);")
            p.line("__syncthreads();")
            p.line(f"const {index} ahead = step + {ahead};")
            self._bring_ahead(at, (x, y))
        p.line("copies_wait(0);")
        p.line("wgmma_wait(0);")
        p.line(settled)
        p.line("__syncthreads();")

    def _bring_ahead(self, at: Evaluator, operands: Sequence[SharedMatrix]) -> None:
        """The tiles of step ``ahead``, if there is one: a group of copies in any case."""
        t, p, index = self.tile, at.p, at.p.dialect.index
        stage = f"ahead % {t.stages}"
        with p.braces("if (ahead < end)"):
            p.line(f"const {index} k_from = ahead * {t.depth};")
            for o in operands:
                if o.source is not None:
                    o.copies(at, stage)
                else:
                    o.computed(at, self.kernel.contraction.batch, stage)
        p.line("copies_commit();")

    def _start(self, at: Evaluator, x: SharedMatrix, y: SharedMatrix, sums: str) -> None:
        """All products of one step."""
        t, p = self.tile, at.p
        for o in (x, y):
            p.line(f"const uint16_t *const {o.name}_now = {o.name} + step % {t.stages} * "
                   f"{o.stage};")
        p.line("UNROLL")
        p.line(f"for (int kk = 0; kk < {t.depth}; kk += {t.step})")
        p.line(f"  wgmma_{LETTERS[t.kind]}_{t.width}<{x.turned}, {y.turned}>({sums}, "
               f"{x.matrix('group_m', 'kk')}, {y.matrix('group_n', 'kk')});")
