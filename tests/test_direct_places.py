"""Direct convolutions to few filters, whose vectors are of places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tegg
from hypothesis import given, settings, strategies as st
from profiles import examples

from kernels import build, call, check
from test_direct import ONE, check_symbolic, convolution, fused, grouped, line, lowered, tiled
from tegg.backends.cpu.direct_forms import DirectForms, Found
from tegg.backends.cpu.direct_templates import Direct, Slide, direct_templates, places_tile
from tegg.errors import LoweringError
from tegg.ir.graph import Node
from tegg.ir.template import Extents
from tegg.kernel.registers import Registers
from tegg.testing.draw import Draw
from tegg.testing.kernels import random_inputs

# n, c, o, size, taps, stride, dilation, pad, rows, vectors
CASES = (
    (2, 5, 3, (9, 40), (3, 3), ONE, ONE, 1, 3, 2),
    (1, 4, 7, (11, 37), (2, 4), (2, 1), (2, 3), 3, 4, 1),
    (1, 300, 1, (4, 19), (2, 2), ONE, ONE, 1, 1, 1),     # channels in blocks
    (3, 2, 10, (5, 130), (1, 9), ONE, ONE, 0, 5, 3),
    (1, 3, 4, (1, 50), (1, 7), (1, 1), (1, 2), 0, 4, 1),
    (0, 2, 3, (6, 18), (3, 3), ONE, ONE, 1, 3, 1),
    (1, 3, 0, (6, 18), (3, 3), ONE, ONE, 1, 2, 1),
)


def turned(anchor: Node, taps, stride=ONE, dilation=ONE, width: int = 16, rows: int = 3,
           vectors: int = 1) -> Direct:
    how = tiled(anchor, taps, stride, dilation, width, 1, vectors)
    return replace(how, rows=rows, turned=True)


def _check(case, width: int) -> None:
    n, c, o, size, taps, stride, dilation, pad, rows, vectors = case
    g = Draw()
    y = convolution(g, n, c, o, size, taps, stride, dilation, pad)
    vectors = min(vectors, y.shape[-1] // width)
    how = turned(y, taps, stride, dilation, width, rows, vectors)
    check(g, [y], code=lowered([y], y, how, g), width=width, threads=(1, 2, 5))


@pytest.mark.parametrize("width", (16, 8, 4))
@pytest.mark.parametrize("case", CASES)
def test_strides_down_dilations_pads_and_edges(case, width) -> None:
    _check(case, width)


@settings(max_examples=examples(6), deadline=None)
@given(n=st.integers(1, 3), c=st.integers(2, 9), o=st.integers(1, 14),
       size=st.tuples(st.integers(4, 20), st.integers(16, 70)),
       taps=st.tuples(st.integers(1, 3), st.integers(1, 4)), down=st.integers(1, 3),
       dilation=st.tuples(st.integers(1, 2), st.integers(1, 3)), pad=st.integers(5, 7),
       rows=st.integers(1, 6), vectors=st.integers(1, 4), width=st.sampled_from((16, 8)))
def test_any_convolution(n, c, o, size, taps, down, dilation, pad, rows, vectors, width) -> None:
    _check((n, c, o, size, taps, (down, 1), dilation, pad, rows, vectors), width)


def test_what_lies_around_it_is_fused() -> None:
    out, c = fused(g := Draw(), 3, 41, 1)
    check(g, [out], code=lowered([out], c, turned(c, (3, 3), vectors=2), g), threads=(1, 3))


def test_groups() -> None:
    c = grouped(g := Draw(), 20)
    check(g, [c], code=lowered([c], c, turned(c, (3, 3), rows=2), g), threads=(1, 2, 5))


def test_symbolic_rows_and_images() -> None:
    check_symbolic(3, 3, turned=True)


def test_long_lines_are_cut_into_whole_tiles(monkeypatch) -> None:
    monkeypatch.setattr("tegg.backends.cpu.direct_cut.CLOSE", 1024)
    g = Draw()
    c = line(g, 2, 16, 3, 192, Slide(192, 3), 1)
    code = lowered([c], c, Direct((Slide(192, 3),), 3, 2, 16, turned=True), g)
    assert "down = 6;" in code.source
    check(g, [c], code=code, threads=(1, 3))


def test_results_do_not_depend_on_threads() -> None:
    g = Draw()
    c = convolution(g, 1, 70, 3, (9, 40), (3, 3), pad=1)
    code = lowered([c], c, turned(c, (3, 3), vectors=2), g)
    library, inputs = build(code, 16), random_inputs(g, {}, 0)
    first, *others = (call(library, code, g, [c], inputs, {}, n, False)[0] for n in (1, 2, 3, 7))
    assert all(first.tobytes() == o.tobytes() for o in others)


def test_a_tile_of_more_places_than_a_row_has_is_refused() -> None:
    g = Draw()
    c = convolution(g, 1, 4, 3, (9, 18), (3, 3))
    with pytest.raises(LoweringError, match="innermost columns"):
        lowered([c], c, turned(c, (3, 3), vectors=2), g)


# ---- which are worth a look
@pytest.mark.parametrize("registers", (Registers(16), Registers(8), Registers(4),
                                       Registers(4, neon=True)))
def test_tiles_fit_registers_and_rows(registers) -> None:
    """Sums, a row's vectors of places, and filters: one at a time, all of them on NEON."""
    for filters in range(1, 40):
        for across in (registers.width, 5 * registers.width + 1, 1000):
            rows, vectors = places_tile(across, filters, registers)
            assert 1 <= vectors <= across // registers.width
            factors = rows if registers.neon else 1
            assert (rows + 1) * vectors + factors <= registers.count
            assert -(-filters // rows) * rows < filters + rows


def test_it_is_offered_to_few_filters_of_windows_side_by_side() -> None:
    forms = DirectForms(Registers(8), frozenset())

    def offered(filters: int, across: Slide) -> int:
        found = Found((across,), filters, across.places)
        return len(list(forms._tiles("cpu-places", found)))

    assert [offered(n, Slide(56, 3)) for n in (1, 3, 7, 8, 9, 15, 16, 17, 64)] == [
        1, 1, 1, 0, 1, 1, 0, 0, 0]
    assert [offered(3, s) for s in (Slide(56, 3, 2), Slide(7, 3), Slide(8, 3, 1, 2))] == [0, 0, 1]
    assert not offered(3, Slide(50, 1))  # rows of a plain product are side by side as they are


def test_what_it_executes_counts_whole_tiles() -> None:
    *_, op = direct_templates(8)
    assert op.template is not None
    for filters, rows, vectors, most in ((3, 3, 3, 3), (10, 5, 2, 10), (7, 4, 2, 8)):
        done = op.template((None, None, 0, "56.3.1.1/56.3.1.1", rows, vectors),
                           Extents(1, filters, 56 * 56, 576, tegg.f32))
        across = -(-56 // (8 * vectors)) * 8 * vectors
        assert done.flops == 2 * most * 56 * across * 576
        assert done.packed == done.kept == most * 576 and done.rate == "CpuDirect"


# ---- through the front end
@pytest.mark.parametrize("filters, how", ((3, {}), (2, {}), (5, dict(padding=2, dilation=2)),
                                          (4, dict(groups=2))), ids=str)
def test_where_it_is_chosen(filters, how) -> None:
    """Not the products of rows that lie in memory: windows are not there."""
    x, w = (np.random.default_rng(0).standard_normal(s, np.float32)
            for s in ((1, 32, 64, 140), (filters, 32 // how.get("groups", 1), 3, 3)))
    f = tegg.compile(lambda x: tegg.conv2d(x, w, **how).relu(), cache=False)
    explained = f.program(x).explain()
    assert "CpuPlaces" in explained and "cpu/rows" not in explained
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *[(how.get("padding", 0),) * 2] * 2))
    step = how.get("dilation", 1)
    v = np.lib.stride_tricks.sliding_window_view(wide, (2 * step + 1,) * 2, (2, 3))
    v = v[..., ::step, ::step].reshape(1, how.get("groups", 1), -1, *v.shape[2:4], 3, 3)
    want = np.einsum("ngcpqkl,gockl->ngopq", v, w.reshape(v.shape[1], -1, *w.shape[1:]))
    want = np.maximum(want.reshape(1, filters, *want.shape[-2:]), 0)
    np.testing.assert_allclose(f(x), want, atol=1e-5 * float(np.abs(want).max()))
