"""Normalisations over any axes, without weights: mean_norm, std_norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegg.bits import bits_of
from tegg.dim import product
from tegg.dtype import f64
from tegg.ir.graph import Graph, Node
from tegg.ops.public import public
from tegg.ops.reduce import Axes, axes_of, mean_node
from tegg.ops.spatial import float_only
from tegg.ops.value import Operand, in_float32, one, wrap

if TYPE_CHECKING:
    from tegg.tensor import Tensor


@public()
def mean_norm(x: Operand, dim: Axes = -1) -> Tensor:
    """x - mean(x): x with mean 0 over axes, all of them for None. Floats; halves are computed in
    float32."""
    graph, a = one("mean_norm", x)
    axes = axes_of("mean_norm", float_only("mean_norm", a), dim)
    return wrap(graph, in_float32(graph, (a,), lambda u: graph.broadcast(
        "Add", u, graph.mul(mean_node(graph, u, axes), -1))))


@public()
def std_norm(x: Operand, dim: Axes = -1, eps: float = 1e-5) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over axes, all of them for None: ``rms_norm`` without a weight,
    on any axes. Floats; halves are computed in float32. Zhang and Sennrich, arXiv 1910.07467."""
    graph, a = one("std_norm", x)
    axes = axes_of("std_norm", float_only("std_norm", a), dim)
    return wrap(graph, in_float32(graph, (a,), lambda u: _by_root_mean_square(graph, u, axes, eps)))


def _by_root_mean_square(graph: Graph, a: Node, axes: tuple[int, ...], eps: float) -> Node:
    """The row op over the axes, which are one last axis meanwhile."""
    rest = tuple(i for i in range(len(a.shape)) if i not in axes)
    order = (*rest, *axes)
    turned = graph.permute(a, order)
    lead = turned.shape[:len(rest)]
    flat = graph.reshape(turned, (*lead, product(turned.shape[len(rest):])))
    flat = graph.expansion("RmsNormalize", flat, len(rest), bits_of(eps, f64))
    back = tuple(order.index(i) for i in range(len(order)))
    return graph.permute(graph.reshape(flat, turned.shape), back)
