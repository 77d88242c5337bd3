"""What the decoders share: logits of every token, and caches of keys and values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tegg.nn import KVCache, Module
from tegg.ops.value import Operand
from tegg.tensor import Tensor

Cache = Sequence[tuple[Tensor, Tensor]]


class CausalLM(Module, ABC):
    """A decoder that predicts the next token: ``hidden`` and ``head`` make its ``forward``.

    ``max_length`` is the most positions that it knows; ``cache_shape`` is (layers, key heads,
    head size).
    """

    max_length: int
    cache_shape: tuple[int, int, int]

    @abstractmethod
    def hidden(self, ids: Tensor, positions: Operand | None = None,
               cache: Cache | None = None) -> Tensor:
        """What ``head`` reads, (batch, length, size); the rest is as of ``forward``."""

    @abstractmethod
    def head(self, hidden: Tensor) -> Tensor:
        """(..., size) -> logits (..., vocabulary)"""

    def forward(self, ids: Tensor, positions: Operand | None = None,
                cache: Cache | None = None) -> Tensor:
        """Token ids (batch, length) to logits (batch, length, vocabulary).

        positions: (length,) integers, the same for the batch; 0, 1, ... by default. cache: one
        (keys, values) pair per layer, as ``caches`` makes them; the tokens are then added to it
        and see all that it holds up to their own positions. It goes with ``positions``.
        """
        return self.head(self.hidden(ids, positions, cache))

    def caches(self, slots: int, batch: int = 1) -> list:
        """Empty caches for so many positions, to be passed as ``cache``."""
        layers, heads, size = self.cache_shape
        return [KVCache.zeros(slots, batch, heads, size) for _ in range(layers)]
