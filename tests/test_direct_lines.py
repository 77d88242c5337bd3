"""Lines of direct convolutions whose channels lie side by side: filled by vectors of channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kernels import build, call, check
from profiles import examples
from test_direct import ANY, ONE, around, lowered, tiled, windows
from test_contraction_narrow import whole
from tegg.testing.kernels import random_inputs

import tegg
from tegg.backends.cpu.direct_templates import Direct, Slide
from tegg.dim import hint
from tegg.ir.graph import Node
from tegg.kernel.code import KernelCode
from tegg.kernel.contraction_held import HELD
from tegg.testing.draw import Draw

TURNED = pytest.mark.parametrize("turned", (False, True), ids=("direct", "places"))
WIDTHS = pytest.mark.parametrize("width", (16, 8, 4))


def first(g: Draw, x: Node) -> Node:
    """Images (n, down, across, c) with channels first."""
    return g.permute(x, (0, 3, 1, 2))


def together(code: KernelCode) -> bool:
    """Whether lines of all channels are filled at a time: then none is on its own."""
    filled = "read of all channels" in code.source
    assert filled == ("_c(const" in code.source)
    return filled


def tile(y: Node, taps, stride, dilation, width: int, rows: int, vectors: int,
         turned: bool) -> Direct:
    """``turned``: as many filters by vectors of places, where a row has so many."""
    how = tiled(y, taps, stride, dilation, width, 1 if turned else rows, vectors)
    if not turned:
        return how
    return replace(how, rows=rows, vectors=min(vectors, hint(y.shape[-1]) // width), turned=True)


# c less, as many, and more than there are lanes: n, extra channels, times lanes, o, size, taps,
# stride, dilation, pad, rows, vectors
CASES = (
    (2, 0, 1, 20, (9, 30), (3, 3), ONE, ONE, 1, 14, 2),
    (1, 1, 1, 33, (6, 41), (3, 3), ONE, ONE, 1, 6, 2),
    (1, 3, 2, 7, (11, 25), (2, 4), (1, 1), (2, 3), 3, 6, 2),
    (2, 3, 2, 17, (12, 23), (3, 3), (2, 2), ONE, 1, 14, 2),
    (1, 1, 1, 9, (7, 50), (2, 5), (1, 3), ONE, 2, 5, 1),
    (1, 3, 2, 18, (13, 40), (3, 2), (3, 1), (2, 3), 2, 6, 1),
    (1, 0, 3, 16, (1, 60), (1, 7), ONE, (1, 2), 0, 5, 1),
    (1, 1, 1, 5, (5, 3), (3, 2), ONE, ONE, 0, 2, 1),        # a line is shorter than a vector
    (1, 1, 2, 5, (6, 5), (2, 3), (1, 2), ONE, 0, 2, 1),     # of every other place too
    (1, 3, 1, 6, (7, 39), (1, 1), (2, 2), ONE, 0, 6, 1),    # one tap
)


@WIDTHS
@pytest.mark.parametrize("case", CASES)
def test_channels_last(case, width) -> None:
    n, extra, times, *others = case
    assert together(_check((n, times * width + extra, *others), width))


@WIDTHS
@pytest.mark.parametrize("case", [c for c in CASES if c[6][1] == 1 and c[4][1] > 18])
def test_channels_last_to_few_filters(case, width) -> None:
    n, extra, times, o, *others, rows, vectors = case
    case = (n, times * width + extra, min(o, 5), *others, min(rows, 3), vectors)
    assert together(_check(case, width, turned=True))


def _check(case, width: int, turned: bool = False) -> KernelCode:
    n, c, o, size, taps, stride, dilation, pad, rows, vectors = case
    g = Draw()
    y = windows(g, around(g, first(g, g.x(n, *size, c)), pad), o, taps, stride, dilation)
    how = tile(y, taps, stride, dilation, width, rows, vectors, turned)
    return check(g, [y], code=lowered([y], y, how, g), width=width, threads=(1, 2, 5))


@settings(max_examples=examples(6), deadline=None)
@given(**ANY | dict(c=st.integers(8, 29), width=st.sampled_from((4, 8))))
def test_any_channels_last(n, c, o, size, taps, stride, dilation, pad, rows, vectors,
                           width) -> None:
    case = (n, c, o, size, taps, stride, dilation, pad, rows, vectors)
    assert together(_check(case, width)) == (stride[1] == 1 or dilation[1] == 1 or taps[1] == 1)


@TURNED
def test_groups_of_channels(turned) -> None:
    """Those of a group lie side by side, and what comes after them is another group's."""
    g = Draw()
    x = g.reshape(first(g, g.x(2, 9, 26, 3 * 11)), (2, 3, 11, 9, 26))
    for axis in (3, 5):
        x = g.op("Window", x, axis, 3, 1, 1)
    c = g.op("Contract", g.x(3, 5, 11, 3, 3), x, "g,o,c,k,l;n,g,c,p,k,q,l;n,g,o,p,q",
             (2, 3, 5, 7, 24))
    code = lowered([c], c, tile(c, (3, 3), ONE, ONE, 8, 3, 1, turned), g)
    assert together(check(g, [c], code=code, width=8, threads=(1, 2, 5)))


