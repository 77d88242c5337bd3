"""E-classes made directly from a graph, and the encoder graphs that extraction is tested on."""

from __future__ import annotations

import math

from tegg.bits import bits_of
from tegg.ir.classes import EClasses, ENode
from tegg.dtype import f32
from tegg.ir.graph import Graph, Node


def classes_of(graph: Graph, forms=None) -> EClasses:
    """Each node a class; an idiom is one more e-node of the class of its expansion."""
    live = graph.reachable()
    nodes = {n.id: [ENode(n.op, tuple(a.id for a in n.args), n.attrs)] for n in live}
    for i in graph.idioms:
        if i.node.id in nodes and all(a.id in nodes for a in i.args):
            nodes[i.node.id].append(ENode(i.op, tuple(a.id for a in i.args), i.attrs))
    return EClasses(graph, nodes, {n.id: n.shape for n in live}, {n.id: n.dtype for n in live},
                    {n.id: n.id for n in live}, forms or {})


def contract(g: Graph, x: Node, y: Node, spec: str, shape) -> Node:
    return g.idiom("Contract", x, y, spec, tuple(shape))


def row(g: Graph, name: str, *operands) -> Node:
    return g.idiom(name, *operands)


def linear(g: Graph, x: Node, n: int, name: str) -> Node:
    """x @ w.T + b with w stored (n, k), as the nn modules store it."""
    *batch, k = x.shape
    w = g.input(f"{name}.w", (n, k), "f32", "weight")
    b = g.input(f"{name}.b", (n,), "f32", "weight")
    letters = "abcd"[:len(batch)]
    spec = f"{','.join(letters)},k;n,k;{','.join(letters)},n"
    return g.add(contract(g, x, w, spec, (*batch, n)), b)


def layer_norm(g: Graph, x: Node, name: str, eps: float = 1e-12) -> Node:
    d = x.shape[-1]
    gain, bias = (g.input(f"{name}.{p}", (d,), "f32", "weight") for p in "gb")
    return row(g, "LayerNorm", x, g.expand(gain, x.shape), g.expand(bias, x.shape),
               len(x.shape) - 1, bits_of(eps, f32))


def encoder(layers: int, b=8, t=128, d=384, h=12, f=1536, vocab=30522, positions=512) -> Graph:
    """The sentence encoder all-MiniLM-L6-v2: embeddings, layers, mean pooling, normalisation."""
    g = Graph()
    ids, types, mask = (g.input(n, (b, t), "i32") for n in ("ids", "types", "mask"))

    def table(n, name):
        return g.input(name, (n, d), "f32", "weight")

    place = g.narrow(table(positions, "pos"), 0, 0, t)
    x = g.add(g.add(g.op("Gather", table(vocab, "word"), ids, 0),
                    g.op("Gather", table(2, "type"), types, 0)), place)
    x = layer_norm(g, x, "ln")
    bias = g.select(g.less(0, mask), g.full(0.0, "f32"), g.full(-1e9, "f32"))
    bias = g.reshape(bias, (b, 1, 1, t))
    hd = d // h

    def heads(y):
        return g.permute(g.reshape(y, (b, t, h, hd)), (0, 2, 1, 3))

    for i in range(layers):
        q, k, v = (heads(linear(g, x, d, f"{i}.{n}")) for n in "qkv")
        s = contract(g, q, k, "a,b,m,k;a,b,n,k;a,b,m,n", (b, h, t, t))
        s = g.add(g.mul(s, 1 / math.sqrt(hd)), g.expand(bias, (b, h, t, t)))
        o = contract(g, row(g, "Softmax", s, 3), v, "a,b,m,k;a,b,k,n;a,b,m,n", (b, h, t, hd))
        o = g.reshape(g.permute(o, (0, 2, 1, 3)), (b, t, d))
        x = layer_norm(g, g.add(linear(g, o, d, f"{i}.o"), x), f"{i}.ln1")
        m = row(g, "Gelu", linear(g, x, f, f"{i}.f1"))
        x = layer_norm(g, g.add(linear(g, m, d, f"{i}.f2"), x), f"{i}.ln2")
    weight = g.expand(g.reshape(g.cast(mask, "f32"), (b, t, 1)), (b, t, d))
    total = g.op("SumReduce", g.mul(x, weight), 1)
    pooled = g.reshape(row(g, "Div", total, g.op("SumReduce", weight, 1)), (b, d))
    norm = g.op("Sqrt", g.op("SumReduce", g.mul(pooled, pooled), 1))
    g.outputs["embedding"] = row(g, "Div", pooled, g.expand(norm, (b, d)))
    return g
