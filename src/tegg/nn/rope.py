"""Rotary position embedding: angles from positions, in both layouts of pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tegg.dtype import i64
from tegg.errors import ArgumentError
from tegg.nn.module import Module
from tegg.ops import cast, cat, cos, rope, sin, stack, unsqueeze
from tegg.ops.value import Operand, fail, graph_of, wrap
from tegg.tensor import Tensor


# What each kind of scaling reads of a config.json: our name -> the file's.
_KEYS = {"linear": {"factor": "factor"},
         "llama3": {"factor": "factor", "low_freq_factor": "low_freq_factor",
                    "high_freq_factor": "high_freq_factor",
                    "original_length": "original_max_position_embeddings"}}


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How frequencies are stretched for contexts longer than those of training.

    kind: ``linear`` divides all of them by ``factor``; ``llama3`` divides those that turn fewer
    than ``low_freq_factor`` times in ``original_length`` positions, keeps those that turn more
    than ``high_freq_factor`` times, and goes from one to the other in between.
    """

    kind: str
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_length: int = 8192

    def __post_init__(self) -> None:
        if self.kind not in _KEYS:
            raise ArgumentError(f"rope scaling {self.kind!r} is not known; there are "
                                f"{' and '.join(_KEYS)}")

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> RopeScaling | None:
        """The ``rope_scaling`` of a ``config.json``; None where it asks for none.

        Raises ArgumentError for a kind that is not known, or keys that it lacks.
        """
        config = config or {}
        kind = config.get("rope_type", config.get("type", "default"))
        if kind == "default":
            return None
        names = _KEYS.get(kind, {})
        missing = [theirs for theirs in names.values() if theirs not in config]
        if missing:
            raise ArgumentError(f"rope scaling {kind!r} needs {', '.join(missing)}")
        return cls(kind, **{ours: config[theirs] for ours, theirs in names.items()})

    def apply(self, frequencies: np.ndarray) -> np.ndarray:
        """The stretched frequencies."""
        if self.kind == "linear":
            return frequencies / self.factor
        turns = self.original_length * frequencies / (2 * math.pi)
        span = self.high_freq_factor - self.low_freq_factor
        kept = np.clip((turns - self.low_freq_factor) / span, 0, 1)
        return frequencies * (kept + (1 - kept) / self.factor)


class RoPE(Module):
    """Rotates pairs of features of queries and keys by angles that grow with the position.

    Pair i of ``dim`` / 2 turns by position * theta^(-2i / dim). A pair is (x[i], x[i + dim / 2])
    as in Hugging Face's Llama, or (x[2i], x[2i + 1]) where ``interleaved``, as in the paper.
    Formula: Su et al., arXiv 2104.09864. Raises ArgumentError for an odd ``dim``.
    """

    def __init__(self, dim: int, theta: float = 10000.0, interleaved: bool = False,
                 scaling: RopeScaling | None = None) -> None:
        if dim < 2 or dim % 2:
            fail(ArgumentError, f"RoPE turns pairs of features, so dim is even, not {dim}")
        self.dim, self.theta, self.interleaved, self.scaling = dim, theta, interleaved, scaling
        frequencies = theta ** (-np.arange(0, dim, 2) / dim)
        frequencies = scaling.apply(frequencies) if scaling else frequencies
        self.frequencies = frequencies.astype(np.float32)

    def forward(self, x: Tensor, positions: Operand | None = None, offset: Operand = 0) -> Tensor:
        """(..., length, dim) -> the same, turned. ``positions`` is (length,), integers; without
        it they are ``offset``, ``offset`` + 1, ..., where the offset may be a Tensor."""
        if positions is None:
            graph = graph_of("rope", (x,))
            positions = wrap(graph, graph.iota(x.shape[-2], i64)) + offset
        angle = unsqueeze(cast(positions, "f32"), -1) * self.frequencies
        turned = self._interleaved if self.interleaved else self._halves
        return turned(x, cos(angle).cast(x.dtype), sin(angle).cast(x.dtype))

    @staticmethod
    def _halves(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
        return rope(x, cat([c, c], -1), cat([s, s], -1))

    @staticmethod
    def _interleaved(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
        pairs = x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        return stack([a * c - b * s, b * c + a * s], -1).reshape(*x.shape)

    def extra_repr(self) -> str:
        return f"{self.dim}, theta={self.theta:g}" + (", interleaved" if self.interleaved else "")
