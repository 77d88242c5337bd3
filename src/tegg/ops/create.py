"""Tensors made of nothing: constants, ranges, the identity, grids.

Without an operand they belong to the graph that is being recorded; elsewhere they raise
ArgumentError. Shapes may be symbolic. The default dtype is f32, and i64 for ranges of integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tegg.dim import Dim, Poly, Shape
from tegg.dtype import DType, bool_, dtype as as_dtype, f32, f64, i64
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph
from tegg.ops.diagonals import below
from tegg.ops.movement import sizes_of
from tegg.ops.public import public
from tegg.ops.value import (Operand, default_dtype, fail, graph_of, is_scalar, one, operands,
                            scalar_node, weak_dtype, wrap)
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor

Kind = DType | str | None


def _filled(op: str, graph: Graph, shape: Shape, value: Any, dtype: DType) -> Tensor:
    for n in shape:
        if not graph.facts.nonnegative(n):
            fail(ShapeError, f"{op}: a size of {show(shape)} is below 0, or may be")
    if dtype is bool_ and isinstance(value, int) and value in (0, 1):
        value = bool(value)
    if not is_scalar(value) or weak_dtype(op, value, dtype) is not dtype:
        fail(ArgumentError, f"{op}: the value is a number that {dtype.name} holds, not {value!r}")
    return wrap(graph, graph.expand(scalar_node(op, graph, value, dtype), shape))


@public(method=False, keywords={"size": "shape"})
def full(shape: Any, fill_value: float | bool, dtype: Kind = None) -> Tensor:
    """A tensor of ``shape`` filled with one number; its dtype by default i64, f32 or bool."""
    kind = default_dtype(fill_value) if dtype is None else as_dtype(dtype)
    return _filled("full", graph_of("full", ()), sizes_of("full", (shape,)), fill_value, kind)


@public(method=False, keywords={"size": "shape"})
def zeros(*shape: Any, dtype: DType | str = "f32") -> Tensor:
    """Zeros. Sizes one by one or as one tuple."""
    return _filled("zeros", graph_of("zeros", ()), sizes_of("zeros", shape), 0, as_dtype(dtype))


@public(method=False, keywords={"size": "shape"})
def ones(*shape: Any, dtype: DType | str = "f32") -> Tensor:
    """Ones. Sizes one by one or as one tuple."""
    return _filled("ones", graph_of("ones", ()), sizes_of("ones", shape), 1, as_dtype(dtype))


@public(method=False)
def full_like(x: Operand, fill_value: float | bool, dtype: Kind = None) -> Tensor:
    """A number in the shape of x, and in its dtype unless another is given."""
    graph, a = one("full_like", x)
    return _filled("full_like", graph, a.shape, fill_value,
                   a.dtype if dtype is None else as_dtype(dtype))


@public(method=False)
def zeros_like(x: Operand, dtype: Kind = None) -> Tensor:
    """Zeros in the shape of x, and in its dtype unless another is given."""
    return full_like(x, 0, dtype)


@public(method=False)
def ones_like(x: Operand, dtype: Kind = None) -> Tensor:
    """Ones in the shape of x, and in its dtype unless another is given."""
    return full_like(x, 1, dtype)


@public(method=False, keywords={"end": "stop"})
def arange(start: Dim | float, stop: Dim | float | None = None, step: float = 1,
           dtype: Kind = None) -> Tensor:
    """start, start + step, ... below ``stop`` (above it for a negative step); from 0 where only one
    is given. i64 where all are whole, else f32; the i-th is start + i step, rounded twice.

    A symbolic start or stop needs step 1. Raises ArgumentError for step 0, ShapeError where a
    symbolic range may be negative.

    >>> tegg.arange(2, 8, 2)   # 2, 4, 6
    Tensor((3,), i64, ...)
    """
    graph = graph_of("arange", ())
    start, stop = (0, start) if stop is None else (start, stop)
    if not all(map(is_scalar, (start, stop, step))) or isinstance(step, Poly) or step == 0 or not (
            all(isinstance(v, Poly) or math.isfinite(v) for v in (start, stop, step))):
        fail(ArgumentError, f"arange: takes finite numbers and a step but 0, not {start!r}, "
                            f"{stop!r}, {step!r}")
    symbolic = isinstance(start, Poly) or isinstance(stop, Poly)
    whole = all(default_dtype(v) is not f32 for v in (start, stop, step))
    if symbolic and (step != 1 or not whole):
        fail(ArgumentError, "arange: a symbolic range has whole ends and step 1")
    kind = (i64 if whole else f32) if dtype is None else as_dtype(dtype)
    count: Any = stop - start  # type: ignore[operator]
    if not symbolic:
        count = max(0, math.ceil(count / step))
    if not graph.facts.nonnegative(count):
        fail(ShapeError, f"arange: {count} elements may be below 0; write tegg.assume")
    inner = i64 if whole else f64 if kind is f64 else f32
    steps = graph.cast(graph.iota(count, i64), inner)
    values = graph.mul(steps, step) if step != 1 else steps
    if isinstance(start, Poly) or start != 0:
        values = graph.broadcast("Add", values, scalar_node("arange", graph, start, inner))
    return wrap(graph, graph.cast(values, kind))


@public(method=False, keywords={"stop": "end", "num": "steps"})
def linspace(start: float, end: float, steps: int, dtype: DType | str = "f32") -> Tensor:
    """``steps`` floats from start to end, both included and exact, as in PyTorch and NumPy: the
    i-th is start + i (end - start) / (steps - 1), counted from the end in the second half."""
    graph, kind = graph_of("linspace", ()), as_dtype(dtype)
    if not kind.is_float:
        fail(ArgumentError, f"linspace: needs a float dtype, not {kind.name}")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        fail(ArgumentError, f"linspace: steps is an int of at least 0, not {steps!r}")
    inner = f64 if kind is f64 else f32
    i = graph.iota(steps, i64)
    gap = (end - start) / (steps - 1) if steps > 1 else 0.0
    low = graph.add(graph.mul(graph.cast(i, inner), gap), start)
    left = graph.cast(graph.add(graph.mul(i, -1), steps - 1), inner)
    high = graph.add(graph.mul(left, -gap), end)
    first = graph.less(i, max(1, steps // 2))
    return wrap(graph, graph.cast(graph.select(first, low, high), kind))


@public(method=False, keywords={"N": "n", "M": "m"})
def eye(n: Dim, m: Dim | None = None, dtype: DType | str = "f32") -> Tensor:
    """(n, m): 1 where row and column are equal, else 0; square by default."""
    graph, kind = graph_of("eye", ()), as_dtype(dtype)
    rows, columns = sizes_of("eye", (n, n if m is None else m))
    if not all(map(graph.facts.nonnegative, (rows, columns))):
        fail(ShapeError, f"eye: a size of {show((rows, columns))} is below 0, or may be")
    return wrap(graph, graph.cast(below(graph, rows, columns, "Equal", 0), kind))


@public(method=False)
def meshgrid(*tensors: Operand, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Each 1-D tensor spread over a grid of all: shapes (a,), (b,) give two of (a, b), with
    ``indexing="xy"`` of (b, a), which is NumPy's default."""
    if indexing not in ("ij", "xy"):
        fail(ArgumentError, f"meshgrid: indexing is 'ij' or 'xy', not {indexing!r}")
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    if not given:
        fail(ArgumentError, "meshgrid: needs at least one tensor")
    graph, nodes = operands("meshgrid", *given)
    if any(len(n.shape) > 1 for n in nodes):
        fail(ShapeError, f"meshgrid: takes 1-D tensors, not "
                         f"{', '.join(show(n.shape) for n in nodes)}")
    rank = len(nodes)
    place: Sequence[int] = range(rank)
    if indexing == "xy" and rank > 1:
        place = (1, 0, *range(2, rank))
    sizes: list[Dim] = [1] * rank
    for n, i in zip(nodes, place):
        sizes[i] = n.shape[0] if n.shape else 1
    return tuple(wrap(graph, graph.expand(
        graph.reshape(n, tuple(sizes[j] if j == i else 1 for j in range(rank))), tuple(sizes)))
        for n, i in zip(nodes, place))
