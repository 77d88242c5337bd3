"""The loop IR: its verifier finds trees that would print wrong code."""

from __future__ import annotations

import pytest
from kernels import check
from tegg.testing.draw import Draw
from tegg.backends.cpu.emit import C

from tegg.dim import Facts, dim
from tegg.dtype import bf16, f32
from tegg.kernel.domain import Write
from tegg.kernel.index import Algebra, Var, variable
from tegg.kernel.loops import (
    Accumulate,
    Array,
    Block,
    Fetch,
    Finish,
    Let,
    Loop,
    Start,
    Store,
    divisible,
    verify,
)
from tegg.kernel.lower import lower
from tegg.kernel.value import Values

I, J = Var(8, 0), Var(9, 1)
V = Values(Algebra(Facts()))
X = V.load(0, f32, variable(I))
Y = V.make("Exp2", (X,), f32)
TOTAL = V.reduce("sum", (J,), V.load(0, f32, variable(I) + variable(J)), f32)
STORE = Store(Write(1, (I,), variable(I), Y))
GOOD = Loop(I, (Let(X), Let(Y), STORE))


@pytest.mark.parametrize("width, extent, sums", [
    (16, 56, 4), (16, 40, 3), (16, 33, 3), (16, 20, 2), (16, 16, 1), (16, 7, 1), (8, 31, 4)])
def test_what_is_left_of_a_row_is_summed_side_by_side(width, extent, sums):
    """A short row is one block, of which the last vector may end short."""
    g = Draw()
    x = g.x(6, 5, extent)
    y = g.mul(g.op("SumReduce", x, 1), 2.0)
    source = lower(g, [y], "k", C(width)).source
    assert source.count("= vf_splat(0.0f);") == sums
    assert source.count("storem(") == (extent % width > 0)
    check(g, [y], width=width)


def test_rows_longer_than_a_block_end_in_one_of_what_is_left():
    g = Draw()
    y = g.op("SumReduce", g.x(3, 64 + 39), 1)
    source = lower(g, [y], "k", C(16)).source
    assert source.count("vf_sel(lanes, ") == 1 and source.count("for (int64_t i1") == 1
    check(g, [y])


def test_a_good_tree():
    verify([GOOD, Block((GOOD,), once=True)])


@pytest.mark.parametrize(("stmts", "message"), [
    ([Loop(I, (Let(Y), STORE))], "used before it is computed"),
    ([Let(X)], "outside of its loops"),
    ([Loop(I, (Let(X), Loop(J, (Let(Y),)), STORE))], "used before it is computed"),
    ([Loop(I, (GOOD,))], "bound twice"),
    ([Loop(I, (Loop(J, (), vector=True),), vector=True)], "vector loop inside a vector loop"),
    ([Loop(I, (), unroll=2)], "only vector loops are unrolled"),
    ([Loop(I, (Loop(J, (), shared=True),), shared=True)], "two loops share threads"),
    ([Loop(I, (Let(TOTAL),))], "needs a loop"),
    ([Loop(I, (Fetch(X, Array(1, f32, (I,))),))], "read unwritten"),
    ([Loop(I, (Let(X), Accumulate(TOTAL, X)))], "has no accumulator"),
    ([Loop(I, (Finish(TOTAL, 0),))], "has no accumulator"),
    ([Loop(I, (Start(TOTAL, 0), Let(X), Let(Y), Loop(J, (STORE,))))], "in the wrong loops"),
    ([Block((GOOD,)), Loop(I, (STORE,))], "used before it is computed"),
], ids=str)
def test_a_bad_tree(stmts, message):
    with pytest.raises(AssertionError, match=message):
        verify(stmts)


SHARED = Loop(I, (Let(X), Let(Y), STORE), shared=True)


@pytest.mark.parametrize(("stmts", "holds"), [
    ([SHARED], True),
    ([Block((Let(X), SHARED)), Block((GOOD,), once=True)], True),
    ([Loop(J, (SHARED,))], False),            # each share would go along J
    ([Block((GOOD, SHARED))], False),         # and would do again what stands before
    ([Block((Start(TOTAL, 0), SHARED))], False),
], ids=["outermost", "values beside it", "inner", "a loop beside it", "a sum beside it"])
def test_small_shares_are_as_cheap_where_the_shared_loop_stands_outermost(stmts, holds):
    assert divisible(stmts) is holds


