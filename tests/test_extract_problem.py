"""The covering problem: order, writers, and the error where nothing is left."""

from __future__ import annotations

import pytest
from eclass_graphs import classes_of, encoder
from extraction import COSTS, Stages, ops
from hypothesis import given
from tegg.testing.programs import programs

from tegg.errors import ExtractionError
from tegg.extract import extract
from tegg.extract.heuristic import search
from tegg.ir.graph import Graph


@given(programs())
def test_kernels_stand_after_what_they_read_and_none_is_idle(program):
    s = Stages(classes_of(program.graph))
    if not s.problem.wanted:
        return
    used = search(s.problem, float("inf")).used
    order = s.problem.needed(used)
    assert sorted(order) == sorted(used)
    written: set[int] = set()
    for k in order:
        assert written.issuperset(s.problem.reads[k])
        written.update(s.problem.writes[k])


def test_a_refused_kernel_is_taken_out():
    """The target says no to products side by side; the cover has each in a kernel of its own."""
    classes = classes_of(encoder(1))
    plain = extract(classes, COSTS)
    assert any(ops(k).count("Contract") > 1 for k in plain.kernels)

    def accepts(spec):
        return "one at a time" if ops(spec).count("Contract") > 1 else None

    cover = extract(classes, COSTS, accepts=accepts)
    assert all(accepts(k) is None for k in cover.kernels)
    assert cover.stats["refused"] >= 1 and cover.seconds >= plain.seconds


def test_where_every_kernel_is_refused_the_error_says_why():
    g = Graph()
    g.outputs["y"] = g.op("Sin", g.input("x", (4,), "f32"))
    with pytest.raises(ExtractionError, match=(
            r"no kernel can compute \[Sin\(0\)\] of shape \[4\]: abacus refuses its kernel: "
            r"too curved")):
        extract(classes_of(g), COSTS, accepts=lambda spec: "too curved", target="abacus")


def test_where_no_candidate_is_given_the_error_says_so():
    from tegg.extract.problem import Problem
    g = Graph()
    g.outputs["y"] = g.op("Sin", g.input("x", (4,), "f32"))
    with pytest.raises(ExtractionError, match="every candidate is beyond the limits"):
        Problem(Stages(classes_of(g)).pricer, [])


def test_a_value_is_written_by_one_kernel():
    """Chosen kernels that share a write keep it once."""
    classes = classes_of(encoder(2))
    for exact in (True, False):
        outs = [o for k in extract(classes, COSTS, exact=exact).kernels for o in k.outs]
        assert len(outs) == len(set(outs))
