"""Convolutions in transformed tiles against the oracle, on guarded memory; and where they go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kernels import check
from profiles import examples

import tegg
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.winograd import lower_winograd
from tegg.backends.cpu.winograd_forms import Tiles, WinogradForms, group_of
from tegg.dtype import f32, f64
from tegg.errors import LoweringError
from tegg.ir.graph import Node
from tegg.ir.oracle import evaluate
from tegg.kernel.registers import Registers
from tegg.runtime.driver import Options, compile_graph
from tegg.testing.draw import Draw

SLACK = 400.0  # transforms round some ten times as often as sums do, and cancel


def windows(g: Draw, x: Node, kernel: int = 3, stride: int = 1) -> Node:
    """(..., h, w) -> (..., p, 3, q, 3)"""
    axis = len(x.shape) - 2
    return g.op("Window", g.op("Window", x, axis, kernel, stride, 1), axis + 2, kernel, stride, 1)


def convolution(g: Draw, n: int, c: int, o: int, h: int, w: int, pad: int = 1) -> Node:
    x = g.pad(g.x(n, c, h, w), (0, 0, pad, pad), (0, 0, pad, pad), 0)
    v = windows(g, x)
    return g.op("Contract", g.x(o, c, 3, 3), v, "o,c,k,l;n,c,p,k,q,l;n,o,p,q",
                (n, o, v.shape[2], v.shape[4]))


def lowered(g: Draw, outputs: list[Node], anchor: Node, width: int = 16, rows: int = 5,
            vectors: int = 2):
    down, across = anchor.shape[-2:]
    return lower_winograd(g, outputs, [anchor], "k", C(width),
                          Tiles(rows, vectors, width, down, across))


SIZES = ((1, 3, 4, 4, 4), (2, 5, 7, 7, 9), (1, 2, 11, 30, 70), (3, 4, 3, 5, 131), (1, 2, 2, 2, 8),
         (1, 3, 35, 16, 2), (0, 3, 4, 4, 4),
         (1, 8, 18, 2, 2), (1, 2, 3, 3, 2), (1, 4, 1, 6, 6))  # as many results as terms


@pytest.mark.parametrize("width", (16, 8, 4))
@pytest.mark.parametrize("sizes", SIZES)
def test_sizes_that_no_tile_divides(sizes, width) -> None:
    g = Draw()
    c = convolution(g, *sizes)
    check(g, [c], code=lowered(g, [c], c, width), width=width, threads=(1, 2, 3), slack=SLACK)


@settings(max_examples=examples(8), deadline=None)
@given(n=st.integers(1, 3), c=st.integers(1, 9), o=st.integers(1, 40), h=st.integers(2, 20),
       w=st.integers(2, 80), pad=st.integers(1, 3), rows=st.integers(1, 8),
       vectors=st.integers(1, 3))
def test_any_size(n, c, o, h, w, pad, rows, vectors) -> None:
    g = Draw()
    y = convolution(g, n, c, o, h, w, pad)
    check(g, [y], code=lowered(g, [y], y, 16, rows, vectors), slack=SLACK)


def test_what_lies_around_it_is_fused() -> None:
    g = Draw()
    x, w, b = g.x(2, 4, 10, 21), g.x(6, 4, 3, 3), g.x(6)
    v = windows(g, g.pad(g.op("Exp", x), (0, 0, 1, 1), (0, 0, 1, 1), 0))
    c = g.op("Contract", g.mul(w, 0.5), v, "o,c,k,l;n,c,p,k,q,l;n,o,p,q", (2, 6, 10, 21))
    bias = g.expand(g.reshape(b, (1, 6, 1, 1)), c.shape)
    out = g.add(g.add(c, bias), g.x(2, 6, 10, 21))
    check(g, [out], code=lowered(g, [out], c), slack=SLACK)


def test_groups() -> None:
    g = Draw()
    v = windows(g, g.x(2, 3, 4, 9, 12))
    c = g.op("Contract", g.x(3, 5, 4, 3, 3), v, "g,o,c,k,l;n,g,c,p,k,q,l;n,g,o,p,q",
             (2, 3, 5, 7, 10))
    check(g, [c], code=lowered(g, [c], c), threads=(1, 2, 5), slack=SLACK)


@pytest.mark.parametrize("sizes", [(2, 5, 9, 23, 40), (1, 5, 140, 9, 9), (3, 4, 70, 3, 3)])
def test_results_do_not_depend_on_threads(sizes) -> None:
    """Few tiles and many filters: threads share the filters."""
    from kernels import build, call
    from tegg.testing.kernels import random_inputs
    g = Draw()
    c = convolution(g, *sizes)
    code = lowered(g, [c], c)
    library, inputs = build(code, 16), random_inputs(g, {}, 0)
    first, *others = (call(library, code, g, [c], inputs, {}, n, False, None)[0]
                      for n in (1, 2, 3, 7))
    assert all(first.tobytes() == o.tobytes() for o in others)


@pytest.mark.parametrize("width", (16, 8, 4))
def test_tiles_of_several_rows_and_images_share_vectors(width) -> None:
    g = Draw()
    c = convolution(g, 5, 3, 20, 6, 9)
    code = lowered(g, [c], c, width, 4, 1)
    assert Tiles(4, 1, width, 6, 9).most == max(1, width // 3)
    check(g, [c], code=code, width=width, threads=(1, 2, 4), slack=SLACK)


@given(st.integers(1, 2000), st.integers(1, 16))
def test_filters_are_padded_to_less_than_a_group(m, rows) -> None:
    group, groups = group_of(m, rows)
    assert 0 <= group * groups * rows - m < group * rows
    assert group == 1 or group * rows < 32 + rows


# ---- what is none
def test_other_contractions_are_refused() -> None:
    g = Draw()
    v = windows(g, g.x(1, 4, 9, 12), stride=2)
    c = g.op("Contract", g.x(5, 4, 3, 3), v, "o,c,k,l;,c,p,k,q,l;,o,p,q", (1, 5, *v.shape[2:5:2]))
    with pytest.raises(LoweringError, match="no array of windows"):
        lowered(g, [c], c)


def test_a_single_row_of_places_is_refused() -> None:
    g = Draw()
    c = convolution(g, 1, 2, 2, 1, 8)
    with pytest.raises(LoweringError, match="no array of windows"):
        lowered(g, [c], c)


def test_two_results_are_refused() -> None:
    g = Draw()
    v = windows(g, g.x(4, 9, 12))
    a, b = (g.op("Contract", g.x(5, 4, 3, 3), v, "o,c,k,l;c,p,k,q,l;o,p,q", (5, 7, 10))
            for _ in range(2))
    with pytest.raises(LoweringError, match="is one contraction"):
        lower_winograd(g, [a, b], [a, b], "k", C(16), Tiles(4, 2, 16, 7, 10))


def test_reductions_beside_it_are_refused() -> None:
    g = Draw()
    c = convolution(g, 1, 4, 5, 6, 6)
    total = g.op("SumReduce", g.x(1, 5, 9, 1), 2)
    out = g.add(c, g.expand(total, c.shape))
    with pytest.raises(LoweringError, match="computes no reductions"):
        lowered(g, [out], c)


def test_a_symbolic_number_of_filters_is_refused() -> None:
    g = Draw()
    n = tegg.dim("o", 1, 64)
    v = windows(g, g.x(4, 9, 12))
    c = g.op("Contract", g.x(n, 4, 3, 3), v, "o,c,k,l;c,p,k,q,l;o,p,q", (n, 7, 10))
    with pytest.raises(LoweringError, match="known number of channels"):
        lowered(g, [c], c)


# ---- through the front end
def conv(x, w):
    return tegg.conv2d(x, w, padding=1).relu()


def forms(*stack) -> str:
    x, w = (np.random.default_rng(0).standard_normal(s, np.float32)
            for s in ((1, 32, 40, 40), (32, 32, 3, 3)))
    f = tegg.compile(lambda x: conv(x, w), *stack, cache=False)
    plain = tegg.compile(lambda x: conv(x, w), cache=False)(x)
    got = f(x)
    np.testing.assert_allclose(got, plain, atol=2e-5 * float(np.abs(plain).max()))
    return f.program(x).explain()


def test_only_a_stack_that_admits_it_has_it() -> None:
    assert "CpuWinograd" in forms(tegg.Generic(), tegg.Winograd())
    assert "CpuWinograd" not in forms(tegg.Generic())


def test_which_are_worth_a_look() -> None:
    said = WinogradForms(Registers(16))._tiles
    spec, shapes = "o,c,k,l;c,p,k,q,l;o,p,q", ((64, 64, 3, 3), (64, 56, 3, 56, 3))
    assert said(shapes, spec, f32, 0, 1, 3) == (0, 56, 56, 8, 3)
    assert said(shapes, spec, f64, 0, 1, 3) is None
    few = ((8, 64, 3, 3), shapes[1])
    assert said(few, spec, f32, 0, 1, 3) is None


# ---- windows of another dtype
@pytest.mark.parametrize("dtype", ["u8", "f16", "f64"])
@pytest.mark.parametrize("stack, form, worst", [
    ((tegg.Generic(),), "CpuDirect", 1e-5),
    ((tegg.Generic(), tegg.Winograd()), "CpuWinograd", 1e-4)], ids=("direct", "winograd"))
def test_windows_are_seen_through_a_conversion(dtype, stack, form, worst):
    """Images of bytes, say, which are converted while rows are put in place."""
    g = Draw()
    v, w = g.x(2, 16, 30, 40, dtype=dtype), g.x(48, 16, 3, 3)
    for axis in (2, 4):
        v = g.window(v, axis, 3)
    g.outputs["y"] = g.op("Contract", w, g.cast(v, "f32"), "o,c,k,l;n,c,p,k,q,l;n,o,p,q",
                          (2, 48, 28, 38))
    random = np.random.default_rng(0)
    x = random.integers(0, 200, (2, 16, 30, 40)).astype(g.inputs[0].dtype.numpy)
    filters = random.standard_normal((48, 16, 3, 3), np.float32)
    run = compile_graph(g, Options(stack, cache=False))
    assert [c.label for c in run.plan.run] == [form]
    (want,) = evaluate(g.outputs.values(), {0: x, 1: filters})
    assert np.abs(run(x, filters)["y"] - want).max() <= worst * np.abs(want).max()
