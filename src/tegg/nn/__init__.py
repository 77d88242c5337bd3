"""Layers with named parameters."""

from tegg.nn.activation import GELU, ReLU, Sigmoid, SiLU, Softmax, Tanh
from tegg.nn.attention import MultiHeadAttention
from tegg.nn.cache import KVCache
from tegg.nn.layers import Embedding, LayerNorm, Linear, ModuleList, RMSNorm, Sequential
from tegg.nn.mlp import SwiGLU
from tegg.nn.module import Module
from tegg.nn.parameter import Parameter
from tegg.nn.rope import RoPE, RopeScaling
from tegg.nn.transformer import (TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
                                 TransformerEncoderLayer)

__all__ = ["GELU", "Embedding", "KVCache", "LayerNorm", "Linear", "Module", "ModuleList",
           "MultiHeadAttention", "Parameter", "RMSNorm", "ReLU", "RoPE", "RopeScaling",
           "Sequential", "SiLU", "Sigmoid", "Softmax", "SwiGLU", "Tanh", "TransformerDecoder",
           "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer"]
