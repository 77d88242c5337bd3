"""Covers of a sentence encoder: their shape under several price profiles."""

from __future__ import annotations

from dataclasses import replace

import pytest
from eclass_graphs import classes_of, encoder
from extraction import COSTS, Stages, ops

from tegg.extract.cost import Costs, Level
from tegg.extract import Limits, extract

INF = float("inf")
# A plain roofline: 10 GB/s, 100 GFLOP/s in products, 20 elsewhere, 5 us a kernel.
ROOFLINE = Costs("roofline", 1, 5e-6, 1.0, (Level(INF, 10e9, 10e9),), 1.0, 20e9, 0.0, 8.0, 100e9,
                 (0.0, 0.0, 0.0), 512)
GPU = replace(ROOFLINE, name="gpu", loop_rate=2e12, product_rate=1e13,
              levels=(Level(INF, 300e9, 300e9),))
SLOW_LAUNCH = replace(COSTS, name="slow launch", launch=1e-3)
FAST_MEMORY = replace(COSTS, name="fast memory", levels=(Level(INF, 1e12, 1e12),))
PROFILES = {c.name: c for c in (COSTS, ROOFLINE, GPU, SLOW_LAUNCH, FAST_MEMORY)}


@pytest.mark.parametrize("profile", PROFILES)
def test_exact_is_best_under_every_profile(profile):
    costs = PROFILES[profile]
    classes = classes_of(encoder(1))
    best = extract(classes, costs)
    fast = extract(classes, costs, exact=False)
    apart = extract(classes, costs, limits=Limits(siblings=1))
    single = extract(classes, costs, limits=Limits(values=1, siblings=1, inner=0))
    slack = 1 + 2e-4
    assert best.gap <= 1e-4 and best.seconds <= slack * min(fast.seconds, apart.seconds)
    assert fast.seconds <= 1.01 * best.seconds and apart.seconds <= slack * single.seconds
    assert len(best.kernels) <= 13 and len(single.kernels) > 20


def test_kernels_of_a_layer():
    """Projections as one product, scores, their softmax, which would take each exponential twice
    in the product with values, two linear layers with their epilogues, two norms; around them
    embeddings and pooling."""
    cover = extract(classes_of(encoder(2)), COSTS)
    names = ["+".join(sorted(o for o in ops(k) if o in ("Gather", "Contract", "Softmax", "Gelu",
                                                         "LayerNorm", "SumReduce")))
             for k in cover.kernels]
    layer = ["Contract+Contract+Contract", "Contract", "Softmax", "Contract", "Contract",
             "LayerNorm", "Contract+Gelu", "Contract", "LayerNorm"]
    assert names[0] == "Gather+Gather+LayerNorm" and names[1:19] == layer * 2


def test_repeated_layers_cost_what_one_costs():
    """Of two the weights come from memory already, as those of more do."""
    two, three, four = (extract(classes_of(encoder(n)), COSTS) for n in (2, 3, 4))
    assert len(four.kernels) - len(three.kernels) == len(three.kernels) - len(two.kernels) == 9
    assert four.seconds - three.seconds == pytest.approx(three.seconds - two.seconds, rel=1e-3)


def test_six_layers_have_few_candidates_and_no_gap():
    cover = extract(classes_of(encoder(6)), COSTS)
    assert cover.gap == 0.0 and cover.stats["missed_budget"] == 0
    assert len(cover.kernels) <= 58 and cover.stats["candidates"] < 500


def test_operand_order_does_not_matter():
    """Swapped operands of Add and Mul give the same kernels."""
    classes = classes_of(encoder(1))
    plain = extract(classes, COSTS)
    for ns in classes.nodes.values():
        ns[:] = [type(n)(n.op, n.args[::-1], n.attrs) if n.op.commutative else n for n in ns]
    swapped = extract(classes, COSTS)
    assert len(swapped.kernels) == len(plain.kernels)
    assert swapped.seconds == pytest.approx(plain.seconds, rel=1e-3)


def test_no_weight_is_moved_ahead_and_no_constant_stored():
    stages = Stages(classes_of(encoder(1)))
    for k in stages.candidates:
        assert not set(k.outs) & (stages.roles.constant | stages.roles.moved)
        assert not k.ahead


def test_gpu_like_prices_fuse_more_than_naming_or_elementwise_fusion():
    classes = classes_of(encoder(1))
    best = extract(classes, GPU).seconds
    single = extract(classes, GPU, limits=Limits(values=1, siblings=1, inner=0)).seconds
    assert single > 1.5 * best
