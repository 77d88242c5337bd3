"""Fragments: a kernel's body as a graph of its own."""

from __future__ import annotations

import numpy as np
import pytest
from eclass_graphs import classes_of, contract
from extraction import COSTS

from tegg.ir import oracle
from tegg.ir.classes import ENode, KernelSpec
from tegg.dtype import f16
from tegg.errors import ExtractionError
from tegg.extract import extract, fragment
from tegg.ir.graph import Graph


def product_graph():
    g = Graph()
    x, w = g.input("x", (4, 8), "f32"), g.input("w", (6, 8), "f32", "weight")
    g.outputs["y"] = g.op("Sin", contract(g, x, w, "m,k;n,k;m,n", (4, 6)))
    return g, classes_of(g)


def test_inputs_are_leaves_outputs_are_outs_and_anchors_are_contractions():
    _, classes = product_graph()
    (spec,) = extract(classes, COSTS).kernels
    f = fragment(spec, classes)
    assert [s.shape for s in f.graph.inputs] == [classes.shape[c] for c in spec.leaves]
    assert [o.shape for o in f.outputs] == [classes.shape[c] for c in spec.outs]
    assert [n.op.name for n in f.anchors] == ["Contract"] and f.anchors[0] in f.graph.nodes
    assert list(f.graph.outputs.values()) == list(f.outputs)


def test_a_loop_nest_has_no_anchor():
    g = Graph()
    g.outputs["y"] = g.op("Sin", g.input("x", (4,), "f32"))
    classes = classes_of(g)
    (spec,) = extract(classes, COSTS).kernels
    assert spec.anchor is None and fragment(spec, classes).anchors == ()


def test_movement_and_constants_of_the_reader_are_in_its_body():
    g = Graph()
    x = g.input("x", (4, 3), "f32")
    g.outputs["t"] = g.permute(x, (1, 0))
    g.outputs["c"] = g.full(2.0, "f32", (5,))
    g.outputs["i"] = g.iota(3)
    classes = classes_of(g)
    made = {}
    for spec in extract(classes, COSTS).kernels:
        f = fragment(spec, classes)
        values = oracle.evaluate(f.outputs, {i: np.arange(12, dtype=np.float32).reshape(4, 3)
                                             for i in range(len(spec.leaves))})
        made.update(zip(spec.outs, values))
    assert made[g.outputs["t"].id].shape == (3, 4) and made[g.outputs["c"].id].tolist() == [2] * 5
    assert made[g.outputs["i"].id].tolist() == [0, 1, 2]


def test_forms_are_cast_where_they_are_read_and_written():
    g = Graph()
    x = g.input("x", (4,), "f32")
    y = g.outputs["y"] = g.op("Sin", x)
    classes = classes_of(g)
    spec = KernelSpec((y.id,), (x.id,), {y.id: ENode(y.op, (x.id,), ())}, 0.0,
                      leaf_forms=("f16",), out_forms=("f16",))
    f = fragment(spec, classes)
    assert f.graph.inputs[0].dtype is f16 and f.outputs[0].dtype is f16
    assert [n.op.name for n in f.graph.nodes] == ["Input", "Cast", "Sin", "Cast"]


def test_a_form_that_is_no_dtype_is_refused():
    g = Graph()
    x = g.input("x", (4,), "f32")
    g.outputs["x"] = x
    classes = classes_of(g)
    spec = KernelSpec((x.id,), (x.id,), {}, 0.0, out_forms=("q8",))
    with pytest.raises(ExtractionError, match="the storage form 'q8' is no dtype"):
        fragment(spec, classes)
