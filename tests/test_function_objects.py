"""Compiled functions as Python objects: methods, modules, calls from one another, copies, pickles."""

import copy
import functools
import pickle

import numpy as np
import pytest

import tegg
from tegg.errors import ArgumentError, ShapeError
from tegg.nn import Linear, Module, Parameter
from tegg.nn.parameter import Buffer

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@tegg.compile
def doubled(x):
    return x * 2


class Scaler:
    def __init__(self, by):
        self.by = by

    @tegg.compile
    def scaled(self, x):
        return x * self.by


class Crowded(Module):
    """Attributes named as those of a compiled function are."""

    def __init__(self):
        self.dims, self.plan, self._fn, self._programs, self._lock = 3, 4, 5, 6, 7
        self.inner = Linear(3, 2)

    def forward(self, x):
        return self.inner(x) * self.dims


class Empty(Module):
    def forward(self, x):
        return 1


# ---- methods
def test_a_method_knows_its_object():
    two, three = Scaler(2), Scaler(3)
    np.testing.assert_array_equal(two.scaled(X), X * 2)
    np.testing.assert_array_equal(three.scaled(X), X * 3)
    np.testing.assert_array_equal(two.scaled(x=X), X * 2)
    np.testing.assert_array_equal(Scaler.scaled(three, X), X * 3)
    assert "elementwise" in Scaler.scaled.program(two, X).explain()


# ---- called while another is recorded
def test_inside_of_another_function():
    @tegg.compile
    def twice(x, by=1):
        return {"y": doubled(x) * by, "z": doubled(x=x + 1)}

    out = tegg.compile(lambda x: twice(x, by=3)["y"] + twice(x)["z"])(X)
    np.testing.assert_array_equal(out, X * 6 + (X + 1) * 2)
    g = tegg.Graph()
    doubled(g.tensor((2, 3), name="x")).output("y")
    np.testing.assert_array_equal(g.compile()(X)["y"], X * 2)


def test_arrays_are_computed_even_there():
    """A compiled function that is given arrays runs, and what it gives is a constant."""
    np.testing.assert_array_equal(tegg.compile(lambda x: x + doubled(X))(X), X * 3)


# ---- modules
def test_attributes_of_a_module_are_its_own():
    block = Crowded()
    run = tegg.compile(block)
    assert run.dims == {} and "inner" not in vars(run) and run.__name__ == "Crowded"
    want = (X @ block.inner.weight.data.T + block.inner.bias.data) * 3
    np.testing.assert_allclose(run(X), want, rtol=1e-6)


@pytest.mark.parametrize(("fn", "text"), [
    (Empty(), "^Empty returns no tensor and updates no state, so there is nothing to compile$"),
    (functools.partial(lambda x, y: y, y=3), "^partial returns no tensor"),
])
def test_objects_are_named_by_their_class(fn, text):
    with pytest.raises(ArgumentError, match=text):
        tegg.compile(fn)(X)
    with pytest.raises(ArgumentError, match=r" has 0; write f.program\(arguments...\).explain\(\)"):
        tegg.compile(fn).explain()


# ---- copies and pickles
def test_a_function_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(doubled)) is doubled and copy.deepcopy(doubled) is doubled


def test_copies_compile_for_themselves():
    run = tegg.compile(Crowded(), tegg.Generic())
    want = run(X)
    for again in (copy.deepcopy(run), copy.copy(run), pickle.loads(pickle.dumps(run))):
        np.testing.assert_array_equal(again(X), want)
    other = copy.deepcopy(run)
    run._fn.inner.weight.data = np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(other(X), want)
    assert not np.allclose(run(X), want)


def test_modules_are_copied_with_their_arrays():
    block = Linear(3, 2)
    block.again = block.weight
    block.count = Buffer(np.ones(2, np.float32))
    for other in (copy.deepcopy(block), pickle.loads(pickle.dumps(block))):
        assert other.again is other.weight is not block.weight and type(other.count) is Buffer
        for name, array in block.state_dict().items():
            np.testing.assert_array_equal(other.state_dict()[name], array)
        assert not np.shares_memory(other.weight.data, block.weight.data)


# ---- what is refused
def assigned(x):
    x[0] = 1
    return x


class Foreign:
    """An array of another library, on the host."""

    def __dlpack__(self, stream=None):
        raise AssertionError("nobody reads it")

    def __dlpack_device__(self):
        return 1, 0


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda: doubled(Foreign()), ArgumentError,
     "x: a test_function_objects.Foreign is no NumPy array; pass np.asarray(...) of it"),
    (lambda: doubled([1, 2]), ArgumentError,
     "doubled returns no tensor and updates no state, so there is nothing to compile; none of its "
     "arguments is a NumPy array"),
    (lambda: tegg.compile(lambda d: d[1])({1: X, "1": X}), ArgumentError,
     "two arrays are named 'd.1', by keys of dicts that read alike; give them other keys"),
    (lambda: tegg.compile(assigned)(X), ArgumentError,
     "Tensor((2, 3), f32, name='x', %0 = Input) is a value and cannot be changed in place; "
     "x.index_put(...), x.scatter(...) and tegg.where(...) give one that differs"),
    (lambda: tegg.compile(np.exp), ArgumentError,
     "<ufunc 'exp'> has no Python signature to name its arguments by; wrap it in a lambda"),
    (lambda: tegg.compile(lambda x: x, dims={"x": 2})(X), ShapeError,
     "dims: 'x' takes one entry per axis, such as (tegg.dim('n'), None), not 2"),
    (lambda: tegg.compile(lambda x: x, device=None)(X), tegg.BackendError,
     "a device is named by a text, such as 'cpu', not None; stack a target of your own, tegg.Compiler(target=...)"),
    (lambda: np.asarray(Parameter(X)), ArgumentError,
     "Parameter((2, 3), f32) is no array, for it stands for whatever array it holds when a program "
     "runs; write .data for the one that it holds now"),
    (lambda: tegg.compile(lambda x: tegg.watch(X, print) + x)(X), ArgumentError,
     "watch: takes a tensor of the function that is being compiled, not a ndarray"),
])
def test_errors(call, kind, text):
    with pytest.raises(kind) as e:
        call()
    assert str(e.value).partition(" (at ")[0] == text
