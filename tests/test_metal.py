"""Metal through tegg.compile: plans run by the real runtime, over metalcompute's stand-in."""

from __future__ import annotations

import numpy as np
import pytest
from simt import fake_metal

import tegg
from tegg.runtime.driver import Options

METAL = Options(device="metal", cache=False)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    fake_metal.launched.clear()
    with fake_metal.installed() as library:
        yield library


def close(got, want, rtol=2e-5):
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-5)


RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def test_layers_of_a_transformer(gpu):
    """Norms, products with bias and gelu, attention, softmax, an embedding: as on the CPU."""
    def layer(ids, table, w, b, gain):
        x = table[ids]
        h = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt() * gain
        q, k, v = h @ w, h @ w.T, h
        a = ((q @ k.T) * 0.125).softmax(-1) @ v
        return (a @ w + b).gelu() + x, a.sum(0), a.argmax(-1)

    args = (RNG.integers(0, 40, 37), floats(40, 48), floats(48, 48) * 0.1, floats(48), floats(48))
    want = tegg.compile(layer)(*args)
    got = tegg.compile(layer, device="metal")(*args)
    for a, b in zip(got, want):
        close(a, b, 1e-4)
    assert 4 <= len(fake_metal.launched) <= 15
