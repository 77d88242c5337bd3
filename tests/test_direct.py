"""Direct convolutions against the oracle, on guarded memory; and which of them are offered."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kernels import build, call, check
from tegg.testing.kernels import random_inputs
from profiles import examples
from test_contraction_narrow import whole

import tegg
from tegg.backends.cpu.direct import lower_direct
from tegg.backends.cpu.direct_forms import DirectForms, Found
from tegg.backends.cpu.direct_templates import Direct, Slide
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.library import prelude
from tegg.backends.cpu.templates import Operand
from tegg.backends.cpu.toolchain import find
from tegg.dim import hint
from tegg.errors import LoweringError
from tegg.ir.graph import Node
from tegg.kernel.contraction_held import HELD, TILE, Held
from tegg.kernel.registers import Registers, fitted_rows
from tegg.testing.draw import Draw

ONE = (1, 1)
TILES = HELD["tiles"]


def convolution(g: Draw, n: int, c: int, o: int, size: tuple[int, int], taps: tuple[int, int],
                stride: tuple[int, int] = ONE, dilation: tuple[int, int] = ONE,
                pad: int = 0) -> Node:
    return windows(g, around(g, g.x(n, c, *size), pad), o, taps, stride, dilation)


def around(g: Draw, x: Node, pad: int) -> Node:
    """Images (n, c, down, across) with so many zeros on each side."""
    return g.pad(x, (0, 0, pad, pad), (0, 0, pad, pad), 0)


def windows(g: Draw, x: Node, o: int, taps: tuple[int, int], stride: tuple[int, int] = ONE,
            dilation: tuple[int, int] = ONE) -> Node:
    """The convolution of images."""
    n, c = x.shape[:2]
    for i, axis in enumerate((2, 4)):
        x = g.op("Window", x, axis, taps[i], stride[i], dilation[i])
    return g.op("Contract", g.x(o, c, *taps), x, "o,c,k,l;n,c,p,k,q,l;n,o,p,q",
                (n, o, x.shape[2], x.shape[4]))


def tiled(anchor: Node, taps: tuple[int, int], stride: tuple[int, int] = ONE,
         dilation: tuple[int, int] = ONE, width: int = 16, rows: int = 6,
         vectors: int = 2) -> Direct:
    slides = tuple(Slide(p, *s) for p, s in zip(anchor.shape[-2:], zip(taps, stride, dilation)))
    return Direct(slides, fitted_rows(slides[-1].places, rows), vectors, width)


def holding(how: Direct, held: Held | None) -> Direct:
    """The same of operands that are held so; of tiles, one of filters or two."""
    if held is not TILES:
        return replace(how, held=held)
    return replace(how, held=held, rows=16 if how.rows % 2 else 32, vectors=2, width=TILE,
                   turned=True)


def lowered(outputs: list[Node], anchor: Node, how: Direct, g: Draw, width: int = 0):
    return lower_direct(g, outputs, [anchor], "k", C(width or how.width), how)


# n, c, o, size, taps, stride, dilation, pad, rows, vectors
CASES = (
    (2, 5, 20, (9, 30), (3, 3), ONE, ONE, 1, 14, 2),
    (1, 3, 40, (12, 23), (3, 3), (2, 2), ONE, 1, 14, 2),
    (1, 4, 7, (11, 21), (2, 4), (1, 1), (2, 3), 3, 6, 4),
    (2, 3, 33, (13, 40), (3, 2), (2, 3), (3, 2), 2, 14, 2),
    (1, 4, 17, (7, 19), (1, 1), (2, 2), ONE, 0, 6, 1),
    (1, 2, 16, (8, 9), (5, 1), (1, 2), ONE, 2, 5, 1),
    (1, 3, 18, (1, 50), (1, 7), (1, 2), ONE, 0, 14, 1),
    (1, 2, 5, (4, 300), (3, 9), ONE, ONE, 1, 14, 1),
    (0, 2, 16, (6, 8), (3, 3), ONE, ONE, 1, 6, 1),
    (2, 300, 3, (4, 5), (2, 2), ONE, ONE, 1, 5, 1),
    (1, 3, 0, (6, 8), (3, 3), ONE, ONE, 1, 6, 1),
)


HOW = pytest.mark.parametrize("held", (None, HELD["pairs"], TILES), ids=("floats", "pairs", "tiles"))


@HOW
@pytest.mark.parametrize("width", (16, 8, 4))
@pytest.mark.parametrize("case", CASES[:5])
def test_strides_dilations_and_pads(case, width, held) -> None:
    _check(case, width, held)


@HOW
@pytest.mark.parametrize("case", CASES[5:])
def test_sizes_at_the_edges(case, held) -> None:
    _check(case, 16, held)


def _check(case, width: int, held: Held | None = None) -> None:
    """Narrow operands are whole numbers, which have no rounding but that of sums."""
    n, c, o, size, taps, stride, dilation, pad, rows, vectors = case
    g = Draw()
    y = convolution(g, n, c, o, size, taps, stride, dilation, pad)
    how = holding(tiled(y, taps, stride, dilation, width, rows, vectors), held)
    check(g, [y], code=lowered([y], y, how, g, width), width=width, threads=(1, 2, 5),
          inputs=whole(g, {}) if held else None)


ANY = dict(
    n=st.integers(1, 3), c=st.integers(2, 9), o=st.integers(1, 40),
    size=st.tuples(st.integers(4, 20), st.integers(9, 60)),  # of a row there are two places at least
    taps=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 3)), pad=st.integers(2, 4),
    rows=st.integers(1, 14), vectors=st.integers(1, 3))


@settings(max_examples=examples(6), deadline=None)
@given(**ANY)
def test_any_convolution(n, c, o, size, taps, stride, dilation, pad, rows, vectors) -> None:
    _check((n, c, o, size, taps, stride, dilation, pad, rows, vectors), 16)


def line(g: Draw, n: int, c: int, o: int, long: int, slide: Slide, pad: int = 0) -> Node:
    """A convolution along one axis, of so many places that ``slide`` says."""
    x = g.pad(g.x(n, c, long), (0, 0, pad), (0, 0, pad), 0)
    x = g.op("Window", x, 2, slide.taps, slide.stride, slide.dilation)
    assert x.shape[2] == slide.places
    return g.op("Contract", g.x(o, c, slide.taps), x, "o,c,l;n,c,q,l;n,o,q",
                (n, o, slide.places))


@pytest.mark.parametrize("held", (None, HELD["pairs"]), ids=("floats", "pairs"))
@pytest.mark.parametrize("n, c, o, long, slide, pad, rows, cuts", [
    (1, 16, 33, 240, Slide(120, 3, 2), 1, 6, 4),      # 30 places of 16 channels are near
    (2, 16, 40, 120, Slide(120, 3), 1, 12, 2),
    (1, 16, 20, 126, Slide(120, 4, 1, 2), 0, 7, 3),   # tiles do not divide 40, and nearly fill it
    (1, 16, 20, 126, Slide(120, 4, 1, 2), 0, 6, 4),   # 30 they fill
    (1, 16, 20, 120, Slide(40, 1, 3), 0, 4, 2),
    (1, 16, 20, 127, Slide(127, 3), 1, 6, 0),         # nothing divides it
    (1, 2, 20, 120, Slide(120, 3), 1, 6, 0)])         # all of it is near
def test_long_lines_are_cut(monkeypatch, held, n, c, o, long, slide, pad, rows, cuts) -> None:
    """Into rows that stay close; what becomes of results follows."""
    near = 1024 if held is None else 512
    monkeypatch.setattr("tegg.backends.cpu.direct_cut.CLOSE", near)
    g = Draw()
    a = line(g, n, c, o, long, slide, pad)
    out = g.add(g.add(a, g.x(n, o, slide.places)), g.expand(g.x(o, 1), a.shape))
    code = lowered([out], a, Direct((slide,), rows, 2, 16, held), g)
    assert f"down = {cuts or 1};" in code.source
    check(g, [out], code=code, threads=(1, 3), inputs=whole(g, {}) if held else None)


def test_long_lines_are_cut_through_the_front_end() -> None:
    x, w, b = (np.random.default_rng(0).standard_normal(s, np.float32)
               for s in ((1, 96, 6000), (128, 96, 3), (128,)))
    f = tegg.compile(lambda x: tegg.conv1d(x, w, b, stride=2, padding=1).relu(), cache=False)
    assert "CpuDirect" in f.program(x).explain() and "down = 5;" in f.source()
    v = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1))), 3, 2)
    want = np.einsum("ncqk,ock->noq", v[:, :, ::2].astype(np.float64), w) + b[:, None]
    np.testing.assert_allclose(f(x), np.maximum(want, 0), atol=1e-4)


@pytest.mark.parametrize("how", ({}, dict(stride=2), dict(padding=1), dict(groups=4)), ids=str)
@pytest.mark.parametrize("shape", ((1, 64, 7, 7), (3, 64, 5, 7), (1, 64, 1, 9), (0, 64, 7, 7)))
def test_one_tap_through_the_front_end(shape, how) -> None:
    """Whether images are read where they lie or packed."""
    step, pad, groups = (how.get(k, d) for k, d in (("stride", 1), ("padding", 0), ("groups", 1)))
    x, w = (np.random.default_rng(0).standard_normal(s, np.float32)
            for s in (shape, (96, 64 // groups, 1, 1)))
    f = tegg.compile(lambda x: tegg.conv2d(x, w, **how).relu(), cache=False)
    v = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))[..., ::step, ::step].astype(np.float64)
    v = v.reshape(shape[0], groups, 64 // groups, *v.shape[2:])
    want = np.einsum("ngcpq,goc->ngopq", v, w.reshape(groups, 96 // groups, -1))
    got = f(x)
    np.testing.assert_allclose(got, np.maximum(want.reshape(got.shape), 0), atol=2e-5)


def test_plain_places_are_read_where_they_lie_where_vectors_of_them_are_not_full() -> None:
    forms = DirectForms(Registers(16), frozenset({TILES.multiply}))

    def offered(relation: str, places: int, images: int = 1) -> bool:
        found = Found((Slide(places, 1),), 64, places * images)
        return bool(list(forms._tiles(relation, found)))

    assert [offered("cpu-direct", 49), offered("cpu-direct", 196), offered("cpu-direct", 784),
            offered("cpu-direct", 49, 8)] == [True, True, False, False]
    assert offered("cpu-direct-tiles", 784)  # a tile of results is of filters as well
    assert not offered("cpu-places", 49)


def test_what_is_offered_for_one_tap_is_one_row_of_all_places() -> None:
    forms = DirectForms(Registers(16), frozenset())
    pair = Operand((64, 32, 1, 1), tegg.f32), Operand((1, 32, 7, 1, 5, 1), tegg.f32)
    text = "a,d,,;,d,b,,c,;a,b,c,"

    def found(*axes: tuple[int, Slide]) -> Found | None:
        return forms._found(pair, text, 0, axes)

    one, two = (2, Slide(1, 1)), (4, Slide(1, 1))
    assert found(one, two) == Found((Slide(35, 1),), 64, 35)
    assert found((2, Slide(1, 3)), two) == Found((Slide(7, 3), Slide(5, 1)), 64, 35)
    assert found((1, Slide(1, 3)), one, two) is None  # taps that no place of a row has


def fused(g: Draw, filters: int, across: int, stride: int) -> tuple[Node, Node]:
    """What becomes of a convolution of what is computed, and the convolution."""
    x, w, b = g.x(2, 4, 10, across), g.x(filters, 4, 3, 3), g.x(filters)
    v = g.pad(g.op("Exp", x), (0, 0, 1, 1), (0, 0, 1, 1), 0)
    for axis in (2, 4):
        v = g.op("Window", v, axis, 3, stride, 1)
    shape = 2, filters, v.shape[2], v.shape[4]
    c = g.op("Contract", g.mul(w, 0.5), v, "o,c,k,l;n,c,p,k,q,l;n,o,p,q", shape)
    return g.add(g.add(c, g.expand(g.reshape(b, (1, filters, 1, 1)), c.shape)), g.x(*shape)), c


def grouped(g: Draw, across: int) -> Node:
    """Three groups of five filters."""
    v = g.x(2, 3, 4, 9, across + 2)
    for axis in (3, 5):
        v = g.op("Window", v, axis, 3, 1, 1)
    return g.op("Contract", g.x(3, 5, 4, 3, 3), v, "g,o,c,k,l;n,g,c,p,k,q,l;n,g,o,p,q",
                (2, 3, 5, 7, across))


def check_symbolic(filters: int, rows: int, **how) -> None:
    """A number of images and of rows that a program is given."""
    g, n, h = Draw(), tegg.dim("n", 0, 9), tegg.dim("h", 3, 99)
    v = g.x(n, 3, h, 20)
    for axis in (2, 4):
        v = g.op("Window", v, axis, 3, 1, 1)
    c = g.op("Contract", g.x(filters, 3, 3, 3), v, "o,c,k,l;n,c,p,k,q,l;n,o,p,q",
             (n, filters, h - 2, 18))
    code = lowered([c], c, Direct((Slide(hint(h - 2), 3), Slide(18, 3)), rows, 1, 16, **how), g)
    library = build(code, 16)
    for sizes in ({"n": 2, "h": 11}, {"n": 0, "h": 3}, {"n": 1, "h": 3}):
        check(g, [c], sizes, code=code, library=library, threads=(1, 3))


def test_what_lies_around_it_is_fused() -> None:
    out, c = fused(g := Draw(), 6, 21, 2)
    check(g, [out], code=lowered([out], c, tiled(c, (3, 3), (2, 2)), g))


def test_groups() -> None:
    c = grouped(g := Draw(), 10)
    check(g, [c], code=lowered([c], c, tiled(c, (3, 3)), g), threads=(1, 2, 5))


def test_symbolic_rows_and_images() -> None:
    check_symbolic(9, 6)


def test_results_do_not_depend_on_threads() -> None:
    g = Draw()
    c = convolution(g, 1, 70, 40, (9, 40), (3, 3), pad=1)
    code = lowered([c], c, tiled(c, (3, 3)), g)
    library, inputs = build(code, 16), random_inputs(g, {}, 0)
    first, *others = (call(library, code, g, [c], inputs, {}, n, False)[0] for n in (1, 2, 3, 7, 40))
    assert all(first.tobytes() == o.tobytes() for o in others)


def test_filters_are_asked_for_ahead_a_few_lines_at_a_time() -> None:
    """Those that stay close by are not. A line in three taps: what is asked for at once waits."""
    for channels, lines in ((128, 1), (64, 0)):
        g = Draw()
        c = convolution(g, 1, channels, 64, (7, 7), (3, 3), pad=1)
        code = lowered([c], c, tiled(c, (3, 3), rows=14), g)
        assert f"n < {lines}; n++, next += step" in code.source
        check(g, [c], code=code, threads=(1, 2))


@pytest.mark.skipif("gcc" not in find().version or not {"x86-64", "avx2"} <= find().features,
                    reason="how gcc allocates registers of x86-64")
@pytest.mark.parametrize(("channels", "places"), ((64, 56), (128, 28)))
def test_filters_are_read_once_and_sums_stay_in_registers(channels, places, tmp_path) -> None:
    """Also where coming filters are asked for, which is no branch: that would make several loops of
    one. Filters are not operands in memory of each multiply-add."""
    g = Draw()
    c = convolution(g, 1, channels, channels, (places, places), (3, 3), pad=1)
    source = tmp_path / "k.c"
    source.write_text(prelude(8) + "\n" + lowered([c], c, tiled(c, (3, 3), width=8, rows=4), g).source)
    flags = [f for f in find().flags if not f.startswith("-march")]
    text = subprocess.run([*find().command, *flags, "-march=znver3", "-S", "-o", "-", source],
                          check=True, capture_output=True, text=True).stdout
    product = text[text.index("\nk_product_2"):text.index(".size\tk_product_2")].splitlines()
    added = [line for line in product if "vfmadd" in line]
    assert added and len(added) % 8 == 0 and not [line for line in added if "(" in line]
    assert ("prefetch" in "\n".join(product)) == (channels == 128)
    assert not [line for line in product if "ymm" in line and re.search(r"\(%r[sb]p", line)]


@pytest.mark.parametrize("pad", (0, 1))
@pytest.mark.parametrize(("side", "far"), ((64, True), (24, False)))
def test_results_ask_for_rows_to_come_that_are_far(side, far, pad) -> None:
    """And for what else is read of them, but not for windows, which were put in place before."""
    g = Draw()
    c = convolution(g, 1, 8, 64, (side, side), (3, 3), pad=pad)
    beside = g.x(*c.shape)
    code = lowered([g.op("Add", c, beside)], c, tiled(c, (3, 3), rows=14), g)
    asked = re.findall(r"fetch_(read|write)\(", code.source)
    assert sorted(asked) == ["read"] * 2 * far + ["write"] * 2 * far  # whole vectors and the last
    rows = re.findall(r"fetch_\w+\([^;]* \+ (\d+)\)\);", code.source)
    assert set(rows) == ({str(c.shape[-1])} if far else set())


@pytest.mark.parametrize(("filters", "wide"), ((64, [2]), (16, [1]), (40, [1, 2]), (80, [1, 2])))
def test_products_are_those_that_panels_of_filters_need(filters, wide) -> None:
    g = Draw()
    c = convolution(g, 1, 3, filters, (5, 31), (3, 3), pad=1)
    code = lowered([c], c, tiled(c, (3, 3), rows=14), g)
    assert [v for v in (1, 2, 3) if f"PRODUCT(k_product_{v}, {v})" in code.source] == wide
    check(g, [c], code=code, threads=(1, 2))


@pytest.mark.parametrize("across, channels", ((28, 3), (31, 3), (31, 90), (9, 90)))
def test_sums_are_stored_from_whole_rows(across, channels) -> None:
    """Also where tiles do not divide them, and where channels go in blocks."""
    g = Draw()
    c = convolution(g, 1, channels, 24, (5, across), (3, 3), pad=1)
    code = lowered([c], c, tiled(c, (3, 3), rows=14), g)
    assert f"left, 0, {across}, sums)" in code.source
    check(g, [c], code=code, threads=(1, 2))


# ---- what is none
def test_other_columns_are_refused() -> None:
    g = Draw()
    c = convolution(g, 1, 4, 5, (6, 6), (3, 3))
    with pytest.raises(LoweringError, match="innermost columns"):
        lowered([c], c, Direct((Slide(3, 3), Slide(3, 3)), 3, 1, 16), g)


def test_two_results_are_refused() -> None:
    g = Draw()
    v = g.op("Window", g.x(4, 12), 1, 3, 1, 1)
    a, b = (g.op("Contract", g.x(5, 4, 3), v, "o,c,l;c,q,l;o,q", (5, 10)) for _ in range(2))
    with pytest.raises(LoweringError, match="is one contraction"):
        lower_direct(g, [a, b], [a, b], "k", C(16), Direct((Slide(10, 3),), 5, 1, 16))


def test_reductions_beside_it_are_refused() -> None:
    g = Draw()
    c = convolution(g, 1, 4, 5, (6, 6), (3, 3))
    total = g.op("SumReduce", g.x(1, 5, 9, 1), 2)
    out = g.add(c, g.expand(total, c.shape))
    with pytest.raises(LoweringError, match="computes no reductions"):
        lowered([out], c, tiled(c, (3, 3)), g)


def test_a_symbolic_number_of_channels_is_refused() -> None:
    g, n = Draw(), tegg.dim("c", 1, 64)
    v = g.op("Window", g.x(n, 12), 1, 3, 1, 1)
    c = g.op("Contract", g.x(5, n, 3), v, "o,c,l;c,q,l;o,q", (5, 10))
    with pytest.raises(LoweringError, match="known number of channels"):
        lower_direct(g, [c], [c], "k", C(16), Direct((Slide(10, 3),), 5, 1, 16))


# ---- through the front end
@pytest.mark.parametrize(("how", "chosen"), (
    (dict(padding=1), True), (dict(stride=2, padding=1), True), (dict(groups=2), True),
    (dict(groups=32), False)), ids=(
        "padded", "stride", "groups", "depthwise"))
def test_where_it_is_chosen(how, chosen) -> None:
    x, w = (np.random.default_rng(0).standard_normal(s, np.float32)
            for s in ((1, 32, 40, 40), (64, 32 // how.get("groups", 1), 3, 3)))
    f = tegg.compile(lambda x: tegg.conv2d(x, w, **how).relu(), cache=False)
    assert ("CpuDirect" in f.program(x).explain()) == chosen
    want = _slow(x, w, **how)
    np.testing.assert_allclose(f(x), want, atol=1e-5 * float(np.abs(want).max()))


@pytest.mark.parametrize(("filters", "name"), ((64, "CpuDirect"), (4, "CpuPlaces")))
@pytest.mark.parametrize(("axes", "order"), (
    ((1, -1, 40, 40), (0, 2, 3, 1)), ((1, -1, 2, 2, 40, 40), (0, 1, 4, 2, 5, 3))),
    ids=("channels last", "pixel shuffle"))
def test_results_in_another_order_are_moved_after_it(filters, name, axes, order) -> None:
    """Its vectors are of places, or of filters that are turned: neither would lie in a run."""
    x, w = (np.random.default_rng(0).standard_normal(s, np.float32)
            for s in ((1, 32, 40, 40), (filters, 32, 3, 3)))
    f = tegg.compile(lambda x: tegg.conv2d(x, w, padding=1).relu().reshape(axes).permute(*order),
                     cache=False)
    kernels = re.findall(r"(?m)^k\d+ (\S+)", f.program(x).explain())
    assert kernels == [name, "elementwise"]
    assert [r["what"] for r in f.profile(x)] == kernels
    want = _slow(x, w, padding=1).reshape(axes).transpose(order)
    np.testing.assert_allclose(f(x), want, atol=1e-5 * float(np.abs(want).max()))


def _slow(x, w, stride: int = 1, padding: int = 0, groups: int = 1) -> np.ndarray:
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *[(padding, padding)] * 2))
    v = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    v = v.reshape(v.shape[0], groups, -1, *v.shape[2:])
    y = np.einsum("ngcpqkl,gockl->ngopq", v, w.reshape(groups, -1, *w.shape[1:]))
    return np.maximum(y.reshape(y.shape[0], -1, *y.shape[3:]), 0)


def test_an_image_that_was_pooled_is_read_along_its_rows() -> None:
    """The pool's result has no axis of images where there is one: that is no reason to divide."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s, np.float32) for s in ((1, 32, 47, 47), (32, 32, 3, 3)))
    f = tegg.compile(lambda x: tegg.conv2d(tegg.max_pool2d(x, 3, 2, 1), w, padding=1).relu(),
                     cache=False)
    pooled = tegg.compile(lambda x: tegg.max_pool2d(x, 3, 2, 1))(x)
    np.testing.assert_allclose(f(x), _slow(pooled, w, padding=1), atol=2e-4)
    (direct,) = (k for k in f.program(x).plan.kernels if "Direct(" in str(k.notes))
    body = direct.source.split(f"{direct.name}_b0_n(", 1)[1].split("}", 1)[0]
    assert "vf_loadm(" in body and "%" not in body and "sf_load" not in body
