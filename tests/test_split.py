"""How many parts a reduction is split into."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from tegg.dim import dim
from tegg.ir.split import parts


def test_few_results_of_many_elements_are_split():
    assert parts((1 << 20,), {0}) == 128
    assert parts((4, 1 << 16), {1}) == 32
    assert parts((1 << 16, 10), {0}) == 64


def test_very_many_elements_are_split_further():
    """So that memory is read from everywhere at once, and no further than that needs."""
    assert parts((1 << 21,), {0}) == 128
    assert parts((1 << 22,), {0}) == 256
    assert parts((1 << 25,), {0}) == parts((1 << 30,), {0}) == 512
    assert parts((8, 1 << 25), {1}) == 128
    assert parts((4, 1 << 25), {1}) == 128 and parts((2, 1 << 25), {1}) == 256


def test_what_feeds_the_threads_or_is_soon_done_is_not():
    assert parts((16, 1 << 20), {1}) == 1          # rows
    assert parts((1 << 12, 1024), {0}) == 1        # columns, a lane each
    assert parts((1 << 12, 64), {0}) == 32
    assert parts((1 << 15,), {0}) == 1
    assert parts((), set()) == parts((0, 5), {0}) == parts((1, 1), {0, 1}) == 1


def test_axes_of_size_one_do_not_matter():
    assert parts((1 << 20, 1), {0}) == parts((1, 1 << 20), {1}) == parts((1 << 20,), {0})


def test_symbolic_sizes_count_by_their_hints():
    assert parts((dim("n", 0, 1 << 30, hint=1 << 20),), {0}) == 128


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=4), st.data())
def test_parts_are_a_power_of_two_of_many_elements(shape, data):
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1)))
    n = parts(tuple(shape), axes)
    assert n & (n - 1) == 0 and 1 <= n <= 512
    if n > 1:
        length = 1
        for a in axes:
            length *= shape[a]
        assert length >= 16 * n
