"""GPT-2: learned positions, layer norms before, tanh-GELU, a head tied to the embedding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tegg.models.causal import Cache, CausalLM
from tegg.models.files import (PathLike, config_beside, known, read_config, read_weights,
                               renamed)
from tegg.nn import Embedding, KVCache, LayerNorm, Linear, Module, MultiHeadAttention
from tegg.ops import gelu, linear
from tegg.ops.value import Operand
from tegg.tensor import Tensor


@dataclass(frozen=True, slots=True)
class GPT2Config:
    """The sizes of a GPT-2, by the keys of Hugging Face; the defaults are the small model's."""

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None  # 4 n_embd
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True

    @classmethod
    def from_json(cls, path: PathLike) -> GPT2Config:
        """The sizes in a ``config.json``. Raises WeightsError for a model of another kind."""
        config = read_config(path, {
            "model_type": "gpt2", "activation_function": "gelu_new", "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False})
        return cls(**known(config, cls.__dataclass_fields__))


class GPT2Block(Module):
    """Attention and two linear layers, each of the normalised input and added to it."""

    def __init__(self, config: GPT2Config) -> None:
        size, eps = config.n_embd, config.layer_norm_epsilon
        inner = config.n_inner or 4 * size
        self.ln_1 = LayerNorm(size, eps)
        self.attn = MultiHeadAttention(size, config.n_head)
        self.ln_2 = LayerNorm(size, eps)
        self.up = Linear(size, inner)
        self.down = Linear(inner, size)

    def forward(self, x: Tensor, cache: KVCache | None) -> Tensor:
        x = x + self.attn(self.ln_1(x), causal=True, cache=cache)
        return x + self.down(gelu(self.up(self.ln_2(x)), "tanh"))


class GPT2(CausalLM):
    """Token ids (batch, length) to logits (batch, length, vocab_size); see ``CausalLM.forward``.

    ``from_safetensors`` loads files in the layout of Hugging Face.
    """

    def __init__(self, config: GPT2Config | None = None) -> None:
        config = config or GPT2Config()
        size = config.n_embd
        self.config, self.max_length = config, config.n_positions
        self.cache_shape = config.n_layer, config.n_head, size // config.n_head
        self.wte = Embedding(config.vocab_size, size)
        self.wpe = Embedding(config.n_positions, size)
        self.h = [GPT2Block(config) for _ in range(config.n_layer)]
        self.ln_f = LayerNorm(size, config.layer_norm_epsilon)
        self.lm_head = (None if config.tie_word_embeddings
                        else Linear(size, config.vocab_size, bias=False))

    def hidden(self, ids: Tensor, positions: Operand | None = None,
               cache: Cache | None = None) -> Tensor:
        places = self.wpe.weight[:ids.shape[-1]] if positions is None else self.wpe(positions)
        x = self.wte(ids) + places
        for i, block in enumerate(self.h):
            x = block(x, None if cache is None else KVCache(cache[i], positions))
        return self.ln_f(x)

    def head(self, hidden: Tensor) -> Tensor:
        return (self.lm_head(hidden) if self.lm_head is not None
                else linear(hidden, self.wte.weight))

    @classmethod
    def from_safetensors(cls, path: PathLike, config: GPT2Config | None = None) -> GPT2:
        """The model in a folder (``config.json``, and ``model.safetensors`` or its shards), or in
        a file, with its ``config.json`` beside it unless ``config`` is given.

        Raises WeightsError where something is missing, damaged, or does not fit.
        """
        model = cls(config or GPT2Config.from_json(config_beside(path)))
        tied = r"|lm_head\.weight$" if model.lm_head is None else ""
        state = renamed(read_weights(path), _LAYOUT, _UNUSED + tied)
        model.load_state_dict(_transposed(state))
        return model


# Causal masks that older files hold are no weights.
_UNUSED = r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias$"
_LAYOUT = (
    (r"(?:transformer\.)?h\.(\d+)\.attn\.c_attn\.", r"h.\1.attn.in_proj_"),
    (r"(?:transformer\.)?h\.(\d+)\.attn\.c_proj\.", r"h.\1.attn.out."),
    (r"(?:transformer\.)?h\.(\d+)\.mlp\.c_fc\.", r"h.\1.up."),
    (r"(?:transformer\.)?h\.(\d+)\.mlp\.c_proj\.", r"h.\1.down."),
    (r"transformer\.", ""),
)
_CONV1D = ("attn.in_proj_weight", "attn.out.weight", "up.weight", "down.weight")


def _transposed(state: Mapping[str, Any]) -> dict[str, Any]:
    """Files hold the weights of linear layers as (in, out), ours are (out, in)."""
    return {k: np.ascontiguousarray(np.asarray(v).T) if k.endswith(_CONV1D) else v
            for k, v in state.items()}
