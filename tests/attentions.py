"""Fragments around attention, drawn: shapes, layouts, masks, shared heads, what is above them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from tegg.testing.draw import Draw
from hypothesis import strategies as st

from tegg.backends.cpu.attention import lower_attention
from tegg.backends.cpu.attention_forms import Blocks
from tegg.backends.cpu.emit import C
from tegg.dim import Dim, dim
from tegg.ir.graph import Node
from tegg.kernel.code import KernelCode

BLOCKS = Blocks("plain", 12, 64)
SYMBOLS = {"m": dim("m", 0, 1 << 20), "s": dim("s", 0, 1 << 20), "a": dim("a", 0, 64)}
SIZES = {"m": (1, 2, 5, 13, 30), "p": (1, 2, 3), "s": (1, 7, 16, 33, 70), "e": (1, 4, 19),
         "n": (1, 3, 16, 40), "q": (2, 3), "a": (1, 2), "b": (2, 3)}


@dataclass
class Drawn:
    """A graph with the nodes that lowering wants. ``special``: inputs that hold -inf."""

    g: Draw
    anchors: list[Node] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)
    special: set[int] = field(default_factory=set)

    def lowered(self, width: int = 16, blocks: Blocks = BLOCKS) -> KernelCode:
        return lower_attention(self.g, self.outputs, self.anchors, "k", C(width), blocks)

    def inputs(self, sizes: dict[str, int], seed: int) -> dict[int, np.ndarray]:
        """Random values; those of masks are -inf at some places, now and then in whole rows."""
        from tegg.testing.kernels import random_inputs
        found = random_inputs(self.g, sizes, seed, high=20)
        rng = np.random.default_rng(seed)
        for slot in self.special:
            x = found[slot]
            x[rng.random(x.shape) < 0.3] = -np.inf
            if x.ndim > 1 and x.size and rng.random() < 0.5:
                x[..., rng.integers(x.shape[-2]), :] = -np.inf
        return found


def attention(g: Draw, q: Node, k: Node, v: Node, between=lambda scores: scores,
              spec: tuple[str, str] = ("h,m,e;h,s,e;h,m,s", "h,m,s;h,s,n;h,m,n")) -> Drawn:
    """Attention over heads of three operands, with something between its products."""
    h, m, _ = q.shape
    scores = g.op("Contract", q, k, spec[0], (h, m, k.shape[1]))
    out = g.op("Attention", between(scores), v, spec[1], (h, m, v.shape[2]))
    return Drawn(g, [scores, out], [out])


def causal(g: Draw, scores: Node, offset: int = 0) -> Node:
    """Row i sees keys up to i + offset."""
    row, key = positions(g, scores)
    seen = g.op("LessEqual", key, g.add(row, offset))
    return g.select(seen, scores, g.full(-math.inf, scores.dtype, scores.shape))


def positions(g: Draw, scores: Node) -> tuple[Node, Node]:
    """The row and the key of each score: the last two axes."""
    m, s = scores.shape[-2:]
    ones = (1,) * (len(scores.shape) - 2)
    return (g.expand(g.reshape(g.iota(m), (*ones, m, 1)), scores.shape),
            g.expand(g.reshape(g.iota(s), (*ones, 1, s)), scores.shape))


@st.composite
def drawn(draw, dtype: str = "f32", symbolic: frozenset[str] = frozenset()) -> Drawn:
    """Any attention: letters ab are batch, mp rows, s keys, e depth, nq columns."""
    g = Draw()
    batch = draw(st.sampled_from(("", "a", "ab")))
    rows, columns = draw(st.sampled_from(("m", "mp", ""))), draw(st.sampled_from(("n", "nq", "")))
    size: dict[str, Dim] = {c: SYMBOLS[c] if c in symbolic else draw(st.sampled_from(SIZES[c]))
                            for c in f"{batch}{rows}{columns}se"}
    shared = draw(st.sampled_from(("", *batch)))  # a head that all queries of a batch item share
    orders = [draw(st.permutations(o)) for o in (
        batch + rows + "e", batch.replace(shared, "") + "se", batch + rows + "s",
        batch.replace(shared, "") + "s" + columns, batch + rows + columns)]

    def shape(order) -> tuple[Dim, ...]:
        return tuple(size[c] for c in order)

    def spec(*three) -> str:
        return ";".join(",".join(o) or "-" for o in three)

    q, k, v = (g.x(*shape(orders[i]), dtype=dtype) for i in (0, 1, 3))
    made = Drawn(g)
    scores = g.op("Contract", q, k, spec(*orders[:3]), shape(orders[2]))
    made.anchors.append(scores)
    between = scores
    for kind in draw(st.lists(st.sampled_from(("scale", "bias", "test", "compare", "cap")),
                              max_size=3, unique=True)):
        between = _step(draw, made, between, kind, orders[2], size)
    out = g.op("Attention", between, v, spec(orders[2], *orders[3:]), shape(orders[4]))
    made.anchors.append(out)
    above = draw(st.sampled_from(("plain", "scaled", "permuted", "twice")))
    last = g.mul(out, 3.0) if above == "scaled" else out
    if above == "permuted":
        last = g.permute(out, tuple(draw(st.permutations(range(len(out.shape))))))
    made.outputs = [last, g.add(out, g.x(*out.shape, dtype=dtype))] if above == "twice" else [last]
    return made


def _step(draw, made: Drawn, scores: Node, kind: str, order: list[str],
          size: dict[str, Dim]) -> Node:
    """Something between the products."""
    g, lowest = made.g, made.g.full(-math.inf, scores.dtype, scores.shape)
    if kind == "scale":
        return g.mul(scores, draw(st.sampled_from((0.125, 2.0, -1.0))))
    if kind == "cap":
        return g.mul(g.op("Tanh", scores), 3.0)
    kept = [c for c in order if draw(st.booleans())]
    shape = tuple(size[c] if c in kept else 1 for c in order)
    if kind in ("bias", "test"):
        x = g.x(*shape, dtype=scores.dtype.name if kind == "bias" else "i64")
        if kind == "bias":
            made.special.add(x.attrs[0])
            return g.add(scores, g.expand(x, scores.shape))
        return g.select(g.expand(g.less(3, x), scores.shape), scores, lowest)
    key = _along(g, order, "s", scores.shape)
    other = draw(st.sampled_from([c for c in order if c in "mab"] + ["read"]))
    limit = (g.expand(g.x(*(1 if c == "s" else n for c, n in zip(order, shape)), dtype="i64"),
                      scores.shape) if other == "read" else _along(g, order, other, scores.shape))
    limit = g.add(limit, draw(st.sampled_from((-2, 0, 5))))
    a, b = (key, limit) if draw(st.booleans()) else (limit, key)
    test = g.less(a, b) if draw(st.booleans()) else g.op("LessEqual", a, b)
    if draw(st.booleans()):
        other_test = g.less(_along(g, order, "s", scores.shape), 40)
        test = g.mul(test, other_test)
    if draw(st.booleans()):
        return g.add(scores, g.select(test, g.full(0.0, scores.dtype, scores.shape), lowest))
    return (g.select(test, scores, lowest) if draw(st.booleans())
            else g.select(test, lowest, scores))


def _along(g: Draw, order: list[str], letter: str, shape: tuple) -> Node:
    """The index along an axis."""
    at = order.index(letter)
    return g.expand(g.reshape(g.iota(shape[at]), tuple(
        n if i == at else 1 for i, n in enumerate(shape))), shape)
