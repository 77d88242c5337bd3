"""Normalisations of the last axes: layer norm, RMS norm; rotary embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegg.bits import bits_of
from tegg.dim import product
from tegg.dtype import f64
from tegg.errors import ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.movement import sizes_of
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, in_float32, operands, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


@public(method=False)
def layer_norm(x: Operand, normalized_shape: int | Sequence[int], weight: Operand | None = None,
               bias: Operand | None = None, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(var + eps) weight + bias over the last axes, as in PyTorch.

    ``normalized_shape``: the sizes of those axes, and the shape of ``weight`` and ``bias``. Floats;
    halves are computed in float32. Formula: Ba et al., arXiv 1607.06450.
    """
    given = [v for v in (weight, bias) if v is not None]
    graph, nodes = operands("layer_norm", x, *given)
    axes = _trailing("layer_norm", graph, nodes, normalized_shape)

    def record(a: Node, *affine: Node) -> Node:
        rest = list(affine)
        out = _over_last(graph, "Normalize", a, axes, eps)
        if weight is not None:
            out = graph.mul(out, rest.pop(0))
        return graph.add(out, rest[0]) if bias is not None else out

    return wrap(graph, in_float32(graph, nodes, record))


@public(method=False)
def rms_norm(x: Operand, normalized_shape: int | Sequence[int], weight: Operand | None = None,
             eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean(x^2) + eps) weight over the last axes.

    Floats; halves are computed in float32. Formula: Zhang and Sennrich, arXiv 1910.07467.
    """
    given = [v for v in (weight,) if v is not None]
    graph, nodes = operands("rms_norm", x, *given)
    axes = _trailing("rms_norm", graph, nodes, normalized_shape)

    def record(a: Node, *gain: Node) -> Node:
        out = _over_last(graph, "RmsNormalize", a, axes, eps)
        return graph.mul(out, gain[0]) if gain else out

    return wrap(graph, in_float32(graph, nodes, record))


def _trailing(op: str, graph: Graph, nodes: tuple[Node, ...], normalized_shape) -> int:
    """How many last axes are normalised. Raises ShapeError where shapes do not agree."""
    wanted = sizes_of(op, (normalized_shape,))
    canon = graph.facts.canonical
    shape = nodes[0].shape[len(nodes[0].shape) - len(wanted):] if wanted else ()
    if not wanted or tuple(map(canon, shape)) != tuple(map(canon, wanted)):
        fail(ShapeError, f"{op}: the last axes of {show(nodes[0].shape)} are not {show(wanted)}")
    for n in nodes[1:]:
        if tuple(map(canon, n.shape)) != tuple(map(canon, wanted)):
            fail(ShapeError, f"{op}: weight and bias have shape {show(wanted)}, "
                             f"not {show(n.shape)}")
    return len(wanted)


def _over_last(graph: Graph, row: str, a: Node, axes: int, eps: float) -> Node:
    """A row op over the last axes, which are one axis meanwhile."""
    lead = a.shape[:len(a.shape) - axes]
    flat = graph.reshape(a, (*lead, product(a.shape[len(lead):])))
    return graph.reshape(graph.expansion(row, flat, len(lead), bits_of(eps, f64)), a.shape)


@public(method=False)
def rope(x: Operand, cos: Operand, sin: Operand) -> Tensor:
    """Rotary embedding: x cos + rotate_half(x) sin, where rotate_half([a, b]) = [-b, a] on the
    halves of the last axis, whose size is even; cos and sin broadcast to x.

    Formula: Su et al., arXiv 2104.09864, in the layout of Llama.
    """
    graph, (a, c, s) = operands("rope", x, cos, sin)
    both = (graph.expand(v, a.shape) for v in (c, s))
    return wrap(graph, in_float32(graph, (a, *both), lambda *n: graph.expansion("Rope", *n)))
