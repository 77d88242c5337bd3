"""The oracle: any graph, primop or named, evaluated by NumPy through the op table alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tegg.dim import Dim, evaluate as size_of
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Node

SHAPE_KINDS = ("shape", "dims")


def concrete(attrs: tuple, row, sizes: Mapping[str, int]) -> tuple:
    """Attributes with every symbolic dim replaced by its size."""
    return tuple(tuple(size_of(d, sizes) for d in a) if kind in SHAPE_KINDS else a
                 for a, (_, kind) in zip(attrs, row.attrs))


def apply(row, arrays: list[np.ndarray], attrs: tuple, shape: tuple[Dim, ...], dtype,
          sizes: Mapping[str, int]) -> np.ndarray:
    """One op on arrays. The result has exactly the shape and dtype that were recorded."""
    shape = tuple(size_of(d, sizes) for d in shape)
    with np.errstate(all="ignore"):
        out = np.asarray(row.meaning(arrays, concrete(attrs, row, sizes), shape, dtype))
    assert out.shape == shape and out.dtype == dtype.numpy, (row, out.shape, out.dtype)
    return out


def evaluate(outputs: Iterable[Node], inputs: Mapping[int, np.ndarray],
             sizes: Mapping[str, int] | None = None) -> list[np.ndarray]:
    """The values of nodes, given an array per input slot and a size per symbol.

    Raises ArgumentError for a missing input and ShapeError for one of a wrong shape.
    """
    outputs, sizes = list(outputs), sizes or {}
    values: dict[int, np.ndarray] = {}
    todo = list(outputs)
    while todo:
        n = todo[-1]
        if n.id in values:
            todo.pop()
            continue
        waiting = [a for a in n.args if a.id not in values]
        if waiting:
            todo.extend(waiting)
            continue
        todo.pop()
        values[n.id] = (_input(n, inputs, sizes) if n.op.name == "Input" else
                        apply(n.op, [values[a.id] for a in n.args], n.attrs, n.shape, n.dtype,
                              sizes))
    return [values[n.id] for n in outputs]


def _input(n: Node, inputs: Mapping[int, np.ndarray], sizes: Mapping[str, int]) -> np.ndarray:
    slot = n.attrs[0]
    if slot not in inputs:
        raise ArgumentError(f"input {slot} was not given")
    value = np.asarray(inputs[slot])
    shape = tuple(size_of(d, sizes) for d in n.shape)
    if value.shape != shape:
        raise ShapeError(f"input {slot} is {value.shape}, not {shape}")
    return value.astype(n.dtype.numpy, copy=False)
