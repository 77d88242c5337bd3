"""Small operands that rows read again and again are read where a cache line begins."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st
from kernels import check
from profiles import examples
from tegg.backends.cpu.emit import C

from tegg.dim import Dim, dim
from tegg.ir.graph import Node
from tegg.kernel import lined
from tegg.kernel.lined import AGAIN, MOST
from tegg.kernel.lower import lower
from tegg.testing.draw import Draw


def copied(g: Draw, *outputs: Node) -> dict[int, int]:
    """Slot -> bytes, of what a kernel copies."""
    source = lower(g, outputs, "k", C(16)).source
    return {int(slot): int(n) for slot, n in re.findall(r"char line(\d+)\[(\d+)\]", source)}


def scaled(g: Draw, rows: Dim, columns: Dim, *dtypes: str) -> Node:
    y = g.x(rows, columns, dtype=dtypes[0])
    for d in dtypes:
        y = g.mul(y, g.expand(g.x(1, columns, dtype=d), (rows, columns)))
    return y


def test_what_all_rows_read_is_copied():
    g = Draw()
    assert copied(g, scaled(g, AGAIN, 1000, "f32")) == {1: 4000}
    g = Draw()
    m = dim("m", 1, 4096, hint=AGAIN)
    x = g.norm(g.x(m, 768), 1)
    assert copied(g, g.add(g.mul(x, g.expand(g.x(1, 768), x.shape)),
                           g.expand(g.x(1, 768), x.shape))) == {1: 3072, 2: 3072}


@pytest.mark.parametrize("half, letter", [("f16", "h"), ("bf16", "g")])
def test_halves_are_widened_once(half, letter):
    g = Draw()
    y = scaled(g, AGAIN, 1000, half)
    assert copied(g, y) == {1: 4000}
    source = lower(g, [y], "k", C(16)).source
    assert f"{letter}_line(buffers[1]" in source and "vf_load(b1" in source
    assert f"v{letter}_load(b0" in source
    g = Draw()  # as float32 the second is too large
    assert copied(g, scaled(g, AGAIN, MOST // 4, half, half)) == {1: MOST}


def test_halves_that_are_turned_stay_as_they_lie():
    """By another nest of the kernel."""
    def both_ways(g: Draw, dtype: str) -> list[Node]:
        w, x = g.x(64, 64, dtype=dtype), g.x(AGAIN, 64, 64, dtype=dtype)
        along = g.mul(x, g.expand(g.reshape(w, (1, 64, 64)), x.shape))
        return [along, g.mul(g.permute(w, (1, 0)), g.x(64, 64, dtype=dtype))]

    g = Draw()
    assert copied(g, *both_ways(g, "f32")) == {0: MOST}
    g = Draw()
    outputs = both_ways(g, "bf16")
    assert "vg_turn(t1 + 0, 64, b0 " in lower(g, outputs, "k", C(16)).source
    assert copied(g, *outputs) == {}
    check(g, outputs)


def test_what_few_rows_read_or_no_cache_holds_is_not():
    g = Draw()
    assert copied(g, scaled(g, AGAIN - 1, 1000, "f32")) == {}
    g = Draw()
    assert copied(g, scaled(g, AGAIN, MOST // 4 + 1, "f32")) == {}
    g = Draw()
    assert copied(g, scaled(g, AGAIN, MOST // 8, "f32", "f32", "f32")) == {1: MOST // 2,
                                                                          2: MOST // 2}
    g = Draw()  # the rest of a column, one element a row
    x = g.x(AGAIN, 1000)
    assert copied(g, g.mul(x, g.expand(g.x(AGAIN, 1), x.shape))) == {}
    g = Draw()
    assert copied(g, scaled(g, AGAIN, dim("n", 1, 1000), "f32")) == {}


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8", "bool"])
def test_results_are_the_same(monkeypatch, dtype):
    monkeypatch.setattr(lined, "AGAIN", 2)
    g = Draw()
    if dtype == "bool":
        x = g.x(5, 100, dtype=dtype)
        y = g.op("LessThan", x, g.expand(g.x(1, 100, dtype=dtype), x.shape))
    else:
        y = scaled(g, 5, 100, dtype)
    assert copied(g, y)
    check(g, [y], threads=(1, 3))


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(AGAIN, 2 * AGAIN), st.integers(16, 100), st.integers(2, 4))
def test_rows_of_any_length(rows, columns, threads):
    """In one run operands end with a page, in the other they begin with one."""
    g = Draw()
    y = scaled(g, rows, columns, "f32", "f32")
    assert copied(g, y)
    check(g, [y], threads=(1, threads))
