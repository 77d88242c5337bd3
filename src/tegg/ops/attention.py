"""Softmax, its logarithm, and scaled dot-product attention."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tegg.contraction import Spec
from tegg.dim import Dim, exact_div
from tegg.dtype import bool_, i64
from tegg.errors import ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.compare import where
from tegg.ops.elementwise import add, mul
from tegg.ops.linalg import contraction
from tegg.ops.movement import axis_of
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, in_float32, node_of, one, operands, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


@public()
def softmax(x: Operand, dim: int = -1) -> Tensor:
    """e^(x - m) / sum e^(x - m) along an axis, m the maximum. Floats; halves are computed in
    float32. A row of -inf only gives NaN, as in PyTorch and NumPy."""
    graph, a = one("softmax", x)
    axis = axis_of("softmax", dim, len(a.shape))
    return wrap(graph, in_float32(graph, (a,), lambda u: graph.expansion("Softmax", u, axis)))


@public()
def log_softmax(x: Operand, dim: int = -1) -> Tensor:
    """x - m - log sum e^(x - m) along an axis, m the maximum. Floats."""
    graph, a = one("log_softmax", x)
    axis = axis_of("log_softmax", dim, len(a.shape))
    return wrap(graph, in_float32(graph, (a,), lambda u: graph.expansion("LogSoftmax", u, axis)))


@public(method=False)
def scaled_dot_product_attention(q: Operand, k: Operand, v: Operand,
                                 attn_mask: Operand | None = None, is_causal: bool = False,
                                 scale: float | None = None) -> Tensor:
    """softmax(q k^T scale + mask) v: (..., h, l, e), (..., g, s, e), (..., g, s, d)
    -> (..., h, l, d).

    ``attn_mask`` broadcasts to (..., h, l, s): bools say which places take part, floats are added.
    ``is_causal``: row i sees columns 0..i. ``scale`` is 1/sqrt(e) by default. h may be a multiple
    of g: each key head then serves h/g query heads (grouped-query attention). Rows that are masked
    out entirely are NaN. Formula: Vaswani et al., arXiv 1706.03762.
    """
    graph, (a, b, c) = operands("attention", q, k, v)
    group = _check(graph, a, b, c)
    e = a.shape[-1]
    if scale is None:
        if not isinstance(e, int):
            fail(ShapeError, f"attention: the head size {e} is symbolic; give scale=")
        scale = 1 / math.sqrt(e) if e else 1.0
    scores = mul(_heads(graph, a, b, "xe", "ze", "xz", group), scale)
    if is_causal:
        scores = where(_causal(graph, a.shape[-2], b.shape[-2]), scores, -math.inf)
    if attn_mask is not None:
        mask = wrap(graph, node_of("attention", graph, attn_mask))
        scores = (where(mask, scores, -math.inf) if mask.dtype is bool_ else add(scores, mask))
    weights = softmax(scores, -1)
    return _heads(graph, weights.node, c, "xz", "zd", "xd", group)


def _check(graph: Graph, q: Node, k: Node, v: Node) -> Dim:
    """How many query heads share a key head."""
    shapes = f"q {show(q.shape)}, k {show(k.shape)}, v {show(v.shape)}"
    if not 2 <= len(q.shape) == len(k.shape) == len(v.shape):
        fail(ShapeError, f"attention: {shapes} need one rank of at least 2")
    qs, ks, vs = (tuple(map(graph.facts.canonical, n.shape)) for n in (q, k, v))
    if not (qs[-1] == ks[-1] and ks[-2] == vs[-2] and ks[:-2] == vs[:-2] and qs[:-3] == ks[:-3]):
        fail(ShapeError, f"attention: {shapes} do not fit")
    if len(q.shape) == 2:
        return 1
    group = exact_div(q.shape[-3], k.shape[-3])
    if group is None:
        fail(ShapeError, f"attention: {q.shape[-3]} query heads are no multiple of "
                         f"{k.shape[-3]} key heads")
    return group


def _heads(graph: Graph, a: Node, b: Node, x: str, y: str, out: str, group: Dim) -> Tensor:
    """A product for each head; the heads of ``a`` come in groups of ``group`` per head of ``b``."""
    lead = a.shape[:-2]
    letters = "fghijklmnoprst"[:len(lead)]  # none of x, y and out's own
    shape = (*a.shape[:-1], b.shape[-1] if out[-1] == y[-1] else b.shape[-2])
    if group == 1:
        spec = Spec((*letters, *x), (*letters, *y), (*letters, *out))
        return wrap(graph, contraction(graph, "attention", a, b, spec, shape))
    kv = b.shape[-3]
    wide = graph.reshape(a, (*lead[:-1], kv, group, *a.shape[-2:]))
    spec = Spec((*letters, "q", *x), (*letters, *y), (*letters, "q", *out))
    inner = (*lead[:-1], kv, group, *shape[-2:])
    return wrap(graph, graph.reshape(contraction(graph, "attention", wide, b, spec, inner), shape))


def _causal(graph: Graph, rows: Dim, columns: Dim) -> Tensor:
    """(rows, columns): whether a column is not after the row."""
    row = graph.reshape(graph.iota(rows, i64), (rows, 1))
    return wrap(graph, graph.idiom("LessEqual", graph.iota(columns, i64), row))
