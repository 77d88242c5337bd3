"""Bytes that kernels for Metal move are those that their plans, and prices, count on."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
from attentions import attention
from simt import cases
from simt.cases import METAL
from test_cuda_kernels import agree
from test_simt_wide import MOVED_ONCE
from test_work import body_of
from tegg.backends.metal.attention_matrices import AttentionMatrices
from tegg.backends.metal.chips import CHIPS, costs_of
from tegg.backends.metal.matrices import MatrixSums, MatrixTile
from tegg.backends.simt.attention import lower_attention
from tegg.backends.simt.attention_forms import Blocks
from tegg.backends.simt.attention_tiles import AttentionTiles
from tegg.backends.simt.contraction import lower_contraction
from tegg.backends.simt.templates import Tile
from tegg.dim import evaluate as size_of
from tegg.dtype import f32
from tegg.ir.demand import Values
from tegg.ir.work import WorkModel
from tegg.testing.draw import Draw
from tegg.testing.kernels import random_inputs

LANGUAGE = METAL.language


def narrow(g: Draw, dtype: str, *shape: int):
    x = g.x(*shape, dtype=dtype)
    return x if dtype == "f32" else g.op("Cast", x, f32)


def matmul(g: Draw, x, y):
    (m, _), (_, n) = x.shape, y.shape
    return g.op("Contract", x, y, "a,k;k,b;a,b", (m, n))


def product(lower, dtype: str, m: int = 30, k: int = 520, n: int = 29):
    """A product that is one tile, so that each operand is wanted once."""
    g = Draw()
    y = matmul(g, narrow(g, dtype, m, k), narrow(g, dtype, k, n))
    return g, [y], lower(g, [y], [y])


def weighted(lower):
    """A product whose operand is a softmax: its maxima, and its sums, are kernels before it."""
    g = Draw()
    y = matmul(g, g.softmax(g.x(30, 64), 1), g.x(64, 29))
    return g, [y], lower(g, [y], [y])


def attended(blocks: Blocks, dtype: str = "f32", queries: int = 8, keys: int = 300):
    g = Draw()
    q, k, v = (narrow(g, dtype, 2, n, 16) for n in (queries, keys, keys))
    d = attention(g, q, k, v, lambda s: g.mul(s, 0.2))
    how = AttentionTiles if blocks.kind == "plain" else AttentionMatrices
    return g, d.outputs, lower_attention(g, d.outputs, d.anchors, "k", LANGUAGE, blocks, how)


def tiled(tile, *sums):
    return lambda g, outputs, anchors: lower_contraction(g, outputs, anchors, "k", LANGUAGE, tile,
                                                         *sums)


TILE, PARTS = Tile(32, 32, 32), Tile(32, 32, 32, 2)
MATRIX = MatrixTile(32, 32, 32)
KERNELS = {
    "tiles": lambda: product(tiled(TILE), "f32"),
    "tiles of halves": lambda: product(tiled(TILE), "f16"),
    "tiles of bytes": lambda: product(tiled(TILE), "i8"),
    "parts of the depth": lambda: product(tiled(PARTS), "f32"),
    "matrices": lambda: product(tiled(MATRIX, MatrixSums), "f32"),
    "matrices of bf16": lambda: product(tiled(MATRIX, MatrixSums), "bf16"),
    "softmax before": lambda: weighted(tiled(TILE)),
    "attention": lambda: attended(Blocks("plain", 32, 32)),
    "attention of few": lambda: attended(Blocks("plain", 8, 64), "f16"),
    "attention in matrices": lambda: attended(Blocks("matrix", 64, 32), "bf16"),
    "attention in parts": lambda: attended(Blocks("plain", 8, 64, 2)),
}
# read more than once, from what the first reads have brought: each score asks for its row's maximum
# and sum, the columns of a result for their row's part of it
AGAIN = {"softmax before": 2 * 4 * 30 * 63, "attention in parts": 4 * 16 * (7 * 16 - 4)}


@functools.cache
def made():
    """All of them as one translation unit."""
    found = {}
    for number, (name, draw) in enumerate(KERNELS.items()):
        g, outputs, code = draw()
        for s in code.stages:
            assert code.source.count(f"void {s.function}(") == 1
        found[name] = cases.Case(g, outputs, {}, random_inputs(g, {}), renamed(code, number))
    return cases.module([c.code for c in found.values()], kit=METAL), found


def renamed(code, number: int):
    """Kernels of one name cannot stand in one text."""
    source, stages = code.source, []
    for s in sorted(code.stages, key=lambda s: -len(s.function)):
        source = source.replace(f"void {s.function}(", f"void n{number}_{s.function}(")
    for s in code.stages:
        stages.append(replace(s, function=f"n{number}_{s.function}"))
    return replace(code, source=source, stages=tuple(stages))


@pytest.mark.parametrize("name", KERNELS)
def test_bytes_are_those_of_the_plan(name):
    unit, found = made()
    c = found[name]
    unit.moved = [0, 0]
    agree(unit, c, 1, 8)
    assert unit.moved == [c.code.work.loaded + AGAIN.get(name, 0), c.code.work.stored]


def test_rows_are_read_once():
    """They stay in registers from pass to pass: so the profiles keep what is cheap, too."""
    found, sizes = [], {"n": 301}
    for name, draw in MOVED_ONCE.items():
        g = Draw()
        found.append(cases.case(f"k_{name}", g, [draw(g)], sizes, kit=METAL))
    unit = cases.module([c.code for c in found], kit=METAL)
    for c in found:
        unit.moved = [0, 0]
        agree(unit, c, 0, 8)
        read, stored = (sum(size_of(np.prod(n.shape, dtype=object), sizes) * n.dtype.itemsize
                            for n in nodes) for nodes in (c.graph.inputs, c.outputs))
        assert unit.moved == [read, stored], c.code.name
        if not c.code.symbols:
            assert [c.code.work.loaded, c.code.work.stored] == [read, stored], c.code.name
    assert all(costs_of(chip).keep <= 1 for chip in CHIPS)


# ---- what is priced
def demand(g, outputs, apart=True):
    values = Values.of({n.id: n.shape for n in g.nodes}, {n.id: n.dtype for n in g.nodes}, g.table)
    model = WorkModel(values, {}, panel=1 << 20, apart=apart)
    return model.demand([n.id for n in outputs], body_of(g, outputs))


def test_what_lies_before_a_product_is_priced_as_it_runs():
    """A softmax in an operand: two kernels before the product, and the scores are read by all."""
    g, outputs, code = weighted(tiled(TILE))
    found = demand(g, outputs)
    assert found.splits == len(code.stages) - 1 == 2
    x, w = g.inputs
    reads = {g.nodes[i].attrs[0]: n for i, n in found.reads.items()}
    assert reads == {0: 3 * 30 * 64, 1: 64 * 29}
    aside = 2 * 4 * 30
    assert code.work.loaded == 4 * sum(reads.values()) + aside
    assert demand(g, outputs, False).splits == 0
    assert costs_of("M1").apart and x is not w


def test_a_cache_is_as_much_wider_as_memory():
    for chip, c in CHIPS.items():
        near, far = costs_of(chip).levels
        assert far.total == 0.85 * c.bandwidth and near.total > 2 * far.total
        assert near.size == pytest.approx(8e6 * c.bandwidth / {"apple7": 68e9}.get(c.family, 100e9))


def test_sums_of_products_in_loops_are_dearer_than_in_tiles():
    """A load for each term, where tiles share them."""
    for chip in CHIPS:
        costs = costs_of(chip)
        assert costs.product_rate > 3 * costs.loop_rate
