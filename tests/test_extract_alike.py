"""Classes that are alike: what is found of one of them is what each would find by itself."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest
from eclass_graphs import classes_of, contract, encoder
from extraction import Stages
from hypothesis import given
from hypothesis import strategies as st
from tegg.testing.programs import programs

from tegg.extract import Limits
from tegg.extract.alike import Alike
from tegg.extract.cones import Cones
from tegg.ir.graph import Graph, Node

_NAMES = Alike.names


@contextmanager
def _each_by_itself():
    """No class is like another."""
    def names(self, c):
        found = _NAMES(self, c)
        return replace(found, key=(*found.key, -1 - c))
    Alike.names = names
    try:
        yield
    finally:
        Alike.names = _NAMES


def _cuts(cones: Cones) -> dict:
    return {c: [(z.leaves, list(z.body), [id(n) for n in z.body.values()], z.seconds)
                for z in found] for c, found in cones.cuts.items()}


def _same(classes, limits: Limits | None = None) -> Cones:
    """The cones of classes, which are those that each would find by itself."""
    some = Stages(classes, limits=limits).cones
    with _each_by_itself():
        one = Stages(classes, limits=limits).cones
    assert _cuts(some) == _cuts(one) and some.flow == one.flow and some.inner == one.inner
    assert some.tried <= one.tried
    return some


@given(programs())
def test_programs(program):
    _same(classes_of(program.graph))


@given(programs())
def test_programs_under_tight_limits(program):
    _same(classes_of(program.graph), Limits(cuts=2, inputs=2, values=3, combinations=4))


@pytest.mark.parametrize("layers", [3, 6])
def test_layers_of_an_encoder_are_alike(layers):
    found = _same(classes_of(encoder(layers)))
    assert found.tried == _same(classes_of(encoder(layers + 1))).tried, \
        "the ways of one more layer are tried again"
    narrow = frozenset({"bf16"})
    graph = encoder(layers)
    _same(classes_of(graph, {n.id: narrow for n in graph.reachable() if n.dtype.is_float}))


ROWS, WIDE = 16, 64
PARTS = {"first": ("Sin", "Cos", "Exp2"), "second": ("x", "y", "same", "inner", "other"),
         "by": ("weight", "made", "argument", "made of one", "number", "other number", "row",
                "halves"),
         "slices": (None, "one", "both", "apart"), "over": (0, 1, None), "turned": (False, True), "product": (None, "weight", "argument"),
         "last": ("", "shared", "root", "state", "written", "scattered")}
BASES = [dict(zip(PARTS, values)) for values in (
    ("Sin", "x", "weight", None, None, False, None, ""),
    ("Exp2", "inner", "argument", "one", 1, False, "weight", "shared"),
    ("Cos", "y", "row", "apart", None, True, "weight", "written"),
    ("Sin", "same", "made", "both", 0, True, None, "root"))]


@st.composite
def blocks(draw) -> list[dict]:
    """A few blocks, each like one before it but for a part or two."""
    found = [{k: draw(st.sampled_from(v)) for k, v in PARTS.items()}]
    for _ in range(draw(st.integers(1, 3))):
        changed = draw(st.sets(st.sampled_from(sorted(PARTS)), max_size=2))
        found.append(draw(st.sampled_from(found)) | {
            k: draw(st.sampled_from(PARTS[k])) for k in sorted(changed)})
    return found


def _block(g: Graph, number: int, x: Node, y: Node, part: dict) -> Node:
    def given_(name: str, shape=(ROWS, WIDE), kind: str = "arg", dtype: str = "f32") -> Node:
        return g.input(f"{name}{number}", shape, dtype, kind)

    a = g.op(part["first"], x)
    b = {"x": lambda: g.op("Sqrt", x), "y": lambda: g.op("Sqrt", y), "same": lambda: a,
         "inner": lambda: g.op("Sqrt", a),
         "other": lambda: g.op("Sqrt", g.op(part["first"], y))}[part["second"]]()
    by = {"weight": lambda: given_("w", kind="weight"),
          "made": lambda: g.op("Sin", given_("w", kind="weight")),
          "argument": lambda: given_("w"),
          "made of one": lambda: g.op("Sin", given_("w")),
          "number": lambda: g.full(2.0, "f32", (ROWS, WIDE)),
          "other number": lambda: g.full(3.0, "f32", (ROWS, WIDE)),
          "row": lambda: g.expand(g.reshape(given_("w", (WIDE,), "weight"), (1, WIDE)),
                                  (ROWS, WIDE)),
          "halves": lambda: g.cast(given_("w", dtype="f16"), "f32")}[part["by"]]()
    c = g.mul(g.add(a, b), by)
    if part["slices"] is not None:  # each block's start where no other's do
        one, other = (_long(g, name) for name in ("long", "longer"))
        c = g.mul(c, _rows(g, one, number))
        if part["slices"] != "one":
            c = g.add(c, _rows(g, other, number + (part["slices"] == "apart")))
    if part["over"] is not None:
        c = g.mul(c, g.expand(g.op("SumReduce", c, part["over"]), (ROWS, WIDE)))
    if part["turned"]:
        c = g.op("Sin", g.op("Permute", g.op("Permute", c, (1, 0)), (1, 0)))
    if part["product"] is not None:
        kind = "weight" if part["product"] == "weight" else "arg"
        c = contract(g, c, given_("m", (WIDE, WIDE), kind), "a,k;k,b;a,b", (ROWS, WIDE))
    out = g.op("Sqrt", c)
    if part["last"] == "shared":
        out = g.add(out, g.expand(g.op("MaxReduce", c, 1), (ROWS, WIDE)))
    elif part["last"] == "root":
        g.outputs[f"c{number}"] = c
    elif part["last"] == "state":
        old = given_("s")
        out = g.mul(out, old)
        g.updates[old.attrs[0]] = out
    elif part["last"] in ("written", "scattered"):
        old, at = given_("s"), given_("at", (ROWS,), dtype="i32")
        new = g.op("Scatter", old, at, out, 0, "set")
        if part["last"] == "written":
            g.updates[old.attrs[0]] = new
        else:
            g.outputs[f"s{number}"] = new
    return out


def _long(g: Graph, name: str) -> Node:
    """An argument of all blocks."""
    return next((n for n in g.nodes if n.op.name == "Input" and g.inputs[n.attrs[0]].name == name),
                None) or g.input(name, (4 * ROWS, WIDE), "f32")


def _rows(g: Graph, x: Node, start: int) -> Node:
    return g.op("Slice", x, (start, 0), (start + ROWS, WIDE), (1, 1))


def _graph(parts: list[dict], chained: bool = False) -> Graph:
    """Blocks of arguments of their own, or each of results of those before it."""
    g = Graph()
    x = y = None
    for number, part in enumerate(parts):
        if x is None or not chained:
            x, y = (g.input(f"{n}{number}", (ROWS, WIDE), "f32") for n in "xy")
        out = _block(g, number, x, y, part)
        g.outputs[f"out{number}"] = out
        x, y = out, x
    return g


@pytest.mark.parametrize("base", range(len(BASES)))
@pytest.mark.parametrize("part", PARTS)
def test_blocks_that_differ_in_one_part(base, part):
    values = [BASES[base] | {part: v} for v in PARTS[part]]
    for parts in (values, values[::-1]):
        found = _same(classes_of(_graph([*parts, *parts])))
        once = _same(classes_of(_graph(parts)))
        assert found.tried == once.tried, "the ways of the second of each are tried again"


@pytest.mark.parametrize("moved", ["Flip", "Reshape"])
def test_what_is_released_is_alike_again(moved):
    """A scan that is moved cannot be one kernel with what moves it, and its border, which was left
    out, is set again when that is enumerated."""
    g = Graph()
    for number in range(3):
        x = g.input(f"x{number}", (ROWS, WIDE), "f32")
        scanned = g.op("CumSum", g.op("Sin", x), 1)
        turned = g.op("Flip", scanned, 1) if moved == "Flip" else g.reshape(scanned, (WIDE, ROWS))
        g.outputs[f"y{number}"] = g.op("Sqrt", turned)
    s = Stages(classes_of(g))
    assert any(n.id in s.inner for n in g.reachable() if n.op.name == "CumSum")
    cones = _same(classes_of(g))
    assert all(cones.storable(n.id) for n in g.reachable() if n.op.name == "CumSum")


@given(blocks(), st.booleans(), st.booleans())
def test_blocks_that_differ_in_little(parts, chained, narrow):
    g = _graph(parts, chained)
    forms = {n.id: frozenset({"bf16"}) for n in g.reachable() if n.dtype.name == "f32"}
    _same(classes_of(g, forms if narrow else None))
