"""Tile sizes and what they execute, and the fragments that are no contraction."""

from __future__ import annotations

import re

import pytest

from contractions import CASES, lowered, matmul
from tegg.testing.draw import Draw
from tegg.dim import dim
from tegg.dtype import f32, f64
from tegg.errors import LoweringError
from tegg.ir.graph import Node
from tegg.kernel.contraction_shape import GemmParams, GemmShape, Tile, blocked, estimate
from tegg.kernel.registers import Registers, register_tiles

WIDE, NARROW, NEON = Registers(16), Registers(8), Registers(4, neon=True)


def shape(m, n, k, **more) -> GemmShape:
    return GemmShape(more.pop("batch", 1), m, (n,), k, more.pop("dtype", f32), **more)


def packed(s: GemmShape, registers: Registers = WIDE) -> GemmParams:
    """The first tile that is offered for a shape, with its blocks."""
    tile = register_tiles(s.m, s.n[0], s.accumulator, registers)[0]
    return blocked(s, Tile("packed", *tile), registers)


def test_large_tiles_fill_the_registers() -> None:
    assert register_tiles(1024, 1024, f32, WIDE) == [(6, 4), (8, 3), (12, 2)]
    assert register_tiles(1024, 1024, f32, NARROW) == [(4, 3), (6, 2), (8, 1)]
    assert register_tiles(9, 9, f32, NARROW) == [(5, 2), (5, 1)]
    assert register_tiles(1024, 1024, f32, NEON) == [(5, 4), (7, 3), (10, 2)]
    p = blocked(shape(1024, 1024, 1024), Tile("packed", 8, 3), WIDE)
    assert (p.form, p.mr, p.nv, p.lanes, p.rows) == ("packed", 8, 3, 16, 96)


