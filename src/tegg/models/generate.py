"""Token by token: a prompt at once, then one token a step, with cached keys and values."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from tegg.dim import dim
from tegg.errors import ArgumentError
from tegg.models.causal import Cache, CausalLM
from tegg.nn import Module
from tegg.tensor import Tensor

Pick = Callable[[np.ndarray], np.ndarray]
WINDOW = 64  # the cache is read in steps of so many slots


def greedy(logits: np.ndarray) -> np.ndarray:
    """The most likely tokens: (batch, vocabulary) -> (batch,)"""
    return logits.argmax(-1)


class _Step(Module):
    """The logits of the last token."""

    def __init__(self, model: CausalLM) -> None:
        self.model = model

    def forward(self, ids: Tensor, positions: Tensor, cache: Cache) -> Tensor:
        hidden = self.model.hidden(ids, positions, cache)
        return self.model.head(hidden[:, -1])


class Generator:
    """A decoder compiled for generation, with two programs: one for prompts of any length, one
    for a single token. Both are compiled when they are first needed, per batch size, and kept.

    The caches hold ``max_length`` positions (the model's by default); of these a step reads as
    many as are in use, rounded up to 64. ``compilers`` and ``options`` are those of
    ``tegg.compile``.
    """

    def __init__(self, model: CausalLM, max_length: int | None = None,
                 compilers: Collection[Any] = (), **options: Any) -> None:
        from tegg.jit import compile
        self.model = model
        self.max_length = model.max_length if max_length is None else max_length
        if not 1 <= self.max_length <= model.max_length:
            raise ArgumentError(f"max_length {max_length} is not in 1..{model.max_length}, the "
                                f"positions that the model knows")
        length = dim("length", 1, self.max_length, hint=min(WINDOW, self.max_length))
        slots = dim("slots", 1, self.max_length, hint=min(4 * WINDOW, self.max_length))
        layers = range(model.cache_shape[0])
        window = {f"cache.{i}.{j}": (slots, None, None, None) for i in layers for j in (0, 1)}
        self.prefill = compile(_Step(model), *compilers, dims={
            "ids": (None, length), "positions": (length,), **window}, **options)
        self.decode = compile(_Step(model), *compilers, dims=window, **options)

    def __call__(self, ids: Any, max_new_tokens: int, stop: Collection[int] = (),
                 pick: Pick = greedy) -> np.ndarray:
        """Prompts (batch, length), all of one length, to (batch, length + new): the prompts and
        what follows them, at most ``max_new_tokens``.

        ``pick`` chooses tokens (batch,) from logits (batch, vocabulary). A sequence ends with its
        first token of ``stop``, and repeats it while others go on. Raises ArgumentError for
        prompts that are empty, no integers, or too long for the caches.
        """
        ids = self._checked(ids, max_new_tokens)
        batch, length = ids.shape
        out = np.empty((batch, length + max_new_tokens), np.int64)
        out[:, :length] = ids
        if max_new_tokens == 0:
            return out
        caches = self.model.caches(self.max_length, batch)
        logits = self.prefill(ids, np.arange(length), self._window(caches, length))
        token, position = np.empty((batch, 1), np.int64), np.empty(1, np.int64)
        step, width = None, 0
        ended, stops = np.zeros(batch, bool), np.array(sorted(stop), np.int64)
        for n in range(length, length + max_new_tokens):
            out[:, n] = np.where(ended, out[:, n - 1], pick(logits))
            ended |= np.isin(out[:, n], stops)
            if ended.all() or n + 1 == out.shape[1]:
                break
            token[:, 0], position[0] = out[:, n], n
            if n >= width:
                window = self._window(caches, n + 1)
                width = len(window[0][0])
                step = self.decode.bind(token, position, window)
            assert step is not None
            step()
            (logits,) = step.outputs.values()
        return out[:, :n + 1]

    def _checked(self, ids: Any, new: int) -> np.ndarray:
        ids = np.asarray(ids)
        if ids.ndim != 2 or ids.dtype.kind not in "iu" or not ids.size:
            raise ArgumentError(f"prompts are integers (batch, length), not {ids.dtype} "
                                f"{ids.shape}; pass one list of ids per prompt, all of one length")
        if new < 0 or ids.shape[1] + new > self.max_length:
            raise ArgumentError(f"{ids.shape[1]} tokens of prompt and {new} new ones do not fit "
                                f"max_length {self.max_length}")
        return np.ascontiguousarray(ids, np.int64)

    def _window(self, caches: list, used: int) -> list:
        """The caches cut to the slots in use, a whole number of steps."""
        n = min(-(-used // WINDOW) * WINDOW, self.max_length)
        return [(keys[:n], values[:n]) for keys, values in caches]


def generate(model: CausalLM, ids: Any, max_new_tokens: int, stop: Collection[int] = (),
             pick: Pick = greedy) -> np.ndarray:
    """``Generator(model)(...)`` for one use; keep a Generator to compile once.

    The caches are as long as prompts and new tokens need.
    """
    length = np.shape(ids)[-1] if np.ndim(ids) else 1
    return Generator(model, max(1, length + max_new_tokens))(ids, max_new_tokens, stop, pick)
