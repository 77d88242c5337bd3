"""ViT: an image as a row of patches, through a transformer encoder with norms before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tegg.errors import ArgumentError, ShapeError
from tegg.models.files import (PathLike, config_beside, known, read_config, read_weights,
                               renamed)
from tegg.nn import (Conv2d, LayerNorm, Linear, Module, MultiHeadAttention, Parameter)
from tegg.ops import cat, gelu
from tegg.ops.value import fail
from tegg.shape import show
from tegg.tensor import Tensor


@dataclass(frozen=True, slots=True)
class ViTConfig:
    """The sizes of a ViT, by the keys of Hugging Face; the defaults are ViT-Base/16's at 224.

    ``num_labels`` 0 is a model without a classifier.
    """

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    layer_norm_eps: float = 1e-12
    image_size: int = 224
    patch_size: int = 16
    num_channels: int = 3
    qkv_bias: bool = True
    num_labels: int = 1000

    def __post_init__(self) -> None:
        if self.image_size % self.patch_size:
            raise ArgumentError(f"ViT: patches of {self.patch_size} do not divide an image of "
                                f"{self.image_size}")

    @classmethod
    def from_json(cls, path: PathLike) -> ViTConfig:
        """The sizes in a ``config.json``; labels are counted in ``id2label``, and 2 where it has
        none, as Hugging Face does. Raises WeightsError for a model of another kind."""
        config = read_config(path, {"model_type": "vit", "hidden_act": "gelu"})
        config.setdefault("num_labels", len(config.get("id2label") or "01"))
        return cls(**known(config, cls.__dataclass_fields__))


class ViTLayer(Module):
    """Attention and two linear layers, each of the normalised input and added to it."""

    def __init__(self, config: ViTConfig) -> None:
        size, eps = config.hidden_size, config.layer_norm_eps
        self.layernorm_before = LayerNorm(size, eps)
        self.attention = MultiHeadAttention(size, config.num_attention_heads, bias=config.qkv_bias,
                                            out_bias=True)
        self.layernorm_after = LayerNorm(size, eps)
        self.intermediate = Linear(size, config.intermediate_size)
        self.output = Linear(config.intermediate_size, size)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.layernorm_before(x))
        return x + self.output(gelu(self.intermediate(self.layernorm_after(x))))


class ViT(Module):
    """Images (batch, channels, height, width), normalised as in training, to logits (batch,
    num_labels), or to the class token (batch, hidden_size) where there is no classifier.

    ``from_safetensors`` loads files in the layout of Hugging Face.
    """

    def __init__(self, config: ViTConfig | None = None) -> None:
        config = config or ViTConfig()
        size, eps = config.hidden_size, config.layer_norm_eps
        patches = (config.image_size // config.patch_size) ** 2
        self.config = config
        self.cls_token = Parameter(np.zeros((1, 1, size), np.float32))
        self.position_embeddings = Parameter(np.zeros((1, 1 + patches, size), np.float32))
        self.projection = Conv2d(config.num_channels, size, config.patch_size, config.patch_size)
        self.layers = [ViTLayer(config) for _ in range(config.num_hidden_layers)]
        self.layernorm = LayerNorm(size, eps)
        self.classifier = Linear(size, config.num_labels) if config.num_labels else None

    def hidden(self, pixels: Tensor) -> Tensor:
        """The last hidden states: (batch, 1 + patches, hidden_size), the class token first."""
        c = self.config
        if tuple(pixels.shape[1:]) != (c.num_channels, c.image_size, c.image_size):
            fail(ShapeError, f"ViT: images are (batch, {c.num_channels}, {c.image_size}, "
                             f"{c.image_size}), not {show(pixels.shape)}")
        patches = self.projection(pixels).flatten(2).transpose(1, 2)
        first = self.cls_token.expand(pixels.shape[0], 1, c.hidden_size)
        x = cat([first, patches], 1) + self.position_embeddings
        for layer in self.layers:
            x = layer(x)
        return self.layernorm(x)

    def forward(self, pixels: Tensor) -> Tensor:
        token = self.hidden(pixels)[:, 0]
        return token if self.classifier is None else self.classifier(token)

    @classmethod
    def from_safetensors(cls, path: PathLike, config: ViTConfig | None = None) -> ViT:
        """The model in a folder (``config.json``, and ``model.safetensors`` or its shards), or in
        a file, with its ``config.json`` beside it unless ``config`` is given.

        Raises WeightsError where something is missing, damaged, or does not fit.
        """
        model = cls(config or ViTConfig.from_json(config_beside(path)))
        head = r"|classifier\." if model.classifier is None else ""
        model.load_state_dict(renamed(read_weights(path), _LAYOUT, _UNUSED + head))
        return model


_UNUSED = r"(vit\.)?(pooler\.|embeddings\.mask_token$)"
_LAYER = r"(?:vit\.)?encoder\.layer\.(\d+)\."
_LAYOUT = (
    (_LAYER + r"attention\.attention\.", r"layers.\1.attention."),
    (_LAYER + r"attention\.output\.dense\.", r"layers.\1.attention.out."),
    (_LAYER + r"intermediate\.dense\.", r"layers.\1.intermediate."),
    (_LAYER + r"output\.dense\.", r"layers.\1.output."),
    (_LAYER, r"layers.\1."),
    (r"(?:vit\.)?embeddings\.patch_embeddings\.", ""),
    (r"(?:vit\.)?embeddings\.", ""),
    (r"vit\.", ""),
)
