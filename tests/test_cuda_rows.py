"""Products of few rows on the simulator: all fragments, both ways that memory lies."""

from __future__ import annotations

import pytest
from contractions import CASES, SYMBOLIC, matmul, product
from kernels import random_inputs
from simt import cases
from test_cuda_contraction import SIZES
from test_cuda_kernels import agree
from tegg.backends.cuda.emit import CudaC
from tegg.backends.cuda.rows import RowForms, lower_rows

from tegg.testing.draw import Draw


def lowered(name: str, g: Draw, outputs, anchors, rows: int = 4) -> cases.Case:
    code = lower_rows(g, outputs, anchors, name, CudaC(), rows)
    return cases.Case(g, outputs, {}, random_inputs(g, {}) if not code.symbols else {}, code)


@pytest.mark.parametrize("half", (0, 1))
def test_fragments(half):
    found = []
    for name in sorted(CASES)[half::2]:
        g = Draw()
        found.append(lowered(f"k_{name}", g, *CASES[name](g), 4 + 4 * half))
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        if c.code.work.iterations < 1e6:
            agree(unit, c, number % 3, 4)


def test_symbolic_sizes():
    found = []
    for name in sorted(SYMBOLIC):
        g = Draw()
        found.append(lowered(f"k_{name}", g, *SYMBOLIC[name](g)))
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        for sizes in SIZES:
            c.sizes, c.inputs = sizes, random_inputs(c.graph, sizes)
            agree(unit, c, number % 3, 4)


def test_a_warp_or_a_thread_for_each_column():
    g, h = Draw(), Draw()
    along = product(g, g.x(3, 300), g.x(70, 300), "a,k;n,k;a,n", 3, 70)
    across = matmul(h, h.x(3, 300), h.x(300, 70))
    a, b = lowered("a", g, [along], [along]), lowered("b", h, [across], [across])
    assert "warp_add_f" in a.code.source and "wide_load" in a.code.source
    assert "__shared__" in b.code.source and "warp_add" not in b.code.source


def test_few_rows_only():
    class Operand:
        def __init__(self, *shape):
            self.shape = shape

    def rows(m):
        return RowForms().completions("cuda-rows", Operand(m, 64), Operand(64, 300), "a,k;k,b;a,b")

    assert [rows(m) for m in (1, 3, 8, 16, 17)] == [[(1,)], [(4,)], [(8,)], [(8,)], []]
