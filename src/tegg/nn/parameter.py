"""Parameter: an array that a compiled program is bound to by reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Self

import numpy as np

from tegg.dtype import DType, dtype as as_dtype
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.ir.graph import Graph, Node, current_graph
from tegg.locks import WEIGHTS
from tegg.ops.value import fail
from tegg.shape import as_shape, show
from tegg.tensor import Tensor


class Parameter(Tensor):
    """A weight. ``data`` is the NumPy array; ``version`` counts its replacements.

    Where it meets the tensors of a graph, or is used inside a recorded function, it is that
    graph's input of kind ``weight``, bound by reference: replacing ``data`` needs no new compile,
    and what was computed ahead from it is computed again. (Writing into the array in place is not
    seen; assign it.)
    """

    __slots__ = ("__weakref__", "_data", "_dtype", "_make", "_shape", "version")

    def __init__(self, data: Any) -> None:
        array = np.asarray(data)
        self._fill(array.shape, as_dtype(array.dtype), array, None)

    @classmethod
    def lazy(cls, shape: Any, dtype: DType | str, make: Callable[[], np.ndarray]) -> Self:
        """A parameter whose array is made when it is first read: not at all if it is loaded."""
        self, shape = cls.__new__(cls), as_shape(shape)
        if not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ShapeError(f"the sizes of a parameter are ints of at least 0, not {show(shape)}")
        self._fill(shape, as_dtype(dtype), None, make)
        return self

    def _fill(self, shape: tuple, dtype: DType, data: np.ndarray | None,
              make: Callable[[], np.ndarray] | None) -> None:
        self._shape, self._dtype, self._data, self._make = shape, dtype, data, make
        self.version = 0

    @property
    def data(self) -> np.ndarray:
        """The array. Assigning one of another shape or dtype raises ShapeError or DTypeError."""
        if self._data is None:
            with WEIGHTS:  # two threads must not make two
                if self._data is None:
                    assert self._make is not None
                    made = np.asarray(self._make(), self._dtype.numpy)
                    self._data, self._make = made.reshape(self._shape), None
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        replace([(self, value)])

    def _checked(self, value: Any) -> np.ndarray:
        """An array that it can hold."""
        value = np.asarray(value)
        if value.shape != self._shape:
            fail(ShapeError, f"a parameter of shape {show(self._shape)} cannot hold "
                             f"{show(value.shape)}")
        if as_dtype(value.dtype) is not self._dtype:
            fail(DTypeError, f"a parameter of {self._dtype.name} cannot hold {value.dtype}; "
                             f"cast it first")
        return value

    @property
    def shape(self) -> tuple:
        return self._shape

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def ndim(self) -> int:
        return len(self._shape)

    def __repr__(self) -> str:
        return f"Parameter({show(self._shape)}, {self._dtype.name})"

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        fail(ArgumentError, f"{self!r} is no array, for it stands for whatever array it holds when "
                            f"a program runs; write .data for the one that it holds now")

    def __reduce__(self) -> tuple:
        """With its array, which is made if it was not."""
        return type(self), (self.data,)

    # ---- in a graph
    def owner(self) -> Graph | None:
        return None

    def on(self, graph: Graph) -> Node:
        name = graph.weight_names.get(id(self), "weight")
        return graph.weight(self, self._shape, self._dtype, name)

    @property
    def graph(self) -> Graph:  # type: ignore[override]
        graph = current_graph()
        if graph is None:
            fail(ArgumentError, f"{self!r} is used outside of a recorded function; read .data for "
                                f"the array, or work within graph.recording()")
        return graph

    @property
    def node(self) -> Node:  # type: ignore[override]
        return self.on(self.graph)


def replace(arrays: Iterable[tuple[Parameter, Any]]) -> None:
    """Give parameters their arrays, all or none: a run of a compiled program sees every one of
    them or none, and where one is refused (ShapeError, DTypeError) nothing has changed."""
    ready = [(p, p._checked(a)) for p, a in arrays]
    with WEIGHTS:
        before = [(p, p._data, p._make) for p, _ in ready]
        try:
            for p, a in ready:
                p._data, p._make = a, None
                p.version += 1
        except BaseException:  # an interrupt: versions have moved, so programs look again
            for p, data, make in before:
                p._data, p._make = data, make
                p.version += 1
            raise


class Buffer(Parameter):
    """A weight that is not learned, such as running statistics; it stands in the state dict."""

    __slots__ = ()

    @classmethod
    def filled(cls, shape: tuple[int, ...], value: float, dtype: DType | str) -> Buffer:
        """A buffer filled with one value."""
        kind = as_dtype(dtype).numpy
        return cls.lazy(shape, dtype, lambda: np.full(shape, value, kind))
