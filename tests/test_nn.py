"""Modules: names, scopes, strict state dicts, layers against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tegg
from tegg import nn
from tegg.errors import ArgumentError, DTypeError, ShapeError, WeightsError
from tegg.nn import Parameter
from tegg.ir.oracle import evaluate

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)


def run(module, *args, **kwargs):
    traced = tegg.trace(module, args, kwargs)
    graph = traced.graph
    values = dict(zip(traced.slots, args))
    values.update({i: s.source.data for i, s in enumerate(graph.inputs) if s.source is not None})
    return evaluate(graph.outputs.values(), values)[0], graph


class Block(nn.Module):
    def __init__(self):
        self.attention = nn.MultiHeadAttention(8, 4, kv_heads=2, seed=0)
        self.layers = [nn.Linear(8, 16, seed=1), nn.GELU(), nn.Linear(16, 8, seed=2)]
        self.norms = {"a": nn.LayerNorm(8), "b": nn.RMSNorm(8)}
        self.scale = Parameter(np.float32([2]))
        self.tied = self.layers[0]

    def forward(self, x, mask=None):
        x = self.norms["a"](x + self.attention(x, mask=mask, causal=True))
        y = x
        for layer in self.layers:
            y = layer(y)
        return self.norms["b"](x + y * self.scale)


NAMES = ["attention.query.weight", "attention.query.bias", "attention.key.weight",
         "attention.key.bias", "attention.value.weight", "attention.value.bias",
         "attention.out.weight", "attention.out.bias", "layers.0.weight", "layers.0.bias",
         "layers.2.weight", "layers.2.bias", "norms.a.weight", "norms.a.bias", "norms.b.weight",
         "scale"]


def test_names_of_parameters():
    block = Block()
    assert [n for n, _ in block.named_parameters()] == NAMES
    assert list(block.state_dict()) == [*NAMES, "tied.weight", "tied.bias"]
    assert len(list(block.parameters())) == len(NAMES)
    assert [p for p, _ in block.named_modules()][:3] == ["", "attention", "attention.query"]


def test_names_and_scopes_in_a_graph():
    out, graph = run(Block(), X)
    assert out.shape == X.shape
    assert {s.name for s in graph.inputs} == {"x", *NAMES}
    assert {"attention", "attention.query", "layers.0", "layers.1", "norms.a"} <= set(
        graph.scopes.values())
    assert graph.path == ""


def test_a_module_in_an_explicit_graph():
    g = tegg.Graph()
    layer = nn.Linear(8, 3)
    y = layer(g.tensor((4, 8), name="x"))
    assert y.shape == (4, 3) and [s.name for s in g.inputs] == ["x", "weight", "bias"]
    with pytest.raises(ArgumentError, match="linear: no operand is a tensor of a graph"):
        layer(X)


def test_layers_against_numpy():
    linear = nn.Linear(8, 3)
    w, b = linear.weight.data, linear.bias.data
    assert np.allclose(run(linear, X)[0], X @ w.T + b, atol=1e-6)
    assert np.abs(w).max() <= 8 ** -0.5 and nn.Linear(8, 3, bias=False).bias is None
    table = nn.Embedding(10, 4)
    ids = np.array([[1, 9], [0, 1]])
    assert (run(table, ids)[0] == table.weight.data[ids]).all()
    norm = (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5)
    assert np.allclose(run(nn.LayerNorm(8), X)[0], norm, atol=1e-5)
    rms = X / np.sqrt((X * X).mean(-1, keepdims=True) + 1e-6)
    assert np.allclose(run(nn.RMSNorm([8]), X)[0], rms, atol=1e-5)
    chain = nn.Sequential(nn.ReLU(), nn.SiLU(), nn.Sigmoid(), nn.Tanh(), nn.Softmax())
    assert np.allclose(run(chain, X)[0].sum(-1), 1, atol=1e-6) and len(chain) == 5


def test_attention_against_numpy():
    m = nn.MultiHeadAttention(8, 2, seed=3)
    p = {k: v.astype(np.float64) for k, v in m.state_dict().items()}
    memory = X[:, :3]

    def project(x, name):
        y = x @ p[f"{name}.weight"].T + p[f"{name}.bias"]
        return y.reshape(2, -1, 2, 4).transpose(0, 2, 1, 3)

    q, k, v = project(X, "query"), project(memory, "key"), project(memory, "value")
    e = np.exp(q @ k.swapaxes(-1, -2) / 2)
    y = (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(2, 5, 8)
    want = y @ p["out.weight"].T + p["out.bias"]
    assert np.allclose(run(m, X, memory)[0], want, atol=1e-5)


def test_seeds_do_not_depend_on_the_order_of_reading():
    a, b = nn.Linear(4, 4, seed=7), nn.Linear(4, 4, seed=7)
    assert a.bias.data is not None and (a.weight.data == b.weight.data).all()
    assert (a.bias.data == b.bias.data).all() and (a.weight.data[0] != a.bias.data).any()


# ---- parameters
def test_assignment_counts_versions():
    p = Parameter(np.zeros(3, np.float32))
    assert p.version == 0 and p.shape == (3,) and p.dtype is tegg.f32 and p.ndim == 1
    p.data = np.ones(3, np.float32)
    assert p.version == 1 and (p.data == 1).all()
    with pytest.raises(ShapeError, match=r"a parameter of shape \(3,\) cannot hold \(2,\)"):
        p.data = np.ones(2, np.float32)
    with pytest.raises(DTypeError, match="a parameter of f32 cannot hold float64; cast it first"):
        p.data = np.ones(3)
    with pytest.raises(ArgumentError, match=r"Parameter\(\(3,\), f32\) is used outside of a "
                                            r"recorded function; read .data"):
        _ = p.node
    assert p.version == 1


def test_loading_makes_no_initial_values():
    def never():
        raise AssertionError

    p = Parameter.lazy((2,), "f32", never)
    p.data = np.ones(2, np.float32)
    assert (p.data == 1).all()


# ---- state dicts
def test_state_dict_round_trip():
    a, b = Block(), Block()
    b.load_state_dict(a.state_dict())
    assert all((x.data == y.data).all() for x, y in zip(a.parameters(), b.parameters()))
    assert (run(a, X)[0] == run(b, X)[0]).all()
    assert next(b.parameters()).version == 1
    b.load_state_dict({"scale": np.float64([3])}, strict=False)
    assert b.scale.data == 3 and b.scale.data.dtype == np.float32


def test_nothing_is_half_loaded():
    block = Block()
    before = {k: v.copy() for k, v in block.state_dict().items()}
    state = {k: np.zeros_like(v) for k, v in before.items()}
    del state["scale"]
    state["other"] = np.ones(3)
    state["norms.a.weight"] = np.ones(9, np.float32)
    state["norms.b.weight"] = np.ones(8, np.int32)
    with pytest.raises(WeightsError) as e:
        block.load_state_dict(state)
    assert str(e.value) == (
        "Block: the state dict does not fit, and nothing was loaded: missing scale; unexpected "
        "other; norms.a.weight is (9,), not (8,); norms.b.weight is int32, not f32")
    assert all((v == before[k]).all() for k, v in block.state_dict().items())
    assert all(p.version == 0 for p in block.parameters())


class Interrupted(Parameter):
    """Ctrl-C comes while its array is replaced."""

    __slots__ = ("count",)

    @property
    def version(self):
        return self.count

    @version.setter
    def version(self, value):
        self.count = value
        if value == 1:
            raise KeyboardInterrupt


def test_an_interrupt_half_way_leaves_what_was_there():
    block = Block()
    block.scale = Interrupted(block.scale.data)
    before = block.state_dict()
    with pytest.raises(KeyboardInterrupt):
        block.load_state_dict({k: np.zeros_like(v) for k, v in before.items()})
    assert all(v is before[k] for k, v in block.state_dict().items())
    assert all(p.version for p in block.parameters())  # so that programs look again


@pytest.mark.parametrize("state, text", [
    (3, "Linear: a state dict maps names to arrays; this is a int"),
    ({"weight": "text"}, "nothing was loaded: missing bias; weight is (), not (3, 4); "
                         "weight is <U4, not f32"),
    ({"weight": np.ones((3, 4), np.complex64), "bias": None}, "bias is (), not (3,); "
     "weight is complex64, not f32; bias is object, not f32")])
def test_states_that_hold_no_arrays(state, text):
    with pytest.raises(WeightsError) as e:
        nn.Linear(4, 3).load_state_dict(state)
    assert str(e.value).endswith(text)


def test_arrays_of_the_right_dtype_are_not_copied():
    layer = nn.Linear(2, 2, bias=False)
    w = np.ones((2, 2), np.float32)
    layer.load_state_dict({"weight": w})
    assert layer.weight.data is w


# ---- errors and text
def test_errors():
    with pytest.raises(ArgumentError, match="MultiHeadAttention: dim 8, heads 3 and kv_heads 3 do "
                                            "not divide"):
        nn.MultiHeadAttention(8, 3)
    for make, said in ((lambda: nn.Linear(-1, 3), r"not \(3, -1\)"),
                       (lambda: nn.LayerNorm(-2), r"not \(-2,\)"),
                       (lambda: nn.Embedding(2, tegg.dim("n")), r"not \(2, n\)")):
        with pytest.raises(ShapeError, match=f"the sizes of a parameter are ints .*, {said}"):
            make()
    with pytest.raises(ShapeError, match="a dim is an int or a symbolic dim, not 'a'"):
        nn.Linear("a", 3)
    with pytest.raises(ArgumentError, match="Linear: weight is a Parameter; to change its array "
                                            "write .weight.data = ..."):
        nn.Linear(2, 3).weight = np.ones((3, 2), np.float32)
    with pytest.raises(ArgumentError, match="a container holds Modules, not 3"):
        nn.Sequential(nn.ReLU(), 3)
    with pytest.raises(ArgumentError, match="Module has no forward; define forward"):
        nn.Module()()


def test_repr():
    class Net(nn.Module):
        def __init__(self):
            self.body = nn.ModuleList([nn.Linear(2, 3, bias=False)])
            self.body.append(nn.ReLU())
            self.table, self.norm = nn.Embedding(5, 2), nn.LayerNorm(3)

    assert repr(Net()) == """Net(
  body: ModuleList(
    0: Linear(2, 3, bias=False)
    1: ReLU()
  )
  table: Embedding(5, 2)
  norm: LayerNorm((3,), eps=1e-05)
)"""
    net = Net()
    assert len(net.body) == 2 and isinstance(net.body[1], nn.ReLU)
