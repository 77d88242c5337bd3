"""Roles: what is constant, what only moves, and what is known before a run."""

from __future__ import annotations

from eclass_graphs import classes_of
from extraction import COSTS, Stages, ops

from tegg.dim import dim
from tegg.extract import extract
from tegg.ir.graph import Graph


def test_roles_of_a_small_graph():
    g = Graph()
    x, w = g.input("x", (4, 4), "f32"), g.input("w", (4, 4), "f32", "weight")
    scaled = g.mul(w, 2.0)
    turned = g.permute(w, (1, 0))
    g.outputs["y"] = y = g.add(g.add(x, g.op("Sin", scaled)), turned)
    r = Stages(classes_of(g)).roles
    assert r.given == {x.id, w.id} and r.weights == {w.id}
    assert scaled.id in r.ahead and turned.id in r.moved and y.id not in r.ahead
    assert all(r.nodes[c][0].op.name == "Full" for c in r.constant)


def test_weight_only_values_are_folded_ahead_where_it_pays():
    """A dear function of a weight is read from memory; kernels that compute it run ahead."""
    g = Graph()
    x, w = g.input("x", (512, 512), "f32"), g.input("w", (512, 512), "f32", "weight")
    g.outputs["y"] = g.mul(x, g.op("Sin", g.op("Exp2", w)))
    first, second = extract(classes_of(g), COSTS).kernels
    assert first.ahead and ops(first) == ["Exp2", "Sin"]
    assert not second.ahead and ops(second) == ["Mul"]


def test_a_large_value_of_small_weights_is_not_read_from_memory():
    """Reading an outer product costs more than multiplying again."""
    g = Graph()
    a = g.input("a", (4096, 1), "f32", "weight")
    b = g.input("b", (1, 4096), "f32", "weight")
    x = g.input("x", (4096, 1), "f32")
    g.outputs["y"] = g.op("SumReduce", g.mul(g.mul(a, b), x), 1)
    assert all(not k.ahead for k in extract(classes_of(g), COSTS).kernels)


def test_movement_of_a_weight_is_never_folded_ahead():
    g = Graph()
    x = g.input("x", (64, 64, 8), "f32")
    w = g.input("w", (8, 64), "f32", "weight")
    moved = g.expand(g.reshape(g.permute(w, (1, 0)), (1, 64, 8)), (64, 64, 8))
    g.outputs["y"] = g.op("Sin", g.mul(x, moved))
    (kernel,) = extract(classes_of(g), COSTS).kernels
    assert w.id in kernel.leaves and not kernel.ahead


def test_what_positions_make_is_computed_where_it_is_read():
    """By two readers, and by one that runs ahead; what is no sum or product of them is known
    ahead."""
    g = Graph()
    x, i = g.input("x", (64 * 1000,), "f32"), g.input("i", (64, 1000), "i64")
    w = g.input("w", (64, 1), "i64", "weight")
    base = g.mul(g.reshape(g.iota(64), (64, 1)), g.full(1000, "i64", (64, 1)))
    rows = g.expand(base, (64, 1000))
    g.outputs["y"] = g.op("Gather", x, g.add(i, rows), 0)
    g.outputs["z"] = g.add(i, g.expand(g.op("Mod", g.add(base, w), g.full(7, "i64", (64, 1))),
                                       (64, 1000)))
    roles = Stages(classes_of(g)).roles
    assert base.id in roles.counted and roles.counted.isdisjoint(roles.ahead)
    assert rows.id in roles.moved and i.id not in roles.counted
    kernels = extract(classes_of(g), COSTS).kernels
    assert [k.ahead for k in kernels].count(False) == 2
    assert all(base.id not in k.outs for k in kernels)


def test_positions_that_are_wanted_are_written():
    g = Graph()
    g.outputs["y"] = y = g.mul(g.iota(64), g.full(3, "i64", (64,)))
    g.outputs["z"] = g.add(y, g.full(1, "i64", (64,)))
    assert Stages(classes_of(g)).roles.counted == set()
    assert sorted(o for k in extract(classes_of(g), COSTS).kernels for o in k.outs) == sorted(
        v.id for v in g.outputs.values())


def test_a_scalar_of_constants_is_no_kernel_of_a_run():
    g = Graph()
    x = g.input("x", (64,), "f32")
    g.outputs["y"] = g.mul(x, g.op("Recip", g.full(3.0, "f32", (64,))))
    assert [k.ahead for k in extract(classes_of(g), COSTS).kernels].count(False) == 1


def test_a_root_made_of_weights_is_written_at_each_run():
    g = Graph()
    w = g.input("w", (8,), "f32", "weight")
    g.outputs["s"] = s = g.op("Sin", w)
    g.outputs["y"] = g.op("Exp2", s)
    assert all(not k.ahead for k in extract(classes_of(g), COSTS).kernels)


def test_symbolic_sizes_are_not_known_ahead():
    """The shape may be constant while the value depends on a size."""
    s = dim("s", min=1, max=8)
    g = Graph()
    w = g.input("w", (s,), "f32", "weight")
    v = g.input("v", (8,), "f32", "weight")
    x = g.input("x", (1,), "f32")
    g.outputs["a"] = g.mul(x, g.op("Sin", g.op("SumReduce", w, 0)))
    g.outputs["b"] = g.mul(x, g.op("Sin", g.op("SumReduce", g.narrow(v, 0, 0, s), 0)))
    stages = Stages(classes_of(g))
    assert stages.roles.ahead == set() and w.id not in stages.roles.weights


def test_users_are_counted_through_movement():
    g = Graph()
    x = g.op("Sin", g.input("x", (4, 4), "f32"))
    a, b = g.op("Exp2", g.permute(x, (1, 0))), g.op("Sqrt", x)
    g.outputs["a"], g.outputs["b"] = a, b
    assert Stages(classes_of(g)).roles.users[x.id] == [b.id, a.id]
