"""What ``tegg.compile`` refuses, and what belongs to one program only."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tegg
from tegg.errors import ArgumentError
from tegg.graph import Graph


def double(x):
    return x + x


def test_dims_are_for_functions():
    g = Graph()
    g.tensor((2,)).output("y")
    with pytest.raises(ArgumentError, match=re.escape("dims= is for functions; give a graph its "
                                                      "dims in g.tensor(...)")):
        tegg.compile(g, dims={"x": (2,)})


def test_dims_name_arguments():
    f = tegg.compile(double, dims={"y": (tegg.dim("n"),)})
    with pytest.raises(ArgumentError, match="^dims names y; array arguments are x$"):
        f(np.ones(2, np.float32))


def test_what_belongs_to_one_program():
    f = tegg.compile(double)
    with pytest.raises(ArgumentError, match=re.escape(
            "explain() is of one program, and double has 0; write f.program(arguments...).explain()"
            )):
        f.explain()
    f(np.ones(2, np.float32))
    assert f.plan is f.program(np.ones(2, np.float32)).plan and f.explain() and f.source()
    f(np.ones(3, np.float32))
    with pytest.raises(ArgumentError, match="plan is of one program, and double has 2"):
        f.plan  # noqa: B018
