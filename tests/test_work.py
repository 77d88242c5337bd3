"""The work model: what it counts is what lowering executes."""

from __future__ import annotations

import numpy as np
import pytest
from eclass_graphs import contract, layer_norm, linear, row
from ml_dtypes import bfloat16
from tegg.backends.cpu.emit import C

import tegg
from tegg.bits import bits_of
from tegg.dim import dim
from tegg.dtype import DTYPES, f32, i64
from tegg.ir.graph import Graph, Node
from tegg.ir.op import OPS
from tegg.kernel.lower import lower
from tegg.ir.demand import Step, Values
from tegg.ir.work import WorkModel

ROWS, COLUMNS = 64, 128


def body_of(graph: Graph, outputs: list[Node]) -> dict[int, Step]:
    """Every node below the outputs; the named op where there is one."""
    named = {i.node.id: i for i in graph.idioms}
    body: dict[int, Step] = {}

    def visit(n: Node) -> None:
        if n.id in body or n.op.name == "Input":
            return
        row = named.get(n.id, n)
        for a in row.args:
            visit(a)
        body[n.id] = Step(row.op, tuple(a.id for a in row.args), row.attrs)

    for n in outputs:
        visit(n)
    return body


def demand(graph: Graph, *outputs: Node, panel: int = 512):
    values = Values.of({n.id: n.shape for n in graph.nodes}, {n.id: n.dtype for n in graph.nodes},
                       graph.table)
    model = WorkModel(values, {}, panel=panel)
    return model.demand([n.id for n in outputs], body_of(graph, list(outputs)))


def matrix(g: Graph, name: str = "x") -> Node:
    return g.input(name, (ROWS, COLUMNS), "f32")


def rms(g: Graph, x: Node) -> Node:
    return row(g, "RmsNormalize", x, 1, bits_of(1e-5, f32))


CASES = {
    "softmax": lambda g, x: row(g, "Softmax", x, 1),
    "column softmax": lambda g, x: row(g, "Softmax", x, 0),
    "log-softmax": lambda g, x: row(g, "LogSoftmax", x, 1),
    "softmax of a dear value": lambda g, x: row(g, "Softmax", row(g, "Gelu", x), 1),
    "layernorm": lambda g, x: layer_norm(g, x, "n"),
    "layernorm of a sum": lambda g, x: layer_norm(g, g.add(x, matrix(g, "y")), "n"),
    "layernorm of a sum of long rows": lambda g, x: layer_norm(g, g.add(
        g.input("long", (ROWS, 4096), "f32"), g.input("other", (ROWS, 4096), "f32")), "n"),
    "a sum that two passes want": lambda g, x: rms(g, g.add(x, matrix(g, "y"))),
    "a multiple that three passes want": lambda g, x: layer_norm(g, g.mul(x, x), "n"),
    "rmsnorm": rms,
    "softmax of a norm": lambda g, x: row(g, "Softmax", g.add(rms(g, x), x), 1),
    "softmax of softmax": lambda g, x: row(g, "Softmax", row(g, "Softmax", x, 1), 1),
    "norm of gelu of norm": lambda g, x: layer_norm(
        g, row(g, "Gelu", layer_norm(g, x, "a")), "b"),
    "gated": lambda g, x: g.mul(row(g, "Silu", x), x),
    "a value and its mirror image": lambda g, x: g.add(g.op("Exp2", x),
                                                       g.op("Flip", g.op("Exp2", x), 1)),
    "sum over two axes": lambda g, x: g.op("SumReduce", g.op("SumReduce", g.op("Exp2", x), 1), 0),
    "expanded values": lambda g, x: g.add(g.op("Exp2", g.input("r", (ROWS, 1), "f32")),
                                          g.op("Sin", g.input("c", (1, COLUMNS), "f32"))),
    "windows": lambda g, x: g.op("SumReduce", g.op("Window", g.op("Exp2", x), 1, 3, 1, 1), 2),
}


FEW = {  # results that do not feed the threads: reductions are split
    "sum of all": lambda g: total(g, g.op("Exp2", g.input("x", (300, 700), "f32")), 1, 0),
    "softmax of one row": lambda g: row(g, "Softmax", g.input("x", (1, 200_000), "f32"), 1),
    "maximum and sum of columns": lambda g: g.add(
        g.op("MaxReduce", g.input("x", (30_000, 37), "f32"), 0),
        g.op("SumReduce", g.input("y", (30_000, 37), "f32"), 0)),
    "norm of one row": lambda g: row(g, "RmsNormalize", g.input("x", (1, 100_000), "f32"), 1,
                                     bits_of(1e-5, f32)),
    "few elements": lambda g: total(g, g.input("x", (50, 70), "f32"), 1, 0),
}


