"""Borders: a value with one elementwise user of its size never rests in memory, within limits."""

from __future__ import annotations

from eclass_graphs import classes_of, contract, row
from extraction import COSTS, Stages

from tegg.extract import Limits, extract
from tegg.ir.graph import Graph


def inner_of(g: Graph, **limits) -> set[int]:
    return set(Stages(classes_of(g), limits=Limits(**limits)).inner)


def test_single_elementwise_users_take_the_border():
    g = Graph()
    x = g.input("x", (8, 8), "f32")
    a = g.op("Sin", x)
    b = g.op("Exp2", g.permute(a, (1, 0)))
    g.outputs["y"] = g.op("SumReduce", b, 1)
    assert inner_of(g) == {a.id}


def test_a_value_with_two_users_stays_a_border():
    g = Graph()
    a = g.op("Sin", g.input("x", (8,), "f32"))
    g.outputs["y"], g.outputs["z"] = g.op("Exp2", a), g.op("Sqrt", a)
    assert inner_of(g) == set()


def test_outputs_stay_borders():
    g = Graph()
    a = g.op("Sin", g.input("x", (8,), "f32"))
    g.outputs["a"], g.outputs["y"] = a, g.op("Exp2", a)
    assert inner_of(g) == set()


def test_a_border_stays_where_elements_are_narrow():
    g = Graph()
    a = g.op("Sin", g.input("x", (8,), "f16"))
    wide = g.cast(a, "f32")
    g.outputs["y"] = g.op("SumReduce", wide, 0)
    assert inner_of(g) == {wide.id}


def test_a_float_of_16_bits_that_is_made_wide_is_no_border():
    """However many read it: what it is made from is read as soon."""
    g = Graph()
    x = g.input("x", (8, 8), "bf16")
    wide = g.cast(g.op("Sin", x), "f32")
    g.outputs["y"], g.outputs["z"] = g.op("Exp2", wide), g.op("SumReduce", wide, 0)
    g.outputs["out"] = g.cast(g.op("Sqrt", x), "f32")  # which is written at any rate
    assert inner_of(g) == {wide.id}


def test_one_product_or_row_is_taken_in_and_no_second_one():
    g = Graph()
    x, w, v = (g.input(n, (16, 16), "f32") for n in "xwv")
    a = contract(g, x, w, "m,k;n,k;m,n", (16, 16))
    b = contract(g, v, w, "m,k;n,k;m,n", (16, 16))
    g.outputs["y"] = g.add(a, b)
    classes = classes_of(g)
    assert len(Stages(classes).inner & {a.id, b.id}) == 1
    assert len(extract(classes, COSTS).kernels) == 2


def test_what_is_heavy_is_no_part_of_a_kernel_that_joins_pieces_of_it():
    """A product that is rolled rests in memory; movement that follows it does not."""
    for rolled in (True, False):
        g = Graph()
        a = contract(g, g.input("x", (16, 16), "f32"), g.input("w", (16, 16), "f32"),
                     "m,k;n,k;m,n", (16, 16))
        b = g.concat([g.narrow(a, 0, 3, 13), g.narrow(a, 0, 0, 3)], 0) if rolled \
            else g.permute(a, (1, 0))
        g.outputs["y"] = g.op("Sin", b)
        assert (a.id in inner_of(g)) != rolled


def test_long_chains_keep_borders():
    g = Graph()
    x = g.input("x", (8,), "f32")
    for i in range(60):
        x = g.op("Sin", g.add(x, float(i)))
    g.outputs["y"] = x
    stages = Stages(classes_of(g), limits=Limits(values=16))
    borders = [c for c in stages.roles.nodes if stages.cones.storable(c)]
    assert 120 / 8 <= len(borders) < 60


def test_doubling_movement_keeps_borders():
    """Each step reads the last one twice, at different indices: its code would double."""
    g = Graph()
    x = g.input("x", (64,), "f32")
    for _ in range(20):
        x = g.add(x, g.op("Flip", g.op("Sin", x), 0))
    g.outputs["y"] = x
    cover = extract(classes_of(g), COSTS, limits=Limits(values=32))
    assert all(len(k.body) <= 40 for k in cover.kernels)


def test_what_is_known_ahead_keeps_its_border():
    g = Graph()
    x, w = g.input("x", (8,), "f32"), g.input("w", (8,), "f32", "weight")
    known = g.op("Sin", w)
    g.outputs["y"] = g.mul(x, known)
    assert known.id not in inner_of(g)


def test_concatenation_of_many_parts_is_covered():
    g = Graph()
    parts = [row(g, "Relu", g.input(f"x{i}", (4, 3), "f32")) for i in range(30)]
    g.outputs["y"] = g.concat(parts, 1)
    assert extract(classes_of(g), COSTS).gap is not None
