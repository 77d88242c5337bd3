"""Covers are right: what is read was written, values are the oracle's, exact <= heuristic."""

from __future__ import annotations

from cover_runs import check_cover
from eclass_graphs import classes_of
from hypothesis import given
from tegg.testing.programs import programs

from tegg.extract.cost import load_costs
from tegg.extract import Limits, extract

COSTS = load_costs("cpu/generic")


@given(programs())
def test_kernels_run_one_by_one_compute_what_the_graph_does(program):
    classes = classes_of(program.graph)
    for exact in (True, False):
        cover = extract(classes, COSTS, exact=exact)
        check_cover(cover, classes, program.inputs, program.sizes)


@given(programs())
def test_exact_is_at_most_heuristic_is_at_most_one_op_each(program):
    classes = classes_of(program.graph)
    exact = extract(classes, COSTS)
    fast = extract(classes, COSTS, exact=False)
    single = extract(classes, COSTS, limits=Limits(values=1, siblings=1, inner=0))
    assert exact.gap == 0.0
    assert exact.seconds <= fast.seconds * (1 + 1e-6) + 1e-12
    assert fast.seconds <= single.seconds * (1 + 1e-6) + 1e-12
