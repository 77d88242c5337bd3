"""Bugs planted into emitted kernels, of every family, at every place: the simulator finds each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attentions import attention, causal
from contractions import matmul, product
from hypothesis import settings
from tegg.testing.kernels import random_inputs
from simt import cases, planted
from simt.cases import CUDA, METAL
from simt.simulator import ORDERS, SimulatorError
from tegg.backends.cuda.attention_mma import AttentionCores
from tegg.backends.cuda.mma import lower_mma
from tegg.backends.cuda.mma_forms import MmaTile
from tegg.backends.metal.matrices import MatrixSums, MatrixTile
from tegg.backends.simt.attention import lower_attention
from tegg.backends.simt.attention_forms import Blocks
from tegg.backends.simt.attention_tiles import AttentionTiles
from tegg.backends.simt.contraction import lower_contraction
from tegg.backends.simt.rows import lower_rows
from tegg.backends.simt.templates import Tile

from tegg.dtype import f32
from tegg.ir.oracle import evaluate
from tegg.testing.draw import Draw


def halves(g, *shape):
    return g.op("Cast", g.x(*shape, dtype="f16"), f32)


def looped(kit, record):
    """A kernel of loops."""
    g = Draw()
    return cases.case("k", g, record(g), kit=kit)


def product_of(kit, lower, record):
    g = Draw()
    out = record(g)
    return cases.Case(g, [out], {}, random_inputs(g, {}), lower(g, [out], [out], "k", kit.language))


def tiles(kit):
    return product_of(kit, lambda *a: lower_contraction(*a, Tile(32, 32, 32)),
                      lambda g: matmul(g, g.x(200, 70), g.x(70, 50)))


def few_rows(kit, record):
    return product_of(kit, lambda *a: lower_rows(*a, 4), record)


def attend(kit, n, blocks, new):
    g = Draw()
    q, k, v = (new(g, 2, n, 16) for _ in range(3))
    d = attention(g, q, k, v, lambda scores: causal(g, scores))
    code = lower_attention(d.g, d.outputs, d.anchors, "k", kit.language, blocks,
                           AttentionTiles if blocks.kind == "plain" else AttentionCores)
    return cases.Case(d.g, d.outputs, {}, random_inputs(g, {}), code)


def peaks(kit):
    """Rows with one element, anywhere, that all others must be seen beside."""
    c = looped(kit, lambda g: [g.softmax(g.x(12, 1200), 1)])
    x = np.random.default_rng(0).standard_normal((12, 1200)).astype(np.float32)
    x[np.arange(12), np.arange(12) * 109] = 200
    c.inputs = {0: x}
    return c


ALONG = lambda g: product(g, g.x(3, 300), g.x(70, 300), "a,k;n,k;a,n", 3, 70)
FAMILIES = {
    "elementwise": lambda kit: looped(kit, lambda g: [
        g.named("Add", g.op("Exp2", g.x(130, 100)), g.x(100))]),
    "moved": lambda kit: looped(kit, lambda g: [g.permute(g.x(37, 50, 9), (1, 0, 2))]),
    "turned": lambda kit: looped(kit, lambda g: [g.permute(g.x(170, 150), (1, 0))]),
    "rows": peaks,
    "split sums": lambda kit: looped(kit, lambda g: [g.total(g.x(70001), 0)]),
    "tiles": tiles,
    "columns by warps": lambda kit: few_rows(kit, ALONG),
    "columns by threads": lambda kit: few_rows(kit, lambda g: matmul(g, g.x(3, 300), g.x(300, 200))),
    "tensor cores": lambda kit: product_of(
        kit, lambda *a: lower_mma(*a, MmaTile("f16", 32, 64, 32, 4)),
        lambda g: matmul(g, halves(g, 104, 152), halves(g, 152, 72))),
    "attention": lambda kit: attend(kit, 90, Blocks("plain", 32, 32), Draw.x),
    "attention on tensor cores": lambda kit: attend(kit, 130, Blocks("f16", 128, 64), halves),
    "matrices": lambda kit: product_of(
        kit, lambda *a: lower_contraction(*a, MatrixTile(64, 64, 16), MatrixSums),
        lambda g: matmul(g, g.x(200, 70), g.x(70, 33))),
}
SLOW = "attention on tensor cores"
KITS = [*((CUDA, f) for f in FAMILIES if f not in ("matrices", SLOW)),
        pytest.param(CUDA, SLOW, marks=pytest.mark.long),
        *((METAL, f) for f in ("elementwise", "moved", "turned", "rows", "split sums", "tiles", "matrices"))]


# Family, kind and line of what is no bug: all copies have come by then; another barrier follows.
NEEDLESS = {("tensor cores", "no wait", "copies_wait(0);"),
            ("tensor cores", "a group too few is waited for", "copies_wait(0);"),
            ("attention", "no barrier", "__syncthreads();")}


def found(unit, c, bug, want) -> bool:
    """Whether the simulator, or a result, tells that a kernel is wrong."""
    c = replace(c, code=bug.code)
    for order in ORDERS:
        try:
            got = cases.run(unit, c, order)
        except SimulatorError:
            return True
        if not all(np.allclose(a, b, rtol=5e-3, atol=5e-3 * np.max(np.abs(b))) for a, b in zip(got, want)):
            return True
    return False


@pytest.mark.parametrize("kit, family", KITS, ids=lambda x: getattr(x, "name", x))
def test_bugs_are_found(kit, family):
    """All of missing barriers and waits; of wrong indices those that a result depends on, which are
    most. Short tests plant every third of these."""
    c = FAMILIES[family](kit)
    want = evaluate(c.outputs, c.inputs, {})
    bugs = list(planted.planted(c.code))
    order = [b for b in bugs if b.kind in planted.ORDER]
    index = [b for b in bugs if b.kind in planted.INDEX][::1 if settings.get_current_profile_name() == "long" else 3]
    right = planted.Planted("right", "", c.code)
    unit = planted.unit([right, *order, *index], kit)
    assert not found(unit, c, right, want)
    missed = {(family, b.kind, b.line) for b in order if not found(unit, c, b, want)}
    assert missed <= NEEDLESS
    wrong = [b for b in index if found(unit, c, b, want)]
    assert len(wrong) >= 0.5 * len(index), [f"{b.kind}: {b.line}" for b in index if b not in wrong]