def total(g: Graph, x: Node, *axes: int) -> Node:
    for axis in axes:
        x = g.op("SumReduce", x, axis)
    return x


@pytest.mark.parametrize("name", [*CASES, *FEW])
def test_evaluations_are_those_of_the_lowered_kernel(name):
    g = Graph()
    out = FEW[name](g) if name in FEW else CASES[name](g, matrix(g))
    counted = demand(g, out)
    named = Graph()  # lowering sees the ops that the body holds
    made = {n.id: named.input(f"i{n.id}", n.shape, n.dtype) for n in g.nodes
            if n.op.name == "Input"}
    for c, step in body_of(g, [out]).items():
        made[c] = named.op(step.op.name, *(made[a] for a in step.args), *step.attrs)
    code = lower(named, [made[out.id]], "k", C(16))
    work = code.work
    assert counted.evaluations == pytest.approx(work.evaluations, rel=0.02)
    assert counted.splits == len(code.stages) - 1
    read = 4 * sum(n for leaf, n in counted.reads.items())
    assert read == (pytest.approx(work.loaded, rel=0.02) if code.temporaries else work.loaded)


def test_a_slice_reads_what_it_takes():
    g = Graph()
    x = matrix(g)
    d = demand(g, g.op("Sin", g.narrow(x, 0, 2, 3)))
    assert d.reads == {x.id: 3 * COLUMNS} and d.evaluations == 3 * COLUMNS


def test_a_gather_reads_what_it_gives_and_recomputes_what_it_gathers():
    g = Graph()
    table, ids = g.input("t", (1000, 8), "f32"), g.input("i", (5,), "i32")
    assert demand(g, g.op("Gather", table, ids, 0)).reads == {table.id: 40, ids.id: 5}
    rows = g.input("r", (2, 8), "f32")
    d = demand(g, g.op("Gather", g.op("Sin", rows), ids, 0))
    assert d.evaluations == 80 and d.reads[rows.id] == 16


def test_a_pad_reads_no_more_than_there_is():
    g = Graph()
    x = matrix(g)
    assert demand(g, g.pad(x, (3, 3), (3, 3))).reads == {x.id: ROWS * COLUMNS}


def test_sizes_are_hints():
    g = Graph()
    x = g.input("x", (dim("s", max=512, hint=100), 4), "f32")
    assert demand(g, g.op("Sin", x)).evaluations == 400


def test_an_empty_value_costs_nothing():
    g = Graph()
    x = g.input("x", (0, 4), "f32")
    d = demand(g, row(g, "Softmax", x, 1), g.op("SumReduce", x, 0))
    assert d.evaluations == 0 and d.reads == {x.id: 0}


def test_rows_limit_how_many_threads_share_a_kernel():
    g = Graph()
    x = matrix(g)
    assert demand(g, row(g, "Softmax", x, 1)).rows == ROWS
    assert demand(g, g.op("SumReduce", g.op("SumReduce", x, 1), 0)).rows == ROWS
    assert demand(g, g.op("Sin", x)).rows is None


def test_a_prologue_is_evaluated_for_each_panel():
    g = Graph()
    x, w = matrix(g), g.input("w", (1200, COLUMNS), "f32")
    y = contract(g, g.op("Sin", x), w, "m,k;n,k;m,n", (ROWS, 1200))
    assert demand(g, y, panel=2048).evaluations == ROWS * COLUMNS
    assert demand(g, y, panel=512).evaluations == 3 * ROWS * COLUMNS
    assert [p.extents.flops for p in demand(g, y).products] == [2 * ROWS * 1200 * COLUMNS]


@pytest.mark.parametrize("apart", [False, True])
def test_a_product_has_no_room_for_exponentials_of_its_rows(apart):
    """They are taken for the sum of a row, and again where it is packed; or are a stage's."""
    def operations(multiplied: bool) -> float:
        g = Graph()
        soft = row(g, "Softmax", matrix(g), 1)
        out = linear(g, soft, 32, "w") if multiplied else soft
        values = Values.of({n.id: n.shape for n in g.nodes}, {n.id: n.dtype for n in g.nodes},
                           g.table)
        found = WorkModel(values, {}, apart=apart).demand([out.id], body_of(g, [out]))
        return sum(n for _, n in found.loops)

    least = OPS["Exp2"].cost * ROWS * COLUMNS
    assert (operations(True) - operations(False) >= least) == (not apart)


def test_what_is_kept_does_not_depend_on_what_was_measured():
    """Lowering keeps what its row calls dear."""
    g = Graph()
    soft = row(g, "Softmax", matrix(g), 1)
    values = Values.of({n.id: n.shape for n in g.nodes}, {n.id: n.dtype for n in g.nodes}, g.table)
    step = body_of(g, [soft])[soft.id]
    late = [WorkModel(values, cost).footprint(soft.id, step).late for cost in ({}, {"Exp2": 1.0})]
    assert late[0] == late[1] < 2