@pytest.mark.parametrize("inner", (8, 11, 19))
def test_channels_of_two_axes(inner) -> None:
    """A vector holds channels of the inner axis alone, and lines are in the order of both."""
    g = Draw()
    x = g.permute(g.x(3, 7, 20, inner), (0, 3, 1, 2))
    for axis in (2, 4):
        x = g.op("Window", x, axis, 3, 1, 1)
    y = g.op("Contract", g.x(10, 3, inner, 3, 3), x, "o,b,c,k,l;b,c,p,k,q,l;o,p,q", (10, 5, 18))
    code = lowered([y], y, tile(y, (3, 3), ONE, ONE, 8, 6, 1, False), g)
    assert together(check(g, [y], code=code, width=8, threads=(1, 3)))


def bytes_scaled(g: Draw) -> Node:
    """Bytes, of which each channel is scaled by a factor of its own."""
    x = g.cast(g.x(2, 9, 24, 19, dtype="u8"), "f32")
    return around(g, first(g, g.mul(x, g.expand(g.x(1, 1, 1, 19), x.shape))), 1)


def padded_after(g: Draw) -> Node:
    """What is outside is not 0 below the windows: its exponential is."""
    return g.op("Exp", around(g, first(g, g.x(2, 9, 24, 11)), 1))


def joined(g: Draw) -> Node:
    """Channels past some are read from elsewhere: within a vector."""
    parts = [first(g, g.x(1, 9, 24, c)) for c in (5, 14)]
    wide = [g.pad(p, (0, low, 0, 0), (0, 19 - low - p.shape[1], 0, 0), 0)
            for p, low in zip(parts, (0, 5))]
    return g.add(*wide)


def added(g: Draw) -> Node:
    """With one value of each place, whatever its channel is."""
    x = first(g, g.x(2, 9, 24, 11))
    return g.named("Maximum", g.add(x, g.expand(g.x(2, 1, 9, 24), x.shape)), 0.0)


@TURNED
@WIDTHS
@pytest.mark.parametrize("below", (bytes_scaled, padded_after, joined, added))
def test_what_lies_below_is_fused(below, width, turned) -> None:
    g = Draw()
    x = below(g)
    c = windows(g, x, 7, (3, 3))
    out = g.add(g.op("Exp", c), g.x(*c.shape)) if below is added else c
    code = lowered([out], c, tile(c, (3, 3), ONE, ONE, width, 3, 1, turned), g)
    check(g, [out], code=code, width=width, threads=(1, 3))
    assert together(code) == (x.shape[1] >= width)


