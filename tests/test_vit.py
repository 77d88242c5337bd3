"""ViT in the layout of Hugging Face against NumPy always, and PyTorch where it is installed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from modules import agree, drawn, oracle, written

import tegg
from tegg.errors import ArgumentError, ShapeError, WeightsError
from tegg.models.vit import ViT, ViTConfig

CONFIG = {"model_type": "vit", "hidden_act": "gelu", "hidden_size": 16, "num_hidden_layers": 2,
          "num_attention_heads": 2, "intermediate_size": 20, "layer_norm_eps": 1e-6,
          "image_size": 12, "patch_size": 4, "num_channels": 3,
          "id2label": {str(i): f"label {i}" for i in range(5)}}
PIXELS = np.random.default_rng(0).normal(size=(2, 3, 12, 12)).astype(np.float32)


def weights(c, seed=0):
    """Random, by the names of files."""
    size, inner, p = c["hidden_size"], c["intermediate_size"], c["patch_size"]
    linear = {"classifier": (5, size)}
    norms = ["vit.layernorm"]
    for i in range(c["num_hidden_layers"]):
        at = f"vit.encoder.layer.{i}."
        linear.update({f"{at}attention.attention.{n}": (size, size)
                       for n in ("query", "key", "value")})
        linear.update({f"{at}attention.output.dense": (size, size),
                       f"{at}intermediate.dense": (inner, size),
                       f"{at}output.dense": (size, inner)})
        norms += [f"{at}layernorm_before", f"{at}layernorm_after"]
    shapes = {"vit.embeddings.cls_token": (1, 1, size),
              "vit.embeddings.position_embeddings": (1, 1 + (c["image_size"] // p) ** 2, size),
              "vit.embeddings.patch_embeddings.projection.weight": (size, 3, p, p),
              "vit.embeddings.patch_embeddings.projection.bias": (size,)}
    for name, shape in linear.items():
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]
    for name in norms:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (size,)
    return drawn(shapes, seed)


def numpy_vit(c, w, pixels):
    """Logits in float64, patches cut out by hand."""
    from math import erf

    def linear(name, x):
        return x @ w[f"{name}.weight"].T.astype(np.float64) + w[f"{name}.bias"]

    def norm(name, x):
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(
            x.var(-1, keepdims=True) + c["layer_norm_eps"])
        return y * w[f"{name}.weight"] + w[f"{name}.bias"]

    p, n, size, heads = c["patch_size"], len(pixels), c["hidden_size"], c["num_attention_heads"]
    patches = np.stack([pixels[:, :, i:i + p, j:j + p].reshape(n, -1)
                        for i in range(0, c["image_size"], p)
                        for j in range(0, c["image_size"], p)], 1)
    at = "vit.embeddings"
    x = patches @ w[f"{at}.patch_embeddings.projection.weight"].reshape(size, -1).T.astype(
        np.float64) + w[f"{at}.patch_embeddings.projection.bias"]
    x = np.concatenate([np.repeat(w[f"{at}.cls_token"], n, 0), x], 1) + w[
        f"{at}.position_embeddings"]
    for i in range(c["num_hidden_layers"]):
        at = f"vit.encoder.layer.{i}"
        y = norm(f"{at}.layernorm_before", x)
        q, k, v = (linear(f"{at}.attention.attention.{m}", y).reshape(n, -1, heads, size // heads)
                   for m in ("query", "key", "value"))
        e = np.exp(np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(size // heads))
        y = np.einsum("bhij,bjhd->bihd", e / e.sum(-1, keepdims=True), v).reshape(x.shape)
        x = x + linear(f"{at}.attention.output.dense", y)
        y = linear(f"{at}.intermediate.dense", norm(f"{at}.layernorm_after", x))
        x = x + linear(f"{at}.output.dense", y / 2 * (1 + np.vectorize(erf)(y / np.sqrt(2))))
    return linear("classifier", norm("vit.layernorm", x)[:, 0])


def test_against_numpy(tmp_path):
    w = weights(CONFIG)
    got = agree(ViT.from_safetensors(written(tmp_path, CONFIG, w)), PIXELS)
    assert got.shape == (2, 5)
    np.testing.assert_allclose(got, numpy_vit(CONFIG, w, PIXELS), atol=1e-4)


def test_against_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    w = weights(CONFIG, 1)
    model = ViT.from_safetensors(written(tmp_path, CONFIG, w))
    want = torch_vit(torch, CONFIG, {k: torch.from_numpy(v) for k, v in w.items()},
                     torch.from_numpy(PIXELS))
    np.testing.assert_allclose(oracle(model, PIXELS)[0], want.detach().numpy(), atol=1e-4)


def torch_vit(torch, c, w, pixels):
    """PyTorch's convolution and encoder layers."""
    at, size = "vit.embeddings", c["hidden_size"]
    x = torch.nn.functional.conv2d(
        pixels, w[f"{at}.patch_embeddings.projection.weight"],
        w[f"{at}.patch_embeddings.projection.bias"], stride=c["patch_size"])
    x = torch.cat([w[f"{at}.cls_token"].expand(len(x), 1, size), x.flatten(2).mT], 1)
    x = x + w[f"{at}.position_embeddings"]
    for i in range(c["num_hidden_layers"]):
        at = f"vit.encoder.layer.{i}."
        layer = torch.nn.TransformerEncoderLayer(
            size, c["num_attention_heads"], c["intermediate_size"], activation="gelu",
            batch_first=True, norm_first=True, layer_norm_eps=c["layer_norm_eps"]).eval()
        theirs = {"self_attn.out_proj": "attention.output.dense", "linear1": "intermediate.dense",
                  "linear2": "output.dense", "norm1": "layernorm_before",
                  "norm2": "layernorm_after"}
        state = {f"{a}.{k}": w[f"{at}{b}.{k}"] for a, b in theirs.items()
                 for k in ("weight", "bias")}
        for k in ("weight", "bias"):
            state[f"self_attn.in_proj_{k}"] = torch.cat(
                [w[f"{at}attention.attention.{n}.{k}"] for n in ("query", "key", "value")])
        layer.load_state_dict(state)
        x = layer(x)
    x = torch.nn.functional.layer_norm(x, (size,), w["vit.layernorm.weight"],
                                       w["vit.layernorm.bias"], c["layer_norm_eps"])
    return x[:, 0] @ w["classifier.weight"].T + w["classifier.bias"]


