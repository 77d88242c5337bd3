"""Contraction kernels against the oracle, on guarded memory."""

from __future__ import annotations

import re

import pytest

from contractions import CASES, FORMS, SYMBOLIC, lowered, matmul, product, windows
from tegg.dim import dim
from tegg.kernel.contraction_held import HELD
from tegg.kernel.contraction_shape import BESIDE, Tile
from tegg.testing.draw import Draw
from kernels import build, check
from test_contraction_narrow import whole

SIZES = [dict(m=m, b=b, s=s) for m, b, s in (
    (0, 1, 0), (1, 0, 5), (7, 3, 1), (9, 1, 17), (128, 2, 40), (300, 1, 131))]


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    g = Draw()
    outputs, anchors = CASES[name](g)
    check(g, outputs, code=lowered(g, outputs, anchors))


@pytest.mark.parametrize("width", (8, 4))
@pytest.mark.parametrize("name", ("transposed_b", "transposed_a", "sliced", "rms_norm", "gated",
                                  "typed_f64_transposed", "typed_i8", "half_weights",
                                  "few_rows_transposed", "few_rows", "strided_convolution",
                                  "large_strided_convolution"))
def test_narrow_vectors(name: str, width: int) -> None:
    g = Draw()
    outputs, anchors = CASES[name](g)
    check(g, outputs, code=lowered(g, outputs, anchors, width), width=width)


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes(name: str) -> None:
    g = Draw()
    outputs, anchors = SYMBOLIC[name](g)
    code = lowered(g, outputs, anchors)
    for sizes in SIZES:
        check(g, outputs, sizes, code=code, library=build(code, 16))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ("gated", "rms_norm", "softmax_rows", "transposed_result", "heads",
                                  "projections", "typed_f64_transposed", "half_weights", "deep"))
def test_every_form_is_right_for_every_fragment(name: str, form: str) -> None:
    g = Draw()
    outputs, anchors = CASES[name](g)
    check(g, outputs, code=lowered(g, outputs, anchors, tile=FORMS[form]), threads=(1, 2, 3))


@pytest.mark.parametrize("form", ("packed", "wide", "passing"))
def test_several_blocks_of_rows_and_of_the_depth(form: str) -> None:
    g = Draw()
    c = matmul(g, g.x(301, 1043), g.x(1043, 75))
    out = g.add(c, g.expand(g.x(75), (301, 75)))
    code = lowered(g, [out], [c], tile=FORMS[form])
    assert "k_ask" not in code.source  # 90 KB stay near
    check(g, [out], code=code, threads=(1, 2, 3))


@pytest.mark.parametrize("width", (8, 16))
@pytest.mark.parametrize("constant", ((), (1,)))
@pytest.mark.parametrize("m, k, n", [(13, 1024, 40), (100, 2048, 33), (31, 1040, 300)])
def test_rows_that_are_pages_apart_are_put_side_by_side(m, k, n, constant, width) -> None:
    """They share few sets of a cache; with AVX-512 it holds them. Others are read where they lie, but
    for a last tile of few."""
    g = Draw()
    c = matmul(g, g.x(m, k), g.x(k, n))
    code = lowered(g, [c], [c], width, Tile("packed", 6, 2), constant=constant)
    text = (code.core or code).source
    apart = r"\S+ \* 4 % 4096 \? rows / 6 \* 6 : 0" if width == 8 else r"rows / 6 \* 6"
    assert re.search(f"whole = {apart};", text)
    check(g, [c], code=code, width=width, threads=(1, 2, 3), slack=3.0)


@pytest.mark.parametrize("n", (16, 24, 250, 256, 272, 290))
@pytest.mark.parametrize("k", (1, 7, 8, 30))
@pytest.mark.parametrize("width", (8, 16))
def test_panels_are_filled_to_the_last_of_any_number_of_columns(width, k, n) -> None:
    g = Draw()
    c = matmul(g, g.x(70, k), g.x(k, n))
    code = lowered(g, [c], [c], width, Tile("packed", 6, 2), constant=(1,))
    assert len(code.stages) == 2, "B is packed by a stage of its own"
    check(g, [c], code=code, width=width, threads=(1, 3), slack=2.0)


@pytest.mark.parametrize("form", ("packed", "rows", "dots", "packed parts"))
def test_a_row_is_reduced_once_for_all_that_is_made_of_it(form: str) -> None:
    """The sum of exponentials is given the maximum."""
    g = Draw()
    outputs, anchors = CASES["softmax_rows"](g)
    code = lowered(g, outputs, anchors, tile=FORMS[form])
    source = (code.core.source if code.core else "") + code.source
    assert source.count("vf_hmax(") == 1 and "r1[i] = " in source and "r0[i]);" in source


@pytest.mark.parametrize("columns", (75, 400))
def test_cuts_of_a_deep_product_are_wide_where_rows_are_put_in_place_for_each(columns) -> None:
    """As wide as makes that little: A lies by columns, and is turned."""
    g = Draw()
    c = product(g, g.x(1043, 70), g.x(1043, columns), "k,a;k,n;a,n", 70, columns)
    code = lowered(g, [c], [c], tile=FORMS["wide"])
    assert "even > 5 ? even : 5" in (code.core or code).source  # 5 panels of 64 columns for 5 operations
    check(g, [c], code=code, threads=(1, 2, 3))
    lies = lowered(g, [d := matmul(g, g.x(70, 1043), g.x(1043, columns))], [d], tile=FORMS["wide"])
    assert "even > 5" not in (lies.core or lies).source


