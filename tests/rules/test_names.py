"""Each named op of the table is found again in what its expansion records."""

from __future__ import annotations

import random

import pytest

from tegg.bits import bits_of
from tegg.rewrite.compiler import Generic
from tegg.dim import dim
from tegg.dtype import f64
from tegg.rewrite.egraph import saturate
from tegg.ir.graph import Graph, Node
from tegg.ir.op import OPS

# The recorder states these itself (Graph.idiom): their expansions are too long for patterns.
IDIOMS = ("Erf", "Abs", "Floor", "Maximum", "Minimum", "Equal", "LessEqual", "Not", "ProdReduce",
          "CumSum", "CumProd", "CumMax", "LogCumSumExp", "ArgSort", "Sort", "ScatterAlong")
NAMED = [name for name, row in OPS.items() if row.named]
AXIS = 1
ATTRS = {"axis": AXIS, "eps": bits_of(1e-5, f64),
         "descending": 0, "mode": "add"}
PRODUCTS = {"Contract": "a,b,d;a,c,d;a,b,c", "Attention": "a,b,d;a,d,c;a,b,c"}


class Shuffled(Graph):
    """A recorder that gives commutative ops their operands in any order."""

    def op(self, name: str, *operands) -> Node:
        if self.table[name].commutative and random.Random(len(self.nodes)).random() < 0.5:
            operands = (operands[1], operands[0], *operands[2:])
        return super().op(name, *operands)


def shapes_of(name: str, sizes: tuple) -> list[tuple]:
    a, b, c = sizes
    if name in PRODUCTS:
        return [(a, b, c), (a, 5, c) if name == "Contract" else (a, c, 5)]
    return [(a, b, c)] * OPS[name].arity


def record(graph: Graph, name: str, args: list[Node]) -> tuple[Node, tuple]:
    """The op through its expansion, and its attributes."""
    row = OPS[name]
    attrs = tuple((args[0].shape[AXIS],) if n == "kept" else ATTRS.get(n) for n, _ in row.attrs)
    if name in PRODUCTS:
        attrs = (PRODUCTS[name], (args[0].shape[0], args[0].shape[1], 5))
    if name in IDIOMS:
        return graph.idiom(name, *args, *attrs), attrs
    return row.expand(graph, args, attrs), attrs


def found(graph: Graph, out: Node, name: str, args: list[Node], attrs: tuple) -> bool:
    graph.outputs["out"] = out
    classes = saturate(graph, Generic()).classes
    wanted = tuple(classes.of[a.id] for a in args)
    same = [n for n in classes.nodes[classes.of[out.id]] if n.op.name == name]
    return any(n.attrs == attrs and (n.args == wanted or (
        n.op.commutative and n.args == wanted[::-1])) for n in same)


def contracted(graph: Graph, out: Node, args: list[Node], spec: str,
               name: str = "Contract") -> bool:
    """Whether a contraction was found below the movement that drops its summed axes."""
    graph.outputs["out"] = out
    classes = saturate(graph, Generic()).classes
    below = [out]
    while below[-1].op.kind == "movement":
        below += below[-1].args
    return any(n.op.name == name and n.attrs[0].rstrip(",") == spec
               and n.args == tuple(classes.of[a.id] for a in args)
               for n in classes.nodes[classes.of[below[-1].id]])


def dtype_of(name: str, operand: int = 0) -> str:
    return ("bool" if name == "Not" else
            "i64" if name == "ScatterAlong" and operand == 1 else "f32")


@pytest.mark.parametrize("sizes", [(2, 3, 4), (dim("a", 1), dim("b", 2, 8), 4)], ids=["int", "symbol"])
@pytest.mark.parametrize("recorder", [Graph, Shuffled])
@pytest.mark.parametrize("name", NAMED)
def test_an_expansion_is_named(name, recorder, sizes):
    graph = recorder()
    args = [graph.input(f"x{i}", s, dtype_of(name, i)) for i, s in enumerate(shapes_of(name, sizes))]
    out, attrs = record(graph, name, args)
    if name in PRODUCTS:
        assert contracted(graph, out, args, PRODUCTS[name], name)
    else:
        assert found(graph, out, name, args, attrs)


@pytest.mark.parametrize("name", [n for n in NAMED if n not in PRODUCTS])
def test_between_expansions(name):
    """Operands are expanded before, and the result after."""
    graph = Graph()
    args = [graph.expand(graph.input(f"x{i}", (1, 3, 1), dtype_of(name, i)), s)
            for i, s in enumerate(shapes_of(name, (2, 3, 4)))]
    out, attrs = record(graph, name, args)
    graph.outputs["expanded"] = graph.expand(out, (5, *out.shape))
    assert found(graph, out, name, args, attrs)


@pytest.mark.parametrize("small", [(4,), (3, 1), (1, 1, 1), ()])
@pytest.mark.parametrize("name", ["Sub", "Div"])
def test_what_is_negated_or_inverted_before_it_is_broadcast(name, small):
    graph = Graph()
    a, b = graph.input("a", (2, 3, 4), "f32"), graph.input("b", small, "f32")
    out = OPS[name].expand(graph, (a, b), ())
    wide = graph.expand(b, a.shape)
    graph.outputs["wide"] = wide
    assert found(graph, out, name, [a, wide], ())


@pytest.mark.parametrize("dtype", ["u8", "i8", "i32", "i64", "f16", "bf16", "f64"])
def test_negation_and_relu_of_every_dtype(dtype):
    graph = Graph()
    x = graph.input("x", (3,), dtype)
    if dtype != "u8":  # there no value is below 0, and relu(x) is x
        assert found(graph, OPS["Relu"].expand(graph, (x,), ()), "Relu", [x], ())
    minus = 255 if dtype == "u8" else -1
    assert found(graph, graph.mul(x, minus), "Neg", [x], ())


@pytest.mark.parametrize("spec, x, y, shape", [
    ("a,c;b,c;a,b", (3, 5), (4, 5), (3, 4)),                    # x @ y.T
    ("a,c;c,b;a,b", (3, 5), (5, 4), (3, 4)),                    # x @ y
    ("a,b,d;a,d,c;a,b,c", (2, 3, 5), (2, 5, 4), (2, 3, 4)),     # batched
    ("a,b,d;d,c;a,b,c", (2, 3, 5), (5, 4), (2, 3, 4)),          # x[b, m, k] @ y[k, n]
    ("b,a;b;a", (5, 3), (5,), (3,)),                            # matrix and vector: swapped below
    ("a,c,d;b,c,d;a,b", (3, 2, 5), (4, 2, 5), (3, 4)),          # summed over two axes
    ("a;b;a,b", (3,), (4,), (3, 4)),                            # nothing summed: no contraction
    ("a,b;a,b;a", (3, 4), (3, 4), (3,)),                        # rows of a product: no contraction
])
def test_contractions_of_every_kind(spec, x, y, shape):
    graph = Graph()
    args = [graph.input("x", x, "f32"), graph.input("y", y, "f32")]
    out = OPS["Contract"].expand(graph, args, (spec, shape))
    if spec == "b,a;b;a":
        args, spec = args[::-1], "b;b,a;a"
    elif spec in ("a;b;a,b", "a,b;a,b;a"):
        assert not contracted(graph, out, args, spec)
        return
    assert contracted(graph, out, args, spec), saturate(graph, Generic()).classes.nodes
