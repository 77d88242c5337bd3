"""Computed indices as sums of positions: what is proven to lie inside is not tested again."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kernels import check
from profiles import examples
from tegg.backends.cpu.emit import C

from tegg.dim import Dim, dim
from tegg.dtype import i64
from tegg.ir.graph import Node
from tegg.kernel.lower import lower
from tegg.testing.draw import Draw

ROWS, COLUMNS = 6, 30


def inside(g: Draw, x: Node, last: Dim) -> Node:
    """An index limited to 0 .. last."""
    top = g.expand(g.reshape(g.size(last, x.dtype), (1,) * len(x.shape)), x.shape)
    return g.named("Minimum", g.named("Maximum", x, 0), top)


def along(g: Draw, last: int, scale: int = COLUMNS) -> Node:
    """Elements of rows by an index that is limited to 0 .. last."""
    x, i = g.x(ROWS * COLUMNS), g.x(ROWS, 41, dtype="i64")
    flat = g.add(g.mul(g.along(ROWS, 0, 2), scale), inside(g, i, last))
    return g.op("Gather", x, flat, 0)


def anywhere(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(-9, 50, shape)


def clamps(g: Draw, y: Node) -> set[int]:
    """The axes to which indices of a kernel are limited, by their lengths."""
    source = lower(g, [y], "k", C(16)).source
    return {int(n) for n in re.findall(r"clamp(?:_index)?\([^;]*?, (\d+)\)", source)}


@pytest.mark.parametrize("last, lengths", [(COLUMNS - 1, {COLUMNS}), (3, {4}),
                                           (COLUMNS, {ROWS * COLUMNS})])
def test_an_index_of_a_row_stays_one(last, lengths):
    """One that may reach beyond all rows does not."""
    g = Draw()
    y = along(g, last)
    assert clamps(g, y) == lengths
    check(g, [y], inputs={0: np.arange(180, dtype=np.float32), 1: anywhere(ROWS, 41)})


def test_a_place_by_two_indices():
    g = Draw()
    x, i, j = g.x(ROWS * COLUMNS), g.x(41, dtype="i64"), g.x(41, dtype="i64")
    flat = g.add(g.mul(inside(g, i, ROWS - 1), COLUMNS), inside(g, j, COLUMNS - 1))
    y = g.op("Gather", x, flat, 0)
    assert clamps(g, y) == {ROWS, COLUMNS}
    check(g, [y], inputs={0: np.arange(180, dtype=np.float32), 1: anywhere(41), 2: anywhere(41)})


def test_what_is_not_limited_is_tested_as_a_whole():
    g = Draw()
    x, i = g.x(ROWS * COLUMNS), g.x(ROWS, 41, dtype="i64")
    y = g.op("Gather", x, g.add(g.mul(g.along(ROWS, 0, 2), COLUMNS), i), 0)
    assert clamps(g, y) == {ROWS * COLUMNS}
    check(g, [y], inputs={0: np.arange(180, dtype=np.float32), 1: anywhere(ROWS, 41)})


def test_sizes_that_only_a_run_knows():
    m, n = dim("m", 1, 100), dim("n", 1, 100)
    g = Draw()
    i = inside(g, g.x(m, 41, dtype="i64"), n - 1)
    rows = g.mul(g.along(m, 0, 2), g.expand(g.reshape(g.size(n, i64), (1, 1)), (m, 1)))
    y = g.op("Gather", g.x(m * n), g.add(g.expand(rows, (m, 41)), i), 0)
    limits = re.findall(r"\w*clamp\w*\(.*", lower(g, [y], "k", C(16)).source)
    assert limits and all("S_n" in text and "S_m * S_n" not in text for text in limits)
    for sizes in ({"m": 3, "n": 7}, {"m": 1, "n": 1}):
        check(g, [y], sizes)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(-5, 40), st.integers(-40, 40), st.integers(-10, 200), st.booleans())
def test_any_limits_and_steps(last, scale, start, turned):
    """Whatever is proven of an index, it is clamped as the oracle clamps it."""
    g = Draw()
    x, i = g.x(ROWS * COLUMNS), g.x(ROWS, 17, dtype="i64")
    part = inside(g, i, last)
    part = g.mul(part, -1) if turned else part
    flat = g.add(g.add(g.mul(g.along(ROWS, 0, 2), scale), part), start)
    y = g.op("Gather", x, flat, 0)
    check(g, [y], inputs={0: np.arange(180, dtype=np.float32), 1: anywhere(ROWS, 17)})
