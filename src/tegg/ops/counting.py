"""Integers as rows of zeros and ones, and how often each of them occurs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tegg.dim import Dim, Poly
from tegg.dtype import i64
from tegg.errors import ArgumentError, ShapeError
from tegg.ops.index import index_node
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, graph_of, node_of, wrap
from tegg.shape import as_int, show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


def _classes(op: str, name: str, n: Any) -> Dim:
    if isinstance(n, Poly):
        return n
    whole = as_int(n)
    if whole is None or whole < 1:
        fail(ArgumentError, f"{op}: {name} is an int of at least 1 or a symbolic dim, not {n!r}; "
                            f"a shape cannot depend on values")
    return whole


def _check(op: str, index: Any, n: Dim) -> None:
    if not (isinstance(index, np.ndarray) and index.dtype.kind in "iu" and isinstance(n, int)):
        return
    if index.size and not 0 <= index.min() <= index.max() < n:
        bad = index.min() if index.min() < 0 else index.max()
        fail(ShapeError, f"{op}: {bad} is not one of {n} classes")


@public(keywords={"tensor": "index"})
def one_hot(index: Operand, num_classes: Dim) -> Tensor:
    """PyTorch's one_hot: i64 of shape (..., num_classes), 1 where the last axis's position is the
    integer, 0 elsewhere; all 0 for an integer outside, which raises ShapeError in a NumPy array.
    Raises ArgumentError where ``num_classes`` is no size of at least 1.

        tegg.compile(lambda i: tegg.one_hot(i, 3))(np.array([2]))  # [[0, 0, 1]]
    """
    graph = graph_of("one_hot", (index,))
    n = _classes("one_hot", "num_classes", num_classes)
    _check("one_hot", index, n)
    at = graph.cast(index_node("one_hot", graph, index), i64)
    at = graph.reshape(at, (*at.shape, 1))
    shape = (*at.shape[:-1], n)
    hit = graph.idiom("Equal", graph.expand(at, shape), graph.expand(graph.iota(n), shape))
    return wrap(graph, graph.cast(hit, i64))


@public()
def bincount(x: Operand, weights: Operand | None = None, minlength: Dim | None = None) -> Tensor:
    """How often each integer below ``minlength`` occurs in a 1-D tensor (i64), or the sum of its
    weights (in their dtype). The result has ``minlength`` elements exactly, which must be given:
    integers outside are not counted, and raise ShapeError in a NumPy array.

        tegg.compile(lambda x: tegg.bincount(x, minlength=3))(np.array([0, 2, 2]))  # [1, 0, 2]
    """
    given = (x,) if weights is None else (x, weights)
    graph = graph_of("bincount", given)
    n = _classes("bincount", "minlength", minlength)
    _check("bincount", x, n)
    at = index_node("bincount", graph, x)
    if len(at.shape) != 1:
        fail(ShapeError, f"bincount: takes one axis, not {show(at.shape)}")
    new = graph.full(1, i64) if weights is None else node_of("bincount", graph, weights)
    if weights is not None and tuple(map(graph.facts.canonical, new.shape)) != tuple(
            map(graph.facts.canonical, at.shape)):
        fail(ShapeError, f"bincount: weights {show(new.shape)} are not one for each of "
                         f"{show(at.shape)}")
    base = graph.expand(graph.full(0, new.dtype), (n,))
    return wrap(graph, graph.op("Scatter", base, at, graph.expand(new, at.shape), 0, "add"))


@public()
def nonzero(x: Operand, *args: Any, **kwargs: Any) -> NoReturn:
    """Not possible: how many elements are not zero is known only when a program runs, and shapes
    must be known before. Always raises ArgumentError with what to use instead.

    ``tegg.where(x != 0, ...)`` keeps the shape; ``(x != 0).sum()`` counts; ``tegg.topk`` or
    ``tegg.argsort(x != 0, descending=True)`` gives their indices first.
    """
    fail(ArgumentError, "nonzero: the shape of its result depends on values, and shapes are known "
                        "before a program runs; use tegg.where(x != 0, ...), (x != 0).sum(), or "
                        "tegg.argsort(x != 0, descending=True) for their indices first")