@pytest.mark.parametrize("axis, apart", [(0, True), (1, False)])
@pytest.mark.parametrize("statistic", ["Normalize", "MaxReduce"])
def test_rows_that_lie_apart_are_gathered_beside_a_product(axis, apart, statistic):
    def operations(multiplied: bool, gather: float) -> float:
        g = Graph()
        x = matrix(g)
        x = (row(g, "Normalize", x, axis, bits_of(1e-5, f32)) if statistic == "Normalize" else
             g.add(x, g.expand(g.op("MaxReduce", x, axis), x.shape)))
        w = g.input("w", (x.shape[axis], 32), "f32")
        spec = "m,k;k,n;m,n" if axis else "k,m;k,n;m,n"
        out = contract(g, x, w, spec, (x.shape[1 - axis], 32)) if multiplied else x
        values = Values.of({n.id: n.shape for n in g.nodes}, {n.id: n.dtype for n in g.nodes},
                           g.table)
        found = WorkModel(values, {}, gather=gather).demand([out.id], body_of(g, [out]))
        return sum(n for _, n in found.loops)

    more = operations(True, 10.0) - operations(True, 0.0)
    assert more == (pytest.approx(10 * ROWS * COLUMNS) if apart else 0)
    assert operations(False, 10.0) == operations(False, 0.0)


def test_siblings_pack_their_operand_once():
    g = Graph()
    x = g.op("Sin", matrix(g))
    a, b = linear(g, x, 32, "a"), linear(g, x, 48, "b")
    d = demand(g, a, b)
    assert len(d.products) == 2
    assert d.evaluations == ROWS * COLUMNS + ROWS * (32 + 48)


def test_values_count_every_index():
    g = Graph()
    x = matrix(g)
    for _ in range(5):
        x = g.add(x, g.op("Flip", x, 1))
    assert demand(g, x).values == 2 ** 5 - 1


# ---- states
SLOTS, NEW = 512, 2


def updated(g: Graph, read: bool = False) -> tuple[Node, Node, Node]:
    """A state of many rows, of which a scatter replaces some; ``read``: with the old ones too."""
    old, new = g.input("old", (SLOTS, COLUMNS), "f32"), g.input("new", (NEW, COLUMNS), "f32")
    at = g.input("at", (NEW,), "i64")
    base = g.op("Add", old, old) if read else old
    return old, new, g.op("Scatter", base, at, new, 0, "last")


def written(g: Graph, out: Node, states: set[tuple[int, int]]):
    values = Values.of({n.id: n.shape for n in g.nodes}, {n.id: n.dtype for n in g.nodes}, g.table)
    return WorkModel(values, {}, states=frozenset(states)).demand([out.id], body_of(g, [out]))


def test_a_scatter_into_a_state_touches_what_it_is_given():
    g = Graph()
    old, new, out = updated(g)
    d = written(g, out, {(old.id, out.id)})
    assert d.writes == {out.id: NEW * COLUMNS}
    assert d.reads[old.id] == d.reads[new.id] == NEW * COLUMNS
    assert sum(n for _, n in d.loops) == d.evaluations == NEW * COLUMNS


@pytest.mark.parametrize("read", [False, True])
def test_a_scatter_into_another_array_copies_its_base(read):
    g = Graph()
    old, _, out = updated(g, read)
    d = written(g, out, {(old.id, out.id)} if read else set())
    assert not d.writes and d.reads[old.id] == SLOTS * COLUMNS
    assert sum(n for _, n in d.loops) >= SLOTS * COLUMNS


def dearer(g, out, price: str) -> float:
    """Operations that a price of 100 adds to what a kernel executes."""
    values = Values.of({n.id: n.shape for n in g.nodes}, {n.id: n.dtype for n in g.nodes}, g.table)
    free, priced = (WorkModel(values, {}, **{price: x}).demand([out.id], body_of(g, [out]))
                    for x in (0.0, 100.0))
    return sum(n for _, n in priced.loops) - sum(n for _, n in free.loops)


# ---- what closes a reduction
@pytest.mark.parametrize("axis, results", [(1, ROWS), (0, 0)])
def test_a_result_costs_more_where_lanes_are_added_up(axis, results):
    g = Graph()
    out = g.op("SumReduce", matrix(g), axis)
    assert dearer(g, out, "close") == pytest.approx(100.0 * results)


def test_each_pass_of_an_idiom_closes_its_rows():
    g = Graph()
    out = row(g, "Softmax", matrix(g), 1)
    assert dearer(g, out, "close") == pytest.approx(100.0 * 2 * ROWS)


