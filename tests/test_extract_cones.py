"""Cones: what is enumerated, what is dropped, and that something is always left."""

from __future__ import annotations

import numpy as np
import pytest
import tegg
from eclass_graphs import classes_of, layer_norm, row
from extraction import COSTS, Stages, ops
from hypothesis import given
from tegg.testing.programs import programs

from tegg.extract import Limits, extract
from tegg.extract.cones import Cone
from tegg.ir.graph import Graph
from tegg.rewrite.compiler import Generic
from tegg.rewrite.egraph import saturate


def test_the_cones_of_a_chain():
    g = Graph()
    x = g.input("x", (8, 4), "f32")
    a = g.op("Sin", g.op("SumReduce", x, 1))
    g.outputs["y"] = y = g.expand(a, (8, 4))
    s = Stages(classes_of(g))
    assert [sorted(z.leaves) for z in s.cones.cuts[y.id]] in ([[a.id], [x.id]], [[x.id], [a.id]])


@given(programs())
def test_cones_are_whole_and_read_nothing_they_compute(program):
    s = Stages(classes_of(program.graph))
    for c, cones in s.cones.cuts.items():
        assert cones and len(cones) <= s.limits.cuts + 1
        for z in cones:
            assert z.root == c and c in z.body and z.leaves.isdisjoint(z.body)
            seen = set(z.leaves)
            for k, n in z.body.items():
                assert seen.issuperset(n.args), "an operand after its user"
                seen.add(k)
            assert not z.leaves & (s.roles.moved | s.roles.constant | s.inner)


@given(programs())
def test_whatever_is_cut_off_a_cover_is_left(program):
    extract(classes_of(program.graph), COSTS,
            limits=Limits(cuts=1, inputs=1, values=1, combinations=1, inner=0, siblings=1))


def test_weights_do_not_count_as_inputs():
    """Gather, norm and what they read of weights are one kernel."""
    g = Graph()
    ids, types = g.input("ids", (8, 16), "i32"), g.input("types", (8, 16), "i32")
    word, kind = (g.input(n, (100, 32), "f32", "weight") for n in ("word", "kind"))
    x = g.add(g.op("Gather", word, ids, 0), g.op("Gather", kind, types, 0))
    g.outputs["y"] = layer_norm(g, x, "n")
    (kernel,) = extract(classes_of(g), COSTS, limits=Limits(inputs=2)).kernels
    assert len(kernel.leaves) == 6


@pytest.mark.parametrize("size, settled, computed", [
    (64, 4096, False), (64, 63, True), (4096, 4096, False), (4097, 4096, True)])
def test_what_depends_on_weights_and_is_small_no_run_computes(size, settled, computed):
    """It is computed ahead, by kernels of which each can hold all of it, moved or not."""
    g = Graph()
    x = g.input("x", (8, size), "f32")
    gain, spread = (g.input(n, (size,), "f32", "weight") for n in ("gain", "spread"))
    scale = g.mul(gain, g.op("Sqrt", g.op("Sin", spread)))
    wide = g.expand(g.op("Reshape", scale, (1, size)), (8, size))
    g.outputs["y"] = y = g.mul(x, wide)
    s = Stages(classes_of(g), limits=Limits(settled=settled))
    assert any(scale.id in z.body for z in s.cones.cuts[y.id]) == computed
    assert any(z.leaves == {gain.id, spread.id} for z in s.cones.cuts[scale.id])
    assert any(scale.id in z.body for z in s.cones.cuts[wide.id])


@pytest.mark.parametrize("name, operands", [
    ("atan", 1), ("asin", 1), ("acos", 1), ("asinh", 1), ("atanh", 1), ("atan2", 2), ("pow", 2),
    ("floor_divide", 2)])
def test_a_function_of_many_ops_is_one_kernel(name, operands):
    """What it reads of itself several times is not cheaper in memory."""
    x = np.empty(1 << 20, np.float32)
    traced = tegg.trace(lambda *xs: getattr(tegg, name)(*xs), (x,) * operands)
    (kernel,) = extract(saturate(traced.graph, Generic()).classes, COSTS).kernels
    assert len(kernel.leaves) == operands


def test_dominance_keeps_what_could_store_an_inner_value():
    """Two cones of one class: the dearer one passes a value that others read."""
    g = Graph()
    x = g.input("x", (8,), "f32")
    shared = g.op("Sin", x)
    g.outputs["a"], g.outputs["b"] = a, _ = g.op("Exp2", shared), g.op("Sqrt", shared)
    s = Stages(classes_of(g))
    node = s.roles.nodes[a.id][0]
    other = g.input("z", (8,), "f32")
    short = Cone(a.id, frozenset({x.id}), {a.id: node}, 1.0)
    long = Cone(a.id, frozenset({x.id, other.id}),
                {shared.id: s.roles.nodes[shared.id][0], a.id: node}, 2.0)
    assert s.cones._undominated([short, long]) == [short, long]
    blind = Cone(a.id, long.leaves, short.body, 2.0)
    assert s.cones._undominated([short, blind]) == [short]


def test_a_dear_value_is_not_computed_for_each_reader():
    """A softmax that twelve windows of it read is stored, not evaluated twelve times."""
    g = Graph()
    x = g.input("x", (64, 512), "f32")
    e = row(g, "Softmax", x, 1)
    g.outputs["y"] = g.op("SumReduce", g.op("Window", e, 1, 12, 1, 1), 2)
    kernels = extract(classes_of(g), COSTS).kernels
    assert [ops(k) for k in kernels] == [["Softmax"], ["SumReduce"]]
