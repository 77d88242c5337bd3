"""Chains of rules: from what was recorded to a named op, each step on what stands before it."""

from __future__ import annotations

import pytest

import tegg
from encoder import Encoder
from tegg.rewrite.compiler import Generic
from tegg.rewrite.egraph import Saturated, saturate
from tegg.rewrite.provenance import Derivations

SMALL = {"width": 24, "heads": 4, "inner": 48, "words": 50, "positions": 16}


@pytest.fixture(scope="module")
def encoder() -> Saturated:
    return saturate(Encoder(1, 2, 6, **SMALL).g, Generic(), trace=True)


def named(done: Saturated):
    return [(c, n) for c, nodes in done.classes.nodes.items() for n in nodes if n.op.named]


def test_a_trace_changes_nothing(encoder):
    plain = saturate(Encoder(1, 2, 6, **SMALL).g, Generic())
    assert plain.trace is None
    assert plain.report.enodes == encoder.report.enodes
    assert {n: r.matches for n, r in plain.report.rules.items()} == {
        n: r.matches for n, r in encoder.report.rules.items()}


def test_every_named_op_has_a_chain_that_ends_in_it(encoder):
    derived = Derivations(encoder.trace, encoder.classes)
    for c, n in named(encoder):
        chain = derived.chain(c, n)
        recorded = any(i.op is n.op for i in encoder.classes.graph.idioms)
        assert recorded or any(k[0] == n.op.name for k in chain[-1].states), (n, chain)


def test_a_chain_stands_on_what_comes_before(encoder):
    derived = Derivations(encoder.trace, encoder.classes)
    for c, n in named(encoder):
        before: set = set()
        for step in derived.chain(c, n):
            assert all(p in before or p not in derived.steps for p in step.premises)
            before.update(step.states)


def test_a_softmax_tells_its_story():
    g = tegg.Graph()
    x = g.tensor((4, 8))
    x.softmax(1).output("y")
    done = saturate(g, Generic(), trace=True)
    c, n = next((c, n) for c, n in named(done) if n.op.name == "Softmax")
    rules = [s.rule.name for s in Derivations(done.trace, done.classes).chain(c, n)]
    assert rules[-1] == "softmax/div"
    assert {"softmax/shifted", "softmax/exp", "exp/exp2", "sub/add", "div/mul"} <= set(rules)


def test_what_was_recorded_has_no_chain():
    g = tegg.Graph()
    x = g.tensor((4,))
    (x + x).output("y")
    done = saturate(g, Generic(), trace=True)
    c = done.classes.outputs["y"]
    assert Derivations(done.trace, done.classes).chain(c, done.classes.nodes[c][0]) == []
