"""BERT encoders and sentence embeddings from them (all-MiniLM-L6-v2 and its kin)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tegg.errors import WeightsError
from tegg.nn import Embedding, LayerNorm, Linear, Module, MultiHeadAttention
from tegg.ops import clamp, gelu, normalize, sum as sum_over, unsqueeze
from tegg.ops.value import Operand
from tegg.tensor import Tensor
from tegg.weights import load_safetensors


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The sizes of a BERT encoder; the defaults are all-MiniLM-L6-v2's."""

    vocab_size: int = 30522
    hidden_size: int = 384
    num_hidden_layers: int = 6
    num_attention_heads: int = 12
    intermediate_size: int = 1536
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> BertConfig:
        """The sizes in a ``config.json``. Raises WeightsError for a model of another kind."""
        config = json.loads(Path(path).read_text(encoding="utf-8"))
        for key, want in (("model_type", "bert"), ("hidden_act", "gelu"),
                          ("position_embedding_type", "absolute")):
            if config.get(key, want) != want:
                raise WeightsError(f"{path}: {key} is {config[key]!r}, and only {want!r} is known")
        return cls(**{k: config[k] for k in cls.__dataclass_fields__ if k in config})


class BertLayer(Module):
    """Attention, then two linear layers, each added to its input and normalised after."""

    def __init__(self, config: BertConfig) -> None:
        size, eps = config.hidden_size, config.layer_norm_eps
        self.attention = MultiHeadAttention(size, config.num_attention_heads)
        self.attention_norm = LayerNorm(size, eps)
        self.intermediate = Linear(size, config.intermediate_size)
        self.output = Linear(config.intermediate_size, size)
        self.output_norm = LayerNorm(size, eps)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention_norm(x + self.attention(x, mask=mask))
        return self.output_norm(x + self.output(gelu(self.intermediate(x))))


class Bert(Module):
    """Token ids and their mask, both (batch, length), to hidden states (batch, length, size)."""

    def __init__(self, config: BertConfig | None = None) -> None:
        config = config or BertConfig()
        size = config.hidden_size
        self.words = Embedding(config.vocab_size, size)
        self.positions = Embedding(config.max_position_embeddings, size)
        self.types = Embedding(config.type_vocab_size, size)
        self.norm = LayerNorm(size, config.layer_norm_eps)
        self.layers = [BertLayer(config) for _ in range(config.num_hidden_layers)]

    def forward(self, ids: Tensor, mask: Operand, types: Operand | None = None) -> Tensor:
        """``mask`` is not 0 where there is a token; ``types`` are segments, all 0 by default."""
        segment = self.types.weight[0] if types is None else self.types(types)
        x = self.norm(self.words(ids) + self.positions.weight[:ids.shape[-1]] + segment)
        seen = unsqueeze(unsqueeze(mask, -2), -2) != 0  # (batch, 1 head, 1 query, length)
        for layer in self.layers:
            x = layer(x, seen)
        return x


class SentenceEncoder(Module):
    """Sentence embeddings of length 1: the mean of a Bert's hidden states over the mask."""

    def __init__(self, bert: Bert) -> None:
        self.bert = bert

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(batch, length) ids and mask to (batch, size)."""
        hidden = self.bert(ids, mask)
        weight = unsqueeze(mask, -1).cast(hidden.dtype)
        mean = sum_over(hidden * weight, 1) / clamp(sum_over(weight, 1), min=1e-9)
        return normalize(mean, -1)


# The names in the files of Hugging Face, in order: the first pattern that matches holds.
_LAYOUT = (
    (r"embeddings\.word_embeddings\.", "words."),
    (r"embeddings\.position_embeddings\.", "positions."),
    (r"embeddings\.token_type_embeddings\.", "types."),
    (r"embeddings\.LayerNorm\.", "norm."),
    (r"encoder\.layer\.(\d+)\.attention\.self\.(query|key|value)\.", r"layers.\1.attention.\2."),
    (r"encoder\.layer\.(\d+)\.attention\.output\.dense\.", r"layers.\1.attention.out."),
    (r"encoder\.layer\.(\d+)\.attention\.output\.LayerNorm\.", r"layers.\1.attention_norm."),
    (r"encoder\.layer\.(\d+)\.intermediate\.dense\.", r"layers.\1.intermediate."),
    (r"encoder\.layer\.(\d+)\.output\.dense\.", r"layers.\1.output."),
    (r"encoder\.layer\.(\d+)\.output\.LayerNorm\.", r"layers.\1.output_norm."),
)
_UNUSED = re.compile(r"pooler\.|cls\.|embeddings\.position_ids$")


def renamed(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict of Hugging Face's BERT under this module's names, without its unused heads."""
    out: dict[str, Any] = {}
    for name in state:
        short = name.removeprefix("bert.")
        if not _UNUSED.match(short):
            out[_renamed(short)] = state[name]
    return out


def _renamed(name: str) -> str:
    for pattern, ours in _LAYOUT:
        new, n = re.subn("^" + pattern, ours, name)
        if n:
            return new
    return name


def load_bert(folder: str | os.PathLike[str]) -> Bert:
    """The encoder in a folder that holds ``config.json`` and ``model.safetensors``.

    Raises WeightsError where either is missing, damaged, or does not fit.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise WeightsError(f"{folder} has no config.json; a model's folder holds config.json and "
                           f"model.safetensors")
    bert = Bert(BertConfig.from_json(folder / "config.json"))
    bert.load_state_dict(renamed(load_safetensors(folder / "model.safetensors")))
    return bert


def load_sentence_encoder(folder: str | os.PathLike[str]) -> SentenceEncoder:
    """``load_bert`` with mean pooling on top."""
    return SentenceEncoder(load_bert(folder))


def padded(sequences: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids of several sentences as one (batch, length) array, and its mask."""
    length = max(map(len, sequences), default=0)
    ids = np.zeros((len(sequences), length), np.int64)
    mask = np.zeros((len(sequences), length), np.int64)
    for i, s in enumerate(sequences):
        ids[i, :len(s)], mask[i, :len(s)] = s, 1
    return ids, mask
