"""Rotary positions against complex rotation, in both layouts, and scaled frequencies."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from modules import oracle

from profiles import examples
import tegg
from tegg.errors import ArgumentError
from tegg.nn import Module, RoPE, RopeScaling


def turned(x, positions, theta, interleaved, frequencies=None):
    """Pairs as complex numbers, times e^(i angle), in float64."""
    d = x.shape[-1]
    f = theta ** (-np.arange(0, d, 2) / d) if frequencies is None else frequencies
    spin = np.exp(1j * positions[:, None] * f)
    x = x.astype(np.float64)
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :d // 2], x[..., d // 2:])
    z = (a + 1j * b) * spin
    if interleaved:
        return np.stack([z.real, z.imag], -1).reshape(x.shape)
    return np.concatenate([z.real, z.imag], -1)


@settings(max_examples=examples(20))
@given(st.sampled_from([2, 4, 10]), st.integers(1, 4), st.booleans(),
       st.sampled_from([100.0, 10000.0]), st.integers(0, 200), st.integers(0, 9))
def test_against_complex_rotation(dim, length, interleaved, theta, offset, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, length, dim)).astype(np.float32)
    rope = RoPE(dim, theta, interleaved)
    want = turned(x, np.arange(length) + offset, theta, interleaved)
    got, _ = oracle(rope, x, offset=offset)
    np.testing.assert_allclose(got, want, atol=1e-4)
    positions = rng.integers(0, 200, length)
    got, _ = oracle(rope, x, positions)
    np.testing.assert_allclose(got, turned(x, positions, theta, interleaved), atol=1e-4)


@pytest.mark.parametrize("interleaved", [False, True])
def test_compiled_with_the_offset_as_a_tensor(interleaved):
    class At(Module):
        def __init__(self):
            self.rope = RoPE(8, interleaved=interleaved)

        def forward(self, x, start):
            return self.rope(x, offset=start)

    x = np.random.default_rng(0).normal(size=(3, 5, 8)).astype(np.float32)
    n = tegg.dim("n", 1, 64, hint=8)
    f = tegg.compile(At(), device="cpu", dims={"x": (None, n, None)})
    for length, start in ((5, 0), (3, 17)):
        want = turned(x[:, :length], np.arange(length) + start, 10000.0, interleaved)
        np.testing.assert_allclose(f(x[:, :length], np.array([start])), want, atol=1e-5)


def test_positions_that_are_constants():
    at = np.array([3, 0, 7])
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    rope = RoPE(4)
    got, _ = oracle(lambda x: rope(x, at), x)
    np.testing.assert_allclose(got, turned(x, at, 10000.0, False), atol=1e-5)


def test_halves_stay_halves():
    x = np.ones((2, 4), np.float16)
    got, _ = oracle(RoPE(4), x)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, turned(x, np.arange(2), 10000.0, False), atol=2e-3)


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}


def test_llama3_by_its_definition():
    """Wavelength by wavelength, as the model's authors wrote it."""
    plain = 10000.0 ** (-np.arange(0, 16, 2) / 16)
    want = []
    for f in plain:
        wavelength = 2 * math.pi / f
        if wavelength < 64 / 4.0:
            want.append(f)
        elif wavelength > 64 / 1.0:
            want.append(f / 8)
        else:
            smooth = (64 / wavelength - 1.0) / (4.0 - 1.0)
            want.append((1 - smooth) * f / 8 + smooth * f)
    scaling = RopeScaling.from_config(LLAMA3)
    assert np.allclose(RoPE(16, scaling=scaling).frequencies, want)
    assert len({float(w / f) for w, f in zip(want, plain)}) > 2  # all three cases


def test_linear_and_none():
    scaling = RopeScaling.from_config({"type": "linear", "factor": 4.0})
    assert np.allclose(RoPE(4, scaling=scaling).frequencies * 4, RoPE(4).frequencies)
    assert RopeScaling.from_config(None) is None
    assert RopeScaling.from_config({}) is None
    assert RopeScaling.from_config({"rope_type": "default", "rope_theta": 1.0}) is None


def test_errors():
    with pytest.raises(ArgumentError, match="RoPE turns pairs of features, so dim is even, not 5"):
        RoPE(5)
    with pytest.raises(ArgumentError, match="rope scaling 'yarn' is not known; there are linear "
                                            "and llama3"):
        RopeScaling.from_config({"rope_type": "yarn", "factor": 2.0})
    with pytest.raises(ArgumentError, match="rope scaling 'llama3' needs low_freq_factor, "
                                            "high_freq_factor, original_max_position_embeddings"):
        RopeScaling.from_config({"rope_type": "llama3", "factor": 2.0})


def test_repr():
    assert repr(RoPE(8, 500000.0, True)) == "RoPE(8, theta=500000, interleaved)"
