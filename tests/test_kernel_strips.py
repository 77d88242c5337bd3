"""Columns over rows that lie apart: cut in strips, right to the bit, and where that is worth it."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import build, call, check
from tegg.backends.cpu.emit import C
from tegg.testing.draw import Draw
from tegg.testing.kernels import random_inputs

import tegg.kernel.order
from tegg.dim import dim
from tegg.kernel.lower import lower


def total(g):
    return [g.total(g.x(300, 520), 0)]


def ragged(g):
    """Rows that no step divides, columns that no vector does."""
    return [g.total(g.x(303, 517), 0)]


def several(g):
    """In one pass, of two dtypes, and one that is made of both."""
    x = g.x(301, 500)
    a, b = g.total(x, 0), g.top(x, 0)
    return [a, b, g.div(a, g.add(g.op("Exp", b), 1.0))]


def variance(g):
    """A second pass needs what the first one made, for each column."""
    x = g.x(290, 530)
    d = g.sub(x, g.mul(g.total(x, 0, keep=True), 1 / 290))
    return [g.total(g.mul(d, d), 0)]


def batched(g):
    return [g.total(g.x(3, 260, 515), 1)]


def two_axes(g):
    return [g.total(g.x(20, 30, 300), 0, 1)]


def in_parts(g):
    return [g.total(g.x(4099, 270), 0), g.top(g.x(4099, 270), 0)]


def of_bools(g):
    return [g.top(g.less(g.x(300, 520), g.x(520)), 0)]


def weighted(g):
    return [g.total(g.mul(g.x(300, 520), g.x(300, 1)), 0)]


def beside_rows(g):
    """Columns' sums, and rows that need them."""
    x = g.x(300, 520)
    return [g.div(x, g.add(g.total(g.mul(x, x), 0, keep=True), 1.0))]


CASES = {f.__name__: f for f in (total, ragged, several, variance, batched, two_axes, in_parts,
                                 of_bools, weighted, beside_rows)}


STRIP = "_end - "  # what stands where a strip ends


@pytest.mark.parametrize("width", (4, 8, 16))
@pytest.mark.parametrize("name", CASES)
def test_results(name, width) -> None:
    g = Draw()
    outputs = CASES[name](g)
    code = check(g, outputs, width=width, threads=(1, 2, 3, 7))
    assert STRIP in code.source


@pytest.mark.parametrize("name", CASES)
def test_no_bit_depends_on_strips_or_threads(name, monkeypatch) -> None:
    g = Draw()
    outputs = CASES[name](g)
    codes = [lower(g, outputs, "k", C(8))]
    monkeypatch.setattr(tegg.kernel.order, "strips", lambda body, lanes: tuple(body))
    codes += [lower(g, outputs, "k", C(8))]
    inputs = random_inputs(g, {}, 0)
    assert codes[0].source != codes[1].source
    got = [call(build(code, 8), code, g, outputs, inputs, {}, n) for code in codes
           for n in (1, 2, 5)]
    for results in got:
        for a, b in zip(results, got[0]):
            np.testing.assert_array_equal(a, b)


def test_sizes_known_at_run_time() -> None:
    rows, columns = dim("r", 0, 4096, hint=1000), dim("c", 0, 4096, hint=1000)
    g = Draw()
    outputs = [g.total(g.x(rows, columns), 0), g.top(g.x(rows, columns), 0)]
    code = lower(g, outputs, "k", C(8))
    assert STRIP in code.source
    library = build(code, 8)
    for r in (0, 1, 7, 8, 9, 33):
        for c in (0, 1, 8, 31, 32, 33, 95, 1024, 1030, 1057):
            check(g, outputs, {"r": r, "c": c}, width=8, threads=(1, 3), code=code,
                  library=library)


def test_strips_are_not_shared_in_small_pieces() -> None:
    """Many shares of few columns would walk down a few vectors again."""
    g = Draw()
    (stage,) = lower(g, [g.total(g.x(300, 2000), 0)], "k", C(8)).stages
    assert stage.parallel and not stage.divisible


@pytest.mark.parametrize("make", (
    lambda g: g.total(g.x(300, 60), 0),      # all of it is near
    lambda g: g.total(g.x(9, 60_000), 0),    # few rows, which hardware follows
    lambda g: g.total(g.x(30_000, 24), 0),   # rows lie close together
    lambda g: g.total(g.x(300, 520), 1),     # along rows
    lambda g: g.op("CumSum", g.x(300, 520), 0),
))
def test_what_needs_no_strips_has_none(make) -> None:
    g = Draw()
    assert STRIP not in lower(g, [make(g)], "k", C(8)).source
