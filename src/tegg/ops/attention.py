"""Softmax, its logarithm, and scaled dot-product attention."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tegg.contraction import Spec
from tegg.dim import Dim, exact_div
from tegg.dtype import DType, bool_, f32, i64
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.compare import where
from tegg.ops.elementwise import add, mul
from tegg.ops.linalg import contraction
from tegg.ops.movement import axis_of
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, in_float32, node_of, one, operands, wrap
from tegg.shape import broadcast, show

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
def scaled_dot_product_attention(query: Operand, key: Operand, value: Operand,
                                 attn_mask: Operand | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None,
                                 enable_gqa: bool = False) -> Tensor:
    """softmax(q k^T scale + mask) v: (..., h, l, e), (..., g, s, e), (..., g, s, d)
    -> (..., h, l, d), with PyTorch's arguments.

    ``attn_mask`` broadcasts to (..., h, l, s): bools say which places take part, floats are added.
    ``is_causal``: row i sees columns 0..i. ``scale`` is 1/sqrt(e) by default. Axes before the last
    two broadcast. ``enable_gqa``: h may be a multiple of g, and each key head serves h/g query
    heads (grouped-query attention). ``dropout_p`` must be 0. Rows that are masked out entirely are
    NaN. Of halves the scores and weights are float32, and the result alone is rounded. Formula:
    Vaswani et al., arXiv 1706.03762.
    """
    graph, (a, b, c) = operands("attention", query, key, value)
    if dropout_p:
        fail(ArgumentError, f"attention: dropout_p is {dropout_p}, and nothing is dropped here; "
                            f"leave it out")
    a, b, c, group = _fitted(graph, a, b, c, enable_gqa)
    e = a.shape[-1]
    if scale is None:
        if not isinstance(e, int):
            fail(ShapeError, f"attention: the head size {e} is symbolic; give scale=")
        scale = 1 / math.sqrt(e) if e else 1.0
    wide = f32 if a.dtype.itemsize == 2 else a.dtype
    scores = mul(_heads(graph, a, b, "xe", "ze", "xz", group, wide), scale)
    if is_causal:
        scores = where(_after(graph, a.shape[-2], b.shape[-2]), -math.inf, scores)
    if attn_mask is not None:
        mask = wrap(graph, node_of("attention", graph, attn_mask))
        if len(mask.shape) > len(scores.shape):
            fail(ShapeError, f"attention: attn_mask of shape {show(mask.shape)} does not broadcast "
                             f"to scores of shape {show(scores.shape)}; leave out axes")
        scores = (where(mask, scores, -math.inf) if mask.dtype is bool_ else add(scores, mask))
    weights = softmax(scores, -1)
    return _heads(graph, weights.node, c, "xz", "zd", "xd", group, a.dtype)


def _fitted(graph: Graph, q: Node, k: Node, v: Node,
            gqa: bool) -> tuple[Node, Node, Node, Dim]:
    """Operands whose leading axes agree, and how many query heads share a key head."""
    shapes = f"q {show(q.shape)}, k {show(k.shape)}, v {show(v.shape)}"
    if min(len(n.shape) for n in (q, k, v)) < 2 + gqa:
        fail(ShapeError, f"attention: {shapes} need a rank of at least {2 + gqa}")
    qs, ks, vs = (tuple(map(graph.facts.canonical, n.shape)) for n in (q, k, v))
    if not (qs[-1] == ks[-1] and ks[-2] == vs[-2]):
        fail(ShapeError, f"attention: {shapes} do not fit")
    group: Dim = 1
    if gqa:
        whole = exact_div(qs[-3], ks[-3]) if ks[-3] == vs[-3] else None
        if whole is None:
            fail(ShapeError, f"attention: {shapes}: {qs[-3]} query heads are no multiple of "
                             f"{ks[-3]} key heads")
        group = whole
    kept = 3 if gqa else 2
    try:
        lead = broadcast([n.shape[:-kept] for n in (q, k, v)], graph.facts)
    except ShapeError:
        more = ""
        if not gqa and len(qs) == len(ks) > 2 and exact_div(qs[-3], ks[-3]) is not None:
            more = "; for groups of query heads write enable_gqa=True"
        fail(ShapeError, f"attention: {shapes} do not fit{more}")
    q, k, v = (graph.expand(n, (*lead, *n.shape[len(n.shape) - kept:])) for n in (q, k, v))
    return q, k, v, group


def _heads(graph: Graph, a: Node, b: Node, x: str, y: str, out: str, group: Dim,
           dtype: DType) -> Tensor:
    """A product for each head; the heads of ``a`` come in groups of ``group`` per head of ``b``."""
    lead = a.shape[:-2]
    letters = "fghijklmnoprst"[:len(lead)]  # none of x, y and out's own
    shape = (*a.shape[:-1], b.shape[-1] if out[-1] == y[-1] else b.shape[-2])
    if group == 1:
        spec = Spec((*letters, *x), (*letters, *y), (*letters, *out))
        return wrap(graph, contraction(graph, "attention", a, b, spec, shape, dtype))
    kv = b.shape[-3]
    wide = graph.reshape(a, (*lead[:-1], kv, group, *a.shape[-2:]))
    spec = Spec((*letters, "q", *x), (*letters, *y), (*letters, "q", *out))
    inner = (*lead[:-1], kv, group, *shape[-2:])
    product = contraction(graph, "attention", wide, b, spec, inner, dtype)
    return wrap(graph, graph.reshape(product, shape))


def _after(graph: Graph, rows: Dim, columns: Dim) -> Tensor:
    """(rows, columns): whether a column is after the row."""
    row = graph.reshape(graph.iota(rows, i64), (rows, 1))
    return wrap(graph, graph.less(row, graph.iota(columns, i64)))
