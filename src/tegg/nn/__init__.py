"""Layers with named parameters."""

from tegg.nn.activation import (CELU, ELU, GELU, GLU, SELU, Hardshrink, Hardsigmoid, Hardswish,
                                Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU, ReLU,
                                ReLU6, Sigmoid, SiLU, Softmax, Softplus, Softshrink, Softsign,
                                Tanh, Tanhshrink)
from tegg.nn.attention import MultiHeadAttention
from tegg.nn.cache import KVCache
from tegg.nn.channel_norm import (BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d,
                                  InstanceNorm2d, InstanceNorm3d)
from tegg.nn.containers import ModuleDict, ModuleList, Sequential
from tegg.nn.conv import (Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d,
                          ConvTranspose3d)
from tegg.nn.layers import Embedding, LayerNorm, Linear, RMSNorm
from tegg.nn.mlp import SwiGLU
from tegg.nn.module import Module
from tegg.nn.parameter import Buffer, Parameter
from tegg.nn.pool import (AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d,
                          AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d, AvgPool1d,
                          AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d)
from tegg.nn.rope import RoPE, RopeScaling
from tegg.nn.shape import (Dropout, Dropout1d, Dropout2d, Dropout3d, Flatten, Identity, Unflatten,
                           Upsample)
from tegg.nn.transformer import (TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
                                 TransformerEncoderLayer)

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d",
    "AvgPool2d", "AvgPool3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Buffer", "Conv1d",
    "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Dropout",
    "Dropout1d", "Dropout2d", "Dropout3d", "Embedding", "Flatten", "GroupNorm", "Hardshrink",
    "Hardsigmoid", "Hardswish", "Hardtanh", "Identity", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "KVCache", "LayerNorm", "LeakyReLU", "Linear", "LogSigmoid", "LogSoftmax",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "Mish", "Module", "ModuleDict", "ModuleList",
    "MultiHeadAttention", "PReLU", "Parameter", "RMSNorm", "ReLU", "ReLU6", "RoPE", "RopeScaling",
    "Sequential", "SiLU", "Sigmoid", "Softmax", "Softplus", "Softshrink", "Softsign", "SwiGLU",
    "Tanh", "Tanhshrink", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer", "Unflatten", "Upsample",
]
