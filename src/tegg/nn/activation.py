"""Activations as modules, for Sequential."""

from __future__ import annotations

from tegg.dtype import DType
from tegg.nn.layers import constant
from tegg.nn.module import Module
from tegg.ops import activation, attention, elementwise
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


class LogSoftmax(Module):
    """``log_softmax`` along an axis."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Operand) -> Tensor:
        return attention.log_softmax(x, self.dim)


class LeakyReLU(Module):
    """``leaky_relu``"""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Operand) -> Tensor:
        return activation.leaky_relu(x, self.negative_slope)


class ELU(Module):
    """``elu``"""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Operand) -> Tensor:
        return activation.elu(x, self.alpha)


class SELU(Module):
    """``selu``"""

    def forward(self, x: Operand) -> Tensor:
        return activation.selu(x)


class CELU(Module):
    """``celu``"""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Operand) -> Tensor:
        return activation.celu(x, self.alpha)


class ReLU6(Module):
    """``relu6``"""

    def forward(self, x: Operand) -> Tensor:
        return activation.relu6(x)


class Hardtanh(Module):
    """``hardtanh``"""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        self.min_val, self.max_val = min_val, max_val

    def forward(self, x: Operand) -> Tensor:
        return activation.hardtanh(x, self.min_val, self.max_val)


class Hardsigmoid(Module):
    """``hardsigmoid``"""

    def forward(self, x: Operand) -> Tensor:
        return activation.hardsigmoid(x)


class Hardswish(Module):
    """``hardswish``"""

    def forward(self, x: Operand) -> Tensor:
        return activation.hardswish(x)


class Softplus(Module):
    """``softplus``"""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta, self.threshold = beta, threshold

    def forward(self, x: Operand) -> Tensor:
        return activation.softplus(x, self.beta, self.threshold)


class LogSigmoid(Module):
    """``logsigmoid``"""

    def forward(self, x: Operand) -> Tensor:
        return activation.logsigmoid(x)


class Softsign(Module):
    """``softsign``"""

    def forward(self, x: Operand) -> Tensor:
        return activation.softsign(x)


class Mish(Module):
    """``mish``"""

    def forward(self, x: Operand) -> Tensor:
        return activation.mish(x)


class Hardshrink(Module):
    """``hardshrink``"""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Operand) -> Tensor:
        return activation.hardshrink(x, self.lambd)


class Softshrink(Module):
    """``softshrink``"""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Operand) -> Tensor:
        return activation.softshrink(x, self.lambd)


class Tanhshrink(Module):
    """``tanhshrink``"""

    def forward(self, x: Operand) -> Tensor:
        return activation.tanhshrink(x)


class GLU(Module):
    """``glu``"""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Operand) -> Tensor:
        return activation.glu(x, self.dim)


class PReLU(Module):
    """``prelu`` with a learned weight (num_parameters,), 0.25 at first."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: DType | str = "f32",
                 ) -> None:
        self.weight = constant((num_parameters,), init, dtype)

    def forward(self, x: Operand) -> Tensor:
        return activation.prelu(x, self.weight)
