"""BatchNorm, GroupNorm and InstanceNorm as layers, with PyTorch's names."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tegg.dtype import DType
from tegg.errors import ArgumentError, ShapeError
from tegg.nn.layers import constant
from tegg.nn.module import Module
from tegg.nn.parameter import Buffer
from tegg.ops.channel_norm import batch_norm, group_norm, instance_norm
from tegg.ops.value import Operand, fail, one, wrap
from tegg.shape import show
from tegg.tensor import Tensor


class _BatchNorm(Module):
    """``batch_norm`` by running statistics. Training mode raises ArgumentError."""

    ranks: ClassVar[tuple[int, ...]]

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1,
                 affine: bool = True, track_running_stats: bool = True,
                 dtype: DType | str = "f32") -> None:
        if not track_running_stats:
            fail(ArgumentError, f"{type(self).__name__}: statistics of the batch are not there; "
                                f"leave track_running_stats=True")
        shape = (num_features,)
        self.eps, self.momentum = eps, momentum
        self.weight = constant(shape, 1, dtype) if affine else None
        self.bias = constant(shape, 0, dtype) if affine else None
        self.running_mean = Buffer.filled(shape, 0, dtype)
        self.running_var = Buffer.filled(shape, 1, dtype)
        self.num_batches_tracked = Buffer(np.zeros((), np.int64))

    def forward(self, x: Operand) -> Tensor:
        name = type(self).__name__
        if self.training:
            fail(ArgumentError, f"{name}: statistics of the batch are not there; call .eval() "
                                f"before it is traced")
        graph, a = one(name, x)
        if len(a.shape) not in self.ranks:
            fail(ShapeError, f"{name}: takes {' or '.join(map(str, self.ranks))} axes, not "
                             f"{show(a.shape)}")
        return batch_norm(wrap(graph, a), self.running_mean, self.running_var, self.weight,
                          self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.running_mean.shape[0]}, eps={self.eps}"


class BatchNorm1d(_BatchNorm):
    """(n, c) or (n, c, l) normalised by running_mean and running_var, then weight and bias."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """(n, c, h, w) normalised by running_mean and running_var, then weight and bias."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """(n, c, d, h, w) normalised by running_mean and running_var, then weight and bias."""

    ranks = (5,)


class GroupNorm(Module):
    """``group_norm`` with a learned weight (1) and bias (0) for each channel."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
                 dtype: DType | str = "f32") -> None:
        if num_groups < 1 or num_channels % num_groups:
            fail(ArgumentError, f"GroupNorm: {num_groups} groups do not divide {num_channels} "
                                f"channels")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = constant((num_channels,), 1, dtype) if affine else None
        self.bias = constant((num_channels,), 0, dtype) if affine else None

    def forward(self, x: Operand) -> Tensor:
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class _InstanceNorm(Module):
    """``instance_norm``; as in PyTorch without learned values unless ``affine``."""

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = False,
                 dtype: DType | str = "f32") -> None:
        self.num_features, self.eps = num_features, eps
        self.weight = constant((num_features,), 1, dtype) if affine else None
        self.bias = constant((num_features,), 0, dtype) if affine else None

    def forward(self, x: Operand) -> Tensor:
        return instance_norm(x, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}"


class InstanceNorm1d(_InstanceNorm):
    """Each channel of (n, c, l) normalised over l."""


class InstanceNorm2d(_InstanceNorm):
    """Each channel of (n, c, h, w) normalised over h and w."""


class InstanceNorm3d(_InstanceNorm):
    """Each channel of (n, c, d, h, w) normalised over d, h and w."""
