"""The table of public ops: names on both sides, spellings of keywords, errors in one form, cost."""

from __future__ import annotations

import time

import numpy as np
import pytest

import tegg
from tegg.errors import ArgumentError
from tegg.ops import public
from tegg.ops.public import PUBLIC, methods_of, names_of


def test_every_name_is_there_once():
    names = [n for op in PUBLIC.values() for n in names_of(op)]
    assert len(names) == len(set(names)) and set(names) <= set(tegg.__all__)
    methods = [n for op in PUBLIC.values() for n in methods_of(op)]
    assert len(methods) == len(set(methods))
    assert all(hasattr(tegg.Tensor, n) for n in methods)


def test_names_that_are_no_methods():
    """Ops of no tensor, of lists, or whose first operand is not what is worked on."""
    free = {op.name for op in PUBLIC.values() if not op.method}
    assert {"arange", "cat", "stack", "where", "embedding", "linear", "einsum"} <= free
    assert not free & {"softmax", "sum", "reshape", "relu", "matmul"}


@pytest.mark.parametrize(("name", "near"), [("sofmax", "softmax"), ("tranpose", "transpose")])
def test_unknown_names_name_the_nearest(name, near):
    x = tegg.Graph().tensor((2,))
    for owner in (tegg, x):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean '{near}'"):
            getattr(owner, name)
    assert not hasattr(x, "data_ptr_of_nothing")


def test_spellings_are_one_parameter():
    g = tegg.Graph()
    x = g.tensor((2, 3))
    assert x.sum(axis=0).node is x.sum(dim=0).node is tegg.sum(input=x, dim=0).node
    assert x.mean(1, keepdims=True).node is x.mean(axis=1, keepdim=True).node
    assert x.transpose(1, 0).node is x.transpose().node is x.transpose(axes=(1, 0)).node
    assert x.reshape(shape=(3, 2)).node is x.view(3, 2).node
    assert x.permute(dims=(1, 0)).node is x.T.node


@pytest.mark.parametrize(("call", "text"), [
    (lambda x: x.softmax(), None),
    (lambda x: x.sum(axis=0, dim=0), "sum: dim= says again what axis= says (at "),
    (lambda x: x.sum(0, axis=0), "sum: got multiple values for argument 'dim'; it is sum(x, "),
    (lambda x: x.sum(axsi=0), "sum: no keyword axsi=; did you mean axis=? (at "),
    (lambda x: x.exp(colour=0), "exp: no keyword colour=; it has none (at "),
    (lambda x: tegg.cast(x), "cast: missing 1 required positional argument: 'dtype'; it is cast("),
    (lambda x: x.sum(0, "yes"), "sum: keepdim is True or False, not 'yes' (at "),
    (lambda x: tegg.rms_norm(x, 3, eps="a"), "rms_norm: eps is a number, not 'a' (at "),
    (lambda x: x.var(1, 0.5), "var: correction is an int, not 0.5 (at "),
    (lambda x: x.gelu(3), "gelu: approximate is a string, not 3 (at ")])
def test_arguments(call, text):
    x = tegg.Graph().tensor((2, 3))
    if text is None:
        call(x)
        return
    with pytest.raises(ArgumentError) as e:
        call(x)
    assert str(e.value).startswith(text) and f"(at {__file__}:" in str(e.value)


@pytest.mark.parametrize(("call", "text"), [
    (lambda x, y: x.softmax(5), "axis 5 is outside a tensor of rank 2; x is (2, 3)"),
    (lambda x, y: x + y, "shapes (2, 3) and (4,) do not broadcast: 3 and 4 differ"),
    (lambda x, y: tegg.cat([x, y]), "cat: (2, 3) and (4,) differ beside axis 0"),
    (lambda x, y: tegg.stack([x, x], 7), "axis 7 is outside a tensor of rank 3; x is (2, 3)"),
    (lambda x, y: x.topk(9, dim=0), "k = 9 is not between 0 and the size 2 of axis 0 of (2, 3)"),
    (lambda x, y: x.sum(dtype=np.zeros((40, 9))), "; x is (2, 3), dtype is (40, 9)")])
def test_errors_show_the_shapes_of_the_operands_once(call, text):
    g = tegg.Graph()
    with pytest.raises(tegg.TeggError) as e:
        call(g.tensor((2, 3)), g.tensor((4,)))
    said = str(e.value)
    assert text in said and said.count("(2, 3)") == max(1, text.count("(2, 3)")), said
    assert f"(at {__file__}:" in said and len(said) < 600 and "\n" not in said


@pytest.mark.parametrize(("ours", "theirs"), [
    (lambda x: x.pad((1, 1), value=2.0), lambda x: tegg.pad(x, pad=(1, 1), value=2.0)),
    (lambda x: x.pad([(1, 1), (0, 2)], value=2.0),
     lambda x: tegg.pad(x, pad_width=[(1, 1), (0, 2)], constant_values=2.0)),
    (lambda x: x.roll(1, 0), lambda x: tegg.roll(x, shift=1, axis=0)),
    (lambda x: x.rot90(1, (0, 1)), lambda x: tegg.rot90(x, axes=(0, 1))),
    (lambda x: x.tril(1), lambda x: tegg.tril(x, k=1)),
    (lambda x: x.diagonal(0, 0, 1), lambda x: tegg.diagonal(x, axis1=0, axis2=1)),
    (lambda x: x.mm(x.T), lambda x: tegg.mm(input=x, mat2=x.T)),
    (lambda x: tegg.addmm(x[:, :2], x, x.T), lambda x: tegg.addmm(x[:, :2], mat1=x, mat2=x.T)),
    (lambda x: tegg.stack([x, x]), lambda x: tegg.stack(arrays=[x, x], axis=0)),
    (lambda x: x.norm(1.0, 0), lambda x: tegg.norm(x, ord=1.0, axis=0)),
    (lambda x: x ** 3, lambda x: tegg.pow(x, exponent=3)),
    (lambda x: tegg.linspace(0, 1, 5), lambda x: tegg.linspace(0, stop=1, num=5))])
def test_keywords_of_pytorch_and_numpy(ours, theirs):
    g = tegg.Graph()
    x = g.tensor((2, 3))
    with g.recording():
        assert ours(x).node is theirs(x).node


def test_a_fault_inside_is_not_hidden():
    @public.public()
    def faulty(x):
        return x + None
    PUBLIC.pop("faulty")
    with pytest.raises(TypeError, match="unsupported operand"):
        faulty(1)


def test_help_shows_signature_and_shapes():
    assert "softmax(x" in str(tegg.softmax.__name__ + str(__import__("inspect").signature(
        tegg.softmax)))
    assert tegg.Tensor.softmax.__doc__ == tegg.softmax.__doc__


def test_recording_is_fast():
    """10,000 ops in a second of one core."""
    def seconds() -> float:
        x = z = tegg.Graph().tensor((4, 5))
        y = x.graph.tensor((5,))
        start = time.process_time()
        for _ in range(2000):
            z = ((z * y + 0.5).relu() - x).exp2()
        return time.process_time() - start
    assert min(seconds() for _ in range(3)) < 1


def test_numpy_is_told_what_to_write():
    with pytest.raises(ArgumentError, match=r"np.sum: .*; write tegg.sum\(...\)"):
        np.sum(tegg.Graph().tensor((2,)))
