"""Convolutions and transposed convolutions as layers, with PyTorch's names and shapes."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from tegg.dtype import DType
from tegg.errors import ArgumentError
from tegg.nn.layers import Seed, uniform
from tegg.nn.module import Module
from tegg.ops import conv, conv_transpose
from tegg.ops.spatial import Sizes, per_axis
from tegg.ops.value import Operand, fail
from tegg.tensor import Tensor


class _Conv(Module):
    """What convolutions of all ranks hold."""

    rank: ClassVar[int]
    transposed: ClassVar[bool] = False

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
                 padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
                 dtype: DType | str = "f32", seed: Seed = None) -> None:
        name = type(self).__name__
        if min(in_channels, out_channels, groups) < 1 or in_channels % groups or (
                out_channels % groups):
            fail(ArgumentError, f"{name}: {groups} groups do not divide {in_channels} input and "
                                f"{out_channels} output channels")
        self.kernel_size = per_axis(name, "kernel_size", kernel_size, self.rank)
        self.stride = per_axis(name, "stride", stride, self.rank)
        self.padding = padding if isinstance(padding, str) else per_axis(
            name, "padding", padding, self.rank, 0)
        self.dilation, self.groups = per_axis(name, "dilation", dilation, self.rank), groups
        lead = ((in_channels, out_channels // groups) if self.transposed else
                (out_channels, in_channels // groups))
        shape = (*lead, *self.kernel_size)
        bound, rng = 1 / math.sqrt(math.prod(shape[1:])), np.random.default_rng(seed)
        self.weight = uniform(shape, bound, dtype, rng)
        self.bias = uniform((out_channels,), bound, dtype, rng) if bias else None

    def extra_repr(self) -> str:
        a, b = self.weight.shape[:2]
        into, out = (a, b * self.groups) if self.transposed else (b * self.groups, a)
        more = "".join(f", {k}={v}" for k, v, usual in (
            ("padding", self.padding, (0,) * self.rank),
            ("dilation", self.dilation, (1,) * self.rank), ("groups", self.groups, 1),
            ("bias", self.bias is not None, True)) if v != usual)
        return f"{into}, {out}, kernel_size={self.kernel_size}, stride={self.stride}{more}"


class Conv1d(_Conv):
    """``conv1d`` with a learned weight (out, in / groups, k) and bias (out,), both drawn from
    +-1/sqrt(in / groups times k), as in PyTorch; ``seed`` is an int or a NumPy Generator."""

    rank = 1

    def forward(self, x: Operand) -> Tensor:
        return conv.conv1d(x, self.weight, self.bias, self.stride, self.padding, self.dilation,
                           self.groups)


class Conv2d(_Conv):
    """``conv2d`` with a learned weight (out, in / groups, kh, kw) and bias; see ``Conv1d``."""

    rank = 2

    def forward(self, x: Operand) -> Tensor:
        return conv.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation,
                           self.groups)


class Conv3d(_Conv):
    """``conv3d`` with a learned weight (out, in / groups, kd, kh, kw) and bias; see ``Conv1d``."""

    rank = 3

    def forward(self, x: Operand) -> Tensor:
        return conv.conv3d(x, self.weight, self.bias, self.stride, self.padding, self.dilation,
                           self.groups)


class _ConvTranspose(_Conv):
    """As ``_Conv``, with PyTorch's order of arguments for transposed convolutions."""

    transposed = True

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
                 padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, bias: bool = True,
                 dilation: Sizes = 1, dtype: DType | str = "f32", seed: Seed = None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         bias, dtype, seed)
        self.output_padding = per_axis(type(self).__name__, "output_padding", output_padding,
                                       self.rank, 0)

    def _given(self) -> tuple:
        return (self.weight, self.bias, self.stride, self.padding, self.output_padding,
                self.groups, self.dilation)


class ConvTranspose1d(_ConvTranspose):
    """``conv_transpose1d`` with a learned weight (in, out / groups, k) and bias (out,)."""

    rank = 1

    def forward(self, x: Operand) -> Tensor:
        return conv_transpose.conv_transpose1d(x, *self._given())


class ConvTranspose2d(_ConvTranspose):
    """``conv_transpose2d`` with a learned weight (in, out / groups, kh, kw) and bias (out,)."""

    rank = 2

    def forward(self, x: Operand) -> Tensor:
        return conv_transpose.conv_transpose2d(x, *self._given())


class ConvTranspose3d(_ConvTranspose):
    """``conv_transpose3d`` with a learned weight (in, out / groups, kd, kh, kw) and bias (out,)."""

    rank = 3

    def forward(self, x: Operand) -> Tensor:
        return conv_transpose.conv_transpose3d(x, *self._given())
