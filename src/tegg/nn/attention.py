"""Multi-head attention."""

from __future__ import annotations

import numpy as np

from tegg.dtype import DType
from tegg.errors import ArgumentError
from tegg.nn.layers import Linear, Seed
from tegg.nn.module import Module
from tegg.ops.attention import scaled_dot_product_attention
from tegg.ops.value import Operand, fail
from tegg.tensor import Tensor


class MultiHeadAttention(Module):
    """Attention with ``heads`` query heads and ``kv_heads`` key and value heads (grouped queries;
    as many as ``heads`` by default), over (..., length, dim).

    Its layers are ``query``, ``key``, ``value`` and ``out``. Raises ArgumentError where heads do
    not divide.
    """

    def __init__(self, dim: int, heads: int, kv_heads: int | None = None, bias: bool = True,
                 dtype: DType | str = "f32", seed: Seed = None) -> None:
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or kv_heads < 1 or dim % heads or heads % kv_heads:
            fail(ArgumentError, f"MultiHeadAttention: dim {dim}, heads {heads} and kv_heads "
                                f"{kv_heads} do not divide")
        seed = np.random.default_rng(seed)
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.query = Linear(dim, dim, bias, dtype, seed)
        self.key = Linear(dim, kv_heads * self.head_dim, bias, dtype, seed)
        self.value = Linear(dim, kv_heads * self.head_dim, bias, dtype, seed)
        self.out = Linear(dim, dim, bias, dtype, seed)

    def forward(self, x: Tensor, memory: Tensor | None = None, mask: Operand | None = None,
                causal: bool = False) -> Tensor:
        """Queries of ``x`` attend to ``memory`` (``x`` by default). ``mask`` broadcasts to
        (..., heads, length, memory length): bools say which places take part, floats are added."""
        memory = x if memory is None else memory
        q = self._split(self.query(x), self.heads)
        k = self._split(self.key(memory), self.kv_heads)
        v = self._split(self.value(memory), self.kv_heads)
        y = scaled_dot_product_attention(q, k, v, mask, causal)
        return self.out(y.transpose(-3, -2).flatten(-2))

    def _split(self, x: Tensor, heads: int) -> Tensor:
        """(..., length, heads * head_dim) -> (..., heads, length, head_dim)"""
        return x.reshape(*x.shape[:-1], heads, self.head_dim).transpose(-3, -2)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, kv_heads={self.kv_heads}, head_dim={self.head_dim}"
