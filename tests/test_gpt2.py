"""GPT-2 in the layout of Hugging Face against NumPy always, and PyTorch where it is installed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from modules import agree, drawn, oracle, written

from tegg.errors import WeightsError
from tegg.models.gpt2 import GPT2, GPT2Config

CONFIG = {"model_type": "gpt2", "activation_function": "gelu_new", "vocab_size": 23,
          "n_positions": 12, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_inner": None,
          "layer_norm_epsilon": 1e-5}
IDS = np.random.default_rng(0).integers(0, 23, (2, 7))


def weights(c, prefix="", seed=0):
    """Random, by the names of files; linear layers are (in, out)."""
    size, inner = c["n_embd"], c["n_inner"] or 4 * c["n_embd"]
    shapes = {"wte.weight": (c["vocab_size"], size), "wpe.weight": (c["n_positions"], size),
              "ln_f.weight": (size,), "ln_f.bias": (size,)}
    for i in range(c["n_layer"]):
        for name, into, out in (("attn.c_attn", size, 3 * size), ("attn.c_proj", size, size),
                                ("mlp.c_fc", size, inner), ("mlp.c_proj", inner, size)):
            shapes[f"h.{i}.{name}.weight"], shapes[f"h.{i}.{name}.bias"] = (into, out), (out,)
        for name in ("ln_1", "ln_2"):
            shapes[f"h.{i}.{name}.weight"] = shapes[f"h.{i}.{name}.bias"] = (size,)
    return {prefix + k: v for k, v in drawn(shapes, seed).items()}


def numpy_gpt2(c, w, ids):
    """Logits in float64."""
    def linear(name, x):
        return x @ w[f"{name}.weight"].astype(np.float64) + w[f"{name}.bias"]

    def norm(name, x):
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(
            x.var(-1, keepdims=True) + c["layer_norm_epsilon"])
        return y * w[f"{name}.weight"] + w[f"{name}.bias"]

    n = ids.shape[1]
    x = w["wte.weight"][ids].astype(np.float64) + w["wpe.weight"][:n]
    for i in range(c["n_layer"]):
        q, k, v = (p.reshape(*ids.shape, c["n_head"], -1) for p in np.split(
            linear(f"h.{i}.attn.c_attn", norm(f"h.{i}.ln_1", x)), 3, -1))
        scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
        e = np.where(np.tri(n, dtype=bool), np.exp(scores), 0)
        y = np.einsum("bhij,bjhd->bihd", e / e.sum(-1, keepdims=True), v)
        x = x + linear(f"h.{i}.attn.c_proj", y.reshape(*ids.shape, -1))
        y = linear(f"h.{i}.mlp.c_fc", norm(f"h.{i}.ln_2", x))
        y = y / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y ** 3)))
        x = x + linear(f"h.{i}.mlp.c_proj", y)
    return norm("ln_f", x) @ w.get("lm_head.weight", w["wte.weight"]).T


@pytest.mark.parametrize("inner", [None, 10])
def test_against_numpy(inner, tmp_path):
    config = {**CONFIG, "n_inner": inner}
    w = weights(config)
    got = agree(GPT2.from_safetensors(written(tmp_path, config, w)), IDS)
    assert got.shape == (2, 7, 23)
    np.testing.assert_allclose(got, numpy_gpt2(config, w, IDS), atol=1e-4)


def test_a_head_of_its_own_and_names_with_prefix_and_masks(tmp_path):
    config = {**CONFIG, "tie_word_embeddings": False}
    w = weights(config)
    head = np.random.default_rng(5).normal(size=(23, 16)).astype(np.float32)
    masks = {f"transformer.h.{i}.attn.{n}": np.ones(1, np.float32)
             for i in (0, 1) for n in ("bias", "masked_bias")}
    written(tmp_path, config, {**weights(config, "transformer."), **masks, "lm_head.weight": head})
    got, _ = oracle(GPT2.from_safetensors(tmp_path), IDS)
    np.testing.assert_allclose(got, numpy_gpt2(config, {**w, "lm_head.weight": head}, IDS),
                               atol=1e-4)


def test_against_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    w = weights(CONFIG, seed=1)
    model = GPT2.from_safetensors(written(tmp_path, CONFIG, w))
    want = torch_gpt2(torch, CONFIG, {k: torch.from_numpy(v) for k, v in w.items()},
                      torch.from_numpy(IDS))
    np.testing.assert_allclose(agree(model, IDS), want.detach().numpy(), atol=1e-4)


def torch_gpt2(torch, c, w, ids):
    """PyTorch's own encoder layers with norms before, a causal mask and tanh-GELU."""
    size, n = c["n_embd"], ids.shape[1]
    x = torch.nn.functional.embedding(ids, w["wte.weight"]) + w["wpe.weight"][:n]
    mask = torch.nn.Transformer.generate_square_subsequent_mask(n)
    for i in range(c["n_layer"]):
        layer = torch.nn.TransformerEncoderLayer(
            size, c["n_head"], 4 * size, activation=torch.nn.GELU(approximate="tanh"),
            batch_first=True, norm_first=True, layer_norm_eps=c["layer_norm_epsilon"]).eval()
        at = f"h.{i}."
        layer.load_state_dict({
            "self_attn.in_proj_weight": w[f"{at}attn.c_attn.weight"].T,
            "self_attn.in_proj_bias": w[f"{at}attn.c_attn.bias"],
            "self_attn.out_proj.weight": w[f"{at}attn.c_proj.weight"].T,
            "self_attn.out_proj.bias": w[f"{at}attn.c_proj.bias"],
            "linear1.weight": w[f"{at}mlp.c_fc.weight"].T, "linear1.bias": w[f"{at}mlp.c_fc.bias"],
            "linear2.weight": w[f"{at}mlp.c_proj.weight"].T,
            "linear2.bias": w[f"{at}mlp.c_proj.bias"],
            **{f"norm{j}.{k}": w[f"{at}ln_{j}.{k}"] for j in (1, 2) for k in ("weight", "bias")}})
        x = layer(x, mask, is_causal=True)
    x = torch.nn.functional.layer_norm(x, (size,), w["ln_f.weight"], w["ln_f.bias"],
                                       c["layer_norm_epsilon"])
    return x @ w["wte.weight"].T


def test_configs(tmp_path):
    def read(**keys):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"model_type": "gpt2", **keys}))
        return GPT2Config.from_json(path)

    assert read() == GPT2Config() and read(n_layer=3).n_layer == 3
    with pytest.raises(WeightsError, match="activation_function is 'relu', and only 'gelu_new'"):
        read(activation_function="relu")
    with pytest.raises(WeightsError, match="scale_attn_by_inverse_layer_idx is True"):
        read(scale_attn_by_inverse_layer_idx=True)


def test_weights_that_do_not_fit(tmp_path):
    w = weights(CONFIG)
    w["h.0.attn.c_attn.weight"] = w["h.0.attn.c_attn.weight"].T
    written(tmp_path, CONFIG, w)
    with pytest.raises(WeightsError, match=r"GPT2: the state dict does not fit.*missing h\.0\.attn"
                                           r"\.query\.weight.*unexpected h\.0\.attn\.in_proj_wei"):
        GPT2.from_safetensors(tmp_path)
