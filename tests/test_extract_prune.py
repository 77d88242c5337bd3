"""What the target cannot lower leaves the classes, or the error says why."""

from __future__ import annotations

import pytest
from eclass_graphs import classes_of
from extraction import ops

from tegg.ir.classes import ENode
from tegg.extract.cost import load_costs
from tegg.dtype import f64
from tegg.errors import ExtractionError
from tegg.extract import extract
from tegg.ir.graph import Graph

COSTS = load_costs("cpu/generic")


def without(*names: str):
    return lambda op, dtype: "no spelling" if op.name in names else None


def gelu_graph() -> Graph:
    g = Graph()
    x = g.input("x", (8, 8), "f32")
    g.outputs["y"] = g.idiom("Gelu", x)
    return g


def test_a_refused_name_is_computed_another_way():
    classes = classes_of(gelu_graph())
    assert ops(extract(classes, COSTS).kernels[0]) == ["Gelu"]
    (kernel,) = extract(classes, COSTS, lowerable=without("Gelu")).kernels
    assert "Erf" in ops(kernel)
    (kernel,) = extract(classes, COSTS, lowerable=without("Gelu", "Erf")).kernels
    assert "Recip" in ops(kernel) and "Erf" not in ops(kernel)


def test_an_op_without_any_lowering_is_an_error():
    classes = classes_of(gelu_graph())
    with pytest.raises(ExtractionError, match=(
            "Recip has no lowering for f32 on abacus: no spelling; cast its operands, or stack a "
            "compiler whose rules rewrite it")):
        extract(classes, COSTS, lowerable=without("Gelu", "Erf", "Recip"), target="abacus")


def test_the_dtype_decides():
    g = Graph()
    g.outputs["y"] = g.op("Sin", g.input("x", (4,), "f64"))
    with pytest.raises(ExtractionError, match="Sin has no lowering for f64 on the target: floats"):
        extract(classes_of(g), COSTS, lowerable=lambda op, d: "floats only" if d is f64 else None)


def test_a_class_that_needs_itself_is_an_error():
    g = Graph()
    x = g.input("x", (4,), "f32")
    g.outputs["y"] = y = g.op("Sin", x)
    classes = classes_of(g)
    neg = g.table["Neg"]
    classes.nodes[y.id] = [ENode(neg, (99,), ())]
    classes.nodes[99] = [ENode(neg, (y.id,), ())]
    classes.shape[99], classes.dtype[99] = y.shape, y.dtype
    with pytest.raises(ExtractionError, match="every one of them needs itself"):
        extract(classes, COSTS)


def test_outputs_that_are_inputs_need_no_kernel():
    g = Graph()
    x = g.input("x", (4,), "f32", "state")
    g.outputs["x"], g.updates[0] = x, x
    cover = extract(classes_of(g), COSTS)
    assert cover.kernels == [] and cover.seconds == 0 and cover.gap == 0


def test_one_class_under_two_names_is_written_once():
    g = Graph()
    x = g.input("x", (4,), "f32", "state")
    g.outputs["a"] = g.outputs["b"] = g.updates[0] = g.op("Sin", x)
    (kernel,) = extract(classes_of(g), COSTS).kernels
    assert kernel.outs == (g.outputs["a"].id,)
