"""Keys and values of the tokens so far, kept in arrays that each call overwrites in place."""

from __future__ import annotations

import numpy as np

from tegg.dtype import DType, dtype as as_dtype, i64
from tegg.errors import ArgumentError, ShapeError
from tegg.ops.value import Operand, fail, node_of, wrap
from tegg.shape import show
from tegg.tensor import Tensor, state

Arrays = tuple[np.ndarray, np.ndarray]


class KVCache:
    """The keys and values of one attention layer, and the positions of the new tokens.

    ``arrays`` are two arguments of the recorded function, (slots, batch, heads, head_dim) each,
    that hold position p in slot p. The slots come first, so that ``array[:n]`` is contiguous and
    can be passed while only n slots are of interest; n may be a symbolic dim. ``positions``
    (length,) are integers, the same for the whole batch; those beyond the slots are dropped.
    Raises ArgumentError where the arrays are no arguments, ShapeError where the shapes do not fit.
    """

    __slots__ = ("key", "positions", "value")

    def __init__(self, arrays: tuple[Tensor, Tensor], positions: Operand | None) -> None:
        self.key, self.value = arrays
        for a in (self.key, self.value):
            if not isinstance(a, Tensor) or a.node.op.name != "Input":
                fail(ArgumentError, f"KVCache: {a!r} is no argument of the recorded function, so "
                                    f"it cannot be overwritten")
            if a.ndim != 4:
                fail(ShapeError, f"KVCache: {show(a.shape)} is not (slots, batch, heads, head_dim)")
        if positions is None:
            fail(ArgumentError, "KVCache: needs the positions of the new tokens, (length,)")
        self.positions = wrap(self.key.graph, node_of("KVCache", self.key.graph, positions))
        if self.positions.ndim != 1:
            fail(ShapeError, f"KVCache: the positions have one axis, not "
                             f"{show(self.positions.shape)}")

    @staticmethod
    def zeros(slots: int, batch: int, heads: int, head_dim: int,
              dtype: DType | str = "f32") -> Arrays:
        """Fresh arrays for one layer."""
        shape, kind = (slots, batch, heads, head_dim), as_dtype(dtype).numpy
        return np.zeros(shape, kind), np.zeros(shape, kind)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store those of the new tokens, (batch, heads, length, head_dim), and give those of all
        slots, (batch, heads, slots, head_dim)."""
        keys, values = self._put(self.key, key), self._put(self.value, value)
        return keys.permute(1, 2, 0, 3), values.permute(1, 2, 0, 3)

    def _put(self, old: Tensor, new: Tensor) -> Tensor:
        graph, rows = old.graph, new.permute(2, 0, 1, 3)
        put = graph.op("Scatter", old.node, self.positions.node, rows.node, 0, "last")
        return state(old, wrap(graph, put))

    def mask(self) -> Tensor:
        """(length, slots): whether a slot is not after the token."""
        graph = self.key.graph
        slots = wrap(graph, graph.iota(self.key.shape[0], i64))
        return slots <= self.positions.cast(i64).unsqueeze(-1)