def test_blocks_fit_the_second_cache_level() -> None:
    """Rows and depth are of bytes, blocks of one depth are equally deep, and a plain A lies where
    it lies, at any distance between its rows."""
    for dtype, rows, depth in ((f32, 96, 1024), (f64, 48, 512)):
        found = [packed(shape(1024, 1024, k, dtype=dtype, a_plain=True))
                 for k in (depth, depth + 1, 4096)]
        assert [p.depth for p in found] == [depth, -(-(depth + 1) // 16) * 8, depth]
        assert all(p.rows == rows and p.in_place for p in found)
    assert not packed(shape(1024, 1024, 1024)).in_place


def test_panels_that_are_read_once_are_read_whole() -> None:
    """One tile of all rows goes through a panel in one block, if the rows stay in L1; of a depth
    that is not known, through as much of it as may be."""
    assert [packed(shape(m, 1024, k)).depth for m, k in (
        (1, 4096), (1, 8192), (4, 2048))] == [4096, 8192, 2048]
    assert [packed(shape(m, 1024, k)).depth for m, k in ((1, 8200), (4, 4096))] == [912, 1024]
    assert [packed(shape(m, 1024, dim("k", hint=99))).depth for m in (1, 2, 50)] == [
        8192, 4096, 1024]


def test_panels_that_are_packed_together_read_long_pieces_of_rows_or_are_written_in_order() -> None:
    def columns(n: int, unit: str, k: int = 64, **more) -> int:
        p = packed(shape(64, n, k, b_units=(unit,), **more))
        return p.piece * p.nr if p.piece > 1 else 1
    assert [columns(n, "free") for n in (256, 4095, 4096, 9000)] == [256, 256, 1024, 1024]
    assert [columns(n, "k") for n in (256, 9000)] == [1, 1]
    # what is packed on the way stays in L2 until it is multiplied
    assert [columns(9000, unit, 1024, a_plain=True) for unit in ("free", "k")] == [256, 256]


def test_panels_are_whole_vectors_of_the_printer() -> None:
    for registers in (WIDE, NARROW, Registers(4), NEON):
        for columns in (1, 5, 16, 31, 1000):
            for rows, vectors in register_tiles(50, columns, f64, registers):
                p = blocked(shape(50, columns, 30, dtype=f64), Tile("packed", rows, vectors),
                            registers)
                assert p.nr % registers.width == 0


def test_tile_rows_follow_a_known_number_of_rows() -> None:
    assert [r for r, _ in register_tiles(12, 1000, f32, WIDE)] == [6, 6, 12]
    assert [r for r, _ in register_tiles(5, 1000, f32, WIDE)] == [5, 5, 5]
    assert [r for r, _ in register_tiles(dim("m", hint=5), 1000, f32, WIDE)] == [6, 8, 12]


def test_two_panels_at_once_where_each_is_read_once_and_registers_have_room() -> None:
    assert [blocked(shape(m, 1024, 64), Tile("packed", m, v), WIDE).panels
            for m, v in ((1, 4), (3, 4), (4, 4), (5, 2), (8, 2), (9, 1))] == [2, 2, 1, 2, 1, 2]
    assert [blocked(shape(m, 1024, 64), Tile("packed", m, v), NARROW).panels
            for m, v in ((1, 3), (2, 3), (3, 2))] == [2, 2, 2]
    assert [blocked(shape(m, 1024, 64), Tile("packed", m, v), NEON).panels
            for m, v in ((1, 4), (3, 4), (4, 3), (5, 2))] == [2, 2, 2, 2]
    one = Tile("packed", 1, 4)
    assert blocked(shape(2, 1024, 64), one, WIDE).panels == 1           # panels are read again
    assert blocked(shape(1, 64, 64), one, WIDE).panels == 1             # there is one
    assert blocked(shape(dim("m"), 1024, 64), one, WIDE).panels == 1
    assert blocked(shape(1, dim("n"), 64), one, WIDE).panels == 2
    assert blocked(shape(1, 1024, 64), Tile("packed", 1, 4, 2), WIDE).panels == 1


def test_batched_weights_are_packed_ahead() -> None:
    assert packed(shape(64, 64, 64, batch=4, b_batched=True)).inline
    assert not packed(shape(64, 64, 64, batch=4, b_batched=True, b_constant=True)).inline


def test_estimate_counts_padding_and_repeated_evaluation() -> None:
    s = shape(10, 48, 64)
    e = estimate(s, packed(s))
    assert e.flops == s.flops == 2 * 10 * 48 * 64
    assert (e.a_evaluations, e.b_evaluations, e.packed_bytes) == (1, 1, 4 * 48 * 64)
    wide = shape(7, 960, 64)
    assert estimate(wide, blocked(wide, Tile("packed", 7, 3), WIDE), 2).a_evaluations == 2  # threads share the columns
    short = shape(9, 16, 64)
    assert estimate(short, packed(short)).flops == 2 * 9 * 16 * 64


def test_stages_read_and_write_what_they_say() -> None:
    g = Draw()
    outputs, anchors = CASES["scaled_exponents"](g)  # inputs: x, gain, y, residual
    code = lowered(g, outputs, anchors, constant={2})
    pack, run = code.stages
    assert (pack.reads, pack.writes) == ({2}, {5})
    assert (run.reads, run.writes) == ({0, 1, 3, 5}, {4})


def test_empty_outputs_need_no_work() -> None:
    g = Draw()
    outputs, anchors = CASES["no_rows"](g)
    code = lowered(g, outputs, anchors)
    assert code.work.evaluations == 0 and len(code.stages) == 1 and not code.stages[0].writes


# ---- refusals
def refused(g: Draw, outputs: list[Node], anchors: list[Node], message: str) -> None:
    with pytest.raises(LoweringError, match=re.escape(message)):
        lowered(g, outputs, anchors)


def test_an_anchor_is_a_contraction() -> None:
    g = Draw()
    c = g.exp(g.x(4, 5))
    refused(g, [c], [c], "is no contraction: an anchor is a Contract of numbers, or a SumReduce")


def test_a_result_is_read_at_one_index() -> None:
    g = Draw()
    c = matmul(g, g.x(20, 30), g.x(30, 40))
    refused(g, [g.add(c, g.flip(c, 1))], [c], "is read at several indices by one output")


def test_results_are_not_reduced() -> None:
    g = Draw()
    c = matmul(g, g.x(20, 30), g.x(30, 40))
    refused(g, [g.op("MaxReduce", c, 1)], [c], "an output reduces the result of a contraction")


def test_an_output_holds_the_sum() -> None:
    g = Draw()
    x = g.x(20, 30)
    c = matmul(g, x, g.x(30, 40))
    refused(g, [c, g.exp(x)], [c], "an output does not hold the plain sum of an anchor")


def test_outputs_agree_on_the_elements() -> None:
    g = Draw()
    c = matmul(g, g.x(20, 30), g.x(30, 40))
    refused(g, [c, g.slice(c, (1, 20, 1), (0, 40, 1))], [c], "run over different elements")


def test_siblings_share_an_operand() -> None:
    g = Draw()
    a, b = (matmul(g, g.x(20, 30), g.x(30, 40)) for _ in range(2))
    refused(g, [a, b], [a, b], "must share an operand")


def test_siblings_share_depth() -> None:
    g = Draw()
    x = g.x(20, 30)
    a, b = matmul(g, x, g.x(30, 40)), matmul(g, g.slice(x, (0, 20, 1), (0, 8, 1)), g.x(8, 40))
    refused(g, [a, b], [a, b], "must sum over the same variables")


def test_siblings_share_rows() -> None:
    g = Draw()
    x = g.x(20, 20)
    a = matmul(g, x, g.x(20, 40))
    b = g.op("Contract", x, g.x(20, 40), "k,a;k,n;a,n", (20, 40))
    refused(g, [a, b], [a, b], "must share an operand")


def test_siblings_share_batch() -> None:
    g = Draw()
    x = g.x(20, 30)
    a = matmul(g, x, g.x(30, 40))
    b = g.op("Contract", x, g.x(20, 30, 50), "a,k;a,k,n;a,n", (20, 50))
    refused(g, [a, b], [a, b], "must have the same rows and batch")


def test_siblings_sum_over_the_same_variables() -> None:
    g = Draw()
    s = dim("s", 1, 50)
    a, b = (g.op("Contract", g.permute(g.x(20, k, j), (0, 2, 1)), g.x(j, k, 40),
                 "a,j,k;j,k,n;a,n", (20, 40)) for j, k in ((s, 5), (5, s)))
    refused(g, [a, b], [a, b], "must sum over the same variables")


def test_inner_reductions_follow_rows() -> None:
    g = Draw()
    x = g.x(20, 30)
    c = matmul(g, g.mul(x, g.expand(g.total(x, 0, keep=True), (20, 30))), g.x(30, 40))
    refused(g, [c], [c], "a reduction inside a contraction depends on more than the rows of A")


def test_panels_that_no_cache_keeps_pass_by_in_pieces() -> None:
    large = dict(a_plain=True)
    assert packed(shape(64, 3136, 576, **large)).passing
    assert packed(shape(64, 3136, 576, **large)).inline
    assert not packed(shape(64, 64, 576, **large)).passing
    assert not packed(shape(64, 3136, 576)).passing
    assert not packed(shape(4096, 3136, 576, **large)).passing
    assert not packed(shape(64, 3136, 576, b_constant=True, **large)).passing


def test_an_operand_that_can_be_read_where_it_lies_is_not_packed() -> None:
    plain = dict(a_plain=True, b_plain=True)
    for m, n, k in ((64, 3136, 576), (64, 64, 65), (24, 64, 64), (1, 64, 5),
                    (dim("s", 0, 4096, hint=24), 64, 5)):
        assert packed(shape(m, n, k, **plain)).lying
    for m, n, k in ((25, 64, 64), (64, 12544, 32), (dim("s", 0, 4096, hint=64), 64, 5)):
        assert not packed(shape(m, n, k, **plain)).lying  # sums are short: rows are far apart
    for less in (dict(a_plain=True), dict(b_plain=True), dict(b_constant=True, **plain)):
        assert not packed(shape(64, 3136, 576, **less)).lying
    assert not packed(shape(4096, 3136, 576, **plain)).lying


def test_tiles_of_one_line_read_where_it_lies_what_few_rows_meet() -> None:
    """The lines of rows that are far apart are read again for each tile of rows, and packed sooner;
    and rows of A are read again for each piece of B, so that of many rows all of it is packed."""
    plain = dict(a_plain=True, b_plain=True)
    for registers in (NARROW, NEON):
        (tall, _), *_ = register_tiles(64, 3136, f32, registers)
        assert packed(shape(2 * tall, 3136, 576, **plain), registers).lying
        assert not packed(shape(2 * tall + 1, 3136, 576, **plain), registers).lying
        assert packed(shape(256, 3136, 576, **plain), registers).passing
        assert not packed(shape(257, 3136, 576, **plain), registers).passing
