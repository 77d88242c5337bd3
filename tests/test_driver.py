"""What the driver refuses before it compiles anything."""

from __future__ import annotations

import re

import pytest

from interpreted import Interpreted
from tegg import target
from tegg.compiler import Compiler
from tegg.driver import Options, compile_graph
from tegg.errors import ArgumentError, BackendError
from tegg.graph import Graph


def test_a_graph_has_outputs():
    with pytest.raises(ArgumentError, match=re.escape(
            "the graph has no outputs; mark one with tensor.output('name')")):
        compile_graph(Graph(), Options())


def test_a_program_runs_on_one_device():
    class Other(Interpreted):
        name = "other"

    g = Graph()
    g.tensor((2,)).output("y")
    stack = tuple(Compiler(name=t.name, target=t) for t in (Interpreted(), Other()))
    with pytest.raises(ArgumentError, match=re.escape(
            f"the stack names several devices: {Interpreted.name}, other; a program runs on one")):
        compile_graph(g, Options(stack))


def test_devices_are_found_by_name():
    with pytest.raises(BackendError, match=re.escape(
            "no backend provides device 'cpi'; did you mean 'cpu'? (installed: cpu")):
        target.find("cpi")
