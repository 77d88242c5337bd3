"""Rows of results side by side: what several of them read, as rows of windows, is read once."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, strategies as st
from kernels import build, call, check
from tegg.backends.cpu.emit import C
from tegg.testing.draw import Draw
from tegg.testing.kernels import random_inputs

from tegg.dim import dim
from tegg.kernel import order
from tegg.kernel.lower import lower

SIDE_BY_SIDE = "put rows side by side"
WIDTHS = (4, 8, 16)


def windows(g, x, taps, stride=1, pad=0, fill=0.0, dilation=1):
    """Of an array (channels, rows, columns): (channels, rows', taps, columns', taps)."""
    if pad:
        x = g.padded(x, (0, 0), (pad, pad), (pad, pad), fill=fill)
    return g.window(g.window(x, 2, taps, stride, dilation), 1, taps, stride, dilation)


def depthwise(g, channels, rows, columns, taps, stride=1, pad=0, dtype="f32", dilation=1):
    """Each channel by filters of its own."""
    x, w = g.x(channels, rows, columns, dtype=dtype), g.x(channels, 1, taps, 1, taps, dtype=dtype)
    seen = windows(g, x, taps, stride, pad, dilation=dilation)
    return g.total(g.mul(seen, g.expand(w, seen.shape)), 2, 4)


def pooled(g, channels, rows, columns, taps, stride=1, pad=0, dtype="f32"):
    """The largest of each window."""
    lowest = -np.inf if dtype == "f32" else 0
    return g.top(windows(g, g.x(channels, rows, columns, dtype=dtype), taps, stride, pad, lowest),
                 2, 4)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ("f32", "f64", "bf16", "i32"))
@pytest.mark.parametrize(("taps", "stride", "rows"), ((3, 1, 14), (5, 1, 16), (3, 2, 25), (4, 3, 22)))
def test_sums_of_windows(taps, stride, rows, dtype, width) -> None:
    g = Draw()
    code = check(g, [depthwise(g, 3, rows, 45, taps, stride, dtype=dtype)], width=width,
                 threads=(1, 2, 3))
    assert SIDE_BY_SIDE in code.notes or stride > 1 or dtype == "f64"  # which prices may forbid


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make", (depthwise, pooled))
@pytest.mark.parametrize(("rows", "columns", "pad"), ((7, 7, 1), (8, 100, 1), (12, 33, 1), (10, 64, 2)))
def test_windows_that_reach_past_the_ends(rows, columns, pad, make, width) -> None:
    g = Draw()
    code = check(g, [make(g, 2, rows, columns, 2 * pad + 1, pad=pad)], width=width)
    assert SIDE_BY_SIDE in code.notes


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ("f32", "f64", "bf16", "i32"))
@pytest.mark.parametrize(("rows", "depth", "columns"), ((8, 8, 200), (21, 3, 33), (60, 12, 64),
                                                         (40, 6, 16)))
def test_products_that_share_an_operand(rows, depth, columns, dtype, width) -> None:
    g = Draw()
    y = g.matmul(g.x(rows, depth, dtype=dtype), g.x(depth, columns, dtype=dtype))
    assert SIDE_BY_SIDE in check(g, [y], width=width, threads=(1, 3)).notes


@pytest.mark.parametrize(("rows", "columns", "sums"), ((40, 16, 8), (40, 64, 16), (20, 16, 4)))
def test_rows_of_one_vector_are_eight_side_by_side(rows, columns, sums) -> None:
    """Each addition waits for the one before it in its row: fewer leave a core idle."""
    g = Draw()
    code = lower(g, [g.matmul(g.x(rows, 6), g.x(6, columns))], "k", C(16))
    assert len(set(re.findall(r"vf (a\w+) = vf_splat", code.source))) == sums


def few(g, rows, _, columns, depth, **_how):
    """A product of short sums."""
    return g.matmul(g.x(rows, depth), g.x(depth, columns))


def along_rows(g, filters, channels, length, taps, stride=1):
    """Filters of windows of rows: lanes may follow the windows, and none of what they tell apart."""
    seen = g.window(g.x(1, channels, length), 2, taps, stride)
    y = g.expand(g.x(filters, channels, 1, taps), (filters, *seen.shape[1:]))
    return g.total(g.mul(g.expand(seen, y.shape), y), 1, 3)


def many_values(g, y):
    """Of each element, by operands of their own."""
    for _ in range(40):
        y = g.add(y, g.x(*y.shape))
    return y


def without(monkeypatch, graph, outputs, width):
    """The kernel with every row by itself."""
    with monkeypatch.context() as m:
        m.setattr(order, "jam", lambda *_: None)
        return lower(graph, outputs, "k", C(width))


@pytest.mark.parametrize("make", (depthwise, pooled, few))
def test_every_result_adds_in_the_same_order(make, monkeypatch) -> None:
    g = Draw()
    outputs = [make(g, 4, 20, 50, 5, pad=2)]
    codes = lower(g, outputs, "k", C(16)), without(monkeypatch, g, outputs, 16)
    assert [SIDE_BY_SIDE in c.notes for c in codes] == [True, False]
    inputs = random_inputs(g, {}, 3)
    inputs[0].flat[[7, 19]] = np.nan, np.inf
    found = [call(build(c, 16), c, g, outputs, inputs, {})[0] for c in codes]
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize(("make", "taps", "stride", "rows", "reached"), (
    (depthwise, 5, 1, 4, 8), (pooled, 3, 2, 2, 5)))
def test_a_row_is_read_once_for_all(make, taps, stride, rows, reached, monkeypatch) -> None:
    """The windows of so many rows reach so many."""
    g = Draw()
    outputs = [make(g, 4, 32, 64, taps, stride, pad=taps // 2)]
    code, alone = lower(g, outputs, "k", C(16)), without(monkeypatch, g, outputs, 16)
    assert code.work.evaluations <= alone.work.evaluations and code.work.loaded == alone.work.loaded
    assert code.work.iterations * rows * taps == alone.work.iterations * reached
    assert f"unroll {reached}" in code.source and "unroll" not in alone.source
    for c in (code, alone):  # one load of the operand, whatever the row
        assert len(set(re.findall(r"(v\d+)_0 = [^;]*\(b0 \+", c.source))) == 1


def values_beside_the_sums(g):
    y = depthwise(g, 3, 16, 40, 3, pad=1)
    row, scaled = g.x(16, 1), g.exp(g.mul(y, g.expand(g.x(3, 1, 1), y.shape)))
    return [g.add(scaled, g.expand(row, y.shape)), scaled]


def sums_and_maxima(g):
    """Of the same windows."""
    seen = windows(g, g.x(2, 18, 40), 3)
    return [g.total(seen, 2, 4), g.top(seen, 2, 4)]


def past_the_ends(g):
    return [pooled(g, 2, 28, 70, 5, pad=2)]


def of_one_block(g):
    return [depthwise(g, 5, 4, 30, 3, pad=1)]


def every_other(g):
    return [pooled(g, 2, 33, 131, 3, 2)]


def of_few_products(g):
    return [few(g, 12, 0, 90, 7)]


CASES = {f.__name__: f for f in (values_beside_the_sums, sums_and_maxima, past_the_ends,
                                 of_one_block, every_other, of_few_products)}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CASES)
def test_results(name, width) -> None:
    g = Draw()
    assert SIDE_BY_SIDE in check(g, CASES[name](g), width=width, threads=(1, 2, 3)).notes


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("channels", "length", "taps", "stride"), (
    (17, 8, 5, 2), (3, 13, 7, 3), (5, 24, 12, 4), (2, 80, 40, 20)))
def test_windows_of_few_places(channels, length, taps, stride, width) -> None:
    g = Draw()
    check(g, [along_rows(g, 2, channels, length, taps, stride)], width=width, threads=(1, 2))


def test_columns_of_unknown_length() -> None:
    n = dim("n", 5, 500, hint=60)
    g = Draw()
    outputs = [g.top(g.window(g.window(g.x(3, 14, n), 2, 3), 1, 3), 2, 4)]
    code = lower(g, outputs, "k", C(16))
    assert SIDE_BY_SIDE in code.notes
    library = build(code, 16)
    for size in (5, 17, 18, 50, 81):
        check(g, outputs, {"n": size}, code=code, library=library)


@pytest.mark.parametrize("make", (
    lambda g: pooled(g, 3, 12, 40, 3, stride=3),         # windows that do not overlap
    lambda g: depthwise(g, 3, 20, 40, 3, dilation=2),    # nor their rows, one after the other
    lambda g: pooled(g, 3, 13, 40, 3, pad=1),            # 13 rows are no blocks
    lambda g: g.top(g.window(g.x(5, 90), 1, 3), 2),      # lanes follow the windows
    lambda g: g.total(g.x(5, 8, 90), 1),                 # no windows
    lambda g: many_values(g, depthwise(g, 2, 12, 40, 3)),  # no room for several rows
    lambda g: g.total(g.exp(g.sub(g.top(g.window(g.x(9, 40), 0, 3), 1), g.x(7, 40))), 0),
))
def test_what_stays_alone(make) -> None:
    g = Draw()
    assert SIDE_BY_SIDE not in check(g, [make(g)], width=16).notes


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make", (depthwise, pooled))
@pytest.mark.parametrize(("columns", "taps", "stride"), ((7, 3, 2), (5, 3, 2), (21, 5, 2),
                                                         (16, 4, 3), (9, 4, 1), (33, 3, 1)))
def test_lanes_do_not_follow_rows_of_windows(make, columns, taps, stride, width) -> None:
    """A single row of windows, which overlap along what lies in memory: each place is tested."""
    g = Draw()
    check(g, [make(g, 2, taps, columns, taps, stride)], width=width, threads=(1, 3))


def test_gathered_filters_stay_alone() -> None:
    g = Draw()
    seen = g.window(g.window(g.x(14, 50), 1, 3), 0, 3)
    w = g.op("Gather", g.x(40), g.x(3, 3, dtype="i64"), 0)
    y = g.mul(seen, g.expand(g.reshape(w, (1, 3, 1, 3)), seen.shape))
    assert SIDE_BY_SIDE not in check(g, [g.total(y, 1, 3)], width=16).notes


@given(st.data())
def test_any_windows(data) -> None:
    draw = data.draw
    taps, stride = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    blocks, pad = draw(st.integers(1, 6)), draw(st.integers(0, taps - 1))
    rows = max(taps, (draw(st.sampled_from((2, 3, 4, 5, 7))) * blocks - 1) * stride + taps - 2 * pad)
    columns = draw(st.integers(taps, 70))
    if draw(st.booleans()):
        rows, columns = columns, rows
    make = draw(st.sampled_from((depthwise, pooled)))
    g = Draw()
    check(g, [make(g, draw(st.integers(1, 3)), rows, columns, taps, stride, pad)],
          width=draw(st.sampled_from(WIDTHS)), threads=(1, 3))
