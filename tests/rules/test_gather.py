"""Sums over one-hot masks are gathers: in every spelling, inside and outside of the table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, reject, settings, strategies as st

from profiles import examples
import tegg
from tegg.dim import dim
from tegg.errors import TeggError
from tegg.extract import extract
from tegg.ir.oracle import evaluate
from tegg.planning.target import find
from tegg.rewrite.compiler import Generic
from tegg.rewrite.egraph import Saturated, saturate
from tegg.testing.agree import check_egraph
from tegg.trace import trace

ROWS, WIDTH = 50, 8


def product(i, t):
    return tegg.one_hot(i, t.shape[0]).cast(t.dtype) @ t


def chosen(i, t):
    mask = tegg.where(tegg.arange(t.shape[0]) == i.cast("i64").unsqueeze(-1), 1.0, 0.0)
    return mask.cast(t.dtype) @ t


def masked(i, t):
    mask = tegg.arange(t.shape[0]) == i.cast("i64").unsqueeze(-1)
    return tegg.where(mask.unsqueeze(-1), t, 0).sum(-2)


def columns(i, t):
    """From the right: the table's last axis, and the sum's axes exchanged."""
    return t.T @ tegg.one_hot(i.reshape(-1), t.shape[0]).cast(t.dtype).T


def inside_remainder(i, t):
    return product(i % t.shape[0], t)


def inside_clip(i, t):
    return product(i.clip(0, t.shape[0] - 1), t)


def scaled(i, t):
    """More work around it."""
    return (product(i, t) * 2 + 1).relu()


SPELLINGS = [product, chosen, masked, columns, inside_remainder, inside_clip, scaled]
INSIDE = (inside_remainder, inside_clip)


def one_of_each(i, t):
    """A row of the table and an index of its own for each element: a loss by one-hot labels."""
    return (tegg.one_hot(i, t.shape[-1]).cast(t.dtype) * t.log_softmax(-1)).sum(-1)


def one_of_each_masked(i, t):
    return tegg.where(tegg.arange(t.shape[-1]) == i.cast("i64").unsqueeze(-1), t, 0).sum(-1)


def done(fn, i, t) -> tuple[Saturated, dict[int, np.ndarray], list]:
    traced = trace(fn, (i, t))
    return (saturate(traced.graph, Generic()), dict(zip(traced.slots, (i, t))),
            list(traced.graph.outputs.values()))


def kernels(classes) -> list:
    target = find("cpu")
    return extract(classes, target.costs(), lowerable=target.unsupported, target="cpu").kernels


def ops_of(kernel) -> set[str]:
    return {n.op.name for n in kernel.body.values()}


@pytest.mark.parametrize("fn", SPELLINGS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(7,), (2, 3), ()], ids=str)
def test_the_plan_gathers_and_multiplies_nothing_by_the_table(fn, shape):
    i, t = np.zeros(shape, np.int32), np.zeros((ROWS, WIDTH), np.float32)
    saturated, _, _ = done(fn, i, t)
    assert not any(p.hit for p in saturated.report.phases)
    (kernel,) = kernels(saturated.classes)
    assert "Gather" in ops_of(kernel) and not ops_of(kernel) & {"Contract", "SumReduce", "Equal"}
    guarded = any(n.op.name == "Select" and saturated.classes.dtype[c].is_float
                  for c, n in kernel.body.items())
    assert guarded is (fn not in INSIDE)


def test_the_executed_work_does_not_grow_with_the_table():
    for rows in (64, 4096):
        i, t = np.zeros(16, np.int64), np.zeros((rows, 32), np.float32)
        traced = trace(product, (i, t))
        plan = traced.graph.compile([Generic()], cache=False).plan
        assert sum(k.work.evaluations for k in plan.kernels) < 16 * 32 * 3


@pytest.mark.parametrize("fn", [one_of_each, one_of_each_masked], ids=lambda f: f.__name__)
def test_an_index_for_each_row_is_a_gather_too(fn):
    saturated, _, _ = done(fn, np.zeros((2, 6), np.int64), np.zeros((2, 6, ROWS), np.float32))
    assert any("Gather" in ops_of(k) for k in kernels(saturated.classes))
    assert saturated.report.rules["gather/choose-batched"].matches


@pytest.mark.parametrize("fn, rank", [*((f, 1) for f in SPELLINGS), (one_of_each, 2),
                                      (one_of_each_masked, 2)], ids=lambda x: getattr(
                                          x, "__name__", ""))
@settings(max_examples=examples(5), deadline=None)
@given(data=st.data())
def test_compiled_equals_the_oracle(fn, rank, data):
    """Indices of any value, the largest included; every class of the e-graph agrees."""
    kind = data.draw(st.sampled_from([np.int64, np.int32, np.uint8, np.int8]))
    rows = data.draw(st.sampled_from([1, 3, 100, 200]))
    info = np.iinfo(kind)
    shape = data.draw(st.sampled_from([(4,), (1,), (2, 3)])) if rank == 1 else (3,)
    values = st.one_of(st.integers(0, min(rows - 1, int(info.max))),
                       st.sampled_from([0, int(info.min), int(info.max), rows % 100, 1]))
    count = int(np.prod(shape))
    i = np.array(data.draw(st.lists(values, min_size=count, max_size=count)), kind).reshape(shape)
    t = np.random.default_rng(0).standard_normal(
        (rows, WIDTH) if rank == 1 else (3, rows)).astype(np.float32)
    try:
        traced = trace(fn, (i, t))
    except (TeggError, OverflowError):
        reject()  # rows that the dtype of the index cannot count
    inputs = dict(zip(traced.slots, (i, t)))
    want = evaluate(traced.graph.outputs.values(), inputs)[0]
    check_egraph(traced.graph, Generic(), inputs)
    got = tegg.compile(fn)(i, t)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_symbolic_tables_and_sequences():
    n, s = dim("n", min=1), dim("s", min=1)
    for fn in (product, inside_clip):
        graph = tegg.Graph()
        i, t = graph.tensor((s,), "i64", name="i"), graph.tensor((n, WIDTH), name="t")
        fn(i, t).output("y")
        saturated = saturate(graph, Generic())
        assert bool(saturated.report.rules["gather/inside"].matches) is (fn is inside_clip)
        (kernel,) = kernels(saturated.classes)
        assert "Gather" in ops_of(kernel) and "Contract" not in ops_of(kernel)
        run = graph.compile([Generic()])
        for rows, count in ((1, 5), (9, 20)):
            index = np.arange(count) - 3
            table = np.random.default_rng(0).standard_normal((rows, WIDTH)).astype(np.float32)
            (want,) = evaluate(graph.outputs.values(), {0: index, 1: table},
                               {"n": rows, "s": count})
            np.testing.assert_allclose(run(i=index, t=table)["y"], want, rtol=1e-6)


def test_masks_that_are_no_one_hot_stay():
    """Positions that wrap in their dtype, a table that lacks the axis, a mask of two positions."""
    def wrapped(i, t):
        graph = t.graph
        positions = graph.cast(graph.iota(ROWS, "i64"), "i8")
        return tegg.where(tegg.tensor.Tensor(graph, positions) == i.unsqueeze(-1), 1.0, 0.0) @ t

    def two(i, t):
        p = tegg.arange(t.shape[0])
        return tegg.where((p == i.unsqueeze(-1)) + (p == 1), 1.0, 0.0) @ t

    def sums(i, t):
        return tegg.one_hot(i, ROWS).sum(-1)

    for fn, kind in ((wrapped, np.int8), (two, np.int64), (sums, np.int64)):
        saturated, _, _ = done(fn, np.zeros(4, kind), np.zeros((ROWS, WIDTH), np.float32))
        assert not any(r.matches for name, r in saturated.report.rules.items()
                       if name.startswith("gather/")), fn


@pytest.mark.parametrize("rows", [0, dim("n", 0, 5)])
def test_a_table_that_may_be_empty_stays(rows):
    g = tegg.Graph()
    t, i = g.input("t", (rows, 3), "f32"), g.input("i", (rows,), "i64")
    mask = g.idiom("Equal", g.expand(g.reshape(i, (rows, 1)), (rows, 3)),
                   g.expand(g.reshape(g.iota(3), (1, 3)), (rows, 3)))
    picked = g.op("SumReduce", g.mul(g.cast(mask, "f32"), t), 1)
    g.outputs["y"] = g.reshape(picked, (rows,))
    done = saturate(g, Generic())
    assert not any(n.op.name == "Gather" for nodes in done.classes.nodes.values() for n in nodes)
