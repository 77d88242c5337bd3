"""Attention of plain operands: the same text at all sizes and strides, and right at each."""

from __future__ import annotations

import numpy as np
import pytest
from attentions import Drawn, attention, causal, drawn, positions
from hypothesis import given, settings, strategies as st
from kernels import build, call, check
from profiles import examples

import tegg
from tegg.backends.cpu.attention_forms import Blocks
from tegg.backends.cpu.library import Library
from tegg.backends.cpu.objects import anonymous
from tegg.dim import dim
from tegg.dtype import DTYPES, bf16, f32
from tegg.ir.graph import Node
from tegg.kernel.code import KernelCode
from tegg.testing.draw import Draw

BLOCKS = Blocks("plain", 12, 64)
GENERAL: dict[str, Library] = {}  # text -> its library: one for all sizes of this file


def lowered(made: Drawn) -> KernelCode:
    return made.lowered(16, BLOCKS)


def agree(made: Drawn, sizes: dict[str, int] | None = None, seed: int = 0) -> KernelCode:
    """The kernel is general, and right; its text is compiled once."""
    code = lowered(made)
    assert code.given and not code.symbols
    library = GENERAL[code.source] = GENERAL.get(code.source) or build(code, 16)
    check(made.g, made.outputs, sizes or {}, made.inputs(sizes or {}, seed), 16, (1, 3), 4.0, code,
          library=library)
    return code


def up_to(g: Draw, scores: Node, offset: int) -> Node:
    """Row i sees keys up to i + offset, said by positions in longer axes."""
    m, s = scores.shape[-2:]
    row, key = (g.expand(g.reshape(g.slice(g.iota(n + skip), (skip, n + skip, 1)), shape),
                         scores.shape)
                for n, skip, shape in ((m, max(offset, 0), (1, m, 1)), (s, max(-offset, 0), (1, 1, s))))
    return g.select(g.op("LessEqual", key, row), scores, g.full(-np.inf, "f32", scores.shape))


def heads(h, m, s, e: int = 16, between=lambda g, x: x) -> Drawn:
    g = Draw()
    return attention(g, g.x(h, m, e), g.x(h, s, e), g.x(h, s, e), lambda x: between(g, x))


@settings(max_examples=examples(25))
@given(st.integers(1, 5), st.integers(12, 90), st.integers(64, 150), st.integers(-90, 90),
       st.booleans(), st.integers(0, 99))
def test_every_size_has_one_text(h, m, s, offset, masked, seed) -> None:
    agree(heads(h, m, s, 16, lambda g, x: up_to(g, x, offset) if masked else x), {}, seed)
    assert len(GENERAL) == 1


def test_few_rows_and_few_keys_stay_in_the_text() -> None:
    many, rows, keys = (anonymous(lowered(heads(2, m, s))) for m, s in ((40, 90), (5, 90), (40, 20)))
    assert len({many, rows, keys}) == 3
    assert anonymous(lowered(heads(3, 5, 99))) == rows
    assert anonymous(lowered(heads(3, 77, 20))) == keys


def shared(h: int, m: int, s: int, e: int = 16) -> Drawn:
    """Two heads of queries for each of keys."""
    g = Draw()
    q, k, v = g.x(h, 2, m, e), g.x(h, s, e), g.x(h, s, e)
    scores = g.op("Contract", q, k, "h,g,m,e;h,s,e;h,g,m,s", (h, 2, m, s))
    out = g.op("Attention", scores, v, "h,g,m,s;h,s,n;h,g,m,n", (h, 2, m, e))
    return Drawn(g, [scores, out], [out])


def parts(m: int, h: int, e: int = 16) -> Drawn:
    """Queries, keys and values of all heads lie in rows of one array, and so do results."""
    g = Draw()
    x = g.permute(g.x(m, 3, h, e), (1, 2, 0, 3))
    q, k, v = (g.reshape(g.slice(x, (i, i + 1, 1), (0, h, 1), (0, m, 1), (0, e, 1)), (h, m, e)) for i in range(3))
    made = attention(g, q, k, v)
    made.outputs = [g.permute(made.outputs[0], (1, 0, 2))]
    return made


def bias(h: int, m: int, s: int, of: tuple[int, ...]) -> Drawn:
    """Something is added to scores that is the same along axes of 1."""
    return heads(h, m, s, 16, lambda g, x: g.add(x, g.expand(g.x(*of), x.shape)))


def keys_only(h: int, m: int, s: int) -> Drawn:
    def between(g: Draw, x):
        test = g.less(3, g.x(h, 1, s, dtype="i64"))
        return g.select(g.expand(test, x.shape), x, g.full(-np.inf, "f32", x.shape))
    return heads(h, m, s, 16, between)


