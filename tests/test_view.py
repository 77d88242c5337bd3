"""The page of a program: whole by itself, nothing unescaped, right in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from tegg.cli import main
from tegg.errors import ArgumentError, LoweringError
from tegg.explain import page
from tegg.explain.explanation import explain
from tegg.ir.graph import Graph
from tegg.planning.target import find
from tegg.rewrite.compiler import Generic, lowering

BROWSER = next(filter(None, map(shutil.which, (
    "chromium", "chromium-browser", "google-chrome", "chrome"))), None)
NASTY = "</script><script>document.title='stolen'</script><b>&\"'"
VOID = {"meta", "input", "br", "link", "img"}


class Reader(HTMLParser):
    """Collects elements, and sees that each is closed by its own end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.chosen = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if "id" in given:
            assert given["id"] not in self.ids, given["id"]
            self.ids.add(given["id"])
        if tag in ("script", "link", "img", "iframe"):
            self.loaded += [v for k, v in attrs if k in ("src", "href")]
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        self.chosen += given.get("class") == "chosen"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def graph(name: str = "x") -> Graph:
    g = Graph()
    g.tensor((4, 8), name=name).softmax(1).output(f"{name} softmax")
    return g


@pytest.fixture(scope="module")
def text() -> str:
    return page.view(graph(NASTY), (Generic(),), find("cpu"), NASTY)


def test_it_is_well_formed_and_its_links_lead_somewhere(text):
    read = Reader(text)
    assert not read.open and read.chosen
    assert {link[1:] for link in read.links} <= read.ids and len(read.links) > 20


def test_it_needs_nothing_else(text):
    assert not Reader(text).loaded
    assert not re.search(r"(src|href)=[\"']?(https?:)?//|url\(|@import|fetch\(|XMLHttp", text)


def test_names_are_escaped(text):
    assert NASTY not in text and "document.title='stolen'" not in text
    assert text.count("<script>") == 1


def test_it_tells_what_there_is(text):
    for word in ("Softmax", "softmax/div", "Runner-up", "void k0", "predicted", "algebra", "idioms",
                 "extract", "lower"):
        assert word in text, word


@pytest.mark.parametrize("device, form, kernel", [
    ("cpu", "Softmax", "void k0"), ("cuda:sm_90", "CudaRows", "KERNEL("),
    ("metal:M2", "MetalRows", "kernel void k")])
def test_it_has_what_the_target_brings(device, form, kernel):
    """Its rules, forms and copies: what is shown is what is compiled. No device is opened."""
    g = Graph()
    (g.tensor((4, 64), name="x") @ g.tensor((64, 128), name="w")).softmax(1).output("y")
    text = page.view(g, (Generic(),), find(device), device)
    assert form in text and kernel in text
    assert ("CopyToDevice" in text) is device.startswith("cuda")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_a_browser_shows_it(text, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    out = subprocess.run([str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu",
                          f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
                          f"{path.as_uri()}#k0"], capture_output=True, text=True, timeout=60,
                         check=True).stdout
    assert 'data-ready="yes"' in out, "the script did not run to its end"
    assert re.search(r'<details id="k0" open=""', out), "the kernel that the address names is shut"
    assert "<title>stolen" not in out and not re.search(r"<b>&amp;\"'", out)


def test_a_form_that_the_target_refuses_is_not_shown():
    """What is shown and explained is what is compiled in its place."""
    target, refused = find("cpu"), []

    class Refusing:
        def __getattr__(self, name):
            return getattr(target, name)

        def lower(self, fragment, *args):
            if fragment.anchors and fragment.anchors[0].op.name == best:
                refused.append(fragment)
                raise LoweringError("too large")
            return target.lower(fragment, *args)

    g, stack = Graph(), (Generic(), lowering(target))
    (g.tensor((2, 64), name="x") @ g.tensor((64, 256), name="w")).output("y")
    best = re.search(r"k0 (Cpu\w+)", explain(g, stack, target).show())[1]
    text, told = page.view(g, (Generic(),), Refusing(), "t"), explain(g, stack, Refusing()).show()
    instead = re.search(r"k0 (Cpu\w+)", told)[1]
    assert len(refused) >= 2 and instead != best
    assert f"<b>{instead}</b>" in text and f"<b>{best}</b>" not in text


PROGRAM = "import tegg\ngraph = tegg.Graph()\n(graph.tensor((3,)) * 2).output('y')\n"


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text(PROGRAM)
    result = CliRunner().invoke(main, ["view", "p.py:graph"])
    assert result.exit_code == 0 and "wrote graph.html" in result.output
    assert Reader(Path("graph.html").read_text()).ids >= {"time", "graph", "kernels", "classes"}
    result = CliRunner().invoke(main, ["view", "p.py:graph", "--out", "no/where.html"])
    assert result.exit_code == 1 and "cannot be written" in result.output


def test_without_graphviz(monkeypatch):
    def missing(picture):
        raise ArgumentError("drawing needs Graphviz: pip install 'tegg[display]'")

    monkeypatch.setattr(page, "as_svg", missing)
    with pytest.raises(ArgumentError, match="tegg\\[display\\]"):
        page.view(graph(), (Generic(),), find("cpu"), "t")
