"""Keys and values in place: what a cache holds, what it lets tokens see, what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from modules import oracle, randomise

from profiles import examples
import tegg
from tegg.errors import ArgumentError, ShapeError
from tegg.nn import KVCache, Module, MultiHeadAttention, RoPE


class Cached(Module):
    """Attention with a cache, as a decoder uses it."""

    def __init__(self, rope=True):
        self.attention = MultiHeadAttention(8, 4, 2, rope=RoPE(2) if rope else None)

    def forward(self, x, positions, arrays):
        return self.attention(x, cache=KVCache(arrays, positions))


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def fed(run, x, parts, slots):
    """A sequence given part by part; results joined, and the arrays."""
    arrays = KVCache.zeros(slots, len(x), 2, 2)
    out, at = [], 0
    for n in parts:
        out.append(run(np.ascontiguousarray(x[:, at:at + n]), np.arange(at, at + n), arrays))
        at += n
    return np.concatenate(out, 1), arrays


@settings(max_examples=examples(15))
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 3), st.integers(1, 2))
def test_part_by_part_is_the_whole(parts, spare, batch):
    """The oracle with a cache gives what causal attention gives at once."""
    module = randomise(Cached())
    x = normal(batch, sum(parts), 8)

    def run(x, positions, arrays):
        out, states = oracle(module, x, positions, arrays)
        arrays[0][...], arrays[1][...] = states["arrays.0"], states["arrays.1"]
        return out

    whole, _ = oracle(lambda x: module.attention(x, causal=True), x)
    np.testing.assert_allclose(fed(run, x, parts, sum(parts) + spare)[0], whole, atol=1e-5)


def test_compiled_in_place_with_symbolic_slots():
    module = randomise(Cached())
    slots, n = tegg.dim("slots", 1, 16, hint=8), tegg.dim("n", 1, 8, hint=2)
    window = (slots, None, None, None)
    f = tegg.compile(module, device="cpu", dims={
        "x": (None, n, None), "positions": (n,), "arrays.0": window, "arrays.1": window})
    x = normal(2, 7, 8)
    whole, _ = oracle(lambda x: module.attention(x, causal=True), x)
    arrays = KVCache.zeros(16, 2, 2, 2)
    shown = [a[:7] for a in arrays]
    for at, length in ((0, 3), (3, 1), (4, 3)):
        part = np.ascontiguousarray(x[:, at:at + length])
        got = f(part, np.arange(at, at + length), tuple(shown))
        np.testing.assert_allclose(got, whole[:, at:at + length], atol=1e-5)
    assert all(a[:7].all() and not a[7:].any() for a in arrays)
    buffers = f.plan.buffers
    assert not f.plan.before and not f.plan.after
    assert sum(b.kind == "input" for b in buffers) == 4


def test_rows_are_replaced_and_positions_beyond_are_dropped():
    module = randomise(Cached(rope=False))
    arrays = tuple(a + 1 for a in KVCache.zeros(3, 1, 2, 2))
    tegg.compile(module, device="cpu")(normal(1, 2, 8), np.array([1, 3]), arrays)
    for a in arrays:
        assert (a[[0, 2]] == 1).all() and (a[1] != 1).all()


def test_errors():
    def build(arrays=None, positions=0, spoil=None):
        def f(x, keys, values, p):
            cache = KVCache((keys + 1, values) if spoil else (keys, values),
                            None if positions is None else p)
            return cache.mask()
        shape = arrays or (3, 1, 2, 2)
        p = np.arange(2) if positions == 0 else np.zeros((1, 2), int)
        return tegg.trace(f, (normal(1, 2, 8), normal(*shape), normal(*shape), p))

    build()
    for kind, text, args in (
            (ArgumentError, "is no argument of the recorded function, so it cannot be overwritten",
             {"spoil": True}),
            (ShapeError, "KVCache: (3, 1) is not (slots, batch, heads, head_dim)",
             {"arrays": (3, 1)}),
            (ShapeError, "KVCache: the positions have one axis, not (1, 2)", {"positions": 1}),
            (ArgumentError, "KVCache: needs the positions of the new tokens", {"positions": None})):
        with pytest.raises(kind, match=re.escape(text)):
            build(**args)
