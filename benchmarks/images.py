"""Image classifiers on drawn weights: the same model in tegg and written plainly in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Classifier:
    """``tegg()``: the model. ``torch(torch, weights)``: a function of images, by its weights."""

    name: str
    about: str
    tegg: Callable[[], Any]
    torch: Callable[[Any, Mapping[str, Any]], Callable[[Any], Any]]
    winograd: bool = False


def pixels() -> np.ndarray:
    """One image of 224 x 224."""
    return np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)


def _resnet(name: str) -> Any:
    from tegg.models.resnet import ResNet, ResNetConfig
    return settled(ResNet(ResNetConfig.named(name)))


def _vit() -> Any:
    from tegg.models.vit import ViT
    return settled(ViT())


def settled(model: Any) -> Any:
    """Weights for which values of all layers are of one size, biases and means too."""
    rng = np.random.default_rng(1)
    state = {}
    for k, v in model.state_dict().items():
        if v.ndim > 1:
            state[k] = rng.standard_normal(v.shape, np.float32) / v[0].size ** 0.5
        elif v.dtype == np.float32:
            near = 1.0 if k.endswith(("weight", "running_var")) else 0.0
            state[k] = (near + 0.1 * rng.random(v.shape)).astype(np.float32)
        else:
            state[k] = v
    model.load_state_dict(state)
    return model


def _resnet_in_torch(torch: Any, weights: Mapping[str, Any]) -> Callable[[Any], Any]:
    f = torch.nn.functional

    def conv(x, name, norm, stride=1):
        w = weights[f"{name}.weight"]
        y = f.conv2d(x, w, None, stride, w.shape[-1] // 2)
        return f.batch_norm(y, *(weights[f"{norm}.{k}"] for k in
                                 ("running_mean", "running_var", "weight", "bias")))

    def block(x, at, stride):
        whole = [i for i in (1, 2, 3) if f"{at}.conv{i}.weight" in weights]
        strided = whole[-2]  # the second of three, or the first of two
        y = x
        for i in whole:
            y = conv(y, f"{at}.conv{i}", f"{at}.bn{i}", stride if i == strided else 1)
            y = f.relu(y) if i != whole[-1] else y
        if f"{at}.downsample.0.weight" in weights:
            x = conv(x, f"{at}.downsample.0", f"{at}.downsample.1", stride)
        return f.relu(y + x)

    def run(x):
        x = f.max_pool2d(f.relu(conv(x, "conv1", "bn1", 2)), 3, 2, 1)
        for stage in range(1, 5):
            at = 0
            while f"layer{stage}.{at}.conv1.weight" in weights:
                x = block(x, f"layer{stage}.{at}", 2 if stage > 1 and at == 0 else 1)
                at += 1
        return f.linear(x.mean((2, 3)), weights["fc.weight"], weights["fc.bias"])

    return run


def _vit_in_torch(torch: Any, weights: Mapping[str, Any]) -> Callable[[Any], Any]:
    f = torch.nn.functional
    heads, eps, patch = 12, 1e-12, 16

    def linear(x, name):
        return f.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x, name):
        w = weights[f"{name}.weight"]
        return f.layer_norm(x, w.shape, w, weights[f"{name}.bias"], eps)

    def run(x):
        x = f.conv2d(x, weights["projection.weight"], weights["projection.bias"], patch)
        x = torch.cat([weights["cls_token"], x.flatten(2).transpose(1, 2)], 1)
        x = x + weights["position_embeddings"]
        b, t, size = x.shape
        for i in range(12):
            at, y = f"layers.{i}", norm(x, f"layers.{i}.layernorm_before")
            q, k, v = (linear(y, f"{at}.attention.{n}").view(b, t, heads, -1).transpose(1, 2)
                       for n in ("query", "key", "value"))
            a = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, size)
            x = x + linear(a, f"{at}.attention.out")
            y = linear(norm(x, f"{at}.layernorm_after"), f"{at}.intermediate")
            x = x + linear(f.gelu(y), f"{at}.output")
        return linear(norm(x, "layernorm")[:, 0], "classifier")

    return run


IMAGES = (
    Classifier("resnet18", "ResNet-18, an image of 224 x 224", lambda: _resnet("resnet18"),
               _resnet_in_torch, winograd=True),
    Classifier("resnet50", "ResNet-50, an image of 224 x 224", lambda: _resnet("resnet50"),
               _resnet_in_torch, winograd=True),
    Classifier("vit_b16", "ViT-Base/16, an image of 224 x 224", _vit, _vit_in_torch))