@pytest.mark.parametrize("width", (4, 8, 16))
def test_columns_side_by_side_have_room_for_their_places(width: int) -> None:
    """Eight columns are more than four lanes: what they are counted by holds all of them."""
    g = Draw()
    c = matmul(g, g.x(1, 65), g.permute(g.x(256, 65), (1, 0)))
    code = lowered(g, [c], [c], width, Tile("dots", 1, asked=BESIDE))
    found = re.findall(r"int64_t n0_\[(\d+)\];\s+for \(int c = 0; c < (\d+);", code.source)
    assert found == [("8", "8")]
    check(g, [c], code=code, width=width)


def test_results_that_go_far_are_asked_for() -> None:
    g = Draw()
    c = matmul(g, g.x(523, 40), g.x(40, 531))
    code = lowered(g, [c], [c], tile=FORMS["wide"])
    assert "k_ask0(" in code.source
    check(g, [c], code=code, threads=(1, 2))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ("symbolic_heads", "symbolic_depth", "symbolic_outer"))
def test_every_form_with_symbolic_sizes(name: str, form: str) -> None:
    g = Draw()
    outputs, anchors = SYMBOLIC[name](g)
    code = lowered(g, outputs, anchors, tile=FORMS[form])
    for sizes in SIZES:
        check(g, outputs, sizes, code=code, library=build(code, 16))


def gated(g: Draw, rows: int, depth: int, columns: int):
    """Two products that one group sums, with what both are added to."""
    x = g.x(rows, depth)
    a, b = (matmul(g, x, g.x(depth, columns)) for _ in range(2))
    return [g.add(g.mul(a, b), g.expand(g.x(columns), (rows, columns)))], [a, b]


@pytest.mark.parametrize("rows, depth, columns, width, vectors", [
    (1, 300, 128, 16, 4), (1, 300, 200, 16, 4), (1, 9001, 131, 16, 4), (3, 3001, 260, 16, 4),
    (2, 40, 64, 16, 4), (2, 300, 75, 8, 3), (1, 40, 75, 4, 2)])
def test_rows_of_one_tile_meet_two_panels_at_once(rows, depth, columns, width, vectors) -> None:
    """As many as are left: even and odd numbers of panels, a last one that falls short, a depth
    that takes several blocks."""
    g = Draw()
    outputs, anchors = gated(g, rows, depth, columns)
    code = lowered(g, outputs, anchors, width, Tile("packed", rows, vectors), constant=(1, 2))
    assert (f"k_product_{2 * vectors}(kc" in code.source) == (columns > vectors * width)
    check(g, outputs, code=code, width=width, threads=(1, 2, 3))


@pytest.mark.parametrize("held", ("bf16", "pairs"))
def test_so_do_rows_whose_panels_are_narrow(held: str) -> None:
    g = Draw()
    outputs, anchors = gated(g, 2, 301, 330)
    code = lowered(g, outputs, anchors, tile=Tile("packed", 2, 4, held=HELD[held]))
    assert "k_product_8(kc" in code.source
    check(g, outputs, code=code, threads=(1, 2, 3), slack=1000)


def test_panels_that_are_read_once_are_asked_for_a_page_on() -> None:
    g = Draw()
    near, far = (lowered(g, *gated(g, 1, k, 128), tile=Tile("packed", 1, 4),
                         constant=(1, 2, 5, 6)).source for k in (40, 1000))
    assert "fetch_run" not in near
    assert far.count("+ 4288);") == 2  # the last line of a step, of both panels
    unknown = lowered(g, *gated(g, 1, dim("s", 0, 4096, hint=4), 128), tile=Tile("packed", 1, 4),
                      constant=(9, 10))
    assert unknown.source.count("+ 4288);") == 2


@pytest.mark.parametrize("width", (16, 8, 4))
@pytest.mark.parametrize("channels, size, taps, filters", [
    (5, (6, 33), (2, 3), 40), (16, (3, 18), (1, 2), 33), (7, (4, 23), (2, 2), 3), (1, (2, 4), (2, 2), 9)])
def test_rows_of_windows_are_turned_with_the_taps_of_other_channels(width, channels, size, taps,
                                                                    filters) -> None:
    """As many terms at once as a vector has lanes, whole vectors of rows and what is left of them;
    and one variable counts columns whose results lie side by side."""
    g = Draw()
    c = windows(g, channels, size, taps, filters)
    code = lowered(g, [c], [c], width, FORMS["packed"])
    assert ("k_a_m_left(" in code.source) == (taps[1] < width)
    assert "const int64_t n0 = 0; int64_t n1 = first + j;" in code.source
    check(g, [c], code=code, width=width, threads=(1, 3))


@pytest.mark.parametrize("held", ("bf16", "f16", "pairs"))
def test_so_are_narrow_rows(held: str) -> None:
    g = Draw()
    c = windows(g, 9, (3, 30), (2, 3), 20)
    code = lowered(g, [c], [c], tile=Tile("packed", 5, 2, held=HELD[held]))
    assert "k_a_m_left(" in code.source
    check(g, [c], code=code, threads=(1, 2), inputs=whole(g, {}))


def test_columns_are_counted_apart_where_what_is_added_follows_one_of_them() -> None:
    g = Draw()
    c = windows(g, 5, (6, 33), (2, 3), 40)
    out = g.add(c, g.expand(g.reshape(g.x(40), (1, 1, 40, 1)), c.shape))
    code = lowered(g, [out], [c], tile=FORMS["packed"])
    assert "const int64_t n0 = 0;" not in code.source
    check(g, [out], code=code)
    turned = g.permute(c, (2, 0, 1, 3))  # the two of each filter stay together
    code = lowered(g, [turned], [c], tile=FORMS["packed"])
    assert "const int64_t n0 = 0;" not in code.source
    check(g, [turned], code=code)
