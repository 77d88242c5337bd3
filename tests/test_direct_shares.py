"""Direct convolutions whose threads share filters, and rows of windows that end with a line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st
from kernels import check
from profiles import examples
from test_contraction_narrow import whole
from test_direct import HOW, ONE, convolution, holding, lowered, tiled

from tegg.kernel.code import KernelCode
from tegg.kernel.contraction_held import HELD, Held
from tegg.testing.draw import Draw


def made(case, held: Held | None = None):
    """A convolution, and its kernel."""
    n, c, o, size, taps, stride, pad, rows, vectors = case
    g = Draw()
    y = convolution(g, n, c, o, size, taps, stride, ONE, pad)
    return g, y, lowered([y], y, holding(tiled(y, taps, stride, ONE, 16, rows, vectors), held), g)


def shares(code: KernelCode, images: int, nt: int) -> bool:
    """What the kernel finds: whether each of some threads has filters of its own."""
    test = re.search(r"const int own = (.*);", code.source)
    down = re.search(r"down = \(?(\d+)\)?;", code.source)
    assert test is not None and down is not None
    return eval(test[1].replace("&&", "and"), {"images": images, "nt": nt, "down": int(down[1])})


# n, c, o, size, taps, stride, pad, rows, vectors: filters of 11 panels or fewer
FAR = (
    (1, 5, 520, (7, 7), (3, 3), ONE, 1, 7, 3),
    (1, 40, 500, (14, 14), (3, 3), (2, 2), 1, 7, 3),
    (2, 3, 512, (3, 5), (3, 3), ONE, 1, 5, 2),
    (1, 20, 330, (1, 9), (1, 3), ONE, 0, 7, 1))


@HOW
@pytest.mark.parametrize("case", FAR)
def test_each_thread_has_filters_of_its_own(case, held) -> None:
    """Panels that threads do not divide are shared by rows; more threads than rows of panels."""
    g, y, code = made(case, held)
    assert shares(code, case[0], 3) and not shares(code, case[0], 1)
    check(g, [y], code=code, threads=(1, 2, 3, 5, 8, 40), inputs=whole(g, {}) if held else None)


def test_few_filters_are_read_by_all() -> None:
    for case in ((1, 5, 40, (30, 30), (3, 3), ONE, 1, 14, 2), (3, 5, 520, (7, 7), (3, 3), ONE, 1, 7, 3)):
        assert not shares(made(case)[2], case[0], 2)


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(1, 2), st.integers(2, 6), st.integers(60, 400),
       st.tuples(st.integers(2, 8), st.integers(3, 9)), st.integers(1, 2), st.integers(1, 12),
       st.integers(2, 9))
def test_any_share(n, c, o, size, stride, rows, threads) -> None:
    g, y, code = made((n, c, o, size, (2, 2), (stride, stride), 1, rows, 2))
    check(g, [y], code=code, threads=(threads,))


@pytest.mark.parametrize("long, held, row", [(7, False, 16), (14, False, 16), (28, False, 32),
                                             (120, False, 144), (14, True, 32)])
def test_short_rows_end_with_a_line(long, held, row) -> None:
    """Of 14 places three taps read 16 elements. Of long rows a vector more is little, and those that
    are held otherwise are put in place otherwise."""
    case = (1, 5, 20, (6, long), (3, 3), ONE, 1, 7, 2)
    g, y, code = made(case, HELD["pairs"] if held else None)
    assert f"#define ROW(R) ((R) * {row})" in code.source
    check(g, [y], code=code, threads=(1, 2), inputs=whole(g, {}) if held else None)


def test_more_rows_meet_filters_that_come_from_further_away() -> None:
    """Seven tiles read a block of filters before the next one, four where all filters stay near."""
    near, far = (made((1, c, 64, (14, 14), (3, 3), ONE, 1, 14, 2))[2].source for c in (16, 256))
    assert "of 4 row(s)" in near and "of 7 row(s)" in far
