"""Multi-head attention, with grouped queries, rotary positions and a cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegg.dtype import DType
from tegg.errors import ArgumentError
from tegg.nn.cache import KVCache
from tegg.nn.layers import Linear, Seed
from tegg.nn.module import Module
from tegg.nn.rope import RoPE
from tegg.ops.attention import scaled_dot_product_attention
from tegg.ops.value import Operand, fail
from tegg.tensor import Tensor


class MultiHeadAttention(Module):
    """Attention with ``heads`` query heads and ``kv_heads`` key and value heads (grouped queries;
    as many as ``heads`` by default), over (..., length, dim).

    Its layers are ``query``, ``key``, ``value`` and ``out``; a state dict of PyTorch's
    MultiheadAttention (``in_proj_weight``, ``out_proj.weight``, ...) loads as well. ``head_dim`` is
    dim / heads by default. ``rope`` turns queries and keys. ``out_bias`` is as ``bias`` by default.
    Raises ArgumentError where heads do not divide.
    """

    def __init__(self, dim: int, heads: int, kv_heads: int | None = None, bias: bool = True,
                 dtype: DType | str = "f32", seed: Seed = None, *, head_dim: int | None = None,
                 rope: RoPE | None = None, out_bias: bool | None = None) -> None:
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or kv_heads < 1 or heads % kv_heads or (head_dim is None and dim % heads):
            fail(ArgumentError, f"MultiHeadAttention: dim {dim}, heads {heads} and kv_heads "
                                f"{kv_heads} do not divide")
        seed = np.random.default_rng(seed)
        self.heads, self.kv_heads = heads, kv_heads
        self.head_dim = dim // heads if head_dim is None else head_dim
        self.query = Linear(dim, heads * self.head_dim, bias, dtype, seed)
        self.key = Linear(dim, kv_heads * self.head_dim, bias, dtype, seed)
        self.value = Linear(dim, kv_heads * self.head_dim, bias, dtype, seed)
        self.out = Linear(heads * self.head_dim, dim, bias if out_bias is None else out_bias,
                          dtype, seed)
        self.rope = rope

    def forward(self, x: Tensor, memory: Tensor | None = None, mask: Operand | None = None,
                causal: bool = False, positions: Operand | None = None,
                cache: KVCache | None = None) -> Tensor:
        """Queries of ``x`` attend to ``memory`` (``x`` by default). ``mask`` broadcasts to
        (..., heads, length, memory length): bools say which places take part, floats are added.

        ``positions`` (length,) are for ``rope``; 0, 1, ... by default. With a ``cache`` the keys
        are those of all its slots, of which each token sees those up to its own position; x is
        then (batch, length, dim). Raises ArgumentError for a cache and ``memory`` or ``mask``.
        """
        if cache is not None and not (memory is None and mask is None):
            fail(ArgumentError, "MultiHeadAttention: a cache is for self-attention of tokens that "
                                "see those before; it goes without memory and mask")
        memory = x if memory is None else memory
        positions = cache.positions if positions is None and cache is not None else positions
        q = self._turned(self._split(self.query(x), self.heads), positions)
        k = self._turned(self._split(self.key(memory), self.kv_heads), positions)
        v = self._split(self.value(memory), self.kv_heads)
        if cache is not None:
            k, v = cache.append(k, v)
            mask, causal = cache.mask(), False
        y = scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=True)
        return self.out(y.transpose(-3, -2).flatten(-2))

    def _turned(self, x: Tensor, positions: Operand | None) -> Tensor:
        return x if self.rope is None else self.rope(x, positions)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        """(..., length, heads * head_dim) -> (..., heads, length, head_dim)"""
        return x.reshape(*x.shape[:-1], heads, self.head_dim).transpose(-3, -2)

    def adapt_state(self, state: dict[str, Any], prefix: str) -> None:
        """PyTorch's names: query, key and value packed one above the other, and ``out_proj``."""
        sizes = [self.heads * self.head_dim, self.kv_heads * self.head_dim]
        cuts = [sizes[0], sizes[0] + sizes[1]]
        for kind in ("weight", "bias"):
            packed = state.get(f"{prefix}in_proj_{kind}")
            if packed is not None and len(packed) == sizes[0] + 2 * sizes[1]:
                parts = np.split(np.asarray(state.pop(f"{prefix}in_proj_{kind}")), cuts)
                state.update({f"{prefix}{name}.{kind}": part
                              for name, part in zip(("query", "key", "value"), parts)})
            if f"{prefix}out_proj.{kind}" in state:
                state[f"{prefix}out.{kind}"] = state.pop(f"{prefix}out_proj.{kind}")

    def extra_repr(self) -> str:
        return f"heads={self.heads}, kv_heads={self.kv_heads}, head_dim={self.head_dim}"
