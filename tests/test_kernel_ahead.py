"""Memory that is asked for ahead: what, where, and that it changes no result."""

from __future__ import annotations

import re

import numpy as np
import pytest
from contractions import lowered, product
from kernels import build, call, check

from tegg.backends.cpu.emit import C
from tegg.ir.graph import Node
from tegg.kernel.lower import lower
from tegg.kernel.contraction_shape import BESIDE, Tile, dots_at_once
from tegg.kernel.registers import Registers
from tegg.testing.draw import Draw
from tegg.testing.kernels import random_inputs


def softmax(g: Draw, x: Node) -> Node:
    top = g.expand(g.op("MaxReduce", x, 1), x.shape)
    e = g.op("Exp", g.sub(x, top))
    return g.op("Div", e, g.expand(g.op("SumReduce", e, 1), x.shape))


def requests(outputs: list[Node], g: Draw) -> dict[str, list[int]]:
    """The requests for memory, in order, without a constant: the constants."""
    out: dict[str, list[int]] = {}
    for text in re.findall(r"fetch_\w+\(.*\);", lower(g, outputs, "k", C(16)).source):
        constant = re.search(r" \+ (\d+)\)\);$", text)
        plain = text[:constant.start()] + "));" if constant else text
        out.setdefault(plain, []).append(int(constant[1]) if constant else 0)
    return out


def asked(outputs: list[Node], g: Draw) -> list[str]:
    """The first request of each kind, as it stands in the source."""
    return [text[:-3] + f" + {at[0]}));" if at[0] else text
            for text, at in requests(outputs, g).items()]


def test_passes_over_a_row_ask_for_the_next_one_and_for_what_they_write() -> None:
    g = Draw()
    y = softmax(g, g.x(512, 1024))
    assert asked([y], g) == ["fetch_read(b0 + (i0 * 1024 + i1 + 1024));",
                             "fetch_write(b1 + (i0 * 1024 + i1));"]
    check(g, [y])


def test_it_is_done_where_most_is_computed() -> None:
    g = Draw()
    lines = lower(g, [softmax(g, g.x(512, 1024))], "k", C(16)).source.splitlines()
    first = next(i for i, x in enumerate(lines) if "fetch_" in x)
    loop = next(x for x in lines[first:] if "vf_max" in x or "v_exp" in x)
    assert "v_exp" in loop


def squares(g: Draw, rows: int, columns: int) -> Node:
    """Each row over the sum of its squares."""
    x = g.x(rows, columns)
    return g.op("Div", x, g.expand(g.op("SumReduce", g.mul(x, x), 1), x.shape))


@pytest.mark.parametrize("rows, turns", [(256, (1, 1)), (2048, (0, 1))])
def test_of_rows_far_away_the_first_pass_reads_and_the_second_writes(rows, turns) -> None:
    """Memory is at work in both; what stays near is asked for where most is computed."""
    g = Draw()
    y = squares(g, rows, 1024)
    found, turn = {}, -1
    for line in lower(g, [y], "k", C(16)).source.splitlines():
        turn += "for (int64_t i1 = 0" in line
        for use in ("read", "write"):
            if f"fetch_{use}" in line:
                found[use] = turn
    assert (found["read"], found["write"]) == turns
    check(g, [y])


def test_a_pass_that_computes_for_long_asks_for_all_wherever_it_is() -> None:
    g = Draw()
    lines = lower(g, [softmax(g, g.x(8192, 1024))], "k", C(16)).source.splitlines()
    loops = [i for i, x in enumerate(lines) if "for (int64_t i1 = 0" in x]
    fetches = [i for i, x in enumerate(lines) if "fetch_" in x]
    assert all(loops[1] < i < loops[2] for i in fetches)


def test_a_long_row_asks_for_the_next_page() -> None:
    g = Draw()
    y = g.op("Exp", g.x(1 << 18))
    assert asked([y], g) == ["fetch_read(b0 + (i0 + 1024));", "fetch_write(b1 + (i0 + 1024));"]
    check(g, [y])


