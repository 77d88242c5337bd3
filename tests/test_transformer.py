"""Encoder and decoder layers: against NumPy always, against PyTorch where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from modules import agree, oracle, randomise

import tegg
from tegg.errors import ArgumentError
from tegg.nn import (LayerNorm, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
                     TransformerEncoderLayer)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5, 8)).astype(np.float32)
MEMORY = RNG.normal(size=(2, 3, 8)).astype(np.float32)
PADDING = np.array([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1]], bool)  # True is left out, as in PyTorch
AFTER = np.triu(np.ones((5, 5), bool), 1)
ADDED = np.where(AFTER, -np.inf, RNG.normal(size=(5, 5))).astype(np.float32)


def norm(p, name, x, eps=1e-5):
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    return y * p[f"{name}.weight"] + p[f"{name}.bias"]


def attend(p, name, x, memory, hidden):
    """Two heads; ``hidden``: what is left out."""
    q, k, v = ((a @ p[f"{name}.{n}.weight"].T + p[f"{name}.{n}.bias"])
               .reshape(2, -1, 2, 4).swapaxes(1, 2)
               for a, n in ((x, "query"), (memory, "key"), (memory, "value")))
    e = np.exp(np.where(hidden, -np.inf, q @ k.swapaxes(-1, -2) / 2))
    y = (e / e.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(2, -1, 8)
    return y @ p[f"{name}.out.weight"].T + p[f"{name}.out.bias"]


def feed(p, x):
    y = np.maximum(x @ p["linear1.weight"].T + p["linear1.bias"], 0)
    return y @ p["linear2.weight"].T + p["linear2.bias"]


@pytest.mark.parametrize("first", [False, True])
def test_layers_against_numpy(first):
    def steps(p, x, *fs):
        for i, f in enumerate(fs, 1):
            x = x + f(norm(p, f"norm{i}", x)) if first else norm(p, f"norm{i}", x + f(x))
        return x

    layer = randomise(TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=first))
    p = {k: v.astype(np.float64) for k, v in layer.state_dict().items()}
    hidden = AFTER | PADDING[:, None, None]
    want = steps(p, X, lambda y: attend(p, "self_attn", y, y, hidden), lambda y: feed(p, y))
    np.testing.assert_allclose(agree(layer, X, AFTER, PADDING), want, atol=2e-5)

    layer = randomise(TransformerDecoderLayer(8, 2, 12, batch_first=True, norm_first=first))
    p = {k: v.astype(np.float64) for k, v in layer.state_dict().items()}
    want = steps(p, X, lambda y: attend(p, "self_attn", y, y, AFTER),
                 lambda y: attend(p, "multihead_attn", y, MEMORY, False), lambda y: feed(p, y))
    np.testing.assert_allclose(agree(layer, X, MEMORY, AFTER), want, atol=2e-5)


def test_the_batch_in_second_place_or_nowhere():
    layer = randomise(TransformerEncoderLayer(8, 2, 12, batch_first=True))
    second = TransformerEncoderLayer(8, 2, 12)
    second.load_state_dict(layer.state_dict())
    want, _ = oracle(layer, X, AFTER, PADDING)
    got, _ = oracle(second, X.swapaxes(0, 1).copy(), AFTER, PADDING)
    np.testing.assert_allclose(got.swapaxes(0, 1), want, atol=1e-5)
    got, _ = oracle(second, X[1].copy(), AFTER, PADDING[1])
    np.testing.assert_allclose(got, want[1], atol=1e-5)


def test_masks_of_every_kind_mean_the_same():
    layer = randomise(TransformerEncoderLayer(8, 2, 12, batch_first=True))
    want, _ = oracle(layer, X, AFTER, PADDING)
    added = np.where(AFTER, -np.inf, 0).astype(np.float32)
    for mask in (added, np.stack([AFTER] * 4)):
        got, _ = oracle(layer, X, mask, PADDING)
        np.testing.assert_allclose(got, want, atol=1e-5)
    got, _ = oracle(layer, X, None, PADDING, is_causal=True)
    np.testing.assert_allclose(got, want, atol=1e-5)
    got, _ = oracle(layer, X, added, np.where(PADDING, -np.inf, 0).astype(np.float32))
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_stacks():
    encoder = randomise(TransformerEncoder(
        lambda: TransformerEncoderLayer(8, 2, 12, activation="gelu", batch_first=True), 2,
        LayerNorm(8)))
    assert {n.split(".")[1] for n in encoder.state_dict() if n.startswith("layers.")} == {"0", "1"}
    x = X
    for layer in encoder.layers:
        x, _ = oracle(layer, x, None, PADDING)
    want, _ = oracle(encoder.norm, x)
    np.testing.assert_allclose(agree(encoder, X, None, PADDING), want, atol=1e-4)
    decoder = randomise(TransformerDecoder(
        lambda: TransformerDecoderLayer(8, 2, 12, batch_first=True), 2))
    y = X
    for layer in decoder.layers:
        y, _ = oracle(layer, y, MEMORY, AFTER)
    np.testing.assert_allclose(agree(decoder, X, MEMORY, AFTER), y, atol=1e-4)


def test_errors():
    with pytest.raises(ArgumentError, match="TransformerEncoderLayer: activation 'swish'; there "
                                            "are relu, gelu, or give a function"):
        TransformerEncoderLayer(8, 2, activation="swish")
    with pytest.raises(ArgumentError, match="TransformerEncoder: takes a function that makes a "
                                            "layer, such as lambda: TransformerEncoderLayer"):
        TransformerEncoder(TransformerEncoderLayer(8, 2), 2)
    layer = TransformerEncoderLayer(8, 2, 4, activation=tegg.silu)
    assert layer.activation is tegg.silu


# ---- PyTorch
def given_to(torch, ours, theirs):
    """PyTorch's random weights, by its own names."""
    torch.manual_seed(0)
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.randn(p.shape) * 0.4)
    ours.load_state_dict({k: v.detach().numpy() for k, v in theirs.state_dict().items()})
    return theirs.eval()


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_against_pytorch(first, batch_first):
    torch = pytest.importorskip("torch")
    options = {"dim_feedforward": 12, "activation": "gelu", "norm_first": first,
               "batch_first": batch_first}

    def ordered(a):
        return a if batch_first else np.ascontiguousarray(a.swapaxes(0, 1))

    x, memory = ordered(X), ordered(MEMORY)
    theirs = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(8, 2, **options), 2, torch.nn.LayerNorm(8),
        enable_nested_tensor=False)
    ours = TransformerEncoder(lambda: TransformerEncoderLayer(8, 2, **options), 2, LayerNorm(8))
    given_to(torch, ours, theirs)
    per_head = RNG.random((4, 5, 5)) < 0.3
    per_head[..., 0] = False
    for mask, padding in ((None, None), (AFTER, PADDING), (ADDED, None), (per_head, None)):
        want = theirs(*(None if a is None else torch.from_numpy(a) for a in (x, mask, padding)))
        got, _ = oracle(ours, x, mask, padding)
        np.testing.assert_allclose(got, want.detach().numpy(), atol=2e-5)
    theirs = torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(8, 2, **options), 2)
    ours = TransformerDecoder(lambda: TransformerDecoderLayer(8, 2, **options), 2)
    given_to(torch, ours, theirs)
    unseen = PADDING[:, 2:]
    for kw in ({}, {"tgt_mask": AFTER, "memory_key_padding_mask": unseen},
               {"memory_mask": AFTER[:, :3], "tgt_key_padding_mask": PADDING}):
        want = theirs(torch.from_numpy(x), torch.from_numpy(memory),
                      **{k: torch.from_numpy(v) for k, v in kw.items()})
        got, _ = oracle(ours, x, memory, **kw)
        np.testing.assert_allclose(got, want.detach().numpy(), atol=2e-5)


@pytest.mark.parametrize("options", [
    {}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": ADDED[:, :3]},
    {"attn_mask": ~AFTER[:, :3]}])
def test_scaled_dot_product_attention_against_pytorch(options):
    torch = pytest.importorskip("torch")
    q, k, v = (RNG.normal(size=s).astype(np.float32)
               for s in ((2, 4, 5, 8), (2, 2, 3, 8), (2, 2, 3, 6)))
    given = {n: torch.from_numpy(a) if isinstance(a, np.ndarray) else a
             for n, a in options.items()}
    want = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (q, k, v)), enable_gqa=True, **given)
    got, _ = oracle(lambda *a: tegg.scaled_dot_product_attention(*a, enable_gqa=True, **options),
                    q, k, v)
    np.testing.assert_allclose(got, want.numpy(), atol=1e-5)
