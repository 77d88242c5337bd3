"""Tracing: arguments by name, structures in and out, closed-over arrays, symbolic dims."""

from __future__ import annotations

import numpy as np
import pytest

import tegg
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.nn import Parameter
from tegg.ir.oracle import evaluate
from tegg.trace import ArraySpec, with_dims
from tegg.tree import unflatten

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def call(fn, *args, **kwargs):
    """What the traced function returns, by the oracle."""
    traced = tegg.trace(fn, args, kwargs)
    arrays = [a for a in (*args, *kwargs.values()) if isinstance(a, np.ndarray)]
    values = dict(zip(traced.slots, arrays))
    values.update({i: s.source.data for i, s in enumerate(traced.graph.inputs)
                   if s.source is not None})
    return unflatten(traced.outputs, evaluate(traced.graph.outputs.values(), values))


def test_names_structure_and_statics():
    def fn(x, pair, *rest, scale=2, options=None, **more):
        assert scale == 3 and options == {"mode": "a"} and type(rest) is tuple
        return {"sum": x + pair[0]["w"], "both": (pair[1], [scale, None]), "r": rest[0] * more["z"]}

    args = (X, ({"w": X}, X), X)
    traced = tegg.trace(fn, args, {"scale": 3, "options": {"mode": "a"}, "z": X})
    names = [s.name for s in traced.graph.inputs]
    assert names == ["x", "pair.0.w", "pair.1", "rest.0", "more.z"]
    assert list(traced.graph.outputs) == ["sum", "both.0", "r"]
    out = unflatten(traced.outputs, ["s", "b", "r"])
    assert out == {"sum": "s", "both": ("b", [3, None]), "r": "r"}


def test_single_and_repeated_outputs():
    assert (call(lambda x: x, X) == X).all()
    a, b = call(lambda x: (x + 1, x + 1), X)
    assert (a == b).all() and (a == X + 1).all()
    assert call(lambda x: None, X) is None


def test_closed_over_arrays_are_bound_once():
    w, scalar = np.ones(3, np.float32), np.array(2.0, np.float32)
    traced = tegg.trace(lambda x: (x + w) * w * scalar, (X,))
    assert [(s.name, s.kind) for s in traced.graph.inputs] == [("x", "arg"), ("constant", "weight")]
    assert traced.graph.inputs[1].source is w
    assert (call(lambda x: (x + w) * w * scalar, X) == (X + 1) * 2).all()
    assert (call(lambda x: w, X) == w).all() and call(lambda x: np.float64(3), X) == 3


def test_parameters_are_bound_by_reference():
    p = Parameter(np.full(3, 2, np.float32))
    assert (call(lambda x: x * p + p.sum() - (p * 0)[0], X) == X * 2 + 6).all()
    assert (call(lambda x: p, X) == 2).all()
    (spec,) = [s for s in tegg.trace(lambda x: x * p, (X,)).graph.inputs if s.kind == "weight"]
    assert spec.source is p and spec.name == "weight"


def test_modules_are_traced_by_forward():
    traced = tegg.trace(tegg.nn.Linear(3, 2), (X,))
    assert [s.name for s in traced.graph.inputs] == ["x", "weight", "bias"]


def test_facts_belong_to_the_recorded_graph():
    n, m = tegg.dim("n", 1), tegg.dim("m", 1)

    def fn(x, y):
        tegg.assume(n - 3 >= 0)
        tegg.same(n, m)
        return x[:3], x + y

    traced = tegg.trace(fn, (X[0], X[1]), dims={"x": (n,), "y": (m,)})
    assert len(traced.graph.facts.claims) == 1 and traced.graph.outputs["0"].shape == (3,)


def test_specs_and_dims():
    n = tegg.dim("n")
    specs = {"x": ArraySpec((2, 3), tegg.f32)}
    assert with_dims(specs, {"x": (n, None)})["x"].shape == (n, 3)
    assert with_dims(specs, {"x": (2, 3)}) == specs
    traced = tegg.trace(lambda x: x + 1, (ArraySpec((n,), tegg.f64),))
    assert traced.graph.outputs["out"].shape == (n,)


@pytest.mark.parametrize(("run", "kind", "text"), [
    (lambda: tegg.trace(lambda x: x, ()), ArgumentError,
     "missing a required argument: 'x'; the function takes (x)"),
    (lambda: tegg.trace(lambda x: x, (X,), {"y": 1}), ArgumentError,
     "got an unexpected keyword argument 'y'; the function takes (x)"),
    (lambda: tegg.trace(lambda x: x, ({1},)), ArgumentError,
     "x: a set is neither an array nor a value that can be compared; pass NumPy arrays, numbers, "
     "strings, or tuples, lists and dicts of them"),
    (lambda: tegg.trace(lambda x: x, (np.ones(2, complex),)), DTypeError,
     "x: tegg has no dtype dtype('complex128'); it has f32, f64, f16, bf16, u8, i8, i32, i64, "
     "bool"),
    (lambda: tegg.trace(lambda x: x, (X,), dims={"y": (1,)}), ArgumentError,
     "dims: 'y' is no array argument; there are x"),
    (lambda: tegg.trace(lambda x: x, (X,), dims={"x": (1,)}), ShapeError,
     "dims: 'x' has 2 axes (2, 3), not 1"),
    (lambda: tegg.trace(lambda x: x, (X,), dims={"x": (2, 4)}), ShapeError,
     "dims: 'x' is (2, 3), not (2, 4)"),
    (lambda: tegg.trace(type, (X,)), ArgumentError,
     "<class 'type'> has no Python signature to name its arguments by; wrap it in a lambda"),
])
def test_errors(run, kind, text):
    with pytest.raises(kind) as e:
        run()
    assert str(e.value) == text


def test_a_tensor_must_not_outlive_its_call():
    kept = []
    tegg.trace(lambda x: kept.append(x), (X,))
    with pytest.raises(ArgumentError, match="output 'out' is a tensor of another graph: a tensor "
                                            "must not outlive the call"):
        tegg.trace(lambda x: kept[0], (X,))


def test_facts_need_a_recording():
    with pytest.raises(ArgumentError, match=r"assume: belongs inside a function that is being "
                                            r"recorded; for a graph g write g.facts.assume\(...\)"):
        tegg.assume(tegg.dim("n") >= 1)
    with pytest.raises(ShapeError, match="same: takes dims, not 'n'"):
        tegg.same("n", 3)
