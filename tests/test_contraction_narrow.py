"""Products whose operands are held in 8 and 16 bits, against the oracle, on guarded memory."""

from __future__ import annotations


from dataclasses import replace

import numpy as np
import pytest

from contractions import BYTES, CASES, NARROW, SYMBOLIC, lowered, product
from tegg.backends.cpu import toolchain
from tegg.backends.cpu.contraction_narrow import span
from tegg.dim import dim, evaluate as size_of
from tegg.dtype import f32
from tegg.cache import default
from tegg.errors import BackendError, LoweringError
from tegg.ir.graph import Node
from tegg.kernel.contraction_shape import GemmShape, blocked
from tegg.kernel.registers import Registers
from tegg.testing.draw import Draw
from kernels import build, check
from tegg.testing.kernels import random_inputs

SIZES = [dict(m=m, b=b, s=s) for m, b, s in (
    (0, 1, 0), (1, 0, 5), (7, 3, 1), (9, 1, 17), (128, 2, 40), (300, 1, 131))]
PLAYED = ("-mno-avx512bf16", "-mno-avx512vnni", "-DTEGG_PLAYED_TILES")
LOOSE = 1000  # times the tolerance of float32, for operands that are rounded to eight bits


def crossed(names, forms) -> list:
    """Every name with every form; each form with every third name where time is short."""
    return [pytest.param(name, form, marks=[] if (i + j) % 3 == 0 else [pytest.mark.long])
            for i, name in enumerate(names) for j, form in enumerate(forms)]


def whole(g: Draw, sizes, seed: int = 0) -> dict[int, np.ndarray]:
    """Small whole numbers: exact in 16 bits, and so are sums of their products in float32."""
    out = random_inputs(g, sizes, seed)
    return {i: np.clip(np.round(3 * a), -8, 8).astype(a.dtype) if a.dtype.kind == "f" else a
            for i, a in out.items()}


EXACT = ("plain", "transposed_b", "transposed_a", "transposed_result", "batched", "heads",
         "merged_heads", "sliced", "padded", "padded_with_one", "gathered", "part_of_result",
         "stored_thrice", "repeated_result", "projections", "deep", "outer", "no_depth", "no_rows",
         "matrix_vector", "few_rows_transposed", "convolution", "strided_convolution",
         "typed_bf16", "typed_f16")


@pytest.mark.parametrize("name, form", crossed(EXACT, NARROW))
def test_whole_numbers_are_exact(name: str, form: str) -> None:
    g = Draw()
    outputs, anchors = CASES[name](g)
    tile = NARROW[form]
    check(g, outputs, inputs=whole(g, {}), code=lowered(g, outputs, anchors, tile=tile),
          slack=LOOSE if name == "few_rows_transposed" else 1.0, threads=(1, 2, 3))


ROUNDED = ("scaled_exponents", "rms_norm", "layer_norm_transposed", "softmax_rows", "bias_gelu",
           "gated", "norms_of_both", "half_weights")


@pytest.mark.parametrize("name, form", crossed(ROUNDED, NARROW))
def test_operands_are_rounded_and_nothing_else(name: str, form: str) -> None:
    g = Draw()
    outputs, anchors = CASES[name](g)
    check(g, outputs, code=lowered(g, outputs, anchors, tile=NARROW[form]), slack=LOOSE)


@pytest.mark.parametrize("name, form", crossed((
    "symbolic_reshaped", "symbolic_heads", "symbolic_scores", "symbolic_values", "symbolic_depth",
    "symbolic_outer"), NARROW))
def test_symbolic_sizes(name: str, form: str) -> None:
    g = Draw()
    outputs, anchors = SYMBOLIC[name](g)
    code = lowered(g, outputs, anchors, tile=NARROW[form])
    for sizes in SIZES:
        check(g, outputs, sizes, whole(g, sizes), code=code, library=build(code, 16))


