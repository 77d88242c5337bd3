"""Llama in the layout of Hugging Face against NumPy always, and PyTorch where it is installed."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from modules import agree, drawn, oracle, written

import tegg
from tegg.errors import WeightsError
from tegg.models.llama import Llama, LlamaConfig, to_hugging_face
from tegg.nn import RopeScaling

CONFIG = {"model_type": "llama", "hidden_act": "silu", "vocab_size": 23, "hidden_size": 16,
          "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
          "rope_theta": 500.0, "tie_word_embeddings": True, "torch_dtype": "float32"}
SCALED = {**CONFIG, "num_key_value_heads": 1, "head_dim": 6, "attention_bias": True,
          "mlp_bias": True, "tie_word_embeddings": False, "rope_scaling": {
              "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}
CONFIGS = pytest.mark.parametrize("config", [CONFIG, SCALED], ids=["plain", "scaled"])
IDS = np.random.default_rng(0).integers(0, 23, (2, 7))


def weights(c, seed=0):
    """Random, by the names of files."""
    size, inner, heads = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"]
    d, groups = c.get("head_dim", size // heads), c["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], size), "model.norm.weight": (size,)}
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (c["vocab_size"], size)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        for name, out, into, bias in (
                ("self_attn.q_proj", heads * d, size, "attention_bias"),
                ("self_attn.k_proj", groups * d, size, "attention_bias"),
                ("self_attn.v_proj", groups * d, size, "attention_bias"),
                ("self_attn.o_proj", size, heads * d, "attention_bias"),
                ("mlp.gate_proj", inner, size, "mlp_bias"),
                ("mlp.up_proj", inner, size, "mlp_bias"),
                ("mlp.down_proj", size, inner, "mlp_bias")):
            shapes[f"{at}{name}.weight"] = (out, into)
            if c.get(bias):
                shapes[f"{at}{name}.bias"] = (out,)
        shapes[f"{at}input_layernorm.weight"] = (size,)
        shapes[f"{at}post_attention_layernorm.weight"] = (size,)
    return drawn(shapes, seed)


def frequencies(c):
    """Of rotation, scaled as Llama 3's authors wrote it."""
    d = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    f = c["rope_theta"] ** (-np.arange(0, d, 2) / d)
    if s := c.get("rope_scaling"):
        n, low, high = (s["original_max_position_embeddings"], s["low_freq_factor"],
                        s["high_freq_factor"])
        wave = 2 * np.pi / f
        smooth = (n / wave - low) / (high - low)
        f = np.where(wave < n / high, f, np.where(
            wave > n / low, f / s["factor"], (1 - smooth) * f / s["factor"] + smooth * f))
    return f


