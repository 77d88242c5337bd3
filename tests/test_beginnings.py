"""Kernels that read parts of buffers: one kernel for all, and calls that begin where each part does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples

import tegg
from tegg.dim import dim
from tegg.dtype import DTYPES
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph
from tegg.ir.oracle import evaluate
from tegg.kernel.code import KernelCode, Stage, Work
from tegg.planning.beginnings import at_beginning
from tegg.planning.interpreter import Interpreter
from tegg.planning.make import structure
from tegg.planning.plan import Buffer, Call, Plan
from tegg.runtime.driver import Options, compile_graph
from tegg.testing.memory import Guarded

RNG = np.random.default_rng(0)


def sliced(*starts, shape=(4, 6, 8), long=2, dtype="f32", stored=None, unit=1):
    """A sum of slices of an input, each of ``long`` elements an axis; then moved."""
    g = Graph()
    x = g.input("x", shape, stored or dtype)
    x = g.cast(x, dtype)
    parts = [g.op("Slice", x, s, tuple(i + long for i in s), (1,) * len(s)) for s in starts]
    out = parts[0]
    for p in parts[1:]:
        out = g.add(out, p)
    f = Fragment(g, (out,), ())
    return f, *at_beginning(f, unit)


@pytest.mark.parametrize("dtype, stored, nbytes", [
    ("f32", None, 4), ("f64", None, 8), ("f32", "bf16", 2), ("i8", None, 1)])
def test_a_slice_begins_where_its_buffer_does(dtype, stored, nbytes):
    _, moved, offsets = sliced((1, 2, 3), dtype=dtype, stored=stored)
    assert offsets == ((48 + 2 * 8 + 3) * nbytes,)
    (s,) = (n for n in moved.graph.nodes if n.op.name == "Slice")
    assert s.attrs[:2] == ((0, 0, 0), (2, 2, 2))
    first = sliced((0, 0, 0), dtype=dtype, stored=stored)[0]
    assert structure(moved) == structure(first)


def test_slices_of_one_input_stay_as_they_lie_to_one_another():
    _, moved, offsets = sliced((1, 2, 4), (2, 1, 4))
    assert offsets == ((48 + 8 + 4) * 4,)
    assert [n.attrs[0] for n in moved.graph.nodes if n.op.name == "Slice"] == [(0, 1, 0), (1, 0, 0)]


@pytest.mark.parametrize("unit", [0, 16])
def test_a_part_that_begins_between_units_is_not_moved(unit):
    f, moved, offsets = sliced((1, 0, 3), unit=unit)
    assert moved is f and offsets == ()
    assert sliced((1, 0, 4), unit=16)[2] == (208,)


def test_what_is_read_otherwise_too_is_not_moved():
    g = Graph()
    x = g.input("x", (4, 8), "f32")
    part = g.op("Slice", x, (1, 0), (2, 8), (1, 1))
    whole = Fragment(g, (part, g.op("Exp2", x)), ())
    assert at_beginning(whole, 1) == (whole, ())
    both = Fragment(g, (part, x), ())  # a copy of it, too
    assert at_beginning(both, 1) == (both, ())


def test_what_only_a_call_knows_is_not_moved():
    g, n = Graph(), dim("n", 1, None, 8)
    x = g.input("x", (4, n), "f32")
    rows = Fragment(g, (g.op("Slice", x, (1, 0), (2, 1), (1, 1)),), ())
    assert at_beginning(rows, 1) == (rows, ())
    columns = Fragment(g, (g.op("Slice", x, (0, 0), (n - n + 1, n), (1, 1)),), ())
    assert at_beginning(columns, 1) == (columns, ())


def test_each_input_by_itself():
    g = Graph()
    a, b, c = (g.input(name, (4, 8), "f32") for name in "abc")
    row = lambda x, i: g.op("Slice", x, (i, 0), (i + 1, 8), (1, 1))
    f = Fragment(g, (g.add(g.add(row(a, 2), row(b, 0)), g.narrow(c, 0, 3, 1)),), ())
    moved, offsets = at_beginning(f, 1)
    assert offsets == (64, 0, 96)
    assert [s.name for s in moved.graph.inputs] == ["a", "b", "c"]


# ---- programs
def recurrent(steps, batch=3, width=16):
    w, u = (tegg.nn.Parameter(RNG.standard_normal((width, width), np.float32) * 0.2)
            for _ in range(2))

    def f(x):
        h = x[:, 0] @ w
        for t in range(1, steps):
            h = (x[:, t] @ w + h @ u).tanh()
        return h

    def exact(x):
        h = x[:, 0].astype(np.float64) @ w.data
        for t in range(1, steps):
            h = np.tanh(x[:, t].astype(np.float64) @ w.data + h @ u.data.astype(np.float64))
        return h

    return f, exact, RNG.standard_normal((batch, steps, width), np.float32)


def test_steps_of_a_loop_are_calls_of_one_kernel():
    f, exact, x = recurrent(24)
    run = tegg.compile(f, cache=False)
    np.testing.assert_allclose(run(x), exact(x), 1e-4, 1e-5)
    program = run.program(x)
    assert program.stats["calls"] >= 40 and program.stats["kernels"] <= 8
    assert program.stats["calls_ahead"] <= 8, "weights are packed once for all steps"
    assert len({c.offsets for c in program.plan.run}) > 12
    assert "input0:f32+" in program.plan.show()


def test_an_interpreter_heeds_where_calls_begin():
    code = KernelCode("k", "", (Stage("k", frozenset({0}), frozenset({1})),), (), (), Work(0, 0, 0, 0))
    buffers = [Buffer("input", DTYPES["f32"], 9, 0), Buffer("output", DTYPES["f32"], 9, 0)]
    plan = Plan([code], buffers, [], [Call(0, (0, 1), (0,), 0.0, "", (20, 8))], [], [], (), 0.0, None)

    def launch(kernel, arrays, sizes):
        arrays[1][:len(arrays[0])] = arrays[0]

    x, y = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)
    Interpreter(plan, launch).run([x.ctypes.data, y.ctypes.data], [])
    np.testing.assert_array_equal(y, [0, 0, 5, 6, 7, 8, 0, 0, 0])


def test_a_program_that_is_saved_keeps_where_calls_begin(tmp_path):
    f, _, x = recurrent(7)
    program = tegg.compile(f, cache=False).program(x)
    tegg.save(program, tmp_path / "steps.tegg")
    again = tegg.load(tmp_path / "steps.tegg")
    np.testing.assert_array_equal(again(x)["out"], program(x)["out"])


def test_parts_of_weights_are_packed_each():
    """The weights of all steps are one array, of which each product reads a part."""
    w = tegg.nn.Parameter(RNG.standard_normal((4, 32, 32), np.float32) * 0.2)

    def f(x):
        for i in range(4):
            x = (x @ w[i]).tanh()
        return x

    x = RNG.standard_normal((40, 32), np.float32)
    run = tegg.compile(f, cache=False)
    want = x.astype(np.float64)
    for i in range(4):
        want = np.tanh(want @ w.data[i])
    np.testing.assert_allclose(run(x), want, 1e-4, 1e-5)
    w.data = w.data[::-1].copy()
    want = x.astype(np.float64)
    for i in range(4):
        want = np.tanh(want @ w.data[i])
    np.testing.assert_allclose(run(x), want, 1e-4, 1e-5)


@st.composite
def _parts(draw):
    shape = (*draw(st.lists(st.integers(1, 6), max_size=2)), draw(st.integers(1, 70)))
    size = tuple(draw(st.integers(1, n)) for n in shape)
    starts = draw(st.lists(st.tuples(*(st.integers(0, n - k) for n, k in zip(shape, size))),
                           min_size=1, max_size=4))
    return shape, size, starts


@settings(max_examples=examples(40))
@given(_parts(), st.sampled_from(["f32", "i8", "f64", "bf16"]), st.booleans(), st.booleans())
def test_random_parts_of_arguments_and_of_what_is_between(parts, dtype, between, at_end):
    """Nothing beyond the last part is read: there memory cannot be."""
    shape, size, starts = parts
    g = Graph()
    x = g.input("x", shape, dtype)
    y = g.op("Contiguous", g.add(x, 1)) if between else x
    for i, s in enumerate(starts):
        part = g.op("Slice", y, s, tuple(a + k for a, k in zip(s, size)), (1,) * len(s))
        g.outputs[f"o{i}"] = g.mul(g.op("Contiguous", part), part)
    memory = Guarded(int(np.prod(shape)) * x.dtype.itemsize, at_end)
    values = memory.array(shape, x.dtype)
    values[...] = RNG.integers(-9, 9, shape)
    program = compile_graph(g, Options((tegg.Generic(),), cache=False))
    want = evaluate(tuple(g.outputs.values()), {0: values})
    for got, expected in zip(program(values).values(), want):
        np.testing.assert_array_equal(got, expected)
    del values
    memory.close()