def test_without_a_classifier_and_prefix(tmp_path):
    w = weights(CONFIG)
    bare = {k.removeprefix("vit."): v for k, v in w.items() if not k.startswith("classifier")}
    bare["pooler.dense.weight"] = np.ones((16, 16), np.float32)
    written(tmp_path, {**CONFIG, "num_labels": 0}, bare)
    model = ViT.from_safetensors(tmp_path)
    token, _ = oracle(model, PIXELS)
    assert token.shape == (2, 16)
    np.testing.assert_allclose(token @ w["classifier.weight"].T + w["classifier.bias"],
                               numpy_vit(CONFIG, w, PIXELS), atol=1e-4)


def test_errors(tmp_path):
    with pytest.raises(ArgumentError, match="ViT: patches of 16 do not divide an image of 30"):
        ViTConfig(image_size=30)
    model = ViT.from_safetensors(written(tmp_path, CONFIG, weights(CONFIG)))
    with pytest.raises(ShapeError, match=r"ViT: images are \(batch, 3, 12, 12\), not \(2, 3, 12, "
                                         r"11\)"):
        tegg.trace(model, (PIXELS[..., 1:].copy(),))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "deit"}))
    with pytest.raises(WeightsError, match="model_type is 'deit', and only 'vit' is known"):
        ViT.from_safetensors(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    assert ViTConfig.from_json(tmp_path / "config.json") == ViTConfig(num_labels=2)