@pytest.mark.parametrize("dtype, bytes", [("f32", 4), ("f64", 8), ("i64", 8), ("f16", 2), ("u8", 1)])
def test_each_line_is_asked_for_once(dtype, bytes) -> None:
    """A vector of wide elements lies in two lines, several of narrow ones in one."""
    g = Draw()
    x = g.x(512, 1 << 11, dtype=dtype)
    for at in requests([g.add(x, g.expand(g.x(512, 1, dtype=dtype), x.shape))], g).values():
        assert at == list(range(at[0], at[0] + 64, 64 // bytes))


def test_a_row_that_is_gathered_from_is_asked_for_whole() -> None:
    g = Draw()
    rows, at = g.x(512, 1000), g.x(512, 1000, dtype="i64")
    inside = g.named("Minimum", g.named("Maximum", at, 0), 999)
    flat = g.add(inside, g.mul(g.along(512, 0, 2), 1000))
    y = g.op("Gather", g.reshape(rows, (512_000,)), flat, 0)
    assert "fetch_read(b0 + (i0 * 1000 + i1 + 1000));" in asked([y], g)
    check(g, [y])


def test_what_all_rows_share_is_asked_for_once_and_never_again() -> None:
    g = Draw()
    x, b = g.x(512, 1024), g.x(1024)
    y = g.mul(x, g.expand(g.reshape(b, (1, 1024)), x.shape))
    assert all("b1" not in line for line in asked([y], g))


@pytest.mark.parametrize("rows, columns", [(4, 1024), (64, 8192)])
def test_what_is_near_or_does_not_stay_near_is_not_asked_for(rows, columns) -> None:
    g = Draw()
    assert not asked([softmax(g, g.x(rows, columns))], g)


@pytest.mark.parametrize("columns", (1000, 1023, 33))
def test_rows_that_no_vector_divides(columns) -> None:
    g = Draw()
    y = softmax(g, g.x((1 << 18) // columns, columns))
    assert asked([y], g)
    check(g, [y])


def operand(keys: int, wide: int, apart: bool, form: str, asks: bool = True) -> list[str]:
    """What scores, or sums of values, of 8 heads ask for: keys by heads, or heads by keys."""
    g = Draw()
    b = g.x(*((keys, 8, wide) if apart else (8, keys, wide)))
    spec = "kbn" if apart else "bkn"
    if form == "dots":
        c = product(g, g.x(8, 1, wide), b, f"b,a,n;{','.join(spec)};b,a,k", 8, 1, keys)
    else:
        c = product(g, g.x(8, 1, keys), b, f"b,a,k;{','.join(spec)};b,a,n", 8, 1, wide)
    code = lowered(g, [c], [c], tile=Tile(form, asked=asks))
    check(g, [c], code=code)
    return [x.strip() for x in code.source.splitlines() if "fetch_run" in x]


@pytest.mark.parametrize("form, along, over", [("dots", "k0", "n0"), ("rows", "n0", "k0")])
def test_an_operand_that_is_read_where_it_lies_asks_for_runs_a_page_on(form, along, over) -> None:
    assert operand(256, 64, False, form) == [
        f"fetch_run(b0 + ({along} + {over} * 64 + z0 * 16384 + {16 * 64}));"]
    # runs of other heads lie between: as many runs on, not as many bytes
    assert operand(256, 64, True, form) == [
        f"fetch_run(b0 + ({along} + z0 * 64 + {over} * 512 + {16 * 512}));"]
    assert not operand(200, 64, False, form)  # it stays near


@pytest.mark.parametrize("form", ("dots", "rows"))
@pytest.mark.parametrize("keys, wide", [(256, 64), (3, 8192), (20, 1000)])
def test_an_operand_that_hardware_follows_is_not_asked_for(keys, wide, form) -> None:
    assert not operand(keys, wide, False, form, asks=False)


@pytest.mark.parametrize("form, k, n, one, several", [
    ("dots", 2048, 300, "j0 += 1)", "j0 += 4)"),
    ("rows", 300, 2048, "the only row meets all of B", "< 8 ? 1 : 8;")])
def test_one_row_goes_through_what_is_asked_for_in_its_order(form, k, n, one, several) -> None:
    """And through what hardware follows in several runs side by side."""
    g = Draw()
    x, y = g.x(1, k), g.x(*((n, k) if form == "dots" else (k, n)))
    c = product(g, x, y, f"a,k;{'n,k' if form == 'dots' else 'k,n'};a,n", 1, n)
    for asked_for in (True, False):
        code = lowered(g, [c], [c], tile=Tile(form, asked=asked_for))
        text = (code.core or code).source
        assert (one in text) == asked_for and ("fetch_run(b1" in text) == asked_for
        assert several in text or asked_for
        check(g, [c], code=code, threads=(1, 2))


def test_of_long_runs_it_asks_for_the_next_page() -> None:
    assert operand(3, 8192, False, "dots") == [
        "fetch_run(b0 + (k0 + n0 * 8192 + z0 * 24576 + 1024));"]


def test_of_longer_runs_it_asks_for_no_more_than_stays_near() -> None:
    assert operand(20, 1000, False, "dots") == [
        "fetch_run(b0 + (k0 + n0 * 1000 + z0 * 20000 + 4000));"]  # of four runs the next four
    assert operand(10, 2048, False, "dots") == [
        "fetch_run(b0 + (k0 + n0 * 2048 + z0 * 20480 + 1024));"]  # which would be too much here
    assert operand(20, 1000, False, "rows") == [
        "fetch_run(b0 + (n0 + k0 * 1000 + z0 * 20000 + 8000));"]


def test_rows_that_are_too_long_for_a_page_of_each_turn_to_those_that_come_next() -> None:
    """Eight are read side by side: each asks a part of a page on, and past its end of the rows
    after them what stands where the part begins."""
    g = Draw()
    c = product(g, g.x(1, 1, 20), g.x(1, 20, 8192), "b,a,k;b,k,n;b,a,n", 1, 1, 8192)
    code = lowered(g, [c], [c], tile=Tile("rows"))
    check(g, [c], code=code)
    source = (code.core or code).source
    (asked,) = [x.strip() for x in source.splitlines() if "fetch_run" in x]
    assert asked == "fetch_run(b1 + (n0 + k0 * 8192));"
    assert ("const int64_t on = j + 256 < columns ? 256 : 256 - columns, later = on > 0 ? 0 : 8;"
            in source)
    assert "n0 + on, k0 + later + u);" in source
    assert not operand(20, 64, False, "rows"), "these stay near"


@pytest.mark.parametrize("columns, depth", [(4096, 43), (4090, 64), (3072, 43)])
def test_a_row_by_all_of_a_matrix_has_the_bits_that_threads_with_parts_of_it_give(columns, depth):
    """One thread goes through rows one after the other, several through eight at a time."""
    g = Draw()
    c = product(g, g.x(1, 1, depth), g.x(1, depth, columns), "b,a,k;b,k,n;b,a,n", 1, 1, columns)
    code = lowered(g, [c], [c], tile=Tile("rows"))
    assert "columns == " in (code.core or code).source
    check(g, [c], code=code, threads=(1, 2, 3))
    inputs, library = random_inputs(g, {}, 1), build(code, 16)
    alone, *others = (call(library, code, g, [c], inputs, {}, n, False, None)[0] for n in (1, 2, 3))
    assert all(np.array_equal(alone, other) for other in others)


@pytest.mark.parametrize("form, size", [("rows", (4096, 43)), ("rows", (4090, 64)),
                                        ("dots", (43, 4096)), ("dots", (41, 4090))])
@pytest.mark.parametrize("rows", (1, 2))
def test_runs_side_by_side_are_asked_for_past_their_ends(form, size, rows):
    """Two kilobytes on, and near the end of a run the first of what is read next."""
    g = Draw()
    columns, depth = size
    spec = "b,a,k;b,k,n;b,a,n" if form == "rows" else "b,a,k;b,n,k;b,a,n"
    weight = g.x(1, *((depth, columns) if form == "rows" else (columns, depth)))
    c = product(g, g.x(1, rows, depth), weight, spec, 1, rows, columns)
    code = lowered(g, [c], [c], tile=Tile(form, rows, asked=BESIDE))
    text = (code.core or code).source
    assert re.search(r"on = \w+ \+ 512 < ", text) and "later = on > 0 ? 0 : 8" in text
    assert "columns == " not in text  # no order of its own for one row
    check(g, [c], code=code, threads=(1, 2, 3))


@pytest.mark.parametrize("rows, lanes, together", [(1, 16, 8), (2, 16, 8), (3, 16, 4), (1, 8, 8),
                                                   (2, 8, 4)])
def test_as_many_columns_are_summed_side_by_side_as_leave_half_of_the_registers(
        rows, lanes, together):
    assert dots_at_once(rows, 4096, BESIDE, Registers(lanes)) == together


def scattered(rows: int, columns: int, mode: str) -> tuple[Draw, Node]:
    g = Draw()
    index = g.x(rows, columns, dtype="i64")
    return g, g.op("ScatterAlong", g.x(rows, columns), index, g.x(rows, columns), 0, mode)


def test_places_anywhere_are_asked_for_before_they_are_written() -> None:
    g, y = scattered(512, 512, "last")
    lines = [x.strip() for x in lower(g, [y], "k", C(16)).source.splitlines()]
    at = next(i for i, x in enumerate(lines) if "sf_store" in x)
    test, place = lines[at].split("sf_store(")
    assert lines[at - 1] == f"{test}fetch_write({place.split(', ')[0]});"
    check(g, [y])


@pytest.mark.parametrize("rows, mode", [(100, "last"), (512, "add"), (512, "max")])
def test_near_places_and_updates_are_not_asked_for(rows, mode) -> None:
    g, y = scattered(rows, rows, mode)
    last = lower(g, [y], "k", C(16)).source.split("void k_1")[1]
    assert "fetch_write" not in last