def test_products_are_fused_into_sums_once():
    g = Draw()
    x, y = g.x(64), g.x(64)
    p = g.mul(x, y)
    alone = lower(g, [g.add(p, y)], "k", C(16))
    assert "vf_fma" in alone.source
    assert alone.work.evaluations == 128
    shared = lower(g, [g.add(p, y), p], "k", C(16))
    assert "vf_fma" not in shared.source


def test_dot_products_accumulate_by_multiply_add():
    g = Draw()
    code = lower(g, [g.total(g.mul(g.x(9, 64), g.x(9, 64)), 1)], "k", C(16))
    assert "= vf_fma(" in code.source


def test_neighbouring_axes_that_are_summed_are_one_loop():
    """Also beside one that is summed apart from them, as statistics of channels are."""
    g = Draw()
    source = lower(g, [g.total(g.x(4, 30, 28, 28), 0, 2, 3)], "k", C(16)).source
    assert "< i2_end; i2 += 64" in source and "i2_end = 768" in source and "i3" not in source


def test_integers_are_not_fused():
    g = Draw()
    x = g.x(64, dtype="i32")
    assert "fma" not in lower(g, [g.add(g.mul(x, x), x)], "k", C(16)).source


@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_a_conversion_that_only_stores_read_is_made_by_them(half):
    """A store rounds: what is read elsewhere too, or kept, has been rounded before."""
    g = Draw()
    x = g.mul(g.x(64), 3.0)
    once = lower(g, [g.cast(x, half)], "k", C(16)).source
    assert "_round(" not in once and "_store" in once
    again = g.cast(x, half)
    read = lower(g, [again, g.add(g.cast(again, f32), 1.0)], "k", C(16)).source
    assert "_round(" in read
    rows = g.cast(g.softmax(g.x(9, 64), 1), half)
    kept = lower(g, [g.softmax(g.cast(rows, f32), 1)], "k", C(16)).source
    assert "_round(" in kept


@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_what_combines_with_memory_is_rounded_before(half):
    g = Draw()
    old, at, x = g.x(8, 64, dtype=half), g.input("at", (20,), "i64"), g.x(20, 64)
    code = lower(g, [g.op("Scatter", old, at, g.cast(x, half), 0, "add")], "k", C(16))
    assert "_round(" in code.source


def test_a_value_that_is_held_is_not_rounded_in_a_register():
    g = Draw()
    y = g.op("Held", g.mul(g.x(64), 3.0), bf16)
    source = lower(g, [g.add(y, g.x(64, dtype="bf16"))], "k", C(16)).source
    assert "_round(" not in source


@pytest.mark.parametrize("columns, pairs, alone", [(64, 2, 0), (48, 1, 1), (32, 1, 0), (40, 1, 1),
                                                   (16, 0, 1), (9, 0, 1)])
def test_two_whole_vectors_of_bfloat16_are_stored_at_once(columns, pairs, alone):
    g = Draw()
    source = lower(g, [g.cast(g.mul(g.x(columns), 3.0), "bf16")], "k", C(16)).source
    stores = [line for line in source.splitlines() if "_store" in line]
    assert sum("vg_store_pair(" in line for line in stores) == pairs
    assert len(stores) == pairs + alone
    assert "_pair(" not in lower(g, [g.cast(g.x(columns), "f16")], "k", C(16)).source


@pytest.mark.parametrize("columns", [1, 16, 31, 32, 33, 48, 63, 64, 100])
@pytest.mark.parametrize("known", [True, False])
def test_bfloat16_of_any_length(columns, known):
    g = Draw()
    x = g.x(5, columns if known else dim("n", 1, 200))
    check(g, [g.cast(g.mul(x, 3.0), "bf16"), g.cast(g.softmax(x, 1), "bf16")], {"n": columns},
          threads=(1, 3))
