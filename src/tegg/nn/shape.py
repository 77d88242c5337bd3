"""Layers that move or pass values: Flatten, Unflatten, Identity, Dropout, Upsample."""

from __future__ import annotations

from collections.abc import Sequence

from tegg.errors import ArgumentError
from tegg.nn.module import Module
from tegg.ops import movement
from tegg.ops.interpolate import interpolate
from tegg.ops.value import Operand, fail, one, wrap
from tegg.tensor import Tensor


class Flatten(Module):
    """``flatten``, of all but the first axis by default."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Operand) -> Tensor:
        return movement.flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """``unflatten``: one axis as several."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, x: Operand) -> Tensor:
        return movement.unflatten(x, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Identity(Module):
    """x. Arguments are taken and left unused, as in PyTorch."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def forward(self, x: Operand) -> Tensor:
        return wrap(*one("Identity", x))


class Dropout(Module):
    """x: outside of training nothing is dropped. Training mode raises ArgumentError, since there
    are no random numbers in a compiled program."""

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            fail(ArgumentError, f"{type(self).__name__}: p is a probability, not {p!r}")
        self.p = p

    def forward(self, x: Operand) -> Tensor:
        if self.training and self.p > 0:
            fail(ArgumentError, f"{type(self).__name__}: nothing can be dropped at random; call "
                                f".eval() before it is traced")
        return wrap(*one(type(self).__name__, x))

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Dropout1d(Dropout):
    """``Dropout`` of whole channels."""


class Dropout2d(Dropout):
    """``Dropout`` of whole channels."""


class Dropout3d(Dropout):
    """``Dropout`` of whole channels."""


class Upsample(Module):
    """``interpolate``"""

    def __init__(self, size: int | Sequence[int] | None = None,
                 scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
                 align_corners: bool | None = None) -> None:
        self.size, self.scale_factor = size, scale_factor
        self.mode, self.align_corners = mode, align_corners

    def forward(self, x: Operand) -> Tensor:
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)

    def extra_repr(self) -> str:
        given = f"size={self.size}" if self.size else f"scale_factor={self.scale_factor}"
        return f"{given}, mode={self.mode!r}"
