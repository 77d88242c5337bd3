"""Tiles: rows that lie as tiles hold them, blocks of few rows, and results that are stored in twos."""

from __future__ import annotations

import numpy as np
import pytest

from contractions import BYTES, NARROW, lowered, product
from kernels import build, check
from tegg.dim import dim
from tegg.dtype import f32
from tegg.kernel.contraction_shape import GemmShape, blocked
from tegg.kernel.registers import Registers
from tegg.testing.draw import Draw
from test_contraction_narrow import PLAYED, extreme, whole

COPIED = "kc % "  # what asks whether a row is whole lines


def halves(g: Draw, m, k, n: int = 40, x=None):
    """A product of bfloat16."""
    a = g.x(m, k, dtype="bf16") if x is None else x
    return product(g, g.cast(a, "f32"), g.cast(g.x(k, n, dtype="bf16"), "f32"), "a,k;k,n;a,n", m, n)


@pytest.mark.parametrize("flags", ((), PLAYED), ids=("here", "played"))
@pytest.mark.parametrize("m, k", ((70, 96), (64, 4160), (33, 70), (1, 64), (300, 1056)))
def test_rows_that_lie_as_tiles_hold_them_are_copied(m, k, flags) -> None:
    c = halves(g := Draw(), m, k)
    code = lowered(g, [c], [c], tile=NARROW["tiles"])
    assert COPIED in (code.core or code).source
    check(g, [c], inputs=whole(g, {}), code=code, threads=(1, 2), library=build(code, 16, flags))


def test_rows_of_bytes_too() -> None:
    g = Draw()
    x, y = g.x(70, 192, dtype="u8"), g.x(192, 40, dtype="i8")
    c = product(g, g.cast(x, "i32"), g.cast(y, "i32"), "a,k;k,n;a,n", 70, 40)
    form = next(n for n in BYTES if "tiles" in n)
    code = lowered(g, [c], [c], tile=BYTES[form])
    assert COPIED in code.source
    check(g, [c], inputs=extreme(g), code=code, threads=(1, 2))


def test_of_part_of_a_matrix() -> None:
    """Rows that begin anywhere and are further apart than they are long."""
    g = Draw()
    x = g.op("Slice", g.x(80, 131, dtype="bf16"), (3, 2), (73, 98), (1, 1))
    c = halves(g, 70, 96, x=x)
    code = lowered(g, [c], [c], tile=NARROW["tiles"])
    assert COPIED in code.source
    check(g, [c], inputs=whole(g, {}), code=code, threads=(1, 2))


def test_others_are_evaluated() -> None:
    """Rows of float32, rows that are computed, and columns of memory."""
    for kind in ("f32", "computed", "columns"):
        g = Draw()
        if kind == "columns":
            x = g.permute(g.x(96, 70, dtype="bf16"), (1, 0))
        else:
            x = g.x(70, 96, dtype="f32" if kind == "f32" else "bf16")
        wide = g.cast(x, "f32") if kind != "f32" else x
        wide = g.mul(wide, 2.0) if kind == "computed" else wide
        c = product(g, wide, g.cast(g.x(96, 40, dtype="bf16"), "f32"), "a,k;k,n;a,n", 70, 40)
        code = lowered(g, [c], [c], tile=NARROW["tiles"])
        assert COPIED not in code.source, kind
        check(g, [c], inputs=whole(g, {}), code=code)


def test_sizes_that_a_call_brings() -> None:
    """Blocks are deeper where it brings few rows, and rows that are whole lines are copied."""
    m, k = dim("m", 0, 1 << 20), dim("k", 0, 1 << 20)
    c = halves(g := Draw(), m, k)
    code = lowered(g, [c], [c], tile=NARROW["tiles"])
    assert "(S_m <= 64 ? 16 : (S_m <= 128 ? 8 : (S_k <= 1024 ? 4 : 1)))" in code.source
    library = build(code, 16)
    for sizes in ((64, 4160), (65, 4160), (128, 2080), (129, 2080), (300, 1500), (31, 5000), (0, 64), (40, 0)):
        at = dict(zip(("m", "k"), sizes))
        check(g, [c], at, whole(g, at), code=code, library=library, threads=(1, 2))


