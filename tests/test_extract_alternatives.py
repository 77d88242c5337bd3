"""What a program could be besides its best cover; and no way to choose is worse than greed."""

from __future__ import annotations

import time
from random import Random

import pytest
from covering import covering
from encoder import Encoder
from extraction import COSTS
from hypothesis import given, settings
from profiles import examples

from tegg.errors import ExtractionError
from tegg.extract import Wanted, extract, problem_of
from tegg.extract.alternatives import DEAREST, variations
from tegg.extract.heuristic import search
from tegg.extract.milp import solve
from tegg.extract.stitch import stitch
from tegg.ir.graph import Graph
from tegg.planning.target import find
from tegg.rewrite.compiler import Generic, lowering
from tegg.rewrite.egraph import saturate
from tegg.testing.programs import programs

CPU = find("cpu")


def saturated(graph: Graph):
    return saturate(graph, (Generic(), lowering(CPU)),
                    features=(CPU.name, *CPU.features)).classes


def mlp() -> Graph:
    g = Graph()
    x = g.tensor((64, 96), name="x")
    for i, n in enumerate((192, 96)):
        x = (x @ g.tensor((x.shape[1], n), name=f"w{i}")).relu()
    x.output("y")
    return g


def chosen(classes, count=6, seed=0, **more):
    return extract(classes, COSTS, lowerable=CPU.unsupported, others=Wanted(count, 20.0, seed),
                   **more)


def what(cover):
    return [(s.label, s.outs, s.leaves, tuple(s.body.items())) for s in cover.kernels]


def test_other_covers_are_others_and_never_cheaper():
    classes = saturated(mlp())
    cover = chosen(classes)
    assert 3 <= len(cover.others) <= 6
    seconds = [c.seconds for c in cover.others]
    assert seconds == sorted(seconds)
    assert cover.seconds <= seconds[0] * (1 + 1e-6) and seconds[-1] <= DEAREST * cover.seconds
    every = [what(c) for c in (cover, *cover.others)]
    assert all(a != b for i, a in enumerate(every) for b in every[:i])
    for c in cover.others:  # legal: what is read is given or written before
        given = {k for k, ns in classes.nodes.items() if any(n.op.name == "Input" for n in ns)}
        for s in c.kernels:
            assert given.issuperset(s.leaves)
            given.update(s.outs)
        assert given.issuperset(classes.outputs.values())
    assert not extract(classes, COSTS, lowerable=CPU.unsupported).others


def test_the_seed_says_which():
    classes = saturated(mlp())
    first, again, other = ([what(c) for c in chosen(classes, 12, s).others] for s in (1, 1, 2))
    assert first == again
    assert len(first) > 3 and len(other) > 3


def test_layers_that_are_alike_change_together():
    g = Graph()
    x = g.tensor((48, 96), name="x")
    for i in range(3):
        x = (x @ g.tensor((96, 96), name=f"w{i}")).relu()
    x.output("y")
    cover = chosen(saturated(g), 1)
    forms = [{s.body[s.anchor].attrs[2:] for s in c.kernels if s.anchor is not None}
             for c in (cover, *cover.others)]
    assert len(forms) == 2 and all(len(f) == 1 for f in forms) and forms[0] != forms[1]


def test_what_the_target_refuses_is_in_no_cover():
    classes = saturated(mlp())
    cover = chosen(classes, 4)
    kernels = {k[3] for k in what(cover)}
    bad = {k[3] for c in cover.others for k in what(c)} - kernels
    assert bad

    def accepts(spec):
        return "no" if tuple(spec.body.items()) in bad else None
    again = chosen(classes, 4, accepts=accepts)
    assert what(again) == what(cover)
    assert all(k[3] not in bad for c in again.others for k in what(c))


def test_variations_keep_a_form_of_every_contraction():
    classes = saturated(mlp())
    cover = extract(classes, COSTS, lowerable=CPU.unsupported)
    named = [((i,), s) for i, s in enumerate(cover.kernels)]
    for v in variations(classes, COSTS, named, 3):
        for c, ns in classes.nodes.items():
            if any(n.op.template for n in ns):
                assert any(n.op.template for n in v.classes.nodes[c])
        assert v.costs.threads == COSTS.threads


def test_no_time_means_no_others():
    assert not extract(saturated(mlp()), COSTS, lowerable=CPU.unsupported,
                       others=Wanted(5, 0.0)).others


# ---- never worse than greed
def check_never_worse(problem) -> None:
    greedy = search(problem, float("inf"))
    least = solve(problem, 20.0)
    assert least.used is not None
    for cost in (greedy.cost, problem.total(least.used)):
        assert cost <= greedy.first * (1 + 1e-6)
    stitched = stitch(problem, time.monotonic() + 20)
    assert stitched is None or stitched.cost >= least.bound * (1 - 1e-6)


@pytest.mark.parametrize("layers", [1, 4])
def test_an_encoder_is_never_worse_than_greed(layers):
    check_never_worse(problem_of(saturated(Encoder(layers, 2, 64).g), COSTS,
                                 lowerable=CPU.unsupported))


@settings(max_examples=examples(15))
@given(programs(steps=8))
def test_the_choice_is_never_worse_than_greed(program):
    try:
        problem = problem_of(saturated(program.graph), COSTS, lowerable=CPU.unsupported)
    except ExtractionError:
        return
    if problem.wanted:
        check_never_worse(problem)
        greedy = search(problem, float("inf")).first
        exact = extract(saturated(program.graph), COSTS, lowerable=CPU.unsupported)
        assert exact.seconds <= greedy + 1e-9


def test_drawn_coverings_are_never_worse_than_greed():
    for seed in range(20):
        check_never_worse(covering(Random(seed), 8 + seed))
