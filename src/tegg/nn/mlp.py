"""SwiGLU: the gated layer of Llama and its kin."""

from __future__ import annotations

import numpy as np

from tegg.dtype import DType
from tegg.nn.layers import Linear, Seed
from tegg.nn.module import Module
from tegg.ops import silu
from tegg.tensor import Tensor


class SwiGLU(Module):
    """down(silu(gate(x)) * up(x)): (..., dim) -> (..., dim) through ``hidden`` features.

    Its layers are ``gate_proj``, ``up_proj`` and ``down_proj``. Formula: Shazeer, arXiv 2002.05202.
    """

    def __init__(self, dim: int, hidden: int, bias: bool = False, dtype: DType | str = "f32",
                 seed: Seed = None) -> None:
        seed = np.random.default_rng(seed)
        self.gate_proj = Linear(dim, hidden, bias, dtype, seed)
        self.up_proj = Linear(dim, hidden, bias, dtype, seed)
        self.down_proj = Linear(hidden, dim, bias, dtype, seed)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
