"""Spatial axes: sizes per axis as PyTorch takes them, and sliding windows over several axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tegg.dim import Dim, exact_div
from tegg.dtype import DType
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.value import fail
from tegg.shape import as_int, items, show

Sizes = int | Sequence[int]


def lowest(dtype: DType) -> float:
    """What never wins a maximum."""
    if dtype.is_float:
        return -math.inf
    return False if dtype.kind == "bool" else int(np.iinfo(dtype.numpy).min)


def float_only(op: str, a: Node) -> Node:
    """``a``. Raises DTypeError where it holds no floats."""
    if not a.dtype.is_float:
        fail(DTypeError, f"{op}: needs a float dtype, not {a.dtype.name}; write x.cast('f32')")
    return a


def per_axis(op: str, name: str, value: Any, rank: int, least: int = 1) -> tuple[int, ...]:
    """An int for every spatial axis, or one for each. Raises ArgumentError for anything else."""
    given = [as_int(v) for v in items(value)]
    if len(given) == 1:
        given *= rank
    sizes = tuple(v for v in given if v is not None and v >= least)
    if not len(given) == len(sizes) == rank:
        fail(ArgumentError, f"{op}: {name} is an int of at least {least}, or {rank} of them, not "
                            f"{value!r}")
    return sizes


def batched(op: str, graph: Graph, x: Node, rank: int) -> tuple[Node, bool]:
    """x as (batch, channels, spatial axes...), and whether its batch axis was added.

    Raises ShapeError for another rank.
    """
    if len(x.shape) == rank + 2:
        return x, False
    if len(x.shape) == rank + 1:
        return graph.reshape(x, (1, *x.shape)), True
    fail(ShapeError, f"{op}: takes (batch, channels, {rank} spatial axes) or the same without the "
                     f"batch, not {show(x.shape)}")


def unbatched(graph: Graph, x: Node, added: bool) -> Node:
    """x without the batch axis that ``batched`` added."""
    return graph.reshape(x, x.shape[1:]) if added else x


def padded(graph: Graph, x: Node, first: int, low: Sequence[Dim], high: Sequence[Dim],
           value: float = 0) -> Node:
    """``value`` around the axes from ``first`` on."""
    rest = len(x.shape) - first - len(low)
    return graph.pad(x, (0,) * first + tuple(low) + (0,) * rest,
                     (0,) * first + tuple(high) + (0,) * rest, value)


def windows(op: str, graph: Graph, x: Node, first: int, sizes: Sequence[int],
            strides: Sequence[int], dilations: Sequence[int]) -> Node:
    """Each axis from ``first`` on becomes (positions, size): sliding windows.

    Raises ShapeError where a window is larger than its axis, or a stride does not divide a
    symbolic one.
    """
    for i, (size, stride, dilation) in enumerate(zip(sizes, strides, dilations)):
        axis = first + 2 * i
        span, n = (size - 1) * dilation + 1, x.shape[axis]
        if not graph.facts.nonnegative(n - span):
            dilated = f" ({size} with dilation {dilation})" if dilation > 1 else ""
            fail(ShapeError, f"{op}: a kernel of {span}{dilated} does not fit an axis of {n}, "
                             f"padding included; {show(x.shape)}")
        x = _whole_strides(op, graph, x, axis, n - span, stride)
        x = graph.op("Window", x, axis, size, stride, dilation)
    return x


def _whole_strides(op: str, graph: Graph, x: Node, axis: int, steps: Dim, stride: int) -> Node:
    """x without the end of a symbolic axis that no window reaches."""
    if isinstance(steps, int) or exact_div(steps, stride) is not None:
        return x
    rest = next((r for r in range(1, stride) if exact_div(steps - r, stride) is not None), None)
    if rest is None:
        fail(ShapeError, f"{op}: windows {stride} apart do not end at a known place of an axis of "
                         f"{x.shape[axis]}; make its length a multiple of {stride} (of a symbol)")
    return graph.narrow(x, axis, 0, x.shape[axis] - rest)