@pytest.mark.parametrize("layout", ("few", "first", "both"))
def test_lines_are_filled_one_by_one_where_channels_lie_apart_or_are_few(layout) -> None:
    g = Draw()
    x = g.x(2, 15, 8, 20) if layout != "few" else first(g, g.x(2, 8, 20, 7))
    if layout == "both":
        x = g.add(x, first(g, g.x(2, 8, 20, 15)))
    c = windows(g, around(g, x, 1), 9, (3, 3))
    code = lowered([c], c, tiled(c, (3, 3), width=8, rows=5), g)
    assert not together(check(g, [c], code=code, width=8))


def test_pairs_are_filled_one_by_one() -> None:
    g = Draw()
    c = windows(g, first(g, g.x(2, 8, 20, 17)), 9, (3, 3))
    how = replace(tiled(c, (3, 3), width=8, rows=5), held=HELD["pairs"])
    code = lowered([c], c, how, g)
    assert not together(check(g, [c], code=code, width=8, inputs=whole(g, {})))


@TURNED
def test_symbolic_rows_and_images(turned) -> None:
    g, n, h = Draw(), tegg.dim("n", 0, 9), tegg.dim("h", 3, 99)
    c = windows(g, first(g, g.x(n, h, 20, 11)), 5, (3, 3))
    slides = Slide(hint(h - 2), 3), Slide(18, 3)
    code = lowered([c], c, Direct(slides, 5, 1, 8, turned=turned), g)
    assert together(code)
    library = build(code, 8)
    for sizes in ({"n": 2, "h": 11}, {"n": 0, "h": 3}, {"n": 1, "h": 3}):
        check(g, [c], sizes, code=code, library=library, width=8, threads=(1, 3))


def test_long_lines_are_cut(monkeypatch) -> None:
    monkeypatch.setattr("tegg.backends.cpu.direct_cut.CLOSE", 1024)
    g = Draw()
    x = g.permute(g.x(2, 240, 17), (0, 2, 1))
    x = g.op("Window", g.pad(x, (0, 0, 1), (0, 0, 1), 0), 2, 3, 2, 1)
    c = g.op("Contract", g.x(9, 17, 3), x, "o,c,l;n,c,q,l;n,o,q", (2, 9, 120))
    code = lowered([c], c, Direct((Slide(120, 3, 2),), 6, 1, 8), g)
    assert "down = 4;" in code.source
    assert together(check(g, [c], code=code, width=8, threads=(1, 3)))


def test_results_are_those_of_channels_first() -> None:
    """The same products are added up in the same order."""
    results = []
    for last in (False, True):
        g = Draw()
        x = first(g, g.x(1, 9, 40, 70)) if last else g.x(1, 70, 9, 40)
        c = windows(g, around(g, x, 1), 24, (3, 3))
        code = lowered([c], c, tiled(c, (3, 3)), g)
        assert together(code) == last
        inputs = random_inputs(g, {}, 0)
        if last:
            inputs[0] = np.ascontiguousarray(results[0][1].transpose(0, 2, 3, 1))
        results.append((call(build(code, 16), code, g, [c], inputs, {})[0], inputs[0]))
    assert results[0][0].tobytes() == results[1][0].tobytes()


@pytest.mark.parametrize(("filters", "name"), ((64, "CpuDirect"), (3, "CpuPlaces")))
def test_it_is_chosen_through_the_front_end(filters, name) -> None:
    x, w = (np.random.default_rng(0).standard_normal(s, np.float32)
            for s in ((2, 30, 40, 32), (filters, 32, 3, 3)))
    f = tegg.compile(lambda x: tegg.conv2d(x.permute(0, 3, 1, 2), w, padding=1), cache=False)
    assert name in f.program(x).explain() and "of all channels" in f.source()
    v = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    v = np.lib.stride_tricks.sliding_window_view(v, (3, 3), (1, 2))
    np.testing.assert_allclose(f(x), np.einsum("npqckl,ockl->nopq", v, w), atol=2e-4)