@pytest.mark.parametrize("stride, dilation, places, closed", [
    (1, 1, 40, 0), (2, 1, 40, 0), (1, 3, 40, 0), (4, 1, 40, 40), (1, 1, 3, 3)])
def test_windows_are_summed_a_vector_of_places_at_a_time(stride, dilation, places, closed):
    """No lanes are added up, but where places lie apart, or are too few."""
    g = Graph()
    x = g.input("x", (ROWS, stride * (places - 1) + dilation * 2 + 1), "f32")
    out = g.op("SumReduce", g.op("Window", x, 1, 3, stride, dilation), 2)
    assert dearer(g, out, "close") == pytest.approx(100.0 * ROWS * closed)


def test_lanes_that_are_summed_themselves_are_added_up():
    g = Graph()
    v = g.op("Window", g.input("x", (ROWS, 40), "f32"), 1, 3, 1, 1)
    assert dearer(g, total(g, v, 2, 1), "close") == pytest.approx(100.0 * ROWS)
    g = Graph()  # once for the sum over both axes
    assert dearer(g, total(g, g.input("x", (ROWS, 4, 40), "f32"), 2, 1), "close") == 100.0 * ROWS


@pytest.mark.parametrize("taps, operations", [(4, 40.0), (16, 100.0)])
def test_a_short_row_is_gathered_where_that_is_less(taps, operations):
    g = Graph()
    out = g.op("SumReduce", g.input("x", (ROWS, taps), "f32"), 1)
    values = Values.of({n.id: n.shape for n in g.nodes}, {n.id: n.dtype for n in g.nodes}, g.table)
    free, priced = (WorkModel(values, {}, close=c, gather=10.0).demand([out.id], body_of(g, [out]))
                    for c in (0.0, 100.0))
    assert sum(n for _, n in priced.loops) - sum(n for _, n in free.loops) == pytest.approx(
        operations * ROWS)


# ---- what is read from anywhere in a row
@pytest.mark.parametrize("axis, count, apart", [(1, 9, ROWS * 9), (1, 1, 0), (0, 9, 0)])
def test_elements_from_anywhere_in_a_row_cost_more(axis, count, apart):
    g = Graph()
    out = g.op("Gather", matrix(g), g.input("i", (count,), i64), axis)
    assert dearer(g, out, "gather") == pytest.approx(100.0 * apart)


def test_a_sum_that_is_gathered_reads_each_of_its_terms_so():
    g = Graph()
    total = g.op("SumReduce", g.input("x", (ROWS, 5, COLUMNS), f32), 1)
    out = g.op("Gather", total, g.input("i", (9,), i64), 2)
    assert dearer(g, out, "gather") == pytest.approx(100.0 * ROWS * 5 * 9)


def test_straight_indices_are_those_that_kernels_load_in_runs():
    from tegg.ir.reading import STRAIGHT
    from tegg.kernel import straight
    assert set(straight._RULES) == STRAIGHT


@pytest.mark.parametrize("profile", ["cpu/generic", "cpu/zen4", "cpu/zen5"])
@pytest.mark.parametrize("mode", ["circular", "reflect", "replicate"])
def test_a_pad_by_its_own_values_is_one_kernel(monkeypatch, profile, mode):
    """An index that kernels follow in runs is no table, from which each element would be gathered."""
    monkeypatch.setenv("TEGG_COSTS", profile)
    x = np.zeros((8, 32, 64, 64), np.float32)
    f = tegg.compile(lambda x: tegg.pad(x, (2, 2, 2, 2), mode), cache=False)
    assert len(f.program(x).plan.run) == 1 and not f.program(x).plan.ahead


@pytest.mark.parametrize("narrow, wide", [("bf16", "f32"), ("f16", "f64")])
def test_a_float_of_16_bits_is_made_wide_as_it_is_loaded(narrow, wide):
    g = Graph()
    x, y = g.input("x", (8, 9), narrow), g.input("y", (8, 9), wide)
    (_, widened), = demand(g, g.op("Cast", x, DTYPES[wide])).loops
    (_, rounded), = demand(g, g.op("Cast", y, DTYPES[narrow])).loops
    assert widened == 0.5 * rounded == 72 * 0.5


def test_weights_in_16_bits_are_read_as_they_lie():
    """Nothing is gained by a copy of them that rests in those bits."""
    x, w, g, b = (np.ones(s, bfloat16) for s in ((4, 256), (256, 256), (256,), (256,)))
    program = tegg.compile(
        lambda x: tegg.rms_norm(tegg.layer_norm(x @ w + b, (256,), g, b), (256,), g) @ w,
        tegg.Generic(), tegg.Bf16(), cache=False).program(x)
    assert all(c.label == "pack" for c in program.plan.ahead)
