"""Products over loops that are compiled apart: right at every size, one core for many programs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from contractions import FORMS, NARROW
from hypothesis import given, settings, strategies as st
from kernels import build, check
from profiles import examples

from tegg.backends.cpu import contraction_ends
from tegg.backends.cpu.contraction import lower_contraction
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.objects import anonymous
from tegg.cache import content_key
from tegg.dim import dim
from tegg.dtype import DTYPES, bf16, f32, f64
from tegg.ir.graph import Node
from tegg.kernel.code import KernelCode
from tegg.kernel.contraction_held import HELD
from tegg.kernel.contraction_shape import Tile
from tegg.testing.draw import Draw
from tegg.testing.kernels import random_inputs

Fragment = tuple[Draw, list[Node], list[Node]]


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(contraction_ends, "_LARGE", 1)
    monkeypatch.setattr(contraction_ends, "_DEEP", 1)
    yield


def lower(f: Fragment, form: str = "packed", name: str = "k", **more) -> KernelCode:
    g, outputs, anchors = f
    return lower_contraction(g, outputs, anchors, name, C(4), FORMS[form], **more)


def operand(g: Draw, how: str, free: int, k: int) -> Node:
    """A free x k matrix that is, or is computed from, an input."""
    if how == "turned":
        return g.permute(g.x(k, free), (1, 0))
    if how in DTYPES:
        return g.op("Cast", g.x(free, k, dtype=how), f32)
    if how == "halves turned":
        return g.permute(g.op("Cast", g.x(k, free, dtype="bf16"), f32), (1, 0))
    if how == "cut":
        return g.slice(g.x(free + 2, k + 3), (1, free + 1, 1), (2, k + 2, 1))
    x = g.x(free, k)
    if how == "computed":
        return g.op("Exp2", g.mul(x, 0.125))
    if how == "normed":  # by a sum of each row
        return g.mul(x, g.expand(g.op("Recip", g.add(
            g.op("SumReduce", g.mul(x, x), 1), 1.0)), (free, k)))
    return x


def product(how_a: str, how_b: str, end: str, m, n: int, k: int) -> Fragment:
    g = Draw()
    a, b = operand(g, how_a, m, k), operand(g, how_b, n, k)
    c = g.op("Contract", a, b, "a,k;n,k;a,n", (m, n))
    if end == "bias":
        out = g.op("Exp2", g.mul(g.add(c, g.expand(g.x(1, n), (m, n))), 0.125))
    elif end == "beside":
        out = g.add(g.x(m, n), c)
    elif end == "turned":
        out = g.mul(g.permute(c, (1, 0)), 2.0)
    else:
        out = g.reshape(g.mul(c, 0.5), (m, 1, n))
    return g, [out], [c]


hows = st.sampled_from(["plain", "turned", "cut", "bf16", "f16", "halves turned"])
ends = st.sampled_from(["bias", "beside", "turned", "reshaped"])
sizes = st.integers(1, 40)


@settings(max_examples=examples(25))
@given(st.sampled_from(["packed", "passing"]), hows | st.sampled_from(["computed", "normed"]), hows,
       ends, sizes, st.integers(2, 40), st.integers(2, 90), st.booleans(), st.integers(0, 99))
def test_right_at_every_size(form, how_a, how_b, end, m, n, k, constant, seed) -> None:
    g, outputs, _ = made = product(how_a, how_b, end, m, n, k)
    code = lower(made, form, constant=frozenset({1}) if constant else frozenset())
    assert code.core is not None or how_a in ("computed", "normed") and end == "turned"
    check(g, outputs, width=4, threads=(1, 3), slack=2.0, code=code, seed=seed)


@settings(max_examples=examples(25))
@given(hows | st.sampled_from(["computed", "normed"]), st.sampled_from(["bf16", "halves turned"]),
       st.sampled_from(["bias", "beside", "reshaped"]), sizes, st.integers(2, 40),
       st.integers(2, 90), st.integers(0, 99))
def test_panels_in_16_bits_are_right_at_every_size(how_a, how_b, end, m, n, k, seed) -> None:
    g, outputs, anchors = product(how_a, how_b, end, m, n, k)
    code = lower_contraction(g, outputs, anchors, "k", C(4),
                             Tile("packed", 5, 2, held=HELD["bf16"]), frozenset({1}))
    assert code.core is not None and code.core.temporaries[0].dtype is bf16
    check(g, outputs, width=4, threads=(1, 3), slack=2.0, code=code, seed=seed)


@settings(max_examples=examples(25))
@given(st.sampled_from(["pairs", "tiles", "low tiles"]),
       hows | st.sampled_from(["computed", "normed"]), hows, ends, sizes, st.integers(2, 90),
       st.integers(2, 90), st.booleans(), st.integers(0, 99))
def test_rows_in_16_bits_are_right_at_every_size(form, how_a, how_b, end, m, n, k, constant,
                                                 seed) -> None:
    g, outputs, anchors = product(how_a, how_b, end, m, n, k)
    constants = frozenset({1}) if constant else frozenset()
    code = lower_contraction(g, outputs, anchors, "k", C(16), NARROW[form], constants)
    assert code.core is not None or how_a in ("computed", "normed") and end == "turned"
    rounds = how_a in ("computed", "normed")  # what else is small whole numbers does not
    inputs = {i: np.clip(np.round(x), -8, 8).astype(x.dtype) for i, x in random_inputs(
        g, {}, seed).items()}
    check(g, outputs, inputs=inputs, threads=(1, 3), slack=1000.0 if rounds else 2.0, code=code)


def of_a_batch(how_a: str, how_b: str, end: str, z: tuple[int, ...], m: int, n: int,
               k: int) -> Fragment:
    """A product for each item of a batch, with one B for all or one for each."""
    letters = "xyz"[:len(z)]
    g = Draw()
    a = g.x(*z, m, k)
    if how_a == "turned":
        a = g.permute(g.x(k, *z, m), (*range(1, len(z) + 2), 0))
    elif how_a == "normed":
        a = g.mul(a, g.expand(g.op("Recip", g.add(
            g.op("SumReduce", g.mul(a, a), len(z) + 1), 1.0)), (*z, m, k)))
    own = z if how_b != "shared" else ()
    if how_b == "turned":
        b = g.permute(g.x(*own, k, n), (*range(len(own)), len(own) + 1, len(own)))
    elif how_b == "halves":
        b = g.op("Cast", g.x(*own, n, k, dtype="bf16"), f32)
    else:
        b = g.x(*own, n, k)
    spec = f"{','.join([*letters, 'a', 'k'])};{','.join([*letters[:len(own)], 'n', 'k'])};" \
           f"{','.join([*letters, 'a', 'n'])}"
    c = g.op("Contract", a, b, spec, (*z, m, n))
    out = g.add(g.x(*z, m, n), c) if end == "beside" else g.op("Exp2", g.mul(c, 0.125))
    if end == "heads":  # side by side in a row
        out = g.permute(g.mul(c, 0.5), (len(z), *range(len(z)), len(z) + 1))
    return g, [out], [c]


@settings(max_examples=examples(25))
@given(st.sampled_from(["rows", "dots"]), st.sampled_from(["plain", "turned", "normed"]),
       st.sampled_from(["shared", "plain", "halves"]), st.sampled_from(["beside", "exp", "heads"]),
       st.lists(st.integers(1, 4), max_size=2), st.integers(1, 5), st.integers(1, 80),
       st.integers(1, 60), st.integers(0, 99))
def test_few_rows_are_right_at_every_size(form, how_a, how_b, end, z, m, n, k, seed) -> None:
    how_b = "turned" if form == "rows" else how_b
    g, outputs, _ = made = of_a_batch(how_a, how_b, end, tuple(z), m, n, k)
    code = lower(made, form)
    assert code.core is not None or 1 in (n, k, *z)
    check(g, outputs, width=4, threads=(1, 3), slack=2.0, code=code, seed=seed)


@pytest.mark.parametrize("form", ["packed", "passing", "dots"])
def test_sums_may_be_wider_than_both_operands(form) -> None:
    g = Draw()
    a, b = g.op("Cast", g.x(9, 40, dtype="bf16"), f64), g.op("Cast", g.x(31, 40), f64)
    c = g.op("Contract", a, b, "a,k;n,k;a,n", (9, 31))
    out = g.mul(c, 0.5)
    code = lower((g, [out], [c]), form)
    assert code.core is not None
    check(g, [out], width=4, threads=(1, 3), slack=2.0, code=code)


@pytest.mark.parametrize("form, how_b", [("rows", "turned"), ("dots", "plain"),
                                         ("dots", "halves")])
def test_a_core_asks_for_what_lies_far_as_its_program_says(form, how_b) -> None:
    far, farther, near = (lower(of_a_batch("normed", how_b, "exp", (8,), 1, *sizes), form)
                          for sizes in ((256, 128), (512, 128), (60, 50)))
    assert far.core and farther.core and near.core
    assert anonymous(far.core) == anonymous(farther.core) != anonymous(near.core)
    assert "fetch_run" in far.core.source and "fetch_run" not in near.core.source


@pytest.mark.parametrize("form, how_b", [("rows followed", "turned"), ("dots followed", "plain")])
def test_a_core_leaves_to_hardware_what_its_program_does(form, how_b) -> None:
    made = of_a_batch("normed", how_b, "exp", (8,), 1, 256, 128)
    asked, followed = (lower(made, f) for f in (form.split()[0], form))
    assert asked.core and followed.core
    assert "fetch_run" in asked.core.source and "fetch_run" not in followed.core.source
    g, outputs, _ = made
    check(g, outputs, width=4, code=followed, threads=(1, 2), slack=2.0)


def test_rows_may_be_a_size_that_a_call_brings() -> None:
    g, outputs, _ = made = product("plain", "turned", "bias", dim("m", 0, 100), 30, 17)
    code = lower(made)
    assert code.core is not None and code.symbols == ("m",)
    for m in (0, 1, 33):
        check(g, outputs, {"m": m}, width=4, slack=2.0, code=code)


def test_a_depth_of_several_axes() -> None:
    """Heads of a result: rows are computed, for they are no matrix."""
    g = Draw()
    x = g.reshape(g.permute(g.x(3, 20, 8), (1, 0, 2)), (20, 24))
    c = g.op("Contract", x, g.x(24, 14), "a,k;k,n;a,n", (20, 14))
    out = g.mul(c, 0.5)
    code = lower((g, [out], [c]))
    assert code.core is not None and "k_fills" in code.source
    check(g, [out], width=4, slack=2.0, code=code)


def test_one_core_serves_many_programs() -> None:
    codes = [lower(product("plain", "turned", *more), name=f"k{i}") for i, more in enumerate((
        ("bias", 90, 80, 70), ("beside", 33, 50, 81), ("reshaped", 27, 9, 11)))]
    assert len({anonymous(c.core) for c in codes if c.core}) == 1
    assert len({anonymous(c) for c in codes}) == len(codes)
    assert all(f"// Over {content_key(anonymous(c.core))}." in c.source for c in codes if c.core)
    library = build(codes, 4)
    assert len({library.functions[c.core.name] for c in codes if c.core}) == 1


def test_one_core_of_tiles_serves_any_number_of_rows() -> None:
    codes = [lower_contraction(*product("bf16", "bf16", "bias", m, n, 70), f"k{m}", C(16),
                               NARROW["tiles"], frozenset({1}))
             for m, n in ((700, 80), (64, 5000), (9, 33))]
    assert len({anonymous(c.core) for c in codes if c.core}) == 1
    rows, panels = (next(c.source.split("given[] = {")[1].split("}")[0].split(", ")
                         for c in codes if c.name == name) for name in ("k700", "k64"))
    assert rows != panels  # sizes, and how many panels have room for sums, are given


def test_the_same_ends_over_other_loops_are_another_text() -> None:
    made = product("plain", "turned", "bias", 90, 80, 70)
    codes = [lower(made, form) for form in ("packed", "wide")]
    assert len({anonymous(c.core) for c in codes if c.core}) == 2
    assert len({anonymous(c) for c in codes}) == 2


def batched() -> Fragment:
    g = Draw()
    c = g.op("Contract", g.x(3, 9, 8), g.x(3, 8, 7), "z,a,k;z,k,n;z,a,n", (3, 9, 7))
    return g, [g.mul(c, 2.0)], [c]


def beside_a_reduction() -> Fragment:
    """The results need a sum of each row of something else."""
    g, _, (c,) = product("plain", "turned", "bias", 9, 7, 8)
    total = g.op("SumReduce", g.x(9, 5), 1)
    return g, [g.add(c, g.expand(total, (9, 7)))], [c]


@pytest.mark.parametrize("made, form", [
    (batched(), "packed"), (beside_a_reduction(), "packed"),
    (product("plain", "computed", "bias", 9, 7, 8), "packed"),
    (product("plain", "turned", "bias", 9, dim("n", 0, 50), 8), "packed"),
    (product("plain", "plain", "bias", 9, 7, 8), "rows"),
    (product("plain", "turned", "bias", 9, 7, 8), "packed parts")])
def test_other_products_are_one_text(made: Fragment, form: str) -> None:
    assert lower(made, form).core is None


def test_small_products_are_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    made = product("plain", "turned", "bias", 9, 7, 8)
    monkeypatch.setattr(contraction_ends, "_LARGE", 56)
    assert lower(made).core is not None
    monkeypatch.setattr(contraction_ends, "_LARGE", 57)
    assert lower(made).core is None
    monkeypatch.setattr(contraction_ends, "_LARGE", 1)
    monkeypatch.setattr(contraction_ends, "_DEEP", 9)
    assert lower(made).core is None
