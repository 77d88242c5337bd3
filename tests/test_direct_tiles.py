"""Direct convolutions by tiles: what they have of their own. As of others that are narrow:
test_direct_narrow.py; sizes of all kinds: test_direct.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernels import check
from test_contraction_narrow import whole
from test_direct import ONE, TILES, convolution, holding, line, lowered, tiled
from test_direct_narrow import classes, graph
from test_narrow_forms import Having

import tegg
from tegg.backends.cpu.direct_templates import Direct, Slide, direct_of, direct_templates
from tegg.backends.cpu.instructions import PAIRS, TILES as HAS
from tegg.extract import extract
from tegg.ir.graph import Node
from tegg.ir.template import Extents
from tegg.rewrite.compiler import Bf16
from tegg.testing.draw import Draw


def by_tiles(anchor: Node, taps, stride=ONE, dilation=ONE, rows: int = 32) -> Direct:
    return replace(holding(tiled(anchor, taps, stride, dilation), TILES), rows=rows)


@pytest.mark.parametrize("across", (2, 7, 14, 15, 16, 17, 30, 31, 33, 64))
@pytest.mark.parametrize("stride", (1, 2))
def test_tiles_go_on_from_row_to_row(across, stride) -> None:
    """Whatever a tile has of two rows, and of what lies between them."""
    g = Draw()
    long = stride * (across - 1) + 3
    y = convolution(g, 1, 33, 17, (9, long), (3, 3), (stride, stride))
    assert y.shape[-1] == across
    check(g, [y], code=lowered([y], y, by_tiles(y, (3, 3), (stride, stride)), g),
          threads=(1, 3), inputs=whole(g, {}))


@pytest.mark.parametrize("filters, rows", ((1, 16), (16, 16), (16, 32), (17, 32), (33, 32), (40, 16)))
def test_filters_that_tiles_do_not_divide(filters, rows) -> None:
    g = Draw()
    y = convolution(g, 2, 40, filters, (5, 20), (3, 3), pad=1)
    check(g, [y], code=lowered([y], y, by_tiles(y, (3, 3), rows=rows), g), threads=(1, 2, 5),
          inputs=whole(g, {}))


def test_a_row_alone() -> None:
    slide = Slide(120, 3, 2)
    c = line(g := Draw(), 2, 40, 33, 240, slide, 1)
    check(g, [c], code=lowered([c], c, Direct((slide,), 32, 2, 16, TILES, True), g), threads=(1, 3),
          inputs=whole(g, {}))


@pytest.mark.parametrize("slide, pad, cuts", (
    (Slide(117, 3, 2), 1, 0),    # tiles nearly fill no number that divides it
    (Slide(120, 3, 2), 1, 2),
    (Slide(128, 3, 2), 1, 4), (Slide(128, 3), 1, 2), (Slide(256, 4, 1, 2), 0, 4)))
def test_long_lines_are_cut(monkeypatch, slide, pad, cuts) -> None:
    """Into rows that stay close; tiles do not go on from one piece to the next."""
    monkeypatch.setattr("tegg.backends.cpu.direct_cut.CLOSE", 2048)
    long = slide.stride * (slide.places - 1) + slide.dilation * (slide.taps - 1) + 1 - 2 * pad
    c = line(g := Draw(), 2, 16, 20, long, slide, pad)
    code = lowered([c], c, Direct((slide,), 32, 2, 16, TILES, True), g)
    assert f"down = {cuts or 1};" in code.source
    check(g, [c], code=code, threads=(1, 3), inputs=whole(g, {}))


def test_the_cheapest_wins() -> None:
    """Against patches that are packed for tiles, unless channels are so few that most of a tile would
    be empty."""
    target = Having((PAIRS, HAS), lanes=16)
    for channels, form in ((64, "CpuDirectTiles"), (3, "CpuTiles")):
        cover = extract(classes(graph(c=channels), target, Bf16()), target.costs(),
                        lowerable=target.unsupported)
        assert {n.op.name for k in cover.kernels for n in k.body.values()
                if n.op.template} == {form}


def test_what_it_executes_counts_whole_tiles_of_channels_and_what_lies_between_rows() -> None:
    op = next(o for o in direct_templates(8) if o.name == "CpuDirectTiles")
    assert op.template is not None
    for stride, long in ((1, 58), (2, 57)):
        text = f"56.3.{stride}.1/56.3.{stride}.1"
        done = op.template((None, None, 0, text, 32, 2), Extents(1, 40, 56 * 56, 65 * 9, tegg.f32))
        assert done.flops == 2 * 64 * 56 * long * 96 * 9
        assert done.packed == done.kept == 64 * 96 * 9 and done.itemsize == 2
    how = direct_of(op, (None, None, 0, "56.3.1.1/56.3.1.1", 32, 2), 8)
    assert how == Direct((Slide(56, 3), Slide(56, 3)), 32, 2, 16, TILES, True)
    assert (how.columns, how.places) == (32, 32)
