"""Norms of channels against NumPy; the layers over convolutions, pools and norms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tegg
from recorded import check, check_error, run
from spatial_reference import convolved
from tegg.testing.strategies import array
from tegg import nn
from tegg.dtype import f16, f32, f64
from tegg.errors import ArgumentError, ShapeError, WeightsError


def normal(x, axes):
    c = x - x.mean(axes, keepdims=True)
    return c / np.sqrt((c * c).mean(axes, keepdims=True) + 1e-5)


def across(v, x):
    return v.reshape(-1, *[1] * (x.ndim - 2))


@given(places=st.lists(st.integers(1, 4), max_size=3), groups=st.integers(1, 3),
       each=st.integers(1, 3), dtype=st.sampled_from([f64, f32, f16]), seed=st.integers(0, 99))
def test_norms(places, groups, each, dtype, seed):
    rng = np.random.default_rng(seed)
    channels = groups * each
    x, w, b, m = (array(rng, s, dtype, "small") for s in ((2, channels, *places),
                                                          *[(channels,)] * 3))
    v = array(rng, (channels,), dtype, "positive")
    check(tegg.batch_norm, lambda x, m, v, w, b: (x - across(m, x)) / np.sqrt(
        across(v, x) + x.dtype.type(1e-5)) * across(w, x) + across(b, x), x, m, v, w, b, slack=80)

    def grouped(x, w, b, g=groups):
        flat = normal(x.astype(float).reshape(2, g, -1), 2).reshape(x.shape)
        return (flat * across(w, x) + across(b, x)).astype(x.dtype)

    check(lambda x, w, b: tegg.group_norm(x, groups, w, b), grouped, x, w, b, slack=80)
    check(tegg.instance_norm, lambda x, w, b: grouped(x, w, b, channels), x, w, b, slack=80)


def net():
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, seed=0), nn.BatchNorm2d(4), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Dropout(0.3), nn.GroupNorm(2, 4),
                         nn.ConvTranspose2d(4, 2, 2, stride=2, seed=1), nn.AvgPool2d(2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Unflatten(1, (1, 2)),
                         nn.Identity())


def test_names_and_shapes_are_those_of_pytorch():
    shapes = {k: v.shape for k, v in net().state_dict().items()}
    assert shapes == {
        "0.weight": (4, 3, 3, 3), "0.bias": (4,), "1.weight": (4,), "1.bias": (4,),
        "1.running_mean": (4,), "1.running_var": (4,), "1.num_batches_tracked": (),
        "5.weight": (4,), "5.bias": (4,), "6.weight": (4, 2, 2, 2), "6.bias": (2,)}
    assert list(shapes) == list(net().state_dict())


def test_a_net_computes_what_its_functions_do():
    model, x = net(), np.random.default_rng(0).normal(size=(2, 3, 4, 6)).astype(np.float32)
    p = model.state_dict()
    model.load_state_dict({**p, "1.running_mean": p["1.running_mean"] + 0.5,
                           "1.running_var": p["1.running_var"] * 2})
    got = run(model, x)
    y = convolved(x, p["0.weight"], (1, 1), (1, 1), (1, 1), (1, 1), 1) + across(p["0.bias"], x)
    y = np.maximum((y - 0.5) / np.sqrt(2 + 1e-5), 0).reshape(2, 4, 2, 2, 3, 2).max((3, 5))
    y = normal(y.reshape(2, 2, -1), 2).reshape(2, 4, 2, 3)
    y = np.einsum("ncij,coab->noiajb", y, p["6.weight"]).reshape(2, 2, 4, 6) + across(
        p["6.bias"], y)
    np.testing.assert_allclose(got, y.mean((2, 3))[:, None], atol=1e-5)
    np.testing.assert_allclose(tegg.compile(model)(x), got, atol=1e-5)


def test_buffers_are_no_parameters():
    model = net()
    assert [n for n, _ in model.named_buffers()] == [
        "1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert not {id(b) for b in model.buffers()} & {id(p) for p in model.parameters()}
    with pytest.raises(WeightsError, match="missing 1.running_mean"):
        model.load_state_dict({k: v for k, v in model.state_dict().items()
                               if k != "1.running_mean"})


def test_training_mode():
    model, x = net(), np.ones((1, 3, 4, 4), np.float32)
    assert model.train() is model and model[4].training and len(model) == 12
    check_error(lambda x: model[1](model[0](x)), ArgumentError,
                "BatchNorm2d: statistics of the batch are not there; call .eval()", x)
    check_error(lambda x: model[4](x), ArgumentError,
                "Dropout: nothing can be dropped at random; call .eval() before it is traced", x)
    assert run(model.eval(), x).shape == (1, 1, 2) and not model[1].training


def test_containers():
    two = nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.ReLU()})
    assert list(two) == list(two.keys()) == ["a", "b"] and len(two) == 2 and "a" in two
    assert "c" not in two and list(two.values())[1] is two["b"]
    assert [k for k, _ in two.items()] == ["a", "b"]
    assert list(two.state_dict()) == ["a.weight", "a.bias"]
    with pytest.raises(ArgumentError, match="ModuleDict: no module 'c'; it has a, b"):
        two["c"]
    with pytest.raises(ArgumentError, match="ModuleDict: 'forward' cannot name a module"):
        two["forward"] = nn.ReLU()
    with pytest.raises(ArgumentError, match="a container holds Modules, not 3"):
        two["c"] = 3


@pytest.mark.parametrize(("layer", "shape", "want"), [
    (lambda: nn.Conv1d(2, 4, 3, groups=2), (1, 2, 5), (1, 4, 3)),
    (lambda: nn.Conv3d(2, 4, 2, bias=False), (1, 2, 3, 3, 3), (1, 4, 2, 2, 2)),
    (lambda: nn.Conv2d(2, 4, 3, padding="same"), (1, 2, 5, 6), (1, 4, 5, 6)),
    (lambda: nn.ConvTranspose1d(2, 4, 3, 2, 1, 1, 2), (1, 2, 5), (1, 4, 10)),
    (lambda: nn.ConvTranspose3d(2, 4, 2), (1, 2, 2, 2, 2), (1, 4, 3, 3, 3)),
    (lambda: nn.MaxPool1d(2), (1, 2, 5), (1, 2, 2)),
    (lambda: nn.MaxPool3d(2, ceil_mode=True), (1, 2, 3, 3, 3), (1, 2, 2, 2, 2)),
    (lambda: nn.AvgPool1d(2), (1, 2, 5), (1, 2, 2)), (lambda: nn.AvgPool3d(2), (1, 2, 2, 2, 2),
                                                     (1, 2, 1, 1, 1)),
    (lambda: nn.AdaptiveAvgPool1d(2), (1, 2, 5), (1, 2, 2)),
    (lambda: nn.AdaptiveAvgPool3d(1), (1, 2, 5, 4, 3), (1, 2, 1, 1, 1)),
    (lambda: nn.AdaptiveMaxPool1d(2), (1, 2, 5), (1, 2, 2)),
    (lambda: nn.AdaptiveMaxPool2d(2), (1, 2, 5, 4), (1, 2, 2, 2)),
    (lambda: nn.AdaptiveMaxPool3d(1), (1, 2, 5, 4, 3), (1, 2, 1, 1, 1)),
    (lambda: nn.BatchNorm1d(2), (3, 2), (3, 2)), (lambda: nn.BatchNorm3d(2, affine=False),
                                                 (1, 2, 1, 1, 1), (1, 2, 1, 1, 1)),
    (lambda: nn.InstanceNorm1d(2), (3, 2, 4), (3, 2, 4)),
    (lambda: nn.InstanceNorm2d(2, affine=True), (3, 2, 4, 4), (3, 2, 4, 4)),
    (lambda: nn.InstanceNorm3d(2), (3, 2, 4, 1, 2), (3, 2, 4, 1, 2)),
    (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 3), (1, 2, 6, 6)),
])
def test_layers(layer, shape, want):
    module = layer()
    assert run(module, np.ones(shape, np.float32)).shape == want
    assert repr(module).startswith(type(module).__name__ + "(")


X = np.ones((2, 6, 4))
ERRORS = [
    (lambda x: tegg.batch_norm(x[0, 0], x[0, 0], x[0, 0]), ShapeError,
     "batch_norm: takes (batch, channels, ...), not (4,)"),
    (lambda x: tegg.batch_norm(x, x[0, 0], x[0, 0]), ShapeError,
     "batch_norm: (2, 6, 4) has 6 channels; weight, bias and statistics have shape (6,), not (4,)"),
    (lambda x: tegg.group_norm(x, 4), ShapeError,
     "group_norm: 4 groups do not divide 6 channels"),
    (lambda x: tegg.group_norm(x, 0), ArgumentError,
     "group_norm: num_groups is an int of at least 1, not 0"),
    (lambda x: nn.BatchNorm2d(6)(x), ShapeError, "BatchNorm2d: takes 4 axes, not (2, 6, 4)"),
    (lambda x: nn.BatchNorm1d(6, track_running_stats=False), ArgumentError,
     "BatchNorm1d: statistics of the batch are not there; leave track_running_stats=True"),
    (lambda x: nn.GroupNorm(4, 6), ArgumentError, "GroupNorm: 4 groups do not divide 6 channels"),
    (lambda x: nn.Conv1d(6, 4, 3, groups=3), ArgumentError,
     "Conv1d: 3 groups do not divide 6 input and 4 output channels"),
    (lambda x: nn.Conv1d(6, 4, 0), ArgumentError,
     "Conv1d: kernel_size is an int of at least 1, or 1 of them, not 0"),
    (lambda x: nn.Dropout(2), ArgumentError, "Dropout: p is a probability, not 2"),
]


@pytest.mark.parametrize(("fn", "kind", "text"), ERRORS)
def test_errors(fn, kind, text):
    check_error(fn, kind, text, X)
