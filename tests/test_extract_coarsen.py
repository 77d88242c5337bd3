"""Idioms keep their coarsest name where nobody reads their inner values."""

from __future__ import annotations

import numpy as np
import pytest
from eclass_graphs import classes_of, encoder, row
from extraction import COSTS, Stages

import tegg
from tegg.extract import coarsen, extract, roles
from tegg.ir.graph import Graph


def softmax_graph() -> tuple[Graph, object]:
    g = Graph()
    x = g.input("x", (8, 16), "f32")
    y = row(g, "Softmax", x, 1)
    g.outputs["y"] = y
    return g, y


def names(stages: Stages, node) -> list[str]:
    return [n.op.name for n in stages.roles.nodes[node.id]]


def test_only_the_name_stays():
    g, y = softmax_graph()
    assert names(Stages(classes_of(g)), y) == ["Softmax"]


def test_both_stay_where_an_inner_value_is_read():
    g, y = softmax_graph()
    total = next(n for n in g.nodes if n.op.name == "SumReduce")
    g.outputs["log"] = g.op("Log2", total)
    assert names(Stages(classes_of(g)), y) == ["Mul", "Softmax"]


def test_both_stay_where_an_inner_value_is_an_output():
    g, y = softmax_graph()
    g.outputs["e"] = next(n for n in g.nodes if n.op.name == "Exp2")
    assert names(Stages(classes_of(g)), y) == ["Mul", "Softmax"]


def test_a_name_inside_a_name_goes_with_it():
    g = Graph()
    g.outputs["y"] = y = g.idiom("Gelu", g.input("x", (8,), "f32"))
    stages = Stages(classes_of(g))
    assert names(stages, y) == ["Gelu"] and len(stages.roles.nodes) == 2


def test_unfolded_constants_hide_no_idiom():
    """A constant that an idiom computes has no way to its operands, and needs none."""
    g = Graph()
    x = g.input("x", (8,), "f32")
    half = g.op("Recip", g.full(2.0, "f32", (8,)))
    g.outputs["y"] = y = g.mul(x, half)
    classes = classes_of(g)
    classes.nodes[y.id].append(type(classes.nodes[y.id][0])(g.table["Abs"], (x.id,), ()))
    assert names(Stages(classes), y) == ["Abs"]


@pytest.mark.parametrize("layers", [1])
def test_coarse_names_give_far_fewer_candidates_and_hardly_a_dearer_cover(monkeypatch, layers):
    """Expansions can be a little cheaper: 0.17 % here, for a hundred times the solver's time."""
    classes = classes_of(encoder(layers))
    coarse = Stages(classes)
    best = extract(classes, COSTS)
    monkeypatch.setattr(roles, "coarsened", lambda nodes, rank, wanted: nodes)
    fine = Stages(classes)
    assert len(fine.candidates) > 2 * len(coarse.candidates)
    assert best.seconds <= extract(classes, COSTS).seconds * 1.005
    assert coarsen.coarsened is not roles.coarsened


def test_sorts_that_share_their_pairs_stay_sorts():
    """What a sort means compares all pairs: shared by two of them, it is no reason to do so."""
    x = np.random.default_rng(0).standard_normal((17, 90, 3)).astype(np.float32)
    f = tegg.compile(lambda v: (v.argsort(2), v.argsort(2, descending=True)))
    up, down = f(x)
    assert np.array_equal(up, x.argsort(2)) and np.array_equal(down, (-x).argsort(2))
    assert [c.label.count("ArgSort") for c in f.plan.run] == [1, 1], f.plan.show()
