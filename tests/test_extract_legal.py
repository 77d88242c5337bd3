"""Which bodies are one kernel."""

from __future__ import annotations

import pytest
from eclass_graphs import classes_of, contract, row
from extraction import Stages, ops

from tegg.dtype import f32
from tegg.extract import Limits, legal
from tegg.ir.graph import Graph, Node


def fits(g: Graph, out: Node, **limits) -> bool:
    """Whether all of a graph below a node can be one kernel."""
    g.outputs["y"] = out
    stages = Stages(classes_of(g), limits=Limits(**limits))
    body = {c: ns[0] for c, ns in stages.roles.nodes.items() if c not in stages.roles.given}
    return stages.cones.legality.allows(out.id, body)


def matrix(g: Graph, name: str = "x", shape=(16, 16)) -> Node:
    return g.input(name, shape, "f32")


def product(g: Graph, x: Node, name: str = "w", n: int = 24) -> Node:
    m, k = x.shape
    return contract(g, x, g.input(name, (n, k), "f32"), "m,k;n,k;m,n", (m, n))


def gate(g: Graph, x: Node) -> Node:
    return g.mul(row(g, "Silu", product(g, x, "a")), product(g, x, "b"))


def mirrored(g: Graph, x: Node) -> Node:
    return g.add(x, g.op("Flip", x, 1))


LEGAL = {
    "elementwise": lambda g: g.op("Sin", matrix(g)),
    "rows that close the same axis": lambda g: row(g, "Softmax", row(g, "Softmax", matrix(g), 1),
                                                   1),
    "a sum over two axes, twice": lambda g: g.add(
        g.op("SumReduce", g.op("SumReduce", matrix(g), 1), 0),
        g.op("SumReduce", g.op("SumReduce", g.op("Sin", matrix(g, "y")), 1), 0)),
    "rows under other names": lambda g: g.add(
        g.op("SumReduce", matrix(g), 1),
        g.reshape(g.op("SumReduce", matrix(g, "y", (4, 4, 16)), 2), (16, 1))),
    "sums of axes that one of them has as one": lambda g: g.add(
        g.op("SumReduce", g.op("SumReduce", matrix(g, "x", (12, 16)), 1), 0),
        g.reshape(g.op("SumReduce", matrix(g, "y", (192,)), 0), (1, 1))),
    "a product and what follows it": lambda g: g.op("Sin", g.permute(product(g, matrix(g)),
                                                                     (1, 0))),
    "a product of rows": lambda g: product(g, row(g, "Softmax", matrix(g), 1)),
    "a product whose last axis was as short": lambda g: g.permute(product(g, matrix(g), n=2),
                                                                  (1, 0)),
    "a gate of two products": lambda g: gate(g, matrix(g)),
    "a scatter": lambda g: g.op("Scatter", matrix(g), g.input("i", (2,), "i32"),
                                matrix(g, "u", (2, 16)), 0, "last"),
    "a scan between elementwise ops": lambda g: g.op("Sin", g.op("CumSum", g.op(
        "Sin", matrix(g)), 1)),
    "a sort of what is computed": lambda g: g.op("ArgSort", g.op("Sin", matrix(g)), 1, (3,), 0),
}