@pytest.mark.parametrize("width", (16, pytest.param(8, marks=pytest.mark.long), 4))
@pytest.mark.parametrize("name, form", crossed((
    "transposed_b", "transposed_a", "sliced", "projections", "convolution", "deep"), NARROW))
def test_played_instructions(name: str, form: str, width: int) -> None:
    """The same in C, as on a CPU that has neither instruction."""
    g = Draw()
    outputs, anchors = CASES[name](g)
    code = lowered(g, outputs, anchors, width, NARROW[form])
    check(g, outputs, inputs=whole(g, {}), code=code, width=width,
          library=build(code, width, PLAYED))


# ---- bytes
def half_product(g: Draw, turned: bool) -> Node:
    """A product of bfloat16, one operand within zeros, and the other one turned or not."""
    x, w = g.x(19, 75, dtype="bf16"), g.x(*((37, 77) if turned else (77, 37)), dtype="bf16")
    x = g.pad(g.cast(x, "f32"), (0, 1), (0, 1), 0)
    return product(g, x, g.cast(w, "f32"), f"a,k;{'n,k' if turned else 'k,n'};a,n", 19, 37)


@pytest.mark.parametrize("turned", (False, True))
@pytest.mark.parametrize("form", ("bf16", "pairs", "tiles"))
def test_what_sixteen_bits_hold_already_is_kept(form: str, turned: bool) -> None:
    """And not rounded once more, which NaN and infinity survive as well."""
    c = half_product(g := Draw(), turned)
    code = lowered(g, [c], [c], tile=NARROW[form])
    body = code.source[code.source.index("k_pack"):]
    assert "keep_g2(" in body and "put_g2(" not in body
    assert ("vg_keep(" in code.source[code.source.index("k_fill"):]) == (form != "bf16")
    inputs = whole(g, {})
    check(g, [c], inputs=inputs, code=code, threads=(1, 2))
    for bits, at in ((0x7f81, (3, 5)), (0xff80, (7, 9)), (0xffff, (18, 74))):
        inputs[0].view(np.uint16)[at] = bits
    with np.errstate(invalid="ignore"):
        check(g, [c], inputs=inputs, code=code)


@pytest.mark.parametrize("form", ("pairs", "tiles"))
def test_what_is_computed_from_sixteen_bits_is_rounded(form: str) -> None:
    g = Draw()
    x, w = (g.cast(g.x(*s, dtype="bf16"), "f32") for s in ((19, 40), (40, 37)))
    c = product(g, g.mul(x, 1.5), g.add(w, 0.25), "a,k;k,n;a,n", 19, 37)
    source = lowered(g, [c], [c], tile=NARROW[form]).source
    for part, kept in (("k_fill", "vg_keep("), ("k_pack", "keep_g2(")):
        assert kept not in source[source.index(part):]


@pytest.mark.parametrize("form", ("bf16", "pairs", "tiles"))
def test_what_is_cast_to_sixteen_bits_is_rounded_once(form: str) -> None:
    """To nearest even, not cut off: one element of each sum is 1 + 3/256, and all others are 0."""
    g = Draw()
    x, w = (g.cast(g.cast(g.mul(g.x(*s), 1 + 3 / 256), "bf16"), "f32") for s in ((32, 32), (32, 32)))
    c = product(g, x, w, "a,k;k,n;a,n", 32, 32)
    check(g, [c], inputs={0: np.eye(32, dtype=np.float32), 1: np.eye(32, dtype=np.float32)},
          code=lowered(g, [c], [c], tile=NARROW[form]))


def bytes_product(g: Draw, m: int, k: int, n: int, x: str = "u8", y: str = "i8",
                  transposed: bool = False):
    """Integers of 32 bits that come from bytes: the first operand unsigned."""
    a = g.cast(g.x(k, m, dtype=x) if transposed else g.x(m, k, dtype=x), "i32")
    b = g.cast(g.x(n, k, dtype=y) if transposed else g.x(k, n, dtype=y), "i32")
    return product(g, a, b, "k,a;n,k;a,n" if transposed else "a,k;k,n;a,n", m, n)


