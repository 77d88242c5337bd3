"""Values seen while a compiled function runs: callbacks, printed arrays, and comparisons with saved
ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import current_graph
from tegg.ops.value import Value, fail
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor

Watcher = Callable[[np.ndarray], object]
Tolerance = float  # by another name in Tensor, where float is a method


def watch(x: Tensor, callback: Watcher) -> Tensor:
    """Hand the value of ``x`` to a function after each run of the compiled function; returns ``x``.

    callback: called with an array of x's shape and dtype, in the order of recording, once results
      are there; what it raises reaches the caller. A watched value is stored, so kernels around it
      may differ. Programs that are bound or saved have it among their outputs and call nobody.
    Raises ArgumentError outside of a function that is being compiled, and for what is no function.
    """
    if not callable(callback):
        fail(ArgumentError, f"watch: takes a function of an array, not {callback!r}")
    if not isinstance(x, Value):
        fail(ArgumentError, f"watch: takes a tensor of the function that is being compiled, not a "
                            f"{type(x).__name__}")
    if current_graph() is not x.graph:
        fail(ArgumentError, "watch: belongs inside a function that is being compiled; of a graph, "
                            "mark an output: x.output('name')")
    x.graph.watched.append((x.node, callback))
    return x


def printed(x: Tensor, label: str) -> Tensor:
    """Print the value of ``x`` after each run; returns ``x``. See ``watch``."""
    if not isinstance(label, str):
        fail(ArgumentError, f"print: label is a text, not {label!r}")
    head = f"{label}: {x.dtype.name} {show(x.shape)}"
    return watch(x, lambda value: print(f"{head}\n{value}"))


def compared(x: Tensor, saved: Any, rtol: Tolerance, atol: Tolerance) -> Tensor:
    """Print how far ``x`` is from a saved array after each run; returns ``x``. See ``watch``.

    saved: an array, or the path of a ``.npy`` file, of x's shape. An element differs where
      ``|x - saved| > atol + rtol |saved|``; NaN equals NaN.
    Raises ArgumentError for a file that cannot be read, ShapeError for another shape.
    """
    name, want = _saved(saved)
    known = all(isinstance(d, int) for d in x.shape)
    if want.ndim != len(x.shape) or (known and want.shape != x.shape):
        fail(ShapeError, f"diff: x is {show(x.shape)}, {name} is {show(want.shape)}")
    return watch(x, lambda value: print(_difference(value, want, name, rtol, atol)))


def _saved(saved: Any) -> tuple[str, np.ndarray]:
    if not isinstance(saved, (str, os.PathLike)):
        return "the saved array", np.asarray(saved)
    path = Path(saved)
    try:
        return str(path), np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as e:
        fail(ArgumentError, f"diff: {path} cannot be read: {e}; write it with numpy.save")


def _difference(value: np.ndarray, want: np.ndarray, name: str, rtol: float, atol: float) -> str:
    """One line: how many elements differ, and the worst of them."""
    if value.shape != want.shape:
        return f"diff with {name}: shapes differ, {show(value.shape)} and {show(want.shape)}"
    x, y = value.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
        off = np.where(np.isnan(off), np.inf, off)
        count = int(np.count_nonzero(off > atol + rtol * np.abs(np.nan_to_num(y, posinf=0.0,
                                                                             neginf=0.0))))
    if off.size == 0 or not off.max():
        return f"diff with {name}: equal"
    at = tuple(int(i) for i in np.unravel_index(np.argmax(off), off.shape))
    return (f"diff with {name}: {count} of {off.size} elements differ; most at {at}: "
            f"{value[at]} here, {want[at]} there")
