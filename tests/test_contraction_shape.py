"""Tile sizes and what they execute, and the fragments that are no contraction."""

from __future__ import annotations

import re

import pytest

from contractions import CASES, matmul
from tegg.testing.draw import Draw
from tegg.backends.cpu.contraction import lower_contraction
from tegg.backends.cpu.emit import C
from tegg.dim import dim
from tegg.dtype import f32, f64
from tegg.errors import LoweringError
from tegg.ir.graph import Node
from tegg.kernel.contraction_shape import GemmShape, choose, estimate


def shape(m, n, k, **more) -> GemmShape:
    return GemmShape(more.pop("batch", 1), m, (n,), k, more.pop("dtype", f32), **more)


def test_large_tiles_fill_the_registers() -> None:
    p = choose(shape(1024, 1024, 1024), 16)
    assert (p.form, p.mr, p.nv, p.lanes, p.rows) == ("packed", 8, 3, 16, 128)
    assert (choose(shape(1024, 1024, 1024), 8).mr, choose(shape(9, 9, 9), 8).nv) == (4, 2)


def test_panels_are_whole_vectors_of_the_printer() -> None:
    for width in (16, 8, 4):
        for columns in (1, 5, 16, 31, 1000):
            p = choose(shape(50, columns, 30, dtype=f64), width)
            assert p.nr % width == 0


def test_tile_rows_follow_a_known_number_of_rows() -> None:
    assert choose(shape(12, 1000, 100), 16).mr == 6
    assert choose(shape(5, 1000, 100), 16).mr == 5


def test_few_rows_are_not_packed() -> None:
    assert choose(shape(1, 4096, 4096), 16).form == "rows"
    assert choose(shape(2, 4096, 4096, b_units=("k",)), 16).form == "dots"
    assert choose(shape(dim("m", hint=1), 4096, 4096), 16).form == "rows"


def test_batched_weights_are_packed_ahead() -> None:
    assert choose(shape(64, 64, 64, batch=4, b_batched=True), 16).inline
    assert not choose(shape(64, 64, 64, batch=4, b_batched=True, b_constant=True), 16).inline


def test_estimate_counts_padding_and_repeated_evaluation() -> None:
    s = shape(10, 48, 64)
    e = estimate(s, choose(s, 16))
    assert e.flops == s.flops == 2 * 10 * 48 * 64
    assert (e.a_evaluations, e.b_evaluations, e.packed_bytes) == (1, 1, 4 * 48 * 64)
    wide = shape(8, 960, 64)
    assert estimate(wide, choose(wide, 16), 2).a_evaluations == 2  # threads share the columns
    short = shape(9, 16, 64)
    assert estimate(short, choose(short, 16)).flops == 2 * 9 * 16 * 64


def test_stages_read_and_write_what_they_say() -> None:
    g = Draw()
    outputs, anchors = CASES["scaled_exponents"](g)  # inputs: x, gain, y, residual
    code = lower_contraction(g, outputs, anchors, "k", C(16), constant={2})
    pack, run = code.stages
    assert (pack.reads, pack.writes) == ({2}, {5})
    assert (run.reads, run.writes) == ({0, 1, 3, 5}, {4})


def test_empty_outputs_need_no_work() -> None:
    g = Draw()
    outputs, anchors = CASES["no_rows"](g)
    code = lower_contraction(g, outputs, anchors, "k", C(16))
    assert code.work.evaluations == 0 and len(code.stages) == 1 and not code.stages[0].writes


# ---- refusals
def refused(g: Draw, outputs: list[Node], anchors: list[Node], message: str) -> None:
    with pytest.raises(LoweringError, match=re.escape(message)):
        lower_contraction(g, outputs, anchors, "k", C(16))


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
