"""Layers with named parameters."""

from tegg.nn.activation import GELU, ReLU, Sigmoid, SiLU, Softmax, Tanh
from tegg.nn.attention import MultiHeadAttention
from tegg.nn.layers import Embedding, LayerNorm, Linear, ModuleList, RMSNorm, Sequential
from tegg.nn.module import Module
from tegg.nn.parameter import Parameter

__all__ = ["GELU", "Embedding", "LayerNorm", "Linear", "Module", "ModuleList",
           "MultiHeadAttention", "Parameter", "RMSNorm", "ReLU", "Sequential", "SiLU", "Sigmoid",
           "Softmax", "Tanh"]
