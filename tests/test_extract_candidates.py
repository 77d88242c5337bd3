"""Candidate kernels: inner stores in one order, siblings, forms."""

from __future__ import annotations

import numpy as np
from cover_runs import check_cover, run_cover
from eclass_graphs import classes_of, contract, encoder, layer_norm, linear
from extraction import COSTS, Stages, ops
from hypothesis import given
from tegg.testing.programs import programs

from tegg.extract import Limits, extract
from tegg.ir.graph import Graph


@given(programs())
def test_kernels_read_only_what_comes_before_all_they_write(program):
    """So no choice of kernels can wait for itself."""
    s = Stages(classes_of(program.graph))
    for k in s.candidates:
        first = min(s.roles.rank[o] for o in k.outs)
        early = s.roles.given if k.ahead else s.roles.given | s.roles.ahead
        assert all(a in early or s.roles.rank[a] < first for a in k.leaves)


def test_two_kernels_that_would_store_for_each_other_do_not_wait_forever():
    """f(a, b) could store a on its way and read b, g(a, b) store b and read a."""
    g = Graph()
    x, y = (g.input(n, (1024, 1024), "f32") for n in "xy")
    a, b = g.op("Sin", g.op("Exp2", x)), g.op("Sin", g.op("Exp2", y))
    g.outputs["f"] = g.op("SumReduce", g.mul(a, b), 1)
    g.outputs["g"] = g.op("SumReduce", g.add(a, b), 0)
    classes = classes_of(g)
    cover = extract(classes, COSTS)
    small = {i: np.random.default_rng(i).random((1024, 1024), np.float32) for i in range(2)}
    check_cover(cover, classes, small, {})
    both = {(len(k.outs), o) for k in Stages(classes).candidates for o in k.outs}
    assert (2, a.id) in both or (2, b.id) in both, "no kernel stores an inner value at all"


def test_a_residual_is_stored_by_the_kernel_that_normalises_it():
    g = Graph()
    x, r = (g.input(n, (256, 384), "f32") for n in "xr")
    h = g.add(x, r)
    g.outputs["n"] = layer_norm(g, h, "n")
    g.outputs["h"] = h
    (kernel,) = extract(classes_of(g), COSTS).kernels
    assert set(kernel.outs) == {h.id, g.outputs["n"].id}


def test_an_optimiser_step_is_one_kernel():
    g = Graph()
    w, m, v = (g.input(n, (64, 64), "f32", "state") for n in "wmv")
    d = g.input("d", (64, 64), "f32")
    m2 = g.add(g.mul(m, 0.9), g.mul(d, 0.1))
    v2 = g.add(g.mul(v, 0.99), g.mul(g.mul(d, d), 0.01))
    step = g.mul(m2, g.op("Recip", g.add(g.op("Sqrt", v2), 1e-8)))
    g.updates.update({0: g.add(w, g.mul(step, -1e-3)), 1: m2, 2: v2})
    (kernel,) = extract(classes_of(g), COSTS).kernels
    assert len(kernel.outs) == 3


def test_projections_of_one_value_are_one_kernel():
    g = Graph()
    x = g.input("x", (64, 384), "f32")
    for n in "qkv":
        g.outputs[n] = linear(g, x, 384, n)
    (kernel,) = extract(classes_of(g), COSTS).kernels
    assert len(kernel.outs) == 3 and ops(kernel).count("Contract") == 3


def test_siblings_need_one_prologue():
    g = Graph()
    x = g.input("x", (64, 384), "f32")
    g.outputs["a"] = linear(g, g.op("Sin", x), 384, "a")
    g.outputs["b"] = linear(g, g.op("Abs" if "Abs" in g.table else "Sqrt", x), 384, "b")
    assert all(ops(k).count("Contract") == 1 for k in extract(classes_of(g), COSTS).kernels)


def test_siblings_read_weights_only_besides_their_operand():
    g = Graph()
    x, r = g.input("x", (64, 384), "f32"), g.input("r", (64, 384), "f32")
    g.outputs["a"] = g.add(linear(g, x, 384, "a"), r)
    g.outputs["b"] = linear(g, x, 384, "b")
    assert all(ops(k).count("Contract") == 1 for k in extract(classes_of(g), COSTS).kernels)


def test_a_limit_of_one_contraction_merges_nothing():
    g = Graph()
    x = g.input("x", (64, 384), "f32")
    for n in "qkv":
        g.outputs[n] = linear(g, x, 384, n)
    assert len(extract(classes_of(g), COSTS, limits=Limits(siblings=1)).kernels) == 3


