"""Rows of the op table for direct convolutions: what they state, execute and cost."""

from __future__ import annotations

import pytest

import tegg
from tegg.backends.cpu.direct_templates import Slide, direct_templates, direct_tiles, slides_of
from tegg.ir.template import Extents
from tegg.kernel.registers import Registers


def test_a_text_states_the_windows() -> None:
    slides = (Slide(7, 3, 2, 1), Slide(9, 5, 1, 2))
    assert slides_of("/".join(map(str, slides))) == slides


def test_what_it_executes_counts_whole_tiles() -> None:
    op, *_ = direct_templates(16)
    assert op.template is not None
    done = op.template((None, None, 0, "56.3.1.1/56.3.1.1", 14, 2),
                       Extents(1, 64, 56 * 56, 576, tegg.f32))
    assert done.flops == 2 * 64 * 56 * 56 * 576 and done.packs == 0
    assert done.packed == done.kept == 64 * 576
    padded = op.template((None, None, 0, "56.3.1.1/56.3.1.1", 12, 2),
                         Extents(1, 33, 56 * 56, 576, tegg.f32))
    assert padded.flops == 2 * 48 * 56 * 60 * 576


def test_threads_share_the_filters_of_one_line() -> None:
    op, *_ = direct_templates(16)
    assert op.template is not None
    line = op.template((None, None, 1, "1500.3.2.1", 12, 2), Extents(1, 1500, 384, 1152, tegg.f32))
    lines = op.template((None, None, 0, "56.3.1.1/56.3.1.1", 14, 2),
                        Extents(2, 65, 56 * 56, 576, tegg.f32))
    assert line.pieces == 12 and lines.pieces == 2 * 56 * 3


def test_one_tap_is_as_slow_as_channels_come_that_lie_beyond_l1() -> None:
    op, *_ = direct_templates(8)

    def speed(windows: str, channels: int, taps: int) -> float:
        e = Extents(1, 512, 28 * 28, channels * taps, tegg.f32)
        return op.template((None, None, 0, windows, 6, 2), e).speed

    one, nine = "28.1.2.1/28.1.2.1", "28.3.2.1/28.3.2.1"
    assert speed(one, 256, 1) < 0.7 * speed(one, 64, 1)
    assert speed(nine, 256, 9) == speed(nine, 64, 9) == speed(one, 64, 1)


def test_tiles_of_two_vectors_are_cheaper_for_fewer_filters_come_from_l2() -> None:
    op, *_ = direct_templates(16)
    e = Extents(1, 64, 56 * 56, 576, tegg.f32)
    speed = {tile: op.template((None, None, 0, "56.3.1.1/56.3.1.1", *tile), e).speed
             for tile in ((14, 2), (4, 4))}
    assert set(direct_tiles(56, 64, Registers(16))) == set(speed)
    assert speed[14, 2] > 1.1 * speed[4, 4]


@pytest.mark.parametrize(("places", "two", "three"), ((7, 7, 7), (8, 8, 8), (16, 8, 8), (24, 12, None),
                                                     (56, 14, None)))
def test_three_vectors_are_worth_a_look_where_two_leave_registers_empty(places, two, three) -> None:
    tiles = {v: rows for rows, v in direct_tiles(places, 512, Registers(16))}
    assert (tiles[2], tiles.get(3)) == (two, three)


@pytest.mark.parametrize(("filters", "better"), ((512, 3), (192, 3), (64, 2)))
def test_three_vectors_cost_less_where_they_fill_panels(filters, better) -> None:
    op, *_ = direct_templates(16)
    e = Extents(1, filters, 7 * 7, 4608, tegg.f32)
    speed = {v: op.template((None, None, 0, "7.3.1.1/7.3.1.1", 7, v), e).speed for v in (2, 3)}
    assert max(speed, key=lambda v: speed[v]) == better, speed
