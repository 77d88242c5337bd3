"""Products whose second operand is read where it lies, against the oracle, on guarded memory."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from contractions import lowered, matmul
from kernels import build, check
from profiles import examples
import tegg
from tegg.backends.cpu.contraction_lying import _CLOSE
from tegg.dim import dim
from tegg.ir.graph import Node
from tegg.kernel.code import KernelCode
from tegg.kernel.contraction_held import HELD
from tegg.kernel.contraction_shape import Tile
from tegg.planning.target import find
from tegg.testing.draw import Draw

TILE = Tile("packed", 5, 2)


def lies(code: KernelCode) -> bool:
    """Whether a kernel may read B where it lies."""
    return "const int lies = " in (code.core or code).source


def ended(g: Draw, c: Node, end: str) -> Node:
    n = c.shape[-1]
    if end == "bias":
        return g.op("Exp2", g.mul(g.add(c, g.expand(g.x(n), c.shape)), 0.125))
    return g.add(g.x(*c.shape), c) if end == "beside" else g.mul(c, 0.5)


@settings(max_examples=examples(40))
@given(st.integers(1, 40), st.integers(1, 100), st.integers(1, 90), st.sampled_from([4, 8, 16]),
       st.sampled_from(["bias", "beside", "scaled"]),
       st.sampled_from(["f32", "f32", "f64", "i32", "i8"]),
       st.integers(1, 3), st.integers(0, 99))
def test_right_at_every_size(m, k, n, width, end, dtype, terms, seed) -> None:
    g = Draw()
    x = g.x(m, k, dtype=dtype)
    found = [matmul(g, x, g.x(k, n, dtype=dtype)) for _ in range(terms)]
    total = found[0]
    for c in found[1:]:
        total = g.add(total, c)
    outputs = [ended(g, total, end)] if dtype == "f32" else [total]
    code = lowered(g, outputs, found, width, TILE)
    narrow = width < 16 and m > 2 * TILE.rows
    assert lies(code) or 1 in (m, k, n) or (m > 24 and k <= 64) or narrow
    assert not (lies(code) and narrow)
    check(g, outputs, code=code, width=width, threads=(1, 2, 3), slack=2.0, seed=seed)


@pytest.mark.parametrize("m, k, n", [
    (300, 70, 160),    # whole vectors, several blocks of rows
    (301, 1043, 75),   # several blocks of the depth, rows that lie across lines: packed
    (40, 1043, 75),    # the same read where it lies, but for the last panel
    (60, 300, 1024),   # rows a page apart: packed
    (9, 300, 1024),    # of few rows not
    (12, 5, 16), (3, 40, 10000), (500, 66, 32)])
def test_several_blocks_and_what_is_packed_after_all(m, k, n) -> None:
    g = Draw()
    c = matmul(g, g.x(m, k), g.x(k, n))
    out = ended(g, c, "bias")
    code = lowered(g, [out], [c], tile=Tile("packed", 6, 4))
    assert lies(code)
    check(g, [out], code=code, threads=(1, 2, 3, 5), slack=2.0)


def test_several_pieces_of_columns_and_of_the_depth_at_once() -> None:
    g = Draw()
    n = 3 * _CLOSE // 4 // 1024 // 16 * 16  # some pieces of a block of the depth
    c = matmul(g, g.x(20, 1500), g.x(1500, n))
    code = lowered(g, [c], [c], tile=TILE)
    check(g, [c], code=code, threads=(1, 2), slack=3.0)


def test_any_number_of_rows_and_columns_after_compilation() -> None:
    g = Draw()
    m, n, k = dim("m", 0, 4096, hint=64), dim("n", 0, 8192, hint=100), dim("k", 0, 4096, hint=70)
    c = matmul(g, g.x(m, k), g.x(k, n))
    out = ended(g, c, "bias")
    code = lowered(g, [out], [c], tile=TILE)
    assert lies(code)
    library = build(code, 16)
    for sizes in ((0, 5, 5), (5, 0, 5), (5, 5, 0), (1, 1, 1), (64, 96, 33), (200, 100, 60),
                  (130, 1024, 40), (1100, 48, 20), (7, 1024, 300)):
        check(g, [out], dict(zip("mnk", sizes)), code=code, library=library, slack=2.0)


@pytest.mark.parametrize("own", (True, False))
def test_a_batch(own: bool) -> None:
    g = Draw()
    z = (3,)
    b = g.x(*z, 40, 50) if own else g.x(40, 50)
    spec = "z,a,k;z,k,n;z,a,n" if own else "z,a,k;k,n;z,a,n"
    c = g.op("Contract", g.permute(g.x(21, 3, 40), (1, 0, 2)), b, spec, (3, 21, 50))
    code = lowered(g, [c], [c], tile=TILE)
    assert lies(code) == own  # else rows of A are those of all items, and two variables
    check(g, [c], code=code, threads=(1, 2, 4))


def test_rows_that_are_cut_out_of_others() -> None:
    """B begins anywhere, its rows end before the next ones do, and nothing between is read."""
    g = Draw()
    b = g.slice(g.x(30, 90), (3, 27, 1), (7, 83, 1))
    c = matmul(g, g.x(20, 24), b)
    code = lowered(g, [c], [c], tile=TILE)
    assert lies(code)
    check(g, [c], code=code, threads=(1, 2))


def test_threads_share_vectors_and_not_panels() -> None:
    """784 columns are 49 vectors: of two threads each has half of them, whatever a panel holds."""
    g = Draw()
    c = matmul(g, g.x(20, 300), g.x(300, 784))
    source = lowered(g, [c], [c], tile=Tile("packed", 8, 3)).core.source
    assert "unit = lies && S_columns % 16 == 0 ? 16 : 48" in source
    assert "k_core_product_1(" in source and "k_core_product_2(" in source
    check(g, [c], code=lowered(g, [c], [c], tile=Tile("packed", 8, 3)), threads=(1, 2, 3, 7))


@pytest.mark.parametrize("m, k, n", [(20, 300, 784), (40, 1043, 75), (300, 300, 1024),
                                     (300, 600, 1040)])  # the last lies where two share it
def test_bits_do_not_depend_on_threads(monkeypatch, m, k, n) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    found = set()
    for threads in ("1", "2", "3", "5"):
        monkeypatch.setenv("TEGG_THREADS", threads)
        f = tegg.compile(lambda x, y: x @ y + 1.0, cache=False)
        found.add(f(x, y).tobytes())
        assert ("const int lies = " in f.source()) == (find("cpu").language.width == 16)
    assert len(found) == 1


@pytest.mark.parametrize("why", ("constant", "computed", "turned", "narrow", "parts", "rows",
                                 "two groups"))
def test_where_it_is_packed(why: str) -> None:
    g = Draw()
    x, b = g.x(2000 if why == "rows" else 20, 30), g.x(30, 40)
    if why == "computed":
        b = g.mul(b, 2.0)
    elif why == "turned":
        b = g.permute(g.x(40, 30), (1, 0))
    c = matmul(g, x, b)
    held = HELD["bf16"] if why == "narrow" else None
    tile = Tile("packed", 5, 2, 2 if why == "parts" else 1, held=held)
    both = [c, matmul(g, x, g.x(30, 60))] if why == "two groups" else [c]
    code = lowered(g, both, both, tile=tile, constant=(1,) if why == "constant" else ())
    assert not lies(code)
    check(g, both, code=code, slack=1000.0 if held else 1.0)


def test_what_results_read_beside_sums_is_asked_for() -> None:
    """It is waited for; stores are not, and are asked for where nothing is read."""
    g = Draw()
    c = matmul(g, g.x(600, 64), g.x(64, 800))
    asked = {}
    for end in ("beside", "bias", "scaled"):
        source = lowered(g, [ended(g, c, end)], [c], tile=TILE).source
        (asked[end],) = set(re.findall(r"fetch_(read|write)\(", source))
    assert asked == dict(beside="read", bias="write", scaled="write")
