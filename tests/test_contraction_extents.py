"""Which panels of a contraction can fall short, and that code for those that cannot is left out."""

from __future__ import annotations

import pytest

from tegg.backends.cpu.contraction_axis import Axis
from tegg.backends.cpu.contraction_extents import (
    multiple, outer_loops, vectors_of_panels, whole_vectors)
from tegg.dim import dim
from tegg.kernel.contraction_shape import GemmParams
from tegg.kernel.index import Var

PARAMS = GemmParams("packed", 16, 8, 3, 1, 128, 1, 5, True)  # panels of 48 columns
SYMBOL = dim("n", 1, 100)


def axis(letter: str, *extents) -> Axis:
    names = tuple(Var(n, i) for i, n in enumerate(extents))
    count = 1
    for n in extents:
        count = count * n
    return Axis(letter, names, count)


@pytest.mark.parametrize("columns, vectors", [
    ([48], [3]), ([768], [3]), ([20], [2]), ([16], [1]), ([50], [1, 3]), ([64], [1, 3]),
    ([80], [2, 3]), ([48, 20], [2, 3]), ([0], [3]), ([SYMBOL], [1, 2, 3]),
    ([48, SYMBOL], [1, 2, 3])])
def test_panels_have_as_many_vectors_as_their_columns_need(columns, vectors):
    assert PARAMS.nr == 48
    assert vectors_of_panels([axis("n", n) for n in columns], PARAMS) == vectors


def test_a_symbol_is_a_multiple_of_nothing():
    assert multiple(48, 16) and not multiple(50, 16) and not multiple(SYMBOL, 1)


def test_rows_are_whole_vectors_where_every_block_is():
    assert whole_vectors(axis("k", 768), "384", PARAMS, 16)
    assert not whole_vectors(axis("k", 770), "384", PARAMS, 16)
    assert not whole_vectors(axis("k", 768), "380", PARAMS, 16)
    assert not whole_vectors(axis("k", SYMBOL), "384", PARAMS, 16)
    assert whole_vectors(axis("k", 3, 64), "6", PARAMS, 16)
    assert not whole_vectors(axis("k", 64, 3), "6", PARAMS, 16)


def test_parts_begin_anywhere_in_the_depth():
    from dataclasses import replace
    assert not whole_vectors(axis("k", 768), "384", replace(PARAMS, parts=4), 16)


def test_loops_over_the_depth_but_for_the_innermost():
    assert outer_loops(axis("k", 8)) == ""
    assert outer_loops(axis("k", 8, 4, 2)) == (
        "for (int64_t k0 = ko0; k0 < ko1; k0++) for (int64_t k1 = 0; k1 < 4; k1++)")
