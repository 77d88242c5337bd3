"""Plans as text: the same for the same program, and golden for a few.

``python tests/test_extract_show.py`` writes the golden files anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from eclass_graphs import classes_of, contract, encoder, layer_norm, linear, row

from tegg.ir.classes import EClasses
from tegg.extract.cost import load_costs
from tegg.dim import dim
from tegg.extract import extract, show
from tegg.ir.graph import Graph

GOLDEN = Path(__file__).parent / "golden" / "covers"


def one_layer() -> Graph:
    return encoder(1)


def softmax() -> Graph:
    g = Graph()
    g.outputs["y"] = row(g, "Softmax", g.input("x", (4096, 1024), "f32"), 1)
    return g


def gated() -> Graph:
    """x ~> down(silu(gate(x)) * up(x)), at a symbolic number of rows."""
    g = Graph()
    x = g.input("x", (dim("s", min=1, max=512, hint=64), 256), "f32")
    h = g.mul(row(g, "Silu", linear(g, x, 512, "gate")), linear(g, x, 512, "up"))
    g.outputs["y"] = g.add(linear(g, h, 256, "down"), x)
    return g


def optimiser() -> Graph:
    g = Graph()
    w, m = g.input("w", (64, 64), "f32", "state"), g.input("m", (64, 64), "f32", "state")
    d = g.input("d", (64, 64), "f32")
    new = g.add(g.mul(m, 0.9), d)
    g.updates.update({0: g.add(w, g.mul(new, -1e-3)), 1: new})
    return g


def ahead() -> Graph:
    """A weight that a dear function of it replaces, and a moved output."""
    g = Graph()
    x, w = g.input("x", (256, 256), "f32"), g.input("w", (256, 256), "f32", "weight")
    y = contract(g, x, g.op("Sin", w), "m,k;n,k;m,n", (256, 256))
    g.outputs["y"], g.outputs["t"] = layer_norm(g, y, "n"), g.pad(g.permute(x, (1, 0)), (1, 0),
                                                                 (0, 0), 7)
    return g


CASES = {f.__name__: f for f in (one_layer, softmax, gated, optimiser, ahead)}


def text(name: str) -> str:
    classes = classes_of(CASES[name]())
    return show(extract(classes, load_costs("cpu/generic")), classes, seconds=False)


@pytest.mark.parametrize("name", CASES)
def test_golden_covers(name):
    assert text(name) == (GOLDEN / f"{name}.txt").read_text()


def renumbered(classes: EClasses) -> EClasses:
    """The same classes under other numbers, in the same order."""
    new = {c: 3 * c + 1000 for c in classes.nodes}
    nodes = {new[c]: [type(n)(n.op, tuple(new[a] for a in n.args), n.attrs) for n in ns]
             for c, ns in classes.nodes.items()}
    return EClasses(classes.graph, nodes, {new[c]: s for c, s in classes.shape.items()},
                    {new[c]: d for c, d in classes.dtype.items()},
                    {i: new[c] for i, c in classes.of.items()})


def test_class_numbers_do_not_show():
    costs = load_costs("cpu/generic")
    classes = classes_of(encoder(1))
    other = renumbered(classes)
    assert show(extract(classes, costs), classes) == show(extract(other, costs), other)


def test_seconds_and_gap_are_shown():
    classes = classes_of(softmax())
    lines = show(extract(classes, load_costs("cpu/generic")), classes).splitlines()
    assert re.match(r"k0 \(loops, [0-9.]+ us\): y:f32\[4096,1024\] <- x:f32\[4096,1024\]", lines[0])
    assert re.match(r"total [0-9.]+ us, gap 0.00%", lines[-1])
    assert show(extract(classes, load_costs("cpu/generic"), exact=False), classes).endswith(
        "gap unknown\n")


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        (GOLDEN / f"{case}.txt").write_text(text(case))
