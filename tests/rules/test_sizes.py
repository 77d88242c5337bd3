"""Drawn sizes: what is proven of them holds, symbols coincide, and rules are drawn with them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, strategies as st

from tegg.dim import Symbol, evaluate
from tegg.backends.cpu.instructions import BYTE_TILES, BYTES, PAIRS, TILES
from tegg.backends.cpu.target import Cpu
from tegg.rewrite.compiler import Generic, lowering, stack
from tegg.testing.instance import instance
from tegg.testing.sizes import M, N, Sizes, at_least, bindings
from tegg.testing.soundness import draw_instance, relations
from tegg.testing.values import draw_runs
from tegg.dtype import DTYPES

STACK = stack((Generic(), lowering(Cpu(has=(PAIRS, BYTES, TILES, BYTE_TILES)))))
HOME = {r.name: (r, s) for s in STACK.rule_sets for r in s.rules}
# Guards that speak of numbers alone: one over a size, and texts that are the same for every graph.
NUMBERS = {"mean/scaled", "mean/scaled-reshaped", "mean/several-axes"}


@given(rng=st.randoms(use_true_random=True), symbolic=st.booleans())
def test_what_is_proven_holds_at_every_size(rng, symbolic):
    draw = Sizes(rng, symbolic)
    n = draw.any()
    where = bindings({Symbol("n", 0, 3, (3,)), Symbol("m", 1, 3, (2,))}, rng)
    for sizes in where:
        size = evaluate(n, sizes)
        assert size >= 0 and evaluate(draw.positive(), sizes) > 0
        assert evaluate(draw.factor(), sizes) > 0
        assert draw.below(n) < max(size, 1)
        cut = draw.cut(n)
        assert cut is None or 0 <= evaluate(cut, sizes) <= size


def test_bindings_hold_bounds_and_coincide():
    symbols = {Symbol("n", 0, 3), Symbol("m", 1, 3), Symbol("k", 2)}
    found = bindings(symbols, Random(0))
    assert found[0] == {"n": 0, "m": 1, "k": 2}
    assert len(set(found[1].values())) == 1
    assert all(s.min <= f[s.name] <= (s.max or 99) for f in found for s in symbols)
    assert bindings(set(), Random(0)) == ({},)
    apart = {Symbol("n", 0, 3), Symbol("m", 5, 6)}
    assert all(f["n"] != f["m"] for f in bindings(apart, Random(0)))


def test_proofs_of_bounds():
    assert at_least(N + M, 1) and at_least(2 * M, 2) and not at_least(N, 1) and at_least(3, 3)


@pytest.mark.parametrize("name", [n for n in HOME if n not in NUMBERS])
def test_a_rule_is_drawn_with_sizes_of_run_time(name):
    rule, _ = HOME[name]
    found = (instance(rule, STACK.table, relations(STACK), tuple(DTYPES.values()), Random(i),
                      providers=STACK.providers, symbolic=True) for i in range(60))
    assert any(made.symbols for made in found)


def test_runs_of_an_instance_have_its_shapes():
    rule, home = HOME["softmax/div"]
    drawn = [draw_instance(rule, home, STACK, Random(i)) for i in range(30)]
    symbolic = [made for made in drawn if made.symbols]
    assert 3 <= len(symbolic) < 30
    for made in symbolic:
        runs = draw_runs(made, home.header)
        assert len(runs) >= 2
        assert all(run.arrays[n.attrs[0]].shape == run.shape(n)
                   for run in runs for n, _ in made.inputs)
