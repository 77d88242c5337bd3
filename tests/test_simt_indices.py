"""Indices are of 32 bits where all that is counted and addressed fits them, and only there."""

from __future__ import annotations

import pytest
from simt import cases
from tegg.backends.metal.matrices import MatrixSums, MatrixTile
from tegg.backends.simt.contraction import lower_contraction
from tegg.backends.simt.rows import lower_rows
from tegg.backends.simt.templates import Tile
from tegg.testing.draw import Draw

from contractions import matmul
from tegg.dim import dim
from tegg.dtype import f32

SMALL, LARGE = dim("n", 0, 4096, hint=300), dim("n", 0, 1 << 31, hint=300)
GREAT = 1 << 15


def source(record, kit=cases.METAL) -> str:
    g = Draw()
    return cases.case("k", g, [record(g)], inputs={}, kit=kit).code.source


@pytest.mark.parametrize("record", [
    lambda g: g.exp(g.x(40, 75)),
    lambda g: g.softmax(g.x(40, 500), 1),
    lambda g: g.permute(g.x(40, 76), (1, 0)),
    lambda g: g.exp(g.x(SMALL, 10)),
    lambda g: g.op("Gather", g.x(40, 76), g.x(40, dtype="i32"), 0),
    lambda g: g.flip(g.x(5, 8), 1),
    lambda g: g.op("CumSum", g.x(50, 60), 1),
])
def test_what_fits_is_narrow(record):
    text = source(record)
    assert "for (int point" in text and "const int64_t i" not in text
    assert "for (int point" in source(record, cases.CUDA)


@pytest.mark.parametrize("record", [
    lambda g: g.mul(g.x(2 * GREAT, GREAT), 2),                                   # positions
    lambda g: g.total(g.x(2 * GREAT, GREAT), 1),                                 # addresses
    lambda g: g.exp(g.x(LARGE)),                                                 # a size
    lambda g: g.slice(g.x(2 * GREAT, GREAT), (2 * GREAT - 4, 2 * GREAT, 1), (0, 8, 1)),  # an offset
    lambda g: g.named("Mul", g.x(SMALL), g.size(SMALL * SMALL * SMALL, f32)),            # a value
])
def test_what_does_not_is_wide(record):
    assert "for (int64_t point" in source(record)
    assert "for (int64_t point" in source(record, cases.CUDA)


# ---- products
FORMS = {
    "tiles": lambda *given: lower_contraction(*given, Tile(32, 32, 32)),
    "matrices": lambda *given: lower_contraction(*given, MatrixTile(32, 32, 32), MatrixSums),
    "rows": lambda *given: lower_rows(*given, 4),
}


def product(form, m, k, n, kit=cases.METAL) -> str:
    g = Draw()
    y = matmul(g, g.x(m, k), g.x(k, n))
    return FORMS[form](g, [y], [y], "k", kit.language).source


@pytest.mark.parametrize("form", FORMS)
def test_products_that_fit_are_narrow(form):
    text = product(form, 4, 300, 70)
    assert "int64_t" not in text.replace("constant int64_t *given", "")
    if form != "matrices":
        assert "for (int tile" in product(form, 4, 300, 70, cases.CUDA)
    assert "for (int tile" in product(form, SMALL, 300, 70)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("m, k, n", [
    (4, GREAT, 2 * GREAT), (GREAT, 4, 2 * GREAT), (LARGE, 8, 8), (8, LARGE, 8)])
def test_products_that_do_not_are_wide(form, m, k, n):
    """An operand, the result, a size of the result, the depth."""
    assert "for (int64_t tile" in product(form, m, k, n)