def test_blocks_that_hold_the_whole_depth_are_no_deeper() -> None:
    """Of any number of rows: what is asked in scratch memory is what they fill."""
    m = dim("m", 0, 1 << 20)
    for k, n in ((128, 100), (512, 4096), (1024, 40)):
        c = halves(g := Draw(), m, k, n)
        code = lowered(g, [c], [c], tile=NARROW["tiles"])
        assert "S_m <= " not in code.source
        for rows in (40, 300):
            check(g, [c], {"m": rows}, whole(g, {"m": rows}), code=code)


@pytest.mark.parametrize("rows, depth", ((32, 4096), (64, 4096), (96, 2048), (128, 2048),
                                         (129, 256), (1024, 256)))
def test_blocks_of_few_rows_are_deeper(rows: int, depth: int) -> None:
    """Few rows leave room in L2 for more of them."""
    shape = GemmShape(1, rows, (1024,), 1 << 14, f32)
    assert blocked(shape, NARROW["tiles"], Registers(16)).depth == depth
    whole = GemmShape(1, rows, (1024,), 1 << 10, f32)
    assert blocked(whole, NARROW["tiles"], Registers(16)).depth == 1024
    assert blocked(shape, NARROW["pairs"], Registers(16)).depth == 1024


@pytest.mark.parametrize("m", (64, 100, 300, 520))
@pytest.mark.parametrize("k, n", ((1024, 96), (600, 33), (260, 1100), (1100, 70)))
def test_tiles_of_rows_take_turns_at_parts_of_the_depth(m: int, k: int, n: int) -> None:
    """Four at a time, whose rows leave L1 to the panel; parts of rows are asked for before they are
    placed."""
    c = halves(g := Draw(), m, k, n)
    code = lowered(g, [c], [c], tile=NARROW["tiles"])
    text = (code.core or code).source
    assert "walk = rows > 4 * 32 ? 512 : rows > 32 ? 512 / 2 : kc;" in text
    assert "turn += 4 * 32" in text and "(row + r)" in text
    assert "tile_pass(4, a" in text and "tile_load(6, at" in text
    check(g, [c], inputs=whole(g, {}), code=code, threads=(1, 2))


# ---- results
def both(g: Draw, m: int, n: int):
    """A product in bfloat16, and what is made of it, in float32."""
    c = product(g, g.x(m, 64), g.x(64, n), "a,k;k,n;a,n", m, n)
    return c, [g.cast(g.mul(c, g.x(1, n)), "bf16"), g.mul(c, 2.0)]


@pytest.mark.parametrize("form", ("tiles", "pairs"))
@pytest.mark.parametrize("n", (32, 96, 70, 20))
def test_vectors_of_sixteen_bits_are_stored_in_twos(form: str, n: int) -> None:
    """Whole panels; what is left is stored one by one."""
    c, outputs = both(g := Draw(), 37, n)
    code = lowered(g, outputs, [c], tile=NARROW[form])
    assert "vg_store_pair(" in code.source and "k_out0_two(" in code.source
    check(g, outputs, inputs=whole(g, {}), code=code, threads=(1, 2))


def test_of_panels_of_an_odd_number_of_vectors_none_is() -> None:
    c, outputs = both(g := Draw(), 37, 96)
    code = lowered(g, outputs, [c], tile=NARROW["f16"])  # of three vectors
    assert "_two(" not in code.source
    check(g, outputs, inputs=whole(g, {}), code=code)


def test_nor_of_what_float32_holds() -> None:
    g = Draw()
    c = product(g, g.x(37, 64), g.x(64, 96), "a,k;k,n;a,n", 37, 96)
    assert "_two(" not in lowered(g, [c], [c], tile=NARROW["tiles"]).source


def test_subnormal_results_are_stored_as_numbers() -> None:
    g = Draw()
    c = product(g, g.x(32, 32), g.x(32, 32), "a,k;k,n;a,n", 32, 32)
    outputs = [g.cast(c, "bf16")]
    x = np.eye(32, dtype=np.float32)
    x[3, 3] = 2.0 ** -100
    y = np.full((32, 32), 2.0 ** -30, np.float32)
    check(g, outputs, inputs={0: x, 1: y}, code=lowered(g, outputs, [c], tile=NARROW["pairs"]))
