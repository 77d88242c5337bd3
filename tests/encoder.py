"""A transformer encoder as the recorder sees it, after all-MiniLM-L6-v2: a graph for tests."""

from __future__ import annotations

import numpy as np

from tegg.dim import Dim
from tegg.ir.graph import Graph, Node


class Encoder:
    """Records embeddings, encoder layers and a masked mean over tokens."""

    def __init__(self, layers: int, batch: Dim, tokens: Dim, width: int = 384, heads: int = 12,
                 inner: int = 1536, words: int = 30522, positions: int = 512) -> None:
        self.g = Graph()
        self.b, self.t, self.d, self.heads, self.inner = batch, tokens, width, heads, inner
        ids, types, mask = (self.g.input(n, (batch, tokens), "i32")
                            for n in ("ids", "types", "mask"))
        g = self.g
        at = g.narrow(self.weight("position", positions, width), 0, 0, tokens)
        x = g.add(g.op("Gather", self.weight("word", words, width), ids, 0),
                  g.op("Gather", self.weight("type", 2, width), types, 0))
        x = self.norm(g.add(x, at), "norm")
        keep = g.less(0, mask)
        bias = g.reshape(g.select(keep, g.full(0.0, "f32"), g.full(-1e9, "f32")),
                         (batch, 1, 1, tokens))
        for i in range(layers):
            with g.scope(f"layer{i}"):
                x = self.layer(x, bias, f"{i}")
        g.outputs["pooled"] = self.pooled(x, mask)

    def weight(self, name: str, *shape: int) -> Node:
        return self.g.input(name, shape, "f32", kind="weight")

    def expansion(self, name: str, *operands) -> Node:
        row = self.g.table[name]
        return row.expand(self.g, operands[:row.arity], operands[row.arity:])

    def norm(self, x: Node, name: str) -> Node:
        g = self.g
        gain, bias = (g.expand(self.weight(f"{name}.{n}", self.d), x.shape) for n in ("g", "b"))
        from tegg.bits import bits_of
        from tegg.dtype import f64
        return self.expansion("LayerNorm", x, gain, bias, len(x.shape) - 1, bits_of(1e-12, f64))

    def matmul(self, x: Node, y: Node) -> Node:
        """``[..., m, k] @ [..., k, n]`` as a product and a sum, as the front end spells it."""
        g = self.g
        rank = max(len(x.shape), len(y.shape))
        x = g.reshape(x, (1,) * (rank - len(x.shape)) + x.shape)
        y = g.reshape(y, (1,) * (rank - len(y.shape)) + y.shape)
        *batch, m, k = x.shape
        n = y.shape[-1]
        y = g.permute(y, (*range(rank - 2), rank - 1, rank - 2))
        x = g.reshape(x, (*x.shape[:-1], 1, k))
        y = g.reshape(y, (*y.shape[:-2], 1, n, k))
        return g.reshape(g.op("SumReduce", g.mul(x, y), rank), (*batch, m, n))

    def linear(self, x: Node, name: str, n: int) -> Node:
        w = self.weight(f"{name}.w", n, x.shape[-1])
        return self.g.add(self.matmul(x, self.g.permute(w, (1, 0))), self.weight(f"{name}.b", n))

    def layer(self, x: Node, bias: Node, name: str) -> Node:
        g, hd = self.g, self.d // self.heads

        def split(y: Node) -> Node:
            return g.permute(g.reshape(y, (self.b, self.t, self.heads, hd)), (0, 2, 1, 3))

        q, k, v = (split(self.linear(x, f"{name}.{n}", self.d)) for n in "qkv")
        scores = self.matmul(q, g.permute(k, (0, 1, 3, 2)))
        scores = g.add(g.mul(scores, hd ** -0.5), bias)
        mixed = self.matmul(self.expansion("Softmax", scores, 3), v)
        mixed = g.reshape(g.permute(mixed, (0, 2, 1, 3)), (self.b, self.t, self.d))
        x = self.norm(g.add(self.linear(mixed, f"{name}.o", self.d), x), f"{name}.norm1")
        inner = self.expansion("Gelu", self.linear(x, f"{name}.up", self.inner))
        return self.norm(g.add(self.linear(inner, f"{name}.down", self.d), x), f"{name}.norm2")

    def pooled(self, x: Node, mask: Node) -> Node:
        g = self.g
        m = g.reshape(g.cast(mask, "f32"), (self.b, self.t, 1))
        total = g.op("SumReduce", g.mul(x, m), 1)
        return self.expansion("Div", total, g.op("SumReduce", m, 1))


def draw(graph: Graph, sizes: dict[str, int], seed: int = 0) -> dict[int, np.ndarray]:
    """Arrays for the inputs of an encoder."""
    from tegg.dim import evaluate
    rng = np.random.default_rng(seed)
    out = {}
    for slot, spec in enumerate(graph.inputs):
        shape = tuple(evaluate(d, sizes) for d in spec.shape)
        if spec.name == "mask":
            out[slot] = np.ones(shape, np.int32)
            out[slot][:, shape[1] // 2 + 1:] = 0
        elif spec.dtype.kind == "int":
            out[slot] = rng.integers(0, 2, shape).astype(spec.dtype.numpy)
        else:
            out[slot] = (rng.standard_normal(shape) * 0.2).astype(spec.dtype.numpy)
    return out
