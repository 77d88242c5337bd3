"""The recorder: hash-consing, checks with the user's line, idioms, scopes, weights."""

from __future__ import annotations

import gc
import time
import weakref

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tegg.testing.strategies import array, shapes
from tegg.dim import dim
from tegg.dtype import f32, i64
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.ir.fingerprint import describe
from tegg.ir.graph import Graph, current_graph
from tegg.ir.oracle import evaluate


class Holder:
    def __init__(self, data):
        self.data = data


def test_equal_nodes_are_one():
    g = Graph()
    x, y = g.input("x", (2, 3), "f32"), g.input("y", (2, 3), "f32")
    assert g.add(x, y) is g.add(x, y) and g.add(x, y) is not g.add(y, x)
    assert g.mul(x, 2) is g.mul(x, 2.0) and g.full(0.0, "f32") is not g.full(-0.0, "f32")
    assert g.reshape(x, (2, 3)) is x and g.permute(x, (0, 1)) is x and g.cast(x, "f32") is x
    assert g.narrow(x, 0, 0, 2) is x and g.pad(x, (0, 0), (0, 0)) is x
    assert [n.id for n in g.nodes] == list(range(len(g.nodes)))


def test_errors_name_op_and_line():
    g = Graph()
    x, y = g.input("x", (2, 3), "f32"), g.input("y", (4,), "f32")
    with pytest.raises(ShapeError) as e:
        g.add(x, y)
    assert str(e.value).startswith("Add: shapes (2, 3) and (4,) do not broadcast: 3 and 4 differ "
                                   f"(at {__file__}:")
    with pytest.raises(DTypeError, match=r"Add: f32 and i64 do not mix; .*test_graph.py:"):
        g.add(x, g.iota(3))
    with pytest.raises(ShapeError, match=r"^Maximum: shapes"):
        g.idiom("Maximum", x, y)
    with pytest.raises(ArgumentError, match=r"the graph has an input 'x' already \(at "):
        g.input("x", (1,), "f32")
    with pytest.raises(ArgumentError, match=r"the name of an input is a text, not 3 \(at "):
        g.tensor((1,), name=3)
    with pytest.raises(ArgumentError, match=r"the name of an output is a text, not 3 \(at "):
        g.tensor((1,)).output(3)
    with pytest.raises(ShapeError, match=r"SumReduce: axis 2 is outside \(2, 3\) \(at "):
        g.op("SumReduce", x, 2)
    with pytest.raises(ArgumentError, match=r"no op 'Exq'; did you mean 'Exp'\? \(at "):
        g.op("Exq", x)


def test_a_refused_input_leaves_the_graph_as_it_was():
    g = Graph()
    with pytest.raises(ShapeError):
        g.input("x", (-1,), "f32")
    assert not g.nodes and not g.inputs
    assert g.input("x", (1,), "f32").attrs[0] == 0


def test_idioms_are_recorded_once_and_fast():
    g = Graph()
    x = g.input("x", (4,), "f32")
    assert g.idiom("Erf", x) is g.idiom("Erf", x)
    (found,) = g.idioms
    assert found.op.name == "Erf" and found.args == (x,) and found.node is g.idiom("Erf", x)
    start = time.process_time()
    for i in range(3000):
        g.idiom("Relu", g.add(x, i))
    assert len(g.idioms) == 3001 and time.process_time() - start < 5


def test_an_expansion_is_checked_like_the_op():
    g = Graph()
    i = g.iota(3)
    with pytest.raises(DTypeError, match="Exp: needs a float dtype, not i64"):
        g.expansion("Exp", i)
    assert not g.idioms and g.expansion("Sub", i, i).dtype is i64


def test_scopes_nest():
    g = Graph()
    x = g.input("x", (), "f32")
    with g.scope("a"):
        with g.scope("b"), g.scope(""):
            y = g.add(x, 1)
        z = g.add(y, 1)
    assert g.scopes[y.id] == "a.b" and g.scopes[z.id] == "a" and x.id not in g.scopes
    with pytest.raises(ZeroDivisionError), g.scope("c"):
        raise ZeroDivisionError
    assert g.path == ""


def test_recording_is_undone():
    outer, inner = Graph(), Graph()
    assert current_graph() is None
    with outer.recording():
        with pytest.raises(ZeroDivisionError), inner.recording():
            assert current_graph() is inner
            raise ZeroDivisionError
        assert current_graph() is outer
    assert current_graph() is None


def test_weights_are_bound_once_and_named_apart():
    g, a, b = Graph(), Holder(np.ones(2)), Holder(np.ones(2))
    w = g.weight(a, (2,), "f64", "w")
    assert g.weight(a, (2,), "f64", "other") is w
    g.weight(b, (2,), "f64", "w")
    assert [s.name for s in g.inputs] == ["w", "w_1"] and g.inputs[0].source is a
    assert all(s.kind == "weight" for s in g.inputs)


def test_what_is_unbound_reads_alike_and_keeps_no_weights():
    g = Graph()
    array = np.ones(4, np.float32)
    w = g.weight(array, (4,), "f32", "w")
    g.outputs["y"] = g.add(w, 1.0)
    left = g.unbound()
    assert describe(left) == describe(g) and left.inputs[0].source is None
    held = weakref.ref(array)
    del g, array, w
    gc.collect()
    assert held() is None


def test_graph_tensors():
    g, n = Graph(), dim("n")
    x, y = g.tensor((n, 4), name="x"), g.tensor((), "i64")
    assert x.shape == (n, 4) and x.dtype is f32 and x.name == "x"
    assert y.name == "x1" and y.dtype is i64


@given(st.lists(shapes, min_size=1, max_size=4), st.data())
def test_concat_keeps_every_bit(parts, data):
    rank = max(1, len(parts[0]))
    axis = data.draw(st.integers(0, rank - 1))
    base = [2] * rank
    rng = np.random.default_rng(0)
    arrays = [array(rng, [*base[:axis], len(p), *base[axis + 1:]], f32, specials=True)
              for p in parts]
    g = Graph()
    nodes = [g.input(f"x{i}", a.shape, "f32") for i, a in enumerate(arrays)]
    (out,) = evaluate([g.concat(nodes, axis)], dict(enumerate(arrays)))
    assert out.tobytes() == np.concatenate(arrays, axis).tobytes()


def test_reachable_is_in_order_and_only_what_is_needed():
    g = Graph()
    x, y = g.input("x", (2,), "f32"), g.input("y", (2,), "f32")
    g.mul(y, y)
    g.outputs["o"] = g.add(x, 1)
    names = [n.op.name for n in g.reachable()]
    assert names == ["Input", "Full", "Add"]
    g.updates[1] = y
    assert y in g.reachable()


def test_ten_thousand_ops_are_recorded_within_a_second():
    g = Graph()
    x = g.tensor((8,))
    start = time.process_time()
    for i in range(3300):
        x = (x * (i + 0.5)).exp2() + x
    assert len(g.nodes) > 10_000 and time.process_time() - start < 2