ILLEGAL = {
    "sums of two shapes with as many elements": lambda g: g.add(
        g.op("SumReduce", g.op("SumReduce", matrix(g, "x", (12, 16)), 1), 0),
        g.op("SumReduce", g.op("SumReduce", matrix(g, "y", (16, 12)), 1), 0)),
    "rows and columns": lambda g: row(g, "Softmax", row(g, "Softmax", matrix(g), 1), 0),
    "rows of different lengths": lambda g: g.add(
        g.op("SumReduce", matrix(g), 1), g.op("SumReduce", matrix(g, "y", (16, 8)), 1)),
    "rows of a product": lambda g: row(g, "Softmax", product(g, matrix(g)), 1),
    "a product of a product": lambda g: product(g, product(g, matrix(g)), "v"),
    "two products of two operands": lambda g: g.add(product(g, matrix(g)),
                                                    product(g, matrix(g, "y"), "v")),
    "two products of two shapes": lambda g: g.add(
        product(g, matrix(g)), g.expand(product(g, matrix(g, "y"), "v", 1), (16, 24))),
    "a sum that is read at two indices": lambda g: mirrored(g, product(g, matrix(g))),
    "a sum that is expanded": lambda g: g.expand(product(g, matrix(g)), (3, 16, 24)),
    "a product in runs of two": lambda g: g.permute(
        g.reshape(product(g, matrix(g)), (16, 2, 12)), (0, 2, 1)),
    "columns below a product of rows": lambda g: product(g, row(g, "Softmax", matrix(g), 0)),
    "something after a scatter": lambda g: g.op("Sin", LEGAL["a scatter"](g)),
    "a scatter of rows": lambda g: g.op(
        "Scatter", row(g, "Softmax", matrix(g), 1), g.input("i", (2,), "i32"),
        matrix(g, "u", (2, 16)), 0, "last"),
    "something after a sort": lambda g: g.op("Cast", LEGAL["a sort of what is computed"](g), f32),
    "a sort of rows": lambda g: g.op("ArgSort", row(g, "Softmax", matrix(g), 1), 1, (3,), 0),
    "a scan of a scan": lambda g: g.op("CumSum", g.op("CumMax", matrix(g), 1), 1),
    "a scan of rows": lambda g: g.op("CumSum", row(g, "Softmax", matrix(g), 1), 1),
    "a scan that is moved": lambda g: g.op("Flip", g.op("CumSum", matrix(g), 1), 1),
}


@pytest.mark.parametrize("name", LEGAL)
def test_one_kernel(name):
    g = Graph()
    assert fits(g, LEGAL[name](g))


@pytest.mark.parametrize("name", ILLEGAL)
def test_not_one_kernel(name):
    g = Graph()
    assert not fits(g, ILLEGAL[name](g))


def test_a_target_may_refuse_rows_below_products():
    g = Graph()
    assert not fits(g, LEGAL["a product of rows"](g), prologue_rows=False)


def test_a_target_may_refuse_a_gate():
    g = Graph()
    assert not fits(g, LEGAL["a gate of two products"](g), siblings=1)


def test_a_template_may_be_bound_to_an_order():
    """As one that has vectors of the last axis of a result, and no other."""
    g = Graph()
    a = product(g, matrix(g))
    moved, kept = g.permute(a, (1, 0)), g.permute(g.reshape(a, (4, 4, 24)), (1, 0, 2))
    g.outputs["y"], g.outputs["z"] = moved, kept
    classes = classes_of(g)
    for out, followed in ((moved, False), (kept, True)):
        (node,) = classes.nodes[out.id]
        assert legal.followed(classes, out.id, node, True, Limits()) == followed
        assert legal.followed(classes, out.id, node, False, Limits())


def test_names_of_the_ops_of_a_body():
    g = Graph()
    g.outputs["y"] = g.op("Sin", g.permute(matrix(g), (1, 0)))
    from tegg.extract.cost import load_costs
    from tegg.extract import extract
    assert ops(extract(classes_of(g), load_costs("cpu")).kernels[0]) == ["Sin"]


def test_rows_below_a_product_are_followed_through_movement():
    """Equal sizes are not enough: what is summed must stay where it is."""
    def reshaped(axis):
        g = Graph()
        x = row(g, "Softmax", matrix(g, "x", (6, 4, 6)), axis)
        return fits(g, product(g, g.reshape(x, (24, 6))))

    def permuted(axis, perm):
        g = Graph()
        x = row(g, "Softmax", matrix(g, "x", (6, 6)), axis)
        return fits(g, product(g, g.permute(x, perm)))

    assert reshaped(2) and not reshaped(0)
    assert not permuted(1, (1, 0)) and not permuted(0, (1, 0))
