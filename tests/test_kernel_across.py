"""What lies across the rows that a kernel works through: turned by a stage of its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from kernels import build, check
from tegg.backends.cpu.emit import C
from tegg.testing.draw import Draw

import tegg
from tegg.dim import dim
from tegg.kernel.lower import lower

OPERAND, RESULT = "turned an operand that lies across rows", "turned rows that an output lies across"


def turned(x):
    return x.transpose(-1, -2)


def softmax(g):
    return [g.op("Softmax", turned(g.tensor((130, 140))).node, 1)]


def of_what_is_computed(g):
    return [g.op("Normalize", turned(g.tensor((2, 70, 150)).exp()).node, 2, 0)]


def beside_what_lies_along(g):
    """A sum of rows, of two that lie in different ways."""
    a, b = g.tensor((170, 100), name="a"), g.tensor((100, 170), name="b")
    return [(turned(a) * b).sum(1).node]


def summed_whole(g):
    """The same, summed along their columns first: the trace of a product."""
    a, b = g.tensor((170, 100), name="a"), g.tensor((100, 170), name="b")
    return [(turned(a) * b).sum().node]


def running(g):
    return [g.op("CumSum", turned(g.tensor((140, 130))).node, 1)]


def heads(g):
    """Rows of which all but the first axis change places."""
    x = g.tensor((2, 3, 40, 80)).permute(0, 3, 1, 2)
    return [g.op("Softmax", x.node, 3)]


def channels(g):
    """Images as sequences, with a weight for each channel."""
    x, w = g.tensor((2, 64, 14, 14), name="x"), g.tensor((64,), name="w")
    y = tegg.layer_norm(x.reshape(2, 64, 196).permute(0, 2, 1), (64,), w)
    return [y.node]


OPERANDS = {f.__name__: f for f in (softmax, of_what_is_computed, beside_what_lies_along, summed_whole,
                                    running, heads, channels)}


@pytest.mark.parametrize("width", (4, 8, 16))
@pytest.mark.parametrize("name", OPERANDS)
def test_operands(name, width) -> None:
    g = Draw()
    code = check(g, OPERANDS[name](g), width=width, threads=(1, 2, 3))
    assert code.notes.count(OPERAND) == 1 and RESULT not in code.notes
    assert "){sf_load(" not in code.source  # a vector made lane by lane


def then_turned(g):
    return [turned(tegg.softmax(g.tensor((130, 140)), 1)).node]


def then_scaled_and_turned(g):
    x, y = g.tensor((130, 140), name="x"), g.tensor((130, 140), name="y")
    return [turned(tegg.softmax(x, 1) * y).node]


@pytest.mark.parametrize("width", (4, 8, 16))
@pytest.mark.parametrize("make", (then_turned, then_scaled_and_turned))
def test_results(make, width) -> None:
    g = Draw()
    code = check(g, make(g), width=width, threads=(1, 2, 3))
    assert RESULT in code.notes and OPERAND not in code.notes


def test_sizes_known_at_run_time() -> None:
    n, m = dim("n", 0, 4096, hint=500), dim("m", 1, 4096, hint=300)
    g = Draw()
    outputs = [g.op("Softmax", turned(g.tensor((m, n))).node, 1)]
    code = lower(g, outputs, "k", C(8))
    assert OPERAND in code.notes
    library = build(code, 8)
    for rows, size in ((1, 1), (3, 70), (33, 9), (0, 5), (64, 65)):
        check(g, outputs, {"n": rows, "m": size}, width=8, code=code, library=library)


@pytest.mark.parametrize("make", (
    lambda g: g.op("Softmax", g.x(130, 140), 1),                        # rows as they lie
    lambda g: g.total(turned(g.tensor((130, 140))).node, 1),            # lanes go across
    lambda g: turned(tegg.softmax(turned(g.tensor((130, 140))), 1)).node,  # so they do here
    lambda g: g.op("Softmax", turned(g.tensor((20, 30))).node, 1),      # few
    lambda g: turned(g.tensor((130, 140))).exp().node,                  # no rows: tiles
    lambda g: g.op("Softmax", turned(g.tensor((5, 4000))).node, 1),     # short rows
))
def test_what_is_not_turned_before(make) -> None:
    g = Draw()
    code = check(g, [make(g)], width=8)
    assert not {OPERAND, RESULT} & set(code.notes)


@given(shape=st.tuples(st.integers(1, 3), st.integers(16, 70), st.integers(200, 500)),
       axis=st.integers(1, 2), last=st.booleans(), seed=st.integers(0, 9))
def test_programs(shape, axis, last, seed) -> None:
    """A softmax over either axis of a batch of matrices, its operand or its result turned."""
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)

    def program(x):
        return turned(tegg.softmax(x, axis)) if last else tegg.softmax(turned(x), axis)

    given = x if last else np.swapaxes(x, 1, 2)
    e = np.exp(given - given.max(axis, keepdims=True))
    want = e / e.sum(axis, keepdims=True)
    np.testing.assert_allclose(tegg.compile(program)(x), np.swapaxes(want, 1, 2) if last else want,
                               rtol=1e-4, atol=1e-6)