def numpy_llama(c, w, ids):
    """Logits in float64."""
    def linear(name, x):
        return x @ w[f"{name}.weight"].T.astype(np.float64) + w.get(f"{name}.bias", 0)

    def norm(name, x):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * w[
            f"{name}.weight"]

    def turn(x):  # (batch, length, heads, d)
        angle = (np.arange(ids.shape[1])[:, None] * frequencies(c))[:, None]
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle),
                               b * np.cos(angle) + a * np.sin(angle)], -1)

    heads, groups = c["num_attention_heads"], c["num_key_value_heads"]
    x = w["model.embed_tokens.weight"][ids].astype(np.float64)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        y = norm(f"{at}.input_layernorm", x)
        q, k, v = (linear(f"{at}.self_attn.{n}_proj", y).reshape(*ids.shape, h, -1)
                   for n, h in (("q", heads), ("k", groups), ("v", groups)))
        q, k = turn(q), np.repeat(turn(k), heads // groups, 2)
        scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
        scores = np.where(np.tri(ids.shape[1], dtype=bool), scores, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("bhij,bjhd->bihd", e / e.sum(-1, keepdims=True),
                      np.repeat(v, heads // groups, 2))
        x = x + linear(f"{at}.self_attn.o_proj", y.reshape(*ids.shape, -1))
        y = norm(f"{at}.post_attention_layernorm", x)
        gate = linear(f"{at}.mlp.gate_proj", y)
        x = x + linear(f"{at}.mlp.down_proj",
                       gate / (1 + np.exp(-gate)) * linear(f"{at}.mlp.up_proj", y))
    return norm("model.norm", x) @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


@CONFIGS
def test_against_numpy(config, tmp_path):
    w = weights(config)
    model = Llama.from_safetensors(written(tmp_path, config, w))
    got = agree(model, IDS)
    assert got.shape == (2, 7, 23)
    np.testing.assert_allclose(got, numpy_llama(config, w, IDS), atol=1e-4)


@CONFIGS
def test_against_pytorch(config, tmp_path):
    torch = pytest.importorskip("torch")
    w = weights(config, 1)
    model = Llama.from_safetensors(written(tmp_path, config, w))
    want = torch_llama(torch, config, {k: torch.from_numpy(v) for k, v in w.items()},
                       torch.from_numpy(IDS))
    np.testing.assert_allclose(agree(model, IDS), want.numpy(), atol=1e-4)


def torch_llama(torch, c, w, ids):
    """Logits in float32, with PyTorch's own norm, attention and complex rotation."""
    F = torch.nn.functional

    def linear(name, x):
        return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

    def norm(name, x):
        return F.rms_norm(x, x.shape[-1:], w[f"{name}.weight"], c["rms_norm_eps"])

    f = torch.from_numpy(frequencies(c).astype(np.float32))
    spin = torch.polar(torch.ones(()), torch.arange(ids.shape[1])[:, None] * f)

    def turn(x):  # (batch, heads, length, d)
        a, b = x.chunk(2, -1)
        z = torch.complex(a.contiguous(), b.contiguous()) * spin
        return torch.cat([z.real, z.imag], -1)

    x = F.embedding(ids, w["model.embed_tokens.weight"])
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        y = norm(f"{at}.input_layernorm", x)
        q, k, v = (linear(f"{at}.self_attn.{n}_proj", y).unflatten(-1, (h, -1)).transpose(1, 2)
                   for n, h in (("q", c["num_attention_heads"]), ("k", c["num_key_value_heads"]),
                                ("v", c["num_key_value_heads"])))
        y = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True, enable_gqa=True)
        x = x + linear(f"{at}.self_attn.o_proj", y.transpose(1, 2).flatten(-2))
        y = norm(f"{at}.post_attention_layernorm", x)
        x = x + linear(f"{at}.mlp.down_proj", F.silu(linear(f"{at}.mlp.gate_proj", y))
                       * linear(f"{at}.mlp.up_proj", y))
    return F.linear(norm("model.norm", x),
                    w.get("lm_head.weight", w["model.embed_tokens.weight"]))


def test_positions_and_symbolic_lengths(tmp_path):
    model = Llama.from_safetensors(written(tmp_path, CONFIG, weights(CONFIG)))
    n = tegg.dim("n", 1, 32, hint=8)
    f = tegg.compile(model, device="cpu", dims={"ids": (None, n), "positions": (n,)})
    want, _ = oracle(model, IDS)
    for length in (3, 7):
        ids = np.ascontiguousarray(IDS[:, :length])
        got = f(ids, np.arange(length) + 9)  # only differences of positions are seen
        np.testing.assert_allclose(got, want[:, :length], atol=1e-4)


# ---- files
def test_a_file_with_its_config_beside_it_or_given(tmp_path):
    w = {**weights(CONFIG), "model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(2, np.float32)}
    written(tmp_path, CONFIG, {**w, "lm_head.weight": w["model.embed_tokens.weight"]})
    file = tmp_path / "model.safetensors"
    a, b = Llama.from_safetensors(file), Llama.from_safetensors(
        file, LlamaConfig.from_json(tmp_path / "config.json"))
    assert (oracle(a, IDS)[0] == oracle(b, IDS)[0]).all()
    assert a.lm_head is None


@CONFIGS
def test_a_round_trip(config, tmp_path):
    w = weights(config)
    model = Llama.from_safetensors(written(tmp_path, config, w))
    state = to_hugging_face(model)
    assert state.keys() == w.keys() and all((state[k] == w[k]).all() for k in w)


def test_configs(tmp_path):
    def read(**keys):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"model_type": "llama", **keys}))
        return LlamaConfig.from_json(path)

    assert read() == LlamaConfig(32000, 4096, 11008, 32, 32, 32, None, 2048, 1e-6, 10000.0,
                                 tie_word_embeddings=False)
    c = read(rope_parameters={"rope_theta": 7.0, "rope_type": "linear", "factor": 2.0},
             head_dim=None, num_attention_heads=8)
    assert (c.rope_theta, c.rope_scaling, c.num_key_value_heads) == (
        7.0, RopeScaling("linear", 2.0), 8)
    assert Llama(dataclasses.replace(c, num_hidden_layers=0)).cache_shape == (0, 8, 512)
    for keys, text in (({"model_type": "mistral"}, "model_type is 'mistral', and only 'llama'"),
                       ({"hidden_act": "gelu"}, "hidden_act is 'gelu', and only 'silu' is known"),
                       ({"rope_scaling": {"rope_type": "yarn"}},
                        "config.json: rope scaling 'yarn' is not known")):
        with pytest.raises(WeightsError, match=text):
            read(**keys)


def test_weights_that_do_not_fit(tmp_path):
    w = weights(CONFIG)
    del w["model.norm.weight"]
    w["model.layers.1.mlp.up_proj.weight"] = np.ones((3, 3), np.float32)
    w["model.extra"] = np.ones(1, np.float32)
    written(tmp_path, CONFIG, w)
    with pytest.raises(WeightsError, match=r"Llama: the state dict does not fit, and nothing was "
                                           r"loaded: missing norm\.weight; unexpected extra; "
                                           r"layers\.1\.mlp\.up_proj\.weight is \(3, 3\), not"):
        Llama.from_safetensors(tmp_path)
