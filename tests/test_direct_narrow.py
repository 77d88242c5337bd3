"""Direct convolutions of bfloat16, in pairs and in tiles: what they compute, and where they are
offered."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kernels import build, call, check
from profiles import examples
from test_contraction_narrow import whole
from test_direct import ANY, convolution, fused, grouped, holding, tiled
from test_narrow_forms import Having, options

import tegg
from tegg.backends.cpu.direct import lower_direct
from tegg.backends.cpu.direct_templates import Direct, Slide, direct_templates
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.instructions import PAIRS, TILES
from tegg.dim import hint
from tegg.extract import extract
from tegg.extract.cost import load_costs
from tegg.ir.graph import Graph, Node
from tegg.ir.oracle import evaluate
from tegg.ir.template import Extents
from tegg.kernel.contraction_held import HELD
from tegg.rewrite.compiler import Bf16, Compiler, Generic
from tegg.rewrite.egraph import saturate
from tegg.runtime.driver import compile_graph, resolve
from tegg.testing.draw import Draw
from tegg.testing.kernels import random_inputs

FORMS = {"pairs": (PAIRS, "CpuDirectPairs"), "tiles": (TILES, "CpuDirectTiles")}
KINDS = pytest.mark.parametrize("kind", FORMS)
FORM = pytest.mark.parametrize("has, name", FORMS.values(), ids=FORMS)
ERROR = 2.0 ** -7  # of the sum of absolute terms: of each operand 2^-8, and of their product twice that


def lowered(kind: str, g: Draw, outputs: list[Node], anchor: Node, how: Direct):
    return lower_direct(g, outputs, [anchor], "k", C(how.width), holding(how, HELD[kind]))


def rounded(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # NaN
        return x.astype(ml_dtypes.bfloat16).astype(x.dtype)


# ---- kernels. Whole numbers have no rounding but that of sums; sizes of all kinds: test_direct.py
@settings(max_examples=examples(8), deadline=None)
@given(**ANY, seed=st.integers(0, 99), kind=st.sampled_from(sorted(FORMS)), deep=st.booleans())
def test_operands_are_rounded_to_nearest_even(kind, deep, n, c, o, size, taps, stride, dilation, pad, rows,
                                              vectors, seed) -> None:
    g = Draw()
    y = convolution(g, n, 8 * c if deep else c, o, size, taps, stride, dilation, pad)
    code = lowered(kind, g, [y], y, tiled(y, taps, stride, dilation, 16, rows, vectors))
    inputs = random_inputs(g, {}, seed)
    got, = call(build(code, 16), code, g, [y], inputs, {}, 2)
    want, = evaluate([y], {i: rounded(x) for i, x in inputs.items()}, {})
    size_, = evaluate([y], {i: np.abs(x) for i, x in inputs.items()}, {})
    assert (np.abs(got - want) <= (2e-6 if deep else 1e-6) * size_).all()


@KINDS
def test_ties_go_to_even(kind) -> None:
    """One tap of 1, all others of 0: results are the rounded operand."""
    bits = np.arange(0x3f800000, 0x3f800000 + (60 << 14), 1 << 14, dtype=np.uint32)
    x, w = np.zeros((1, 3, 4, 30), np.float32), np.zeros((16, 3, 1, 3), np.float32)
    x[0, 2] = np.concatenate([bits, bits | 0x80000000]).view(np.float32).reshape(4, 30)
    w[:, 2, 0, 1] = 1
    g = Draw()
    y = convolution(g, 1, 3, 16, (4, 30), (1, 3))
    code = lowered(kind, g, [y], y, tiled(y, (1, 3), vectors=1))
    got, = call(build(code, 16), code, g, [y], {0: x, 1: w}, {})
    assert (got == rounded(x)[:, 2:, :, 1:-1]).all()


@KINDS
@pytest.mark.parametrize("bad", (0x7f800001, 0x7fffffff, 0xff8fffff, 0x7f800000))
@pytest.mark.parametrize("channel", (0, 1, 34))
def test_nan_and_infinity_stay_what_they_are(kind, bad, channel) -> None:
    """Nor do they come to places whose windows have none."""
    g = Draw()
    y = convolution(g, 1, 35, 16, (4, 20), (3, 3), pad=1)
    inputs = {i: 1 + np.abs(x) for i, x in random_inputs(g, {}, 0).items()}
    inputs[0][0, channel, 1, 7] = np.uint32(bad).view(np.float32)
    code = lowered(kind, g, [y], y, tiled(y, (3, 3), vectors=1))
    got, = call(build(code, 16), code, g, [y], inputs, {})
    want, = evaluate([y], inputs, {})
    assert (np.isnan(got) == np.isnan(want)).all() and (np.isinf(got) == np.isinf(want)).all()


@KINDS
def test_what_lies_around_it_is_fused(kind) -> None:
    """Here operands are not whole numbers: an exponential, and halves."""
    out, c = fused(g := Draw(), 6, 21, 2)
    code, inputs = lowered(kind, g, [out], c, tiled(c, (3, 3), (2, 2))), random_inputs(g, {}, 0)
    got, = call(build(code, 16), code, g, [out], inputs, {}, 3)
    want, = evaluate([out], inputs, {})
    inputs[3][...], inputs[2][...] = 0, 0  # what is added to sums is not rounded
    inputs[1][...] = np.abs(inputs[1])
    size, = evaluate([out], inputs, {})
    assert (np.abs(got - want) <= 1.01 * ERROR * size + 1e-6).all()


@KINDS
@pytest.mark.parametrize("padded", (False, True))
def test_bfloat16_below_and_above(kind, padded) -> None:
    """What holds it is not rounded again, nor are zeros around it."""
    g = Draw()
    x, w = (g.x(*s, dtype="bf16") for s in ((1, 5, 9, 30), (20, 5, 3, 3)))
    v = g.cast(x, "f32")
    if padded:
        v = g.pad(v, (0, 0, 1, 1), (0, 0, 1, 1), 0)
    for axis in (2, 4):
        v = g.op("Window", v, axis, 3, 1, 1)
    c = g.op("Contract", g.cast(w, "f32"), v, "o,c,k,l;n,c,p,k,q,l;n,o,p,q",
             (1, 20, v.shape[2], v.shape[4]))
    out = g.cast(c, "bf16")
    code = lowered(kind, g, [out], c, tiled(c, (3, 3)))
    assert "keep_g2(" in code.source[code.source.index("k_join"):]
    check(g, [out], code=code)


@KINDS
def test_groups(kind) -> None:
    c = grouped(g := Draw(), 10)
    check(g, [c], code=lowered(kind, g, [c], c, tiled(c, (3, 3))), threads=(1, 2, 5),
          inputs=whole(g, {}))


@KINDS
def test_symbolic_rows_images_and_filters(kind) -> None:
    g, n, h, o = Draw(), tegg.dim("n", 0, 9), tegg.dim("h", 3, 99), tegg.dim("o", 1, 40)
    v = g.x(n, 3, h, 20)
    for axis in (2, 4):
        v = g.op("Window", v, axis, 3, 1, 1)
    c = g.op("Contract", g.x(o, 3, 3, 3), v, "o,c,k,l;n,c,p,k,q,l;n,o,p,q", (n, o, h - 2, 18))
    code = lowered(kind, g, [c], c, Direct((Slide(hint(h - 2), 3), Slide(18, 3)), 6, 1, 16))
    library = build(code, 16)
    for sizes in ({"n": 2, "h": 11, "o": 9}, {"n": 0, "h": 3, "o": 1}, {"n": 1, "h": 3, "o": 33}):
        check(g, [c], sizes, code=code, library=library, threads=(1, 3), inputs=whole(g, sizes))


@KINDS
def test_results_do_not_depend_on_threads(kind) -> None:
    g = Draw()
    c = convolution(g, 1, 71, 40, (9, 40), (3, 3), pad=1)
    code = lowered(kind, g, [c], c, tiled(c, (3, 3)))
    library, inputs = build(code, 16), random_inputs(g, {}, 0)
    first, *others = (call(library, code, g, [c], inputs, {}, n, False)[0] for n in (1, 2, 3, 7, 40))
    assert all(first.tobytes() == o.tobytes() for o in others)


# ---- where it is offered, and what wins
def graph(dtype: str = "f32", filters_first: bool = True, one: bool = False, c: int = 32) -> Graph:
    """A convolution by 3 x 3 taps, or by 5 along a row."""
    g = Graph()
    sizes = ((48, c, 5), (1, c, 60)) if one else ((48, c, 3, 3), (2, c, 30, 40))
    w, v = g.input("w", sizes[0], dtype, "weight"), g.input("x", sizes[1], dtype)
    for axis in (2,) if one else (2, 4):
        v = g.op("Window", v, axis, 5 if one else 3, 1, 1)
    a, b, out = ("o,c,l", "n,c,q,l", "n,o,q") if one else ("o,c,k,l", "n,c,p,k,q,l", "n,o,p,q")
    shape = (1, 48, 56) if one else (2, 48, 28, 38)
    g.outputs["y"] = g.op("Contract", *((w, v) if filters_first else (v, w)),
                          f"{a};{b};{out}" if filters_first else f"{b};{a};{out}", shape)
    g.inputs[0].source = np.random.default_rng(1).standard_normal(sizes[0], np.float32).astype(
        g.inputs[0].dtype.numpy)
    return g


def classes(g: Graph, target: Having, *more: Compiler):
    stack, _ = resolve(options(target, *more))
    return saturate(g, stack, features=("cpu", *target.features)).classes


def offered(name: str, *given) -> bool:
    return any(n.op.name == name for nodes in classes(*given).nodes.values() for n in nodes)


@FORM
def test_float32_is_rounded_only_where_a_compiler_says_so(has, name) -> None:
    assert offered(name, graph(), Having((has,)), Bf16())
    assert not offered(name, graph(), Having((has,)))
    assert offered(name, graph("bf16"), Having((has,)))
    assert not offered(name, graph("f16"), Having((has,)), Bf16())


@FORM
def test_what_a_machine_lacks_is_never_offered(has, name) -> None:
    others = tuple(other for other, _ in FORMS.values() if other != has)
    assert not offered(name, graph(), Having(others), Bf16())
    assert not offered(name, graph("bf16"), Having(others), Bf16())


class Zen4(Having):
    """With the profile that is shipped for one, whatever the machine."""

    def costs(self):
        return load_costs("cpu/zen4", 2)


@pytest.mark.parametrize("has, form", (((PAIRS,), "CpuDirectPairs"), ((), "CpuDirect")))
def test_the_cheapest_wins(has, form) -> None:
    target = Zen4(has, lanes=16)
    g = graph(c=64)
    cover = extract(classes(g, target, Bf16()), target.costs(), lowerable=target.unsupported)
    assert {n.op.name for k in cover.kernels for n in k.body.values() if n.op.template} == {form}


@FORM
@pytest.mark.parametrize("lanes", (16, pytest.param(8, marks=pytest.mark.long)))
@pytest.mark.parametrize("how", (
    dict(), dict(filters_first=False), dict(one=True), dict(c=7), dict(dtype="bf16")), ids=str)
def test_programs_of_it(how, lanes, has, name) -> None:
    g = graph(**how)
    run = compile_graph(g, options(Having((has,), name, lanes), Bf16()))
    assert name in run.explain()
    spec = g.inputs[1]
    x = np.random.default_rng(0).standard_normal(spec.shape, np.float32).astype(spec.dtype.numpy)
    got, (want,) = run(x)["y"], evaluate(g.outputs.values(), {0: g.inputs[0].source, 1: x})
    bound, = evaluate(g.outputs.values(), {0: np.abs(g.inputs[0].source), 1: np.abs(x)})
    assert got.dtype == want.dtype
    assert (np.abs(got.astype(np.float64) - want) <= 1.01 * ERROR * bound.astype(np.float64)).all()


@FORM
@pytest.mark.parametrize("how", (dict(padding=1), dict(stride=2, padding=1), dict(groups=2),
                                 dict(dilation=2)), ids=str)
def test_through_the_front_end(how, has, name) -> None:
    x, w = (np.random.default_rng(0).standard_normal(s, np.float32)
            for s in ((1, 34, 40, 40), (64, 34 // how.get("groups", 1), 3, 3)))
    target = Having((has,), name, 16)

    def stack(*more: Compiler) -> tuple[Compiler, ...]:
        return (Generic(), *more, Compiler(target=target, name="having"))

    def body(x):
        return tegg.conv2d(x, w, **how).relu()
    f = tegg.compile(body, *stack(Bf16()), cache=False)
    assert name in f.program(x).explain()
    want = np.asarray(tegg.compile(body, cache=False)(x))
    assert np.abs(np.asarray(f(x)) - want).max() <= 0.01 * np.abs(want).max()
    # arrays of bfloat16 are windows that are converted, and need no such compiler
    x, w = x.astype(ml_dtypes.bfloat16), w.astype(ml_dtypes.bfloat16)
    f = tegg.compile(body, *stack(), cache=False)
    assert name in f.program(x).explain()
    assert np.abs(np.asarray(f(x)).astype(np.float32) - want).max() <= 0.02 * np.abs(want).max()


def test_what_it_executes_counts_whole_pairs() -> None:
    op = next(o for o in direct_templates(16) if o.name == "CpuDirectPairs")
    assert op.template is not None
    done = op.template((None, None, 0, "56.3.1.1/56.3.1.1", 14, 2),
                       Extents(1, 64, 56 * 56, 65 * 9, tegg.f32))
    assert done.flops == 2 * 64 * 56 * 56 * 66 * 9
    assert done.packed == done.kept == 64 * 66 * 9 and done.itemsize == 2
