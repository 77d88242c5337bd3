"""Direct convolutions by tiles of bfloat16: what they compute, and where they are offered."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kernels import build, call, check
from profiles import examples
from test_contraction_narrow import whole
from test_direct import ANY, ONE, TILES, convolution, fused, grouped, holding, line, lowered, tiled
from test_direct_pairs import ERROR, classes, graph, rounded
from test_narrow_forms import Having, options

import tegg
from tegg.backends.cpu.direct_templates import Direct, Slide, direct_of, direct_templates
from tegg.backends.cpu.instructions import PAIRS, TILES as HAS
from tegg.dim import hint
from tegg.extract import extract
from tegg.ir.graph import Node
from tegg.ir.oracle import evaluate
from tegg.ir.template import Extents
from tegg.rewrite.compiler import Bf16, Compiler, Generic
from tegg.runtime.driver import compile_graph
from tegg.testing.draw import Draw
from tegg.testing.kernels import random_inputs


def by_tiles(anchor: Node, taps, stride=ONE, dilation=ONE, rows: int = 32) -> Direct:
    return replace(holding(tiled(anchor, taps, stride, dilation), TILES), rows=rows)


# ---- kernels. Whole numbers have no rounding but that of sums; sizes of all kinds: test_direct.py
@settings(max_examples=examples(10), deadline=None)
@given(**ANY, seed=st.integers(0, 99))
def test_operands_are_rounded_to_nearest_even(n, c, o, size, taps, stride, dilation, pad, rows,
                                              vectors, seed) -> None:
    g = Draw()
    y = convolution(g, n, 8 * c, o, size, taps, stride, dilation, pad)
    code = lowered([y], y, by_tiles(y, taps, stride, dilation, 16 * (rows % 2 + 1)), g)
    inputs = random_inputs(g, {}, seed)
    got, = call(build(code, 16), code, g, [y], inputs, {}, 2)
    want, = evaluate([y], {i: rounded(x) for i, x in inputs.items()}, {})
    size_, = evaluate([y], {i: np.abs(x) for i, x in inputs.items()}, {})
    assert (np.abs(got - want) <= 2e-6 * size_).all()


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


@pytest.mark.parametrize("bad", (0x7f800001, 0x7fffffff, 0xff8fffff, 0x7f800000))
@pytest.mark.parametrize("channel", (0, 1, 34))
def test_nan_and_infinity_stay_what_they_are(bad, channel) -> None:
    """Nor do they come to places whose windows have none."""
    g = Draw()
    y = convolution(g, 1, 35, 16, (4, 20), (3, 3), pad=1)
    inputs = {i: 1 + np.abs(x) for i, x in random_inputs(g, {}, 0).items()}
    inputs[0][0, channel, 1, 7] = np.uint32(bad).view(np.float32)
    code = lowered([y], y, by_tiles(y, (3, 3)), g)
    got, = call(build(code, 16), code, g, [y], inputs, {})
    want, = evaluate([y], inputs, {})
    assert (np.isnan(got) == np.isnan(want)).all() and (np.isinf(got) == np.isinf(want)).all()


def test_what_lies_around_it_is_fused() -> None:
    """Here all is rounded but what is added at last."""
    out, c = fused(g := Draw(), 6, 21, 2)
    inputs = random_inputs(g, {}, 0)
    got, = call(build(code := lowered([out], c, by_tiles(c, (3, 3), (2, 2)), g), 16), code, g, [out],
                inputs, {}, 3)
    want, = evaluate([out], inputs, {})
    assert np.abs(got - want).max() <= 0.02 * np.abs(want).max()


def test_bfloat16_below_and_above() -> None:
    g = Draw()
    x, w = (g.x(*s, dtype="bf16") for s in ((1, 5, 9, 30), (20, 5, 3, 3)))
    v = g.pad(g.cast(x, "f32"), (0, 0, 1, 1), (0, 0, 1, 1), 0)
    for axis in (2, 4):
        v = g.op("Window", v, axis, 3, 1, 1)
    c = g.op("Contract", g.cast(w, "f32"), v, "o,c,k,l;n,c,p,k,q,l;n,o,p,q", (1, 20, 9, 30))
    out = g.cast(c, "bf16")
    code = lowered([out], c, by_tiles(c, (3, 3)), g)
    assert "keep_g2(" in code.source[code.source.index("k_join"):]  # what holds it is not rounded
    check(g, [out], code=code)


def test_groups() -> None:
    c = grouped(g := Draw(), 10)
    check(g, [c], code=lowered([c], c, by_tiles(c, (3, 3)), g), threads=(1, 2, 5),
          inputs=whole(g, {}))


def test_a_row_alone() -> None:
    slide = Slide(120, 3, 2)
    c = line(g := Draw(), 2, 40, 33, 240, slide, 1)
    check(g, [c], code=lowered([c], c, Direct((slide,), 32, 2, 16, TILES, True), g), threads=(1, 3),
          inputs=whole(g, {}))


def test_symbolic_rows_images_and_filters() -> None:
    g, n, h, o = Draw(), tegg.dim("n", 0, 9), tegg.dim("h", 3, 99), tegg.dim("o", 1, 40)
    v = g.x(n, 3, h, 20)
    for axis in (2, 4):
        v = g.op("Window", v, axis, 3, 1, 1)
    c = g.op("Contract", g.x(o, 3, 3, 3), v, "o,c,k,l;n,c,p,k,q,l;n,o,p,q", (n, o, h - 2, 18))
    code = lowered([c], c, Direct((Slide(hint(h - 2), 3), Slide(18, 3)), 32, 2, 16, TILES, True), g)
    library = build(code, 16)
    for sizes in ({"n": 2, "h": 11, "o": 9}, {"n": 0, "h": 3, "o": 1}, {"n": 1, "h": 3, "o": 33}):
        check(g, [c], sizes, code=code, library=library, threads=(1, 3), inputs=whole(g, sizes))


def test_results_do_not_depend_on_threads() -> None:
    g = Draw()
    c = convolution(g, 1, 71, 40, (9, 40), (3, 3), pad=1)
    code = lowered([c], c, by_tiles(c, (3, 3)), g)
    library, inputs = build(code, 16), random_inputs(g, {}, 0)
    first, *others = (call(library, code, g, [c], inputs, {}, n, False)[0] for n in (1, 2, 3, 7, 40))
    assert all(first.tobytes() == o.tobytes() for o in others)


# ---- where it is offered, and what wins
def offered(*given) -> bool:
    return any(n.op.name == "CpuDirectTiles" for nodes in classes(*given).nodes.values()
               for n in nodes)


def test_operands_are_rounded_only_where_a_compiler_says_so() -> None:
    assert offered(graph(), Having((HAS,)), Bf16())
    assert not offered(graph(), Having((HAS,)))
    assert offered(graph("bf16"), Having((HAS,)))
    assert not offered(graph("f16"), Having((HAS,)), Bf16())


def test_what_a_machine_lacks_is_never_offered() -> None:
    assert not offered(graph(), Having((PAIRS,)), Bf16())
    assert not offered(graph("bf16"), Having((PAIRS,)), Bf16())


def test_the_cheapest_wins() -> None:
    """Against patches that are packed for tiles, unless channels are so few that most of a tile would
    be empty."""
    target = Having((PAIRS, HAS), lanes=16)
    for channels, form in ((64, "CpuDirectTiles"), (3, "CpuTiles")):
        cover = extract(classes(graph(c=channels), target, Bf16()), target.costs(),
                        lowerable=target.unsupported)
        assert {n.op.name for k in cover.kernels for n in k.body.values()
                if n.op.template} == {form}


@pytest.mark.parametrize("lanes", (16, pytest.param(8, marks=pytest.mark.long)))
@pytest.mark.parametrize("how", (
    dict(), dict(filters_first=False), dict(one=True), dict(c=7), dict(dtype="bf16")), ids=str)
def test_programs_of_it(how, lanes) -> None:
    g = graph(**how)
    run = compile_graph(g, options(Having((HAS,), "CpuDirectTiles", lanes), Bf16()))
    assert "CpuDirectTiles" in run.explain()
    spec = g.inputs[1]
    x = np.random.default_rng(0).standard_normal(spec.shape, np.float32).astype(spec.dtype.numpy)
    got, (want,) = run(x)["y"], evaluate(g.outputs.values(), {0: g.inputs[0].source, 1: x})
    bound, = evaluate(g.outputs.values(), {0: np.abs(g.inputs[0].source), 1: np.abs(x)})
    assert got.dtype == want.dtype
    assert (np.abs(got.astype(np.float64) - want) <= 1.01 * ERROR * bound.astype(np.float64)).all()


@pytest.mark.parametrize("how", (dict(padding=1), dict(stride=2, padding=1), dict(groups=2),
                                 dict(dilation=2)), ids=str)
def test_through_the_front_end(how) -> None:
    x, w = (np.random.default_rng(0).standard_normal(s, np.float32).astype(ml_dtypes.bfloat16)
            for s in ((1, 34, 40, 40), (64, 34 // how.get("groups", 1), 3, 3)))
    target = Having((HAS,), "CpuDirectTiles", 16)

    def body(x, w):
        return tegg.conv2d(x, w, **how).relu()
    f = tegg.compile(lambda x: body(x, w), Generic(), Compiler(target=target, name="having"),
                     cache=False)
    assert "CpuDirectTiles" in f.program(x).explain()
    wide = [a.astype(np.float32) for a in (x, w)]
    want = np.asarray(tegg.compile(body, cache=False)(*wide))
    assert np.abs(np.asarray(f(x)).astype(np.float32) - want).max() <= 0.01 * np.abs(want).max()


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
