"""Pools as layers."""

from __future__ import annotations

from typing import ClassVar

from tegg.nn.module import Module
from tegg.ops import adaptive_pool, pool
from tegg.ops.adaptive_pool import Wanted
from tegg.ops.spatial import Sizes
from tegg.ops.value import Operand
from tegg.tensor import Tensor


class _MaxPool(Module):
    """What maximum pools of all ranks hold."""

    function: ClassVar

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                 dilation: Sizes = 1, ceil_mode: bool = False) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.ceil_mode = dilation, ceil_mode

    def forward(self, x: Operand) -> Tensor:
        return type(self).function(x, self.kernel_size, self.stride, self.padding, self.dilation,
                                   self.ceil_mode)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
                f"dilation={self.dilation}, ceil_mode={self.ceil_mode}")


class MaxPool1d(_MaxPool):
    """``max_pool1d``"""

    function = staticmethod(pool.max_pool1d)


class MaxPool2d(_MaxPool):
    """``max_pool2d``"""

    function = staticmethod(pool.max_pool2d)


class MaxPool3d(_MaxPool):
    """``max_pool3d``"""

    function = staticmethod(pool.max_pool3d)


class AvgPool1d(Module):
    """``avg_pool1d``"""

    function: ClassVar = staticmethod(pool.avg_pool1d)

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, x: Operand) -> Tensor:
        return type(self).function(x, *self._given())

    def _given(self) -> tuple:
        return (self.kernel_size, self.stride, self.padding, self.ceil_mode,
                self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(AvgPool1d):
    """``avg_pool2d``"""

    function = staticmethod(pool.avg_pool2d)

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True,
                 divisor_override: int | None = None) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def _given(self) -> tuple:
        return (*super()._given(), self.divisor_override)


class AvgPool3d(AvgPool2d):
    """``avg_pool3d``"""

    function = staticmethod(pool.avg_pool3d)


class _AdaptivePool(Module):
    """What adaptive pools hold."""

    function: ClassVar

    def __init__(self, output_size: Wanted) -> None:
        self.output_size = output_size

    def forward(self, x: Operand) -> Tensor:
        return type(self).function(x, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """``adaptive_avg_pool1d``"""

    function = staticmethod(adaptive_pool.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptivePool):
    """``adaptive_avg_pool2d``"""

    function = staticmethod(adaptive_pool.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptivePool):
    """``adaptive_avg_pool3d``"""

    function = staticmethod(adaptive_pool.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_AdaptivePool):
    """``adaptive_max_pool1d``"""

    function = staticmethod(adaptive_pool.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptivePool):
    """``adaptive_max_pool2d``"""

    function = staticmethod(adaptive_pool.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptivePool):
    """``adaptive_max_pool3d``"""

    function = staticmethod(adaptive_pool.adaptive_max_pool3d)
