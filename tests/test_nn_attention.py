"""Multi-head attention: heads, groups, masks, rotary positions, packed weights."""

from __future__ import annotations

import numpy as np
import pytest
from modules import agree, oracle, randomise

import tegg
from tegg.errors import ArgumentError, WeightsError
from tegg.nn import KVCache, MultiHeadAttention, RoPE

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)


def reference(m, x, memory=None, seen=None, added=0.0):
    """By loops over heads, in float64."""
    p = {k: v.astype(np.float64) for k, v in m.state_dict().items()}
    memory = x if memory is None else memory
    q, k, v = (a @ p[f"{n}.weight"].T + p.get(f"{n}.bias", 0)
               for a, n in ((x, "query"), (memory, "key"), (memory, "value")))
    d, out = m.head_dim, []
    for h in range(m.heads):
        g = h // (m.heads // m.kv_heads)
        scores = q[..., h * d:h * d + d] @ k[..., g * d:g * d + d].swapaxes(-1, -2) / d ** 0.5
        scores = np.where(True if seen is None else seen, scores + added, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        out.append(e / e.sum(-1, keepdims=True) @ v[..., g * d:g * d + d])
    return np.concatenate(out, -1) @ p["out.weight"].T + p.get("out.bias", 0)


@pytest.mark.parametrize(("heads", "groups", "size", "bias"), [
    (2, 2, None, True), (4, 2, None, False), (4, 1, 3, True)])
def test_against_loops(heads, groups, size, bias):
    m = randomise(MultiHeadAttention(8, heads, groups, bias, head_dim=size, out_bias=not bias))
    assert (m.out.bias is None) == bias and m.head_dim == (size or 8 // heads)
    np.testing.assert_allclose(agree(m, X), reference(m, X), atol=1e-5)


def test_masks_and_memory():
    m = randomise(MultiHeadAttention(8, 2))
    memory = X[:, :3]
    seen = np.array([[1, 1, 0], [1, 0, 1]], bool)[:, None, None]
    added = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    got = agree(m, X, memory, seen)
    np.testing.assert_allclose(got, reference(m, X, memory, seen[:, 0]), atol=1e-5)
    np.testing.assert_allclose(agree(m, X, memory, added), reference(m, X, memory, None, added),
                               atol=1e-5)
    causal, _ = oracle(m, X, causal=True)
    np.testing.assert_allclose(causal, reference(m, X, None, np.tri(5, dtype=bool)), atol=1e-5)


def test_attention_sees_differences_of_positions_only():
    m = randomise(MultiHeadAttention(8, 2, rope=RoPE(4)))
    near, _ = oracle(m, X)
    far, _ = oracle(m, X, positions=np.arange(5) + 90)
    np.testing.assert_allclose(near, far, atol=1e-4)
    other, _ = oracle(m, X, positions=np.arange(5) * 3)
    assert np.abs(other - near).max() > 1e-3


def test_the_packed_layout_loads():
    m, again = randomise(MultiHeadAttention(8, 4, 2)), MultiHeadAttention(8, 4, 2)
    s = m.state_dict()
    packed = {f"in_proj_{k}": np.concatenate([s[f"{n}.{k}"] for n in ("query", "key", "value")])
              for k in ("weight", "bias")}
    state = {**packed, "out_proj.weight": s["out.weight"], "out_proj.bias": s["out.bias"]}
    again.load_state_dict(state)
    assert all((a == again.state_dict()[n]).all() for n, a in s.items())
    assert set(state) == {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}
    assert np.shares_memory(again.query.weight.data, packed["in_proj_weight"])
    with pytest.raises(WeightsError, match="missing query.weight.*unexpected in_proj_weight"):
        again.load_state_dict({**state, "in_proj_weight": np.ones((9, 8), np.float32)})


def test_leading_axes_of_attention_broadcast():
    q, k = X[:, None], X[:1, :3]
    got = tegg.compile(tegg.scaled_dot_product_attention, device="cpu")(q, k, k)
    e = np.exp(q @ k.swapaxes(-1, -2) / 8 ** 0.5)
    assert got.shape == (2, 1, 5, 8)
    np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True) @ k, atol=1e-5)


def test_errors():
    m = MultiHeadAttention(8, 2)

    def with_both(x, keys, values, positions):
        return m(x, mask=positions, cache=KVCache((keys, values), positions))

    empty = np.zeros((5, 2, 2, 4), np.float32)
    with pytest.raises(ArgumentError, match="a cache is for self-attention of tokens that see "
                                            "those before; it goes without memory and mask"):
        tegg.trace(with_both, (X, empty, empty.copy(), np.arange(5)))
    with pytest.raises(ArgumentError, match="dim 8, heads 3 and kv_heads 3 do not divide"):
        MultiHeadAttention(8, 3)
