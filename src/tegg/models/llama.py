"""Llama: RMS norms, rotary positions, grouped queries, SwiGLU; Llama 1 to 3, SmolLM2, TinyLlama."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tegg.errors import ArgumentError, WeightsError
from tegg.models.causal import Cache, CausalLM
from tegg.models.files import (PathLike, config_beside, known, read_config, read_weights,
                               renamed)
from tegg.nn import (Embedding, KVCache, Linear, Module, MultiHeadAttention, RMSNorm, RoPE,
                     RopeScaling, SwiGLU)
from tegg.ops import linear
from tegg.ops.value import Operand
from tegg.tensor import Tensor


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """The sizes of a Llama, by the keys of Hugging Face; the defaults are SmolLM2-135M's."""

    vocab_size: int = 49152
    hidden_size: int = 576
    intermediate_size: int = 1536
    num_hidden_layers: int = 30
    num_attention_heads: int = 9
    num_key_value_heads: int = 3
    head_dim: int | None = None  # hidden_size / num_attention_heads
    max_position_embeddings: int = 8192
    rms_norm_eps: float = 1e-5
    rope_theta: float = 100000.0
    rope_scaling: RopeScaling | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = True

    @classmethod
    def from_json(cls, path: PathLike) -> LlamaConfig:
        """The sizes in a ``config.json``; keys that it leaves out have Hugging Face's defaults.

        Raises WeightsError for a model of another kind.
        """
        config = read_config(path, {"model_type": "llama", "hidden_act": "silu"})
        rope = config.get("rope_parameters") or {}  # where newer files keep both
        config.setdefault("rope_theta", rope.get("rope_theta"))
        try:
            scaling = RopeScaling.from_config(config.get("rope_scaling") or rope)
        except ArgumentError as e:
            raise WeightsError(f"{path}: {e}") from None
        fields = {"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
                  "num_hidden_layers": 32, "num_attention_heads": 32, "rope_theta": 10000.0,
                  "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
                  "tie_word_embeddings": False}
        fields.update(known(config, cls.__dataclass_fields__))
        fields.setdefault("num_key_value_heads", fields["num_attention_heads"])
        return cls(**{**fields, "rope_scaling": scaling})  # type: ignore[arg-type]


class LlamaLayer(Module):
    """Attention and SwiGLU, each of the normalised input and added to it."""

    def __init__(self, config: LlamaConfig, rope: RoPE) -> None:
        size, eps = config.hidden_size, config.rms_norm_eps
        self.input_layernorm = RMSNorm(size, eps)
        self.self_attn = MultiHeadAttention(
            size, config.num_attention_heads, config.num_key_value_heads, config.attention_bias,
            head_dim=rope.dim, rope=rope)
        self.post_attention_layernorm = RMSNorm(size, eps)
        self.mlp = SwiGLU(size, config.intermediate_size, config.mlp_bias)

    def forward(self, x: Tensor, positions: Operand | None, cache: KVCache | None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), causal=True, positions=positions,
                               cache=cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(CausalLM):
    """Token ids (batch, length) to logits (batch, length, vocab_size); see ``CausalLM.forward``.

    ``from_safetensors`` loads files in the layout of Hugging Face.
    """

    def __init__(self, config: LlamaConfig | None = None) -> None:
        config = config or LlamaConfig()
        size = config.hidden_size
        head = config.head_dim or size // config.num_attention_heads
        rope = RoPE(head, config.rope_theta, scaling=config.rope_scaling)
        self.config, self.max_length = config, config.max_position_embeddings
        self.cache_shape = config.num_hidden_layers, config.num_key_value_heads, head
        self.embed_tokens = Embedding(config.vocab_size, size)
        self.layers = [LlamaLayer(config, rope) for _ in range(config.num_hidden_layers)]
        self.norm = RMSNorm(size, config.rms_norm_eps)
        self.lm_head = (None if config.tie_word_embeddings
                        else Linear(size, config.vocab_size, bias=False))

    def hidden(self, ids: Tensor, positions: Operand | None = None,
               cache: Cache | None = None) -> Tensor:
        x = self.embed_tokens(ids)
        for i, layer in enumerate(self.layers):
            x = layer(x, positions, None if cache is None else KVCache(cache[i], positions))
        return self.norm(x)

    def head(self, hidden: Tensor) -> Tensor:
        return (self.lm_head(hidden) if self.lm_head is not None
                else linear(hidden, self.embed_tokens.weight))

    @classmethod
    def from_safetensors(cls, path: PathLike, config: LlamaConfig | None = None) -> Llama:
        """The model in a folder (``config.json``, and ``model.safetensors`` or its shards), or in
        a file, with its ``config.json`` beside it unless ``config`` is given.

        Raises WeightsError where something is missing, damaged, or does not fit.
        """
        model = cls(config or LlamaConfig.from_json(config_beside(path)))
        tied = r"|lm_head\.weight$" if model.lm_head is None else ""
        model.load_state_dict(renamed(read_weights(path), _LAYOUT, _UNUSED + tied))
        return model


_UNUSED = r".*rotary_emb\.inv_freq$"
_LAYOUT = (
    (r"model\.layers\.(\d+)\.self_attn\.q_proj\.", r"layers.\1.self_attn.query."),
    (r"model\.layers\.(\d+)\.self_attn\.k_proj\.", r"layers.\1.self_attn.key."),
    (r"model\.layers\.(\d+)\.self_attn\.v_proj\.", r"layers.\1.self_attn.value."),
    (r"model\.layers\.(\d+)\.self_attn\.o_proj\.", r"layers.\1.self_attn.out."),
    (r"model\.", ""),
)


def to_hugging_face(model: Llama) -> dict[str, Any]:
    """The state dict by the names of Hugging Face, as ``from_safetensors`` reads it."""
    theirs = tuple((rf"layers\.(\d+)\.self_attn\.{ours}\.", rf"model.layers.\1.self_attn.{name}.")
                   for ours, name in (("query", "q_proj"), ("key", "k_proj"),
                                      ("value", "v_proj"), ("out", "o_proj")))
    return renamed(model.state_dict(), (*theirs, (r"(?!lm_head)", "model.")))
