"""Kernels that compute in 64 bits, or in bytes, have other numbers of lanes: which they are, and what
they give."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import build, check
from tegg.backends.cpu.emit import BYTES, C

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
        with g.recording():
            outputs = [fn(*inputs).node]
    return g, outputs, lower(g, outputs, name, C(width), half=C(width).half,
                             bytes=C(width).bytes)


def lanes(fn, *arrays: np.ndarray, width: int = 16) -> int:
    """Its lanes, after it was seen to be right."""
    g, outputs, code = kernel(fn, *arrays, width=width)
    check(g, outputs, width=width, code=code)
    return code.lanes


X = np.zeros((40, 37), np.float32)
D, L = X.astype(np.float64), X.astype(np.int64)
LONG = np.zeros((400, 400), np.float32)
ROWS = np.zeros(37, np.int64)
U, I, B = X.astype(np.uint8), X.astype(np.int8), X.astype(bool)

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
    "uint8 of float32": (lambda x: (x * 2.0).cast("u8"), X),
    "bool of float32": (lambda x: x > 0.5, X),
    "added bools": (lambda x: x.cast("f32").sum(1), B),
    "transposed bytes": (lambda x: x.transpose(0, 1) + 1, U),
    "gathered bytes": (lambda x, i: x[:, i] + 1, U, ROWS),
    "bytes apart": (lambda x: x[:, ::3] + 1, U),
    "bytes woven": (lambda x, y: tegg.stack([x, y], 2), U, U),
    "bytes of positions": (lambda x: tegg.where(tegg.arange(37) % 2 < 1, x, x + 1), U),
    "one byte": (lambda x: x + 1, np.zeros((), np.uint8)),
}
SMALL = {
    "uint8": (lambda x, y: x * 3 + y, U, U), "int8": (lambda x, y: x * 3 - y, I, I),
    "divided uint8": (lambda x, y: x // y + x % y, U, U),
    "divided int8": (lambda x, y: x // y + x % y, I, I),
    "extremes of uint8": (lambda x, y: tegg.maximum(x, y) - tegg.minimum(x, 7), U, U),
    "extremes of int8": (lambda x, y: tegg.maximum(x, y) - tegg.minimum(x, 7), I, I),
    "absolute int8": (lambda x: abs(x) + tegg.relu(x), I),
    "compared uint8": (lambda x, y: (x < y) | (x == 3), U, U),
    "compared int8": (lambda x, y: (x <= y) & (x != 3), I, I),
    "bool": (lambda x, y: tegg.logical_not(x) | (x & y), B, B),
    "compared bool": (lambda x, y: tegg.where(x < y, x <= y, x == y), B, B),
    "chosen": (lambda b, x, y: tegg.where(b, x, y), B, U, U),
    "bytes of bool": (lambda x: x.cast("u8") + x.cast("i8").cast("u8"), B),
    "bool of bytes": (lambda x, y: x.cast("bool") == y.cast("bool"), U, I),
    "largest of rows": (lambda x: x.max(1), U), "largest of columns": (lambda x: x.max(0), I),
    "largest of all": (lambda x: x.max(), U), "sum that wraps": ("SumReduce 1", I),
    "product that wraps": ("ProdReduce 1", U),
    "any": (lambda x: tegg.any(x, 1), B), "all of columns": (lambda x: tegg.all(x, 0), B),
    "all": (lambda x: tegg.all(x), B), "backwards": (lambda x: tegg.flip(x, (1,)) + 1, U),
    "padded": (lambda x: tegg.pad(x, (3, 5, 1, 2)) + 1, U),
    "neighbours": (lambda x: x[:, 1:] - x[:, :-1], U),
    "windows": (lambda x: tegg.max_pool2d(x[None, None], 3, 1, 1), U),
    "rows of a vector and a byte": (lambda x: x + 1, np.zeros((3, 33), np.uint8)),
    "whole vectors": (lambda x: x + 1, np.zeros((4, 64), np.uint8)),
    "less than a vector": (lambda x: x + 1, np.zeros(31, np.uint8)),
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


@pytest.mark.parametrize("width", (4, 8, 16))
@pytest.mark.parametrize("name", SMALL)
def test_vectors_of_bytes_are_registers(name, width) -> None:
    assert lanes(*SMALL[name], width=width) == BYTES


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
