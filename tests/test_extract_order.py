"""The order of classes: acyclic, and every class keeps a way to be computed."""

from __future__ import annotations

import numpy as np
from cover_runs import check_cover
from eclass_graphs import classes_of
from extraction import COSTS, Stages
from hypothesis import given
from hypothesis import strategies as st

from tegg.ir.classes import ENode
from tegg.extract import extract
from tegg.extract.order import ordered
from tegg.ir.graph import Graph
from tegg.ir.op import OPS


@given(st.data())
def test_kept_nodes_go_forward_and_every_class_keeps_one(data):
    """Random classes with cycles; each class has a first e-node over earlier classes."""
    count = data.draw(st.integers(1, 12))
    nodes = {}
    for c in range(count):
        def node(least, c=c):
            top = c - 1 if least else count - 1
            args = data.draw(st.lists(st.integers(0, max(0, top)), max_size=2)) if top >= 0 else []
            return ENode(OPS["Add"], tuple(a for a in args if a != c), ())
        nodes[c] = [node(True), *(node(False) for _ in range(data.draw(st.integers(0, 2))))]
    names = data.draw(st.permutations(range(count)))
    nodes = {names[c]: [ENode(n.op, tuple(names[a] for a in n.args), ()) for n in ns]
             for c, ns in nodes.items()}
    kept, rank = ordered(nodes)
    assert sorted(rank.values()) == list(range(count)) and list(kept) == sorted(rank, key=rank.get)
    for c, ns in kept.items():
        assert ns and all(rank[a] < rank[c] for n in ns for a in n.args)


def cyclic_movement():
    """z = x.T + y.T as a class that is also the transpose of x + y, and back."""
    g = Graph()
    x, y = (g.input(n, (3, 4), "f32") for n in "xy")
    s = g.op("Exp2", g.add(x, y))
    t = g.permute(s, (1, 0))
    g.outputs["a"], g.outputs["b"] = g.op("Sin", s), g.op("Sqrt", t)
    classes = classes_of(g)
    classes.nodes[s.id].append(ENode(g.table["Permute"], (t.id,), ((1, 0),)))
    return classes, s, t


def test_a_permutation_and_its_inverse_make_no_loop():
    classes, _, t = cyclic_movement()
    cover = extract(classes, COSTS)
    stored = {c for k in cover.kernels for c in k.outs}
    assert t.id not in stored, "movement rests in memory"
    rng = np.random.default_rng(0)
    check_cover(cover, classes, {i: rng.random((3, 4), np.float32) for i in range(2)}, {})


def test_computed_classes_may_be_cyclic():
    """A double negation: each class is the other's negation."""
    g = Graph()
    x = g.input("x", (4,), "f32")
    a = g.op("Sin", x)
    b = g.op("Neg", a)
    g.outputs["a"], g.outputs["b"] = a, b
    classes = classes_of(g)
    classes.nodes[a.id].append(ENode(g.table["Neg"], (b.id,), ()))
    cover = extract(classes, COSTS)
    check_cover(cover, classes, {0: np.arange(4, dtype=np.float32)}, {})


def test_dropping_leaves_the_classes_that_were_given_alone():
    classes, _, _ = cyclic_movement()
    before = {c: list(ns) for c, ns in classes.nodes.items()}
    Stages(classes)
    assert classes.nodes == before
