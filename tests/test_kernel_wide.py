"""Kernels that compute in 64 bits have half as many lanes: which they are, and what they give."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import build, check
from tegg.backends.cpu.emit import C

import tegg
from tegg.ir.graph import Node
from tegg.kernel.code import KernelCode
from tegg.kernel.lower import lower


def kernel(fn, *arrays: np.ndarray, width: int = 16, name: str = "k",
           ) -> tuple[tegg.Graph, list[Node], KernelCode]:
    """The kernel of a function, or of an op by its name and axis."""
    g = tegg.Graph()
    inputs = [g.tensor(a.shape, a.dtype.name, name=f"x{i}") for i, a in enumerate(arrays)]
    if isinstance(fn, str):
        op, axis = fn.split()
        outputs = [g.op(op, inputs[0].node, int(axis))]
    else:
        outputs = [fn(*inputs).node]
    return g, outputs, lower(g, outputs, name, C(width), half=C(width).half)


def lanes(fn, *arrays: np.ndarray, width: int = 16) -> int:
    """Its lanes, after it was seen to be right."""
    g, outputs, code = kernel(fn, *arrays, width=width)
    check(g, outputs, width=width, code=code)
    return code.lanes


X = np.zeros((40, 37), np.float32)
D, L = X.astype(np.float64), X.astype(np.int64)
LONG = np.zeros((400, 400), np.float32)
ROWS = np.zeros(37, np.int64)

HALVED = {
    "float64": (lambda x: x * 2.0 + 1.0, D), "int64": (lambda x: x * 2 + 1, L),
    "sum of float64": (lambda x: x.sum(1), D), "maximum of int64": (lambda x: x.max(1), L),
    "product of float32, kept in float64": ("ProdReduce 1", LONG),
    "running sums in float64, of columns": ("CumSum 0", LONG),
    "numbers counted in int64": (lambda x: (x > 0).sum(1), X),
    "transposed float64": (lambda x: x.transpose(0, 1) + 1.0, D),
}
WHOLE = {
    "float32": (lambda x: x * 2.0 + 1.0, X), "int32": (lambda x: x + 1, X.astype(np.int32)),
    "an instruction gathers float32": (lambda x, i: x[:, i], X, ROWS),
    "running sums along rows, joined in steps": ("CumSum 1", X),
    "one by one": (lambda x: x + 1, np.zeros((), np.int64)),
}


@pytest.mark.parametrize("width", (8, 16))
@pytest.mark.parametrize("name", HALVED)
def test_vectors_of_64_bits_are_registers(name, width) -> None:
    assert lanes(*HALVED[name], width=width) == width // 2


@pytest.mark.parametrize("name", WHOLE)
def test_other_kernels_have_as_many_lanes_as_the_device(name) -> None:
    assert lanes(*WHOLE[name]) == 0


def test_there_are_no_fewer_lanes_than_four() -> None:
    assert C(4).half is None and lanes(*HALVED["float64"], width=4) == 0


def test_kernels_of_both_kinds_are_loaded_together() -> None:
    """In units of their own; the same text at other lanes is another kernel."""
    g = tegg.Graph()
    x, y = g.tensor((64,), "float64", name="x"), g.tensor((64,), "float32", name="y")
    codes = [lower(g, [node], name, C(8), half=C(8).half)
             for name, node in (("a", (x + 1.0).node), ("b", (y + 1.0).node),
                                ("c", (x + 1.0).node))]
    assert [c.lanes for c in codes] == [4, 0, 4]
    library = build(codes, 8)
    assert [k.name for k in library.kernels] == ["a", "b"]
    assert library.functions["a_0"] == library.functions["c_0"] != library.functions["b_0"]
