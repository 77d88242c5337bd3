"""Attention kernels: drawn ones against the oracle, and what they execute."""

from __future__ import annotations

import numpy as np
import pytest
from attentions import Drawn, attention, causal, drawn, positions
from profiles import examples
from tegg.testing.draw import Draw
from hypothesis import given, settings, strategies as st
from kernels import build, call, check

from tegg.backends.cpu.attention_forms import Blocks
from tegg.dim import dim
from tegg.errors import LoweringError

WIDTHS = st.sampled_from((4, 8, 16))
PACKED = (Blocks("plain", 12, 64), Blocks("plain", 5, 32))
WHERE_THEY_LIE = (Blocks("rows", 4, 512), Blocks("rows", 3, 32))
KINDS = pytest.mark.parametrize("blocks", [PACKED[0], Blocks("rows", 4, 64)], ids=lambda b: b.kind)


def agree(made: Drawn, sizes: dict[str, int], seed: int, width: int, blocks: Blocks) -> None:
    code = made.lowered(width, blocks)
    check(made.g, made.outputs, sizes, made.inputs(sizes, seed), width, (1, 3), 4.0, code)


@settings(max_examples=examples(20))
@given(st.data(), st.integers(0, 99), WIDTHS)
def test_constant_sizes(data, seed, width) -> None:
    made = data.draw(drawn(data.draw(st.sampled_from(("f32", "f32", "f64")))))
    agree(made, {}, seed, width, data.draw(st.sampled_from((*PACKED, *WHERE_THEY_LIE))))


@settings(max_examples=examples(8))
@given(st.data(), st.integers(0, 99))
def test_symbolic_sizes(data, seed) -> None:
    made = data.draw(drawn("f32", frozenset(data.draw(st.sampled_from(("m", "s", "ms", "msa"))))))
    blocks = data.draw(st.sampled_from((PACKED[0], WHERE_THEY_LIE[1])))
    for sizes in ({"m": 1, "s": 1, "a": 1}, {"m": 14, "s": 70, "a": 2}, {"m": 3, "s": 0, "a": 3},
                  {"m": 0, "s": 5, "a": 1}):
        agree(made, sizes, seed, 16, blocks)


# ---- what is not executed
def poisoned(made: Drawn, from_key: int, blocks: Blocks = PACKED[0]) -> list[np.ndarray]:
    """Results where keys and values from one on are NaN."""
    inputs = made.inputs({}, 0)
    inputs[1][:, from_key:] = np.nan
    inputs[2][:, from_key:] = np.nan
    code = made.lowered(16, blocks)
    return call(build(code, 16), code, made.g, made.outputs, inputs, {}, 2)


def heads(m: int, s: int, between) -> Drawn:
    g = Draw()
    return attention(g, g.x(2, m, 8), g.x(2, s, 8), g.x(2, s, 6), lambda x: between(g, x))


@KINDS
def test_keys_after_the_last_query_are_skipped(blocks) -> None:
    made = heads(24, 256, causal)
    assert np.isfinite(poisoned(made, 64, blocks)[0]).all()
    assert np.isnan(poisoned(made, 12, blocks)[0]).any()  # it is not that nobody looks


def test_keys_that_are_not_packed_are_skipped_to_the_last() -> None:
    made = heads(4, 256, lambda g, x: causal(g, x, 30))
    assert np.isfinite(poisoned(made, 34, WHERE_THEY_LIE[0])[0]).all()
    assert np.isnan(poisoned(made, 33, WHERE_THEY_LIE[0])[0]).any()


@KINDS
def test_keys_beyond_a_length_that_is_read_are_skipped(blocks) -> None:
    def between(g: Draw, scores):
        _, key = positions(g, scores)
        lengths = g.add(g.mul(g.expand(g.x(2, 1, 1, dtype="i64"), scores.shape), 0), 20)
        return g.select(g.less(key, lengths), scores, g.full(-np.inf, "f32", scores.shape))

    assert np.isfinite(poisoned(heads(5, 300, between), 64, blocks)[0]).all()


@KINDS
def test_keys_before_a_window_are_skipped(blocks) -> None:
    def between(g: Draw, scores):
        row, key = positions(g, scores)
        near = g.less(g.add(row, 200), key)
        return g.select(near, scores, g.full(-np.inf, "f32", scores.shape))

    made = heads(6, 256, between)
    inputs = made.inputs({}, 0)
    inputs[1][:, :192], inputs[2][:, :192] = np.nan, np.nan
    code = made.lowered(16, blocks)
    assert np.isfinite(call(build(code, 16), code, made.g, made.outputs, inputs, {})[0]).all()


def test_a_mask_without_positions_skips_nothing() -> None:
    made = heads(12, 128, lambda g, x: g.add(x, g.expand(g.x(12, 128), x.shape)))
    assert np.isnan(poisoned(made, 127)[0]).all()


# ---- rows without keys, and results of threads
@KINDS
def test_a_row_that_sees_nothing_is_nan_and_no_keys_give_zero(blocks) -> None:
    made = heads(9, 64, lambda g, x: causal(g, x, -3))
    code = made.lowered(16, blocks)
    (out,) = call(build(code, 16), code, made.g, made.outputs, made.inputs({}, 1), {})
    assert np.isnan(out[:, :3]).all() and np.isfinite(out[:, 3:]).all()
    empty, none = heads(9, dim("s", 0, 64), lambda g, x: x), {"s": 0}
    code = empty.lowered(16, blocks)
    (out,) = call(build(code, 16), code, empty.g, empty.outputs, empty.inputs(none, 1), none)
    assert not out.any()


