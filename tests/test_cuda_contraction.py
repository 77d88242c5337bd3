"""Contractions for CUDA on the simulator: all fragments and random ones, in every tile."""

from __future__ import annotations

import pytest
from contractions import CASES, SYMBOLIC
from tegg.testing.draw import Draw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profiles import examples
from tegg.testing.kernels import random_inputs
from simt import cases
from test_contraction_random import fragment
from test_cuda_kernels import agree
from tegg.backends.simt.contraction import lower_contraction
from tegg.backends.cuda.emit import CudaC
from tegg.backends.simt.templates import TILES, Forms, Tile, templates, tiles

from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.ir.template import OWN, Extents

SIZES = [dict(m=m, b=b, s=s) for m, b, s in ((0, 1, 0), (1, 0, 5), (7, 3, 1), (9, 1, 17),
                                              (70, 2, 40))]


def lowered(name: str, g: Draw, outputs, anchors, tile) -> cases.Case:
    code = lower_contraction(g, outputs, anchors, name, CudaC(), Tile(*tile))
    return cases.Case(g, outputs, {}, random_inputs(g, {}) if not code.symbols else {}, code)


def recorded(table, names, tile) -> list[cases.Case]:
    """The fragments of these names."""
    drawn = {name: Draw() for name in names}
    return [lowered(f"k_{name}", g, *table[name](g), tile) for name, g in drawn.items()]


@pytest.mark.parametrize("tile", TILES)
def test_fragments(tile):
    names = sorted(CASES)[TILES.index(tile)::len(TILES)]
    found = recorded(CASES, names, tile)
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        if c.code.work.iterations < 3e6:
            agree(unit, c, number % 3, 4)


def test_symbolic_sizes():
    found = recorded(SYMBOLIC, sorted(SYMBOLIC), TILES[-1])
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        for sizes in SIZES:
            c.sizes, c.inputs = sizes, random_inputs(c.graph, sizes)
            agree(unit, c, number % 3, 4)


@settings(max_examples=examples(2), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random(data):
    found = []
    for number in range(12):
        g = Draw()
        dtype = data.draw(st.sampled_from(("f32", "f32", "f64", "f16", "i32", "u8")))
        outputs, anchor = data.draw(fragment(g, dtype, frozenset()))
        try:
            found.append(lowered(f"k{number}", g, outputs, [anchor],
                                 data.draw(st.sampled_from(TILES))))
        except LoweringError:
            continue
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        agree(unit, c, number % 3, 4)


def test_small_products_are_offered_the_smallest_tile():
    assert tiles((8, 64), (64, 8), "a,k;k,b;a,b") == [(*TILES[-1], 1)]
    assert tiles((512, 64), (64, 512), "a,k;k,b;a,b") == [(*t, 1) for t in TILES]
    assert Forms("cuda").completions("cuda-tile", _Operand((8, 4)), _Operand((4, 8)),
                               "a,k;k,b;a,b") == [(*TILES[-1], 1)]


def test_long_sums_of_few_results_are_shared_out():
    assert tiles((40, 4096), (4096, 48), "a,k;k,b;a,b")[:2] == [(64, 64, 16, 1), (64, 64, 16, 16)]
    assert tiles((40, 700), (700, 48), "a,k;k,b;a,b")[-1] == (32, 32, 32, 2)
    assert tiles((2048, 4096), (4096, 2048), "a,k;k,b;a,b")[0][-1] == 1
    short, long, parts = (execution(t, 32, 4096) for t in ((32, 32, 32, 1), (32, 32, 32, 16),
                                                          (32, 32, 32, 2)))
    assert (short.pieces, long.pieces, parts.pieces) == (1, 16, 2)
    assert (short.aside, long.aside, long.stages) == (0, 16 * 1024, 1)


def execution(tile, side: int, depth: int):
    return templates("Cuda")[0].template((None,) * OWN + tile, Extents(1, side, side, depth, f32))


def test_parts_of_the_depth():
    """Every fragment shared out to three parts, of a depth that they do not divide."""
    found = recorded(CASES, sorted(CASES)[::3], (32, 32, 32, 3))
    found += recorded(SYMBOLIC, sorted(SYMBOLIC)[::3], (32, 32, 32, 3))
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        c.sizes = SIZES[-1] if c.code.symbols else {}
        c.inputs = random_inputs(c.graph, c.sizes)
        if c.code.work.iterations < 3e6:
            agree(unit, c, number % 3, 4)
    assert all("_total(" in c.code.source for c in found if c.code.stages)
    assert any("wide_load_4" in c.code.source.split("_total(")[-1] for c in found)


class _Operand:
    def __init__(self, shape):
        self.shape, self.dtype = shape, f32


def test_an_empty_result_needs_no_kernel():
    g = Draw()
    outputs, anchors = CASES["no_rows"](g)
    assert lower_contraction(g, outputs, anchors, "k", CudaC(), Tile(32, 32, 32)).stages == ()
