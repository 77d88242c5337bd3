"""Normalisation of channels: by running statistics, over groups, over each channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegg.bits import bits_of
from tegg.dim import exact_div, product
from tegg.dtype import f64
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, in_float32, operands, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


@public(method=False)
def batch_norm(x: Operand, running_mean: Operand, running_var: Operand,
               weight: Operand | None = None, bias: Operand | None = None,
               eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(var + eps) weight + bias for each channel, with given statistics: (n, c,
    ...), each of the others (c,).

    Computed as x s + (bias - mean s) with s = weight / sqrt(var + eps), as PyTorch's evaluation;
    s and the rest are ready before the first call where they are weights. Floats; halves are
    computed in float32. Raises ShapeError where shapes do not fit. Formula: Ioffe and Szegedy,
    arXiv 1502.03167.

    >>> tegg.batch_norm(x, mean, var)   # (8, 64, 56, 56), (64,), (64,)
    Tensor((8, 64, 56, 56), f32, ...)
    """
    given = [v for v in (weight, bias) if v is not None]
    graph, nodes = operands("batch_norm", x, running_mean, running_var, *given)
    _per_channel("batch_norm", graph, nodes)

    def record(a: Node, mean: Node, var: Node, *affine: Node) -> Node:
        rest = list(affine)
        scale = graph.expansion("Rsqrt", graph.add(var, eps))
        if weight is not None:
            scale = graph.mul(scale, rest.pop(0))
        shift = graph.mul(graph.mul(mean, scale), -1)
        if bias is not None:
            shift = graph.add(rest[0], shift)
        scale, shift = (_across(graph, v, a) for v in (scale, shift))
        return graph.add(graph.mul(a, scale), shift)

    return wrap(graph, in_float32(graph, nodes, record))


def _per_channel(op: str, graph: Graph, nodes: tuple[Node, ...]) -> None:
    """Raises ShapeError where x has no channels or another operand is not (channels,)."""
    x = nodes[0]
    if len(x.shape) < 2:
        fail(ShapeError, f"{op}: takes (batch, channels, ...), not {show(x.shape)}")
    want = (graph.facts.canonical(x.shape[1]),)
    for n in nodes[1:]:
        if tuple(map(graph.facts.canonical, n.shape)) != want:
            fail(ShapeError, f"{op}: {show(x.shape)} has {x.shape[1]} channels; weight, bias and "
                             f"statistics have shape {show(want)}, not {show(n.shape)}")


def _across(graph: Graph, v: Node, x: Node) -> Node:
    """A value for each channel, to meet x."""
    return graph.reshape(v, (*v.shape, *(1,) * (len(x.shape) - 2)))


@public(method=False)
def group_norm(x: Operand, num_groups: int, weight: Operand | None = None,
               bias: Operand | None = None, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(var + eps) weight + bias, mean and variance over each group of channels and
    all that follows: (n, c, ...), (c,), (c,).

    Floats; halves are computed in float32. Raises ShapeError where groups do not divide the
    channels. Formula: Wu and He, arXiv 1803.08494.

    >>> tegg.group_norm(x, 8)   # (2, 64, 14, 14)
    Tensor((2, 64, 14, 14), f32, ...)
    """
    return _grouped("group_norm", x, num_groups, weight, bias, eps)


@public(method=False)
def instance_norm(x: Operand, weight: Operand | None = None, bias: Operand | None = None,
                  eps: float = 1e-5) -> Tensor:
    """``group_norm`` with each channel as its own group. Formula: Ulyanov et al., arXiv
    1607.08022."""
    return _grouped("instance_norm", x, None, weight, bias, eps)


def _grouped(op: str, x: Operand, num_groups: int | None, weight: Operand | None,
             bias: Operand | None, eps: float) -> Tensor:
    given = [v for v in (weight, bias) if v is not None]
    graph, nodes = operands(op, x, *given)
    _per_channel(op, graph, nodes)
    n, channels, *places = nodes[0].shape
    groups = channels if num_groups is None else num_groups
    if isinstance(groups, bool) or (isinstance(groups, int) and groups < 1):
        fail(ArgumentError, f"{op}: num_groups is an int of at least 1, not {groups!r}")
    each = exact_div(channels, groups)
    if each is None:
        fail(ShapeError, f"{op}: {groups} groups do not divide {channels} channels")

    def record(a: Node, *affine: Node) -> Node:
        rest = list(affine)
        flat = graph.reshape(a, (n, groups, each * product(tuple(places))))
        out = graph.reshape(graph.expansion("Normalize", flat, 2, bits_of(eps, f64)), a.shape)
        if weight is not None:
            out = graph.mul(out, _across(graph, rest.pop(0), a))
        return graph.add(out, _across(graph, rest[0], a)) if bias is not None else out

    return wrap(graph, in_float32(graph, nodes, record))