def halves(h: int, m: int, s: int, dtype: str, e: int = 16, stored: str = "Cast") -> Drawn:
    """Arrays in 16 bits; sums are float32, and results what ``stored`` makes of them."""
    g = Draw()
    made = attention(g, *(g.op("Cast", g.x(h, n, e, dtype=dtype), f32) for n in (m, s, s)))
    made.outputs = [g.op(stored, made.outputs[0], DTYPES[dtype])]
    return made


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_arrays_in_16_bits_are_plain_too(dtype) -> None:
    one, other = (agree(made) for made in (halves(2, 30, 70, dtype), halves(3, 41, 99, dtype)))
    assert anonymous(one) == anonymous(other) == anonymous(agree(halves(2, 30, 70, dtype, stored="Held")))


def test_a_result_that_is_computed_further_keeps_its_sizes() -> None:
    made = halves(2, 30, 70, "bf16")
    made.outputs = [made.g.op("Cast", made.g.op("Exp2", made.anchors[-1]), bf16)]
    assert not lowered(made).given


def reads_a_length(h: int, m: int, s: int) -> Drawn:
    def between(g: Draw, x):
        lengths = g.add(g.expand(g.x(h, 1, 1, dtype="i64"), x.shape), 40)
        return g.select(g.less(positions(g, x)[1], lengths), x, g.full(-np.inf, "f32", x.shape))
    return heads(h, m, s, 16, between)


@pytest.mark.parametrize("two", [
    (shared(3, 30, 70), shared(1, 50, 81)),
    (bias(2, 30, 70, (2, 30, 70)), bias(3, 31, 75, (1, 31, 75))),
    (keys_only(2, 30, 70), keys_only(3, 33, 91)),
    (reads_a_length(2, 30, 70), reads_a_length(5, 21, 99))],
    ids=["shared heads", "added masks", "masks of keys", "lengths"])
def test_two_programs_of_one_form_have_one_text(two) -> None:
    one, other = (agree(made, {}, 1) for made in two)
    assert anonymous(one) == anonymous(other)


def test_operands_inside_one_array_have_the_text_of_arrays() -> None:
    code = agree(parts(70, 3))
    assert code.takes == (0, 0, 0, 1) and not code.symbolic
    assert anonymous(code) == anonymous(lowered(heads(2, 50, 90)))
    assert code.stages[0].reads == {0} and code.stages[0].writes == {1}


def test_padded_rows_and_columns_have_the_text_of_whole_ones() -> None:
    g = Draw()
    q, k, v = (g.slice(g.x(2, n + 3, 21), (0, 2, 1), (2, n + 2, 1), (5, 21, 1))
               for n in (30, 80, 80))
    assert anonymous(agree(attention(g, q, k, v))) == anonymous(lowered(heads(2, 50, 90)))


@pytest.mark.parametrize("names", ["m", "s", "ms", "h"])
def test_symbolic_sizes_are_given_too(names) -> None:
    size = {c: dim(c, 0, 1 << 20) if c in names else n for c, n in dict(h=2, m=30, s=70).items()}
    made = heads(size["h"], size["m"], size["s"], 16, lambda g, x: up_to(g, x, 0))
    code = agree(made, dict(m=25, s=66, h=3))
    assert code.symbolic
    assert anonymous(code) == anonymous(lowered(heads(2, 50, 90)))
    for sizes in (dict(m=1, s=1, h=1), dict(m=0, s=5, h=0), dict(m=14, s=65, h=2)):
        agree(made, sizes)


def test_programs_evaluate_what_is_given() -> None:
    """As the runtime does it, with sizes that follow from others."""
    n = tegg.dim("n", 1, 300)
    g = tegg.Graph()
    q, k, v = g.tensor((n, 3, 4, 32), name="x").permute(1, 2, 0, 3)
    tegg.scaled_dot_product_attention(q, k, v, is_causal=True).output("y")
    run = g.compile([tegg.Generic()])
    assert any(code.given and not all(isinstance(d, int) for d in code.given)
               for code in run.plan.kernels)
    for size in (1, 3, 80, 141):
        a = np.random.default_rng(size).standard_normal((size, 3, 4, 32)).astype(np.float32)
        q, k, v = a.astype(np.float64).transpose(1, 2, 0, 3)
        e = np.exp(q @ k.swapaxes(-1, -2) / 32**0.5) * np.tri(size)
        assert np.allclose(run(a)["y"], e / e.sum(-1, keepdims=True) @ v, 1e-4, 1e-5)


@settings(max_examples=examples(10))
@given(st.data(), st.integers(0, 99))
def test_what_is_not_plain_keeps_its_sizes(data, seed) -> None:
    made = data.draw(drawn())
    code = lowered(made)
    x = made.g.x(*made.outputs[0].shape)
    made.outputs = [made.g.add(made.outputs[0], x)]
    assert not lowered(made).given
    assert not code.symbols


def test_threads_change_no_bit() -> None:
    made = heads(3, 100, 300, 16, causal)
    code, inputs = lowered(made), made.inputs({}, 3)
    library = build(code, 16)
    results = [call(library, code, made.g, made.outputs, inputs, {}, n)[0] for n in (1, 2, 3, 7)]
    assert all(np.array_equal(r, results[0]) for r in results)

