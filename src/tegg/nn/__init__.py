"""Layers with named parameters."""

from tegg.nn.activation import GELU, ReLU, Sigmoid, SiLU, Softmax, Tanh
from tegg.nn.attention import MultiHeadAttention
from tegg.nn.channel_norm import (BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d,
                                  InstanceNorm2d, InstanceNorm3d)
from tegg.nn.containers import ModuleDict, ModuleList, Sequential
from tegg.nn.conv import (Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d,
                          ConvTranspose3d)
from tegg.nn.layers import Embedding, LayerNorm, Linear, RMSNorm
from tegg.nn.module import Module
from tegg.nn.parameter import Buffer, Parameter
from tegg.nn.pool import (AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d,
                          AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d, AvgPool1d,
                          AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d)
from tegg.nn.shape import Dropout, Dropout1d, Dropout2d, Dropout3d, Flatten, Identity, Unflatten

__all__ = [
    "GELU", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BatchNorm1d",
    "BatchNorm2d", "BatchNorm3d", "Buffer", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d",
    "ConvTranspose2d", "ConvTranspose3d", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d",
    "Embedding", "Flatten", "GroupNorm", "Identity", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "Linear", "MaxPool1d", "MaxPool2d", "MaxPool3d", "Module",
    "ModuleDict", "ModuleList", "MultiHeadAttention", "Parameter", "RMSNorm", "ReLU", "Sequential",
    "SiLU", "Sigmoid", "Softmax", "Tanh", "Unflatten",
]