def test_no_scores_at_all_are_refused() -> None:
    with pytest.raises(LoweringError, match="a sum of nothing"):
        heads(9, 0, lambda g, x: x).lowered()


@KINDS
def test_threads_change_no_bit(blocks) -> None:
    made = heads(100, 300, causal)
    code, inputs = made.lowered(16, blocks), made.inputs({}, 3)
    library = build(code, 16)
    results = [call(library, code, made.g, made.outputs, inputs, {}, n)[0] for n in (1, 2, 3, 7)]
    assert all(np.array_equal(r, results[0]) for r in results)


@KINDS
def test_large_and_late_maxima(blocks) -> None:
    """Sums go on at each new maximum; none overflows."""
    made = heads(7, 400, lambda g, x: g.mul(g.add(x, g.cast(positions(g, x)[1], "f32")), 30.0))
    agree(made, {}, 0, 16, blocks)


@KINDS
def test_a_single_row_without_a_loop(blocks) -> None:
    """What is above the product is no number of the key alone, though no row decides it."""
    g = Draw()
    q, k, v, bias = g.x(4), g.x(70, 4), g.x(70, 3), g.x(70)
    scores = g.op("Contract", q, k, "e;s,e;s", (70,))
    above = g.add(g.mul(scores, 0.125), g.mul(bias, 2.0))
    out = g.op("Attention", above, v, "s;s,n;n", (3,))
    agree(Drawn(g, [scores, out], [out]), {}, 0, 16, blocks)


# ---- what few rows read where it lies
def test_values_are_asked_for_while_their_keys_are_read() -> None:
    """Where they may be far away: a loop over the lines of a value where each key begins."""
    def asked(keys: int) -> bool:
        g = Draw()
        made = attention(g, g.x(16, 1, 64), g.x(16, keys, 64), g.mul(g.x(16, keys, 64), 2.0))
        return "k_v_ask_b1(" in made.lowered(16, WHERE_THEY_LIE[0]).source

    assert asked(512) and not asked(60)


# ---- what is no attention of this form
def test_keys_in_several_loops_are_refused() -> None:
    g = Draw()
    k = g.permute(g.x(6, 4, 2, 8), (2, 1, 0, 3))  # the key is split by a movement
    made = attention(g, g.x(2, 5, 8), g.reshape(k, (2, 24, 8)), g.x(2, 24, 6))
    with pytest.raises(LoweringError, match="several loops"):
        made.lowered()


def test_queries_that_depend_on_keys_are_refused() -> None:
    g = Draw()
    q, k, v = g.x(2, 24, 5, 8), g.x(2, 24, 8), g.x(2, 24, 6)
    scores = g.op("Contract", q, k, "h,s,m,e;h,s,e;h,m,s", (2, 5, 24))
    out = g.op("Attention", scores, v, "h,m,s;h,s,n;h,m,n", (2, 5, 6))
    with pytest.raises(LoweringError, match="both operands of an attention's scores"):
        Drawn(g, [scores, out], [out]).lowered()


def test_keys_of_each_row_make_it_a_batch() -> None:
    g = Draw()
    q, k, v = g.x(2, 5, 8), g.x(2, 5, 24, 8), g.x(2, 24, 6)
    scores = g.op("Contract", k, q, "h,m,s,e;h,m,e;h,m,s", (2, 5, 24))
    out = g.op("Attention", scores, v, "h,m,s;h,s,n;h,m,n", (2, 5, 6))
    agree(Drawn(g, [scores, out], [out]), {}, 0, 16, Blocks("plain", 12, 64))


def test_scores_that_are_read_twice_are_refused() -> None:
    g = Draw()
    made = attention(g, g.x(2, 24, 8), g.x(2, 24, 8), g.x(2, 24, 6),
                     lambda x: g.add(x, g.permute(x, (0, 2, 1))))
    with pytest.raises(LoweringError, match="is read at 2 indices"):
        made.lowered()


def test_sums_beside_the_product_are_refused() -> None:
    g = Draw()
    made = attention(g, g.x(2, 24, 8), g.x(2, 24, 8), g.x(2, 24, 6),
                     lambda x: g.add(x, g.expand(g.total(g.x(2, 24, 3), 2, keep=True), x.shape)))
    with pytest.raises(LoweringError, match="a reduction beside their product"):
        made.lowered()


def test_outputs_over_different_elements_are_refused() -> None:
    made = heads(9, 24, lambda g, x: x)
    (out,) = made.outputs
    made.outputs = [out, made.g.slice(out, (0, 2, 1), (1, 3, 1), (0, 6, 1))]
    with pytest.raises(LoweringError, match="several indices|read at|different elements"):
        made.lowered()


def test_results_without_elements() -> None:
    m = dim("m", 0, 8)
    g = Draw()
    made = attention(g, g.x(2, m, 8), g.x(2, 5, 8), g.x(2, 5, 0))
    code = made.lowered()
    assert not code.temporaries and code.work.evaluations == 0