def test_loops_over_one_value_are_one_kernel():
    g = Graph()
    x = g.input("x", (512, 512), "f32")
    g.outputs["a"], g.outputs["b"] = g.op("Sin", x), g.op("Exp2", x)
    (kernel,) = extract(classes_of(g), COSTS).kernels
    assert len(kernel.outs) == 2


def test_storing_a_prologue_is_for_templates_that_can():
    """A template writes from its epilogue alone, unless the target says more."""
    g = Graph()
    x = g.input("x", (64, 384), "f32")
    h = g.op("Sin", x)
    g.outputs["h"], g.outputs["y"] = h, linear(g, h, 384, "y")

    def stores(**limits) -> bool:
        found = Stages(classes_of(g), limits=Limits(**limits)).candidates
        return any(h.id in k.outs and len(k.outs) > 1 for k in found)

    assert not stores() and stores(store_prologue=True)


# ---- storage forms
def halves() -> tuple[Graph, dict[int, frozenset[str]]]:
    """A product whose operands, weight and result may rest as f16."""
    g = Graph()
    x = g.input("x", (512, 512), "f32")
    a = g.op("Sin", x)
    w = g.input("w", (512, 512), "f32", "weight")
    b = contract(g, a, w, "m,k;n,k;m,n", (512, 512))
    g.outputs["y"] = g.op("SumReduce", g.add(b, g.op("Flip", b, 1)), 1)
    return g, {n.id: frozenset({"f16"}) for n in (x, a, w, b)}


def test_forms_are_read_as_they_are_written():
    g, forms = halves()
    classes = classes_of(g, forms)
    cover = extract(classes, COSTS)
    rng = np.random.default_rng(0)
    memory = run_cover(cover, classes, {i: rng.random((512, 512), np.float32) for i in range(2)},
                       {})
    assert cover.seconds < extract(classes_of(g), COSTS).seconds
    used = {f for k in cover.kernels for f in (*k.leaf_forms, *k.out_forms)}
    assert "f16" in used and memory[g.outputs["y"].id, ""].dtype == np.float32


def test_weights_are_converted_ahead_and_arguments_never():
    g, forms = halves()
    cover = extract(classes_of(g, forms), COSTS)
    w, x = 1, 0
    slot = {n.attrs[0]: n.id for n in g.nodes if n.op.name == "Input"}
    converted = [k for k in cover.kernels if k.outs == k.leaves]
    assert [(k.outs, k.ahead) for k in converted] == [((slot[w],), True)]
    for k in cover.kernels:
        for i, c in enumerate(k.leaves):
            assert c != slot[x] or k.form_of_leaf(i) == ""


def test_a_cone_has_at_most_four_variants():
    g, forms = halves()
    plain = len(Stages(classes_of(g)).candidates)
    assert len(Stages(classes_of(g, forms)).candidates) <= 4 * plain + 1


def test_every_layer_of_an_encoder_merges_its_projections():
    cover = extract(classes_of(encoder(3)), COSTS)
    assert [len(k.outs) for k in cover.kernels].count(3) == 3


def rows_of(kind: str, others: int, gathered: bool = False) -> float:
    """Seconds that are predicted for the sum of a matrix and a row, of 1 MB, beside so many MB."""
    g = Graph()
    w = g.input("w", (512, 512), "f32", kind)
    far = g.input("far", (512 * others, 512), "f32", "weight")
    g.outputs["y"] = g.op("SumReduce", w, 1)
    at = g.input("at", (4,), "i32")
    g.outputs["far"] = g.op("Gather", far, at, 0) if gathered else g.op("SumReduce", far, 1)
    if kind == "state":
        g.updates[0] = g.mul(w, 0.5)
    s = Stages(classes_of(g))
    (found,) = (k for k in s.candidates if k.outs == (g.outputs["y"].id,))
    return found.seconds


def test_what_lasts_is_read_from_where_all_of_it_lies():
    """Weights and states of more than the caches hold; not arguments, nor rows that are looked up
    in a weight however large."""
    for kind in ("state", "weight"):
        assert rows_of(kind, 1024) > 1.2 * rows_of(kind, 1) == 1.2 * rows_of("input", 1), kind
        assert rows_of(kind, 1024, gathered=True) == rows_of(kind, 1), kind
    assert rows_of("input", 1024) == rows_of("input", 1)
