"""Products of plain operands: the same text at all sizes, and right at each."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tegg.backends.cpu import library, plain
from tegg.backends.cpu.lowering import lower_fragment
from tegg.backends.cpu.narrow_forms import narrow_templates
from tegg.backends.cpu.objects import anonymous
from tegg.backends.cpu.plain import generalized
from tegg.backends.cpu.program import Program, steps_of, with_barriers
from tegg.backends.cpu.target import Cpu
from tegg.backends.cpu.templates import templates

from tegg.dtype import DTYPES, bf16, f32, f64
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph
from tegg.ir.op import OPS
from tegg.kernel.registers import Registers
from tegg.planning.plan import Call

TARGET = Cpu(4)  # narrow vectors: small sizes have every kind of rest
FORMS = {"CpuPacked": (3, 2, 1), "CpuRows": (2, 1), "CpuDots": (2, 1, 1)}
NARROW = FORMS | {"CpuHalves": (bf16, 3, 2), "CpuPairs": (3, 2), "CpuTiles": (32, 2)}
ROWS = {o.name: o for o in (*templates(Registers(4)), *narrow_templates(4))}


@pytest.fixture(autouse=True, scope="module")
def all_are_large() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_LARGE", dict.fromkeys(plain._LARGE, 1))
        yield


def fragment(form: str, m: int, n: int, k: int, batch: int = 0, turned: bool = False,
             weight_first: bool = False, dtype: str = "f32", reshaped: bool = True,
             narrow: str = "", stored: str = "Cast") -> Fragment:
    """x @ y, or x @ y.T, of ``batch`` items; ``weight_first``: y is the first input. ``narrow``:
    dtype of the arrays, where sums are wider, which ``stored`` makes of them."""
    g = Graph(table={**OPS, **ROWS})
    b, letter = ((batch,), "z,") if batch else ((), "")
    shapes = {"x": (*b, m, k), "y": (*b, *((n, k) if turned else (k, n)))}
    made = {name: g.input(name, shapes[name], narrow or dtype)
            for name in (("y", "x") if weight_first else ("x", "y"))}
    if narrow:
        made = {name: g.op("Cast", x, f32) for name, x in made.items()}
    spec = f"{letter}a,c;{letter}{'b,c' if turned else 'c,b'};{letter}a,b,"
    out = g.op(form, made["x"], made["y"], spec, (*b, m, n, 1), *NARROW[form])
    result = g.reshape(out, (*b, m, n)) if reshaped else out
    return Fragment(g, (g.op(stored, result, DTYPES[narrow]) if narrow else result,), (out,))


def run(f: Fragment, arrays: list[np.ndarray], threads: int) -> np.ndarray:
    """The result of the kernel of a fragment, as a plan would run it."""
    code = TARGET.lower(f, "k0", frozenset())
    out = np.empty([int(n) for n in f.outputs[0].shape], arrays[0].dtype)
    temps = [np.empty(int(t.size), t.dtype.numpy) for t in code.temporaries]
    memory = [*arrays, out, *temps]
    call = Call(0, tuple(range(len(memory))), tuple(range(len(code.stages))), 1.0, "product")
    steps = with_barriers(steps_of([code], [call], ()), set())
    program = Program(steps, library.load([code], lanes=4).functions, ())
    program.run((ctypes.c_void_p * len(memory))(*(a.ctypes.data for a in memory)),
                (ctypes.c_int64 * 1)(), threads)
    return out


sizes = st.integers(1, 40)


@given(st.sampled_from(sorted(FORMS)), sizes, sizes, st.integers(1, 70), st.integers(0, 3),
       st.booleans(), st.booleans(), st.sampled_from(["f32", "f64"]), st.booleans(),
       st.integers(1, 3), st.integers(0, 1000))
@settings(max_examples=12)
def test_products_are_right_at_every_size(form, m, n, k, batch, turned, weight_first, dtype,
                                          reshaped, threads, seed):
    turned = turned or form == "CpuDots"  # which reads both along the depth
    f = fragment(form, m, n, k, batch, turned, weight_first, dtype, reshaped)
    kind = np.float32 if dtype == "f32" else np.float64
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-4, 5, s).astype(kind) for s in (f.anchors[0].args[0].shape,
                                                         f.anchors[0].args[1].shape))
    got = run(f, [y, x] if weight_first else [x, y], threads)
    wanted = x @ (y.swapaxes(-1, -2) if turned else y)  # sums of small integers are exact
    assert np.array_equal(got.reshape(wanted.shape), wanted)


@given(st.sampled_from(sorted(NARROW)), sizes, sizes, st.integers(1, 70), st.integers(0, 3),
       st.booleans(), st.booleans(), st.sampled_from(["bf16", "f16"]), st.booleans(),
       st.integers(1, 3), st.integers(0, 1000))
@settings(max_examples=12)
def test_arrays_in_16_bits_are_right_at_every_size(form, m, n, k, batch, turned, weight_first,
                                                   narrow, reshaped, threads, seed):
    check_narrow(fragment(form, m, n, k, batch, turned or form == "CpuDots", weight_first,
                          reshaped=reshaped, narrow=narrow), threads, seed)


@pytest.mark.parametrize("form, m, n, k", [("CpuTiles", 33, 100, 2100), ("CpuTiles", 300, 70, 1030),
                                           ("CpuTiles", 2, 4100, 5), ("CpuPairs", 4, 4097, 6)])
def test_blocks_follow_from_the_sizes_that_are_given(form, m, n, k):
    """A depth in several blocks, of few rows and of many; columns that are packed in long pieces."""
    for threads in (1, 3):
        check_narrow(fragment(form, m, n, k, narrow="bf16"), threads, 1)


def check_narrow(f: Fragment, threads: int, seed: int) -> None:
    """Sums of small integers are exact, and rounded where they are stored."""
    shapes = [a.shape for a in f.anchors[0].args]
    dtype = f.outputs[0].dtype
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-4, 5, s).astype(dtype.numpy) for s in shapes)
    first = f.anchors[0].args[0].args[0].attrs[0] == 0
    got = run(f, [x, y] if first else [y, x], threads)
    x, y = x.astype(np.float32), y.astype(np.float32)
    turned = "b,c" in f.anchors[0].attrs[0]
    wanted = (x @ (y.swapaxes(-1, -2) if turned else y)).astype(dtype.numpy)
    assert np.array_equal(got.reshape(wanted.shape), wanted)


def test_what_is_rounded_where_it_is_stored_is_the_same_text():
    cast, held = (TARGET.lower(fragment("CpuTiles", 64, 80, 96, narrow="bf16", stored=how), "k0",
                               frozenset({1})) for how in ("Cast", "Held"))
    assert held.given == cast.given == (64, 96, 80) and anonymous(held) == anonymous(cast)


def test_one_text_serves_many_sizes():
    codes = [TARGET.lower(fragment("CpuPacked", m, n, k), name, frozenset({1}))
             for name, m, n, k in (("k0", 900, 800, 1100), ("k1", 700, 900, 900),
                                   ("k7", 901, 803, 1009))]
    assert len({anonymous(c) for c in codes}) == 1
    assert [dict(zip("mkn", c.given)) for c in codes] == [
        dict(m=900, k=1100, n=800), dict(m=700, k=900, n=900), dict(m=901, k=1009, n=803)]
    assert all(not c.symbols and isinstance(t.size, int) for c in codes for t in c.temporaries)
    narrow = TARGET.lower(fragment("CpuPacked", 1, 800, 1100), "k0", frozenset({1}))
    assert narrow.given == (1100, 800)  # an axis of one element is none
    tiles = [TARGET.lower(fragment("CpuTiles", m, n, k, narrow="bf16"), "k0", frozenset({1}))
             for m, n, k in ((900, 800, 1100), (64, 5000, 900), (7, 33, 3000))]
    assert len({anonymous(c) for c in tiles}) == 1


@given(sizes, sizes, sizes, st.integers(0, 3))
@settings(max_examples=12)
def test_panels_take_the_room_that_these_sizes_need(m, n, k, batch):
    """As they do where the sizes are in the text, which can round."""
    f = fragment("CpuPacked", m, n, k, batch)
    kept = lower_fragment(f, "k0", frozenset(), TARGET.language)
    made = TARGET.lower(f, "k0", frozenset())
    assert [t.size for t in made.temporaries] == [t.size for t in kept.temporaries]


def test_small_products_keep_their_sizes(monkeypatch):
    monkeypatch.setattr(plain, "_LARGE", {"CpuPacked": 42, "CpuRows": 35})
    assert generalized(fragment("CpuPacked", 90, 6, 7)) is not None
    assert generalized(fragment("CpuPacked", 90, 41, 1)) is None
    assert generalized(fragment("CpuRows", 1, 41, 1)) is not None


def fused() -> Fragment:
    f = fragment("CpuPacked", 5, 6, 7)
    return Fragment(f.graph, (f.graph.op("Exp2", f.outputs[0]),), f.anchors)


def prologue() -> Fragment:
    g = Graph(table={**OPS, **ROWS})
    x, y = g.input("x", (5, 7), "f32"), g.input("y", (7, 6), "f32")
    out = g.op("CpuPacked", g.op("Exp2", x), y, "a,c;c,b;a,b", (5, 6), *FORMS["CpuPacked"])
    return Fragment(g, (out,), (out,))


def square() -> Fragment:
    g = Graph(table={**OPS, **ROWS})
    x = g.input("x", (5, 5), "f32")
    out = g.op("CpuPacked", x, x, "a,c;c,b;a,b", (5, 5), *FORMS["CpuPacked"])
    return Fragment(g, (out,), (out,))


def merged() -> Fragment:
    f = fragment("CpuPacked", 5, 6, 7, reshaped=False)
    return Fragment(f.graph, (f.graph.reshape(f.outputs[0], (30,)),), f.anchors)


def rounded() -> Fragment:
    """An operand that is rounded on the way."""
    g = Graph(table={**OPS, **ROWS})
    x, y = (g.op("Cast", g.input(name, (5, 5), dtype), f32)
            for name, dtype in (("x", "f64"), ("y", "bf16")))
    out = g.op("CpuPacked", x, y, "a,c;c,b;a,b", (5, 5), *FORMS["CpuPacked"])
    return Fragment(g, (out,), (out,))


def stored_wider() -> Fragment:
    f = fragment("CpuPacked", 5, 6, 7)
    return Fragment(f.graph, (f.graph.op("Cast", f.outputs[0], f64),), f.anchors)


@pytest.mark.parametrize("other", [fused, prologue, square, merged, rounded, stored_wider,
                                   lambda: fragment("CpuPacked", 0, 6, 7)])
def test_other_products_keep_their_sizes(other):
    assert generalized(other()) is None