def extreme(g: Draw) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(0)
    out = {}
    for slot, spec in enumerate(g.inputs):
        shape = tuple(size_of(d, {}) for d in spec.shape)
        if spec.dtype.is_float:
            out[slot] = rng.standard_normal(shape).astype(spec.dtype.numpy)
        else:
            limits = np.iinfo(spec.dtype.numpy)
            out[slot] = rng.choice([limits.min, limits.max, 1, 3],
                                   shape).astype(spec.dtype.numpy)
    return out


@pytest.mark.parametrize("flags", ((), PLAYED), ids=("here", "played"))
@pytest.mark.parametrize("sizes, form", crossed((
    (50, 300, 70), (1, 1, 1), (33, 65, 17), (5, 0, 4), (16, 2100, 3)), BYTES))
def test_bytes_are_exact(sizes, form: str, flags) -> None:
    for transposed in (False, True):
        for turned in (False, True):
            g = Draw()
            c = bytes_product(g, *sizes, transposed=transposed)
            outputs = [g.permute(c, (1, 0)) if turned else c, g.mul(g.cast(c, "f32"), 0.5)]
            outputs = outputs[:1] if turned else outputs
            code = lowered(g, outputs, [c], tile=BYTES[form])
            check(g, outputs, inputs=extreme(g), code=code, threads=(1, 2, 3),
                  library=build(code, 16, flags))


@pytest.mark.parametrize("form", BYTES)
@pytest.mark.parametrize("width", (8, 4))
def test_bytes_of_narrow_vectors(width: int, form: str) -> None:
    g = Draw()
    c = bytes_product(g, 50, 70, 30)
    code = lowered(g, [c], [c], width, BYTES[form])
    check(g, [c], inputs=extreme(g), code=code, width=width)


def test_the_instructions_of_tiles_are_known_to_assemblers() -> None:
    """They are compiled where nothing can run them."""
    amx = ("-mamx-tile", "-mamx-bf16", "-mamx-int8")
    if "x86-64" not in toolchain.find().features or not _accepts(amx):
        pytest.skip("the compiler knows no AMX")
    for tile in (NARROW["tiles"], *(t for n, t in BYTES.items() if "tiles" in n)):
        g = Draw()
        c = (CASES["plain"](g)[0][0] if tile.held.panel.is_float
             else bytes_product(g, 50, 70, 30))
        code = lowered(g, [c], [c], tile=tile)
        assert "tiles_begin();" in code.source
        build(code, 16, amx)


def _accepts(flags) -> bool:
    found = toolchain.find()
    try:
        replace(found, flags=(*found.flags, *flags)).shared_object(
            default(), {"probe": "int x;"}, "a probe")
    except BackendError:
        return False
    return True


def test_one_operand_is_unsigned_in_all_products() -> None:
    g = Draw()
    x = g.cast(g.x(20, 30, dtype="u8"), "i32")
    first = product(g, x, g.cast(g.x(30, 8, dtype="i8"), "i32"), "a,k;k,n;a,n", 20, 8)
    second = product(g, g.cast(g.x(6, 30, dtype="u8"), "i32"), x, "n,k;a,k;a,n", 20, 6)
    with pytest.raises(LoweringError, match="unsigned in one and signed in another"):
        lowered(g, [first, second], [first, second], tile=BYTES["bytes"])


def test_few_rows_of_tiles_have_room_for_the_sums_of_more_panels() -> None:
    tiles = blocked(GemmShape(1, 1024, (1024,), 4096, f32), NARROW["tiles"], Registers(16))
    few = blocked(GemmShape(1, 64, (1024,), 4096, f32), NARROW["tiles"], Registers(16))
    assert span(tiles, 1024) == str(tiles.span) and span(few, 64) == str(few.span)
    tall = "(S_m + 31) / 32 * 32"
    assert span(tiles, dim("m", 0, 9999)) == f"({tiles.span * 256} / ({tall} < 256 ? {tall} : 256))"
    assert few.span == tiles.span * 256 // 64
