"""Transformer encoder and decoder by PyTorch's names, arguments and meaning of masks.

A bool mask here says which places are left out, and a float mask is added, as in
``torch.nn.Transformer``; ``MultiHeadAttention`` and ``scaled_dot_product_attention`` take the
opposite, which places take part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tegg.dtype import bool_
from tegg.errors import ArgumentError
from tegg.nn.attention import MultiHeadAttention
from tegg.nn.layers import LayerNorm, Linear, Seed
from tegg.nn.module import Module
from tegg.nn.shape import Dropout
from tegg.ops import gelu, logical_and, logical_not, relu, where
from tegg.ops.value import Operand, fail, graph_of, node_of, wrap
from tegg.tensor import Tensor

Activation = str | Callable[[Tensor], Tensor]
_ACTIVATIONS: dict[str, Callable] = {"relu": relu, "gelu": gelu}


class _Layer(Module):
    """What encoder and decoder layers share: attention, linear layers, norms before or after."""

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: Activation = "relu", layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True,
                 seed: Seed = None) -> None:
        if isinstance(activation, str) and activation not in _ACTIVATIONS:
            fail(ArgumentError, f"{type(self).__name__}: activation {activation!r}; there are "
                                f"{', '.join(_ACTIVATIONS)}, or give a function")
        seed = np.random.default_rng(seed)
        self.batch_first, self.norm_first = batch_first, norm_first
        self.activation = (_ACTIVATIONS[activation] if isinstance(activation, str)
                           else activation)
        self.self_attn = MultiHeadAttention(d_model, nhead, bias=bias, seed=seed)
        self.linear1 = Linear(d_model, dim_feedforward, bias, seed=seed)
        self.linear2 = Linear(dim_feedforward, d_model, bias, seed=seed)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias)
        self.dropout = Dropout(dropout)

    def _added(self, x: Tensor, norm: LayerNorm, f: Callable[[Tensor], Tensor]) -> Tensor:
        """One residual step, normalised before or after."""
        if self.norm_first:
            return x + self.dropout(f(norm(x)))
        return norm(x + self.dropout(f(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _turned(self, x: Tensor) -> Tensor:
        """(length, batch, d) and (batch, length, d), one as the other, where the batch is not
        first."""
        return x if self.batch_first or x.ndim < 3 else x.transpose(0, 1)


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward, each added to its input and normalised.

    Arguments, names of parameters and masks are those of ``torch.nn.TransformerEncoderLayer``.
    """

    def forward(self, src: Tensor, src_mask: Operand | None = None,
                src_key_padding_mask: Operand | None = None, is_causal: bool = False) -> Tensor:
        """(length, batch, d_model), or (batch, length, d_model) where ``batch_first``, or
        (length, d_model), to the same shape. ``src_mask``: (length, length) or
        (batch * heads, length, length); ``src_key_padding_mask``: (batch, length).
        ``is_causal``: no place sees a later one, with or without ``src_mask``."""
        x, heads = self._turned(src), self.self_attn.heads
        mask = _mask(x, src_mask, src_key_padding_mask, heads)
        x = self._added(x, self.norm1, lambda y: self.self_attn(y, mask=mask, causal=is_causal))
        return self._turned(self._added(x, self.norm2, self._feed_forward))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's output, and a feed-forward.

    Arguments, names of parameters and masks are those of ``torch.nn.TransformerDecoderLayer``.
    """

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: Activation = "relu", layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True,
                 seed: Seed = None) -> None:
        seed = np.random.default_rng(seed)
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                         batch_first, norm_first, bias, seed)
        self.multihead_attn = MultiHeadAttention(d_model, nhead, bias=bias, seed=seed)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias)

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Operand | None = None,
                memory_mask: Operand | None = None, tgt_key_padding_mask: Operand | None = None,
                memory_key_padding_mask: Operand | None = None, tgt_is_causal: bool = False,
                memory_is_causal: bool = False) -> Tensor:
        """(length, batch, d_model) and the memory (memory length, batch, d_model), batch first
        where so made, or both without batch. Masks as of the encoder's layer; ``memory_mask`` is
        (length, memory length)."""
        x, memory = self._turned(tgt), self._turned(memory)
        own = _mask(x, tgt_mask, tgt_key_padding_mask, self.self_attn.heads)
        other = _mask(x, memory_mask, memory_key_padding_mask, self.multihead_attn.heads)
        x = self._added(x, self.norm1,
                        lambda y: self.self_attn(y, mask=own, causal=tgt_is_causal))
        x = self._added(x, self.norm2, lambda y: self.multihead_attn(
            y, memory, mask=other, causal=memory_is_causal))
        return self._turned(self._added(x, self.norm3, self._feed_forward))


class TransformerEncoder(Module):
    """``num_layers`` encoder layers made by ``layer()``, then ``norm`` where there is one.

    PyTorch copies one layer; here a function makes each, so that each has weights of its own:
    ``TransformerEncoder(lambda: TransformerEncoderLayer(64, 4), 6)``.
    """

    def __init__(self, layer: Callable[[], TransformerEncoderLayer], num_layers: int,
                 norm: Module | None = None) -> None:
        self.layers = _made(layer, num_layers, "TransformerEncoder")
        self.norm = norm

    def forward(self, src: Tensor, mask: Operand | None = None,
                src_key_padding_mask: Operand | None = None, is_causal: bool = False) -> Tensor:
        """See ``TransformerEncoderLayer.forward``."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """``num_layers`` decoder layers made by ``layer()``, then ``norm`` where there is one."""

    def __init__(self, layer: Callable[[], TransformerDecoderLayer], num_layers: int,
                 norm: Module | None = None) -> None:
        self.layers = _made(layer, num_layers, "TransformerDecoder")
        self.norm = norm

    def forward(self, tgt: Tensor, memory: Tensor, *masks: Any, **named: Any) -> Tensor:
        """See ``TransformerDecoderLayer.forward``; every layer gets the same masks."""
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, **named)
        return tgt if self.norm is None else self.norm(tgt)


def _made(layer: Any, count: int, name: str) -> list:
    if isinstance(layer, Module) or not callable(layer):
        fail(ArgumentError, f"{name}: takes a function that makes a layer, such as "
                            f"lambda: {name}Layer(64, 4), so that each has its own weights")
    return [layer() for _ in range(count)]


def _mask(x: Tensor, mask: Operand | None, padding: Operand | None,
          heads: int) -> Tensor | None:
    """PyTorch's two masks as the one of ``scaled_dot_product_attention``."""
    found = []
    for given, is_padding in ((mask, False), (padding, True)):
        if given is None:
            continue
        m = wrap(x.graph, node_of("mask", graph_of("mask", (x, given)), given))
        if is_padding:  # (batch, keys), or (keys,) without batch
            m = m.reshape(*m.shape[:-1], 1, 1, m.shape[-1])
        elif m.ndim == 3:
            m = m.reshape(-1, heads, *m.shape[1:])
        found.append(logical_not(m) if m.dtype is bool_ else m)
    if len(found) == 2 and found[0].dtype is not found[1].dtype:
        found = [where(m, 0.0, -math.inf) if m.dtype is bool_ else m for m in found]
    if len(found) < 2:
        return found[0] if found else None
    return logical_and(*found) if found[0].dtype is bool_ else found[0] + found[1]
