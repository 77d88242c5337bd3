"""Activations as modules, for Sequential."""

from __future__ import annotations

from tegg.nn.module import Module
from tegg.ops import attention, elementwise
from tegg.ops.value import Operand
from tegg.tensor import Tensor


class ReLU(Module):
    """max(x, 0)"""

    def forward(self, x: Operand) -> Tensor:
        return elementwise.relu(x)


class GELU(Module):
    """x Phi(x); ``approximate="tanh"`` for its approximation."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Operand) -> Tensor:
        return elementwise.gelu(x, self.approximate)


class SiLU(Module):
    """x sigmoid(x)"""

    def forward(self, x: Operand) -> Tensor:
        return elementwise.silu(x)


class Sigmoid(Module):
    """1 / (1 + e^-x)"""

    def forward(self, x: Operand) -> Tensor:
        return elementwise.sigmoid(x)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: Operand) -> Tensor:
        return elementwise.tanh(x)


class Softmax(Module):
    """``softmax`` along an axis."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Operand) -> Tensor:
        return attention.softmax(x, self.dim)
