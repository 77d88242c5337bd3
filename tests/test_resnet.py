"""ResNet in the layout of torchvision, against an implementation of its own in PyTorch."""

from __future__ import annotations

import json

import numpy as np
import pytest
from modules import agree, oracle

import tegg
from tegg.errors import ArgumentError, WeightsError
from tegg.models.resnet import ResNet, ResNetConfig

PIXELS = np.random.default_rng(0).normal(size=(2, 3, 33, 38)).astype(np.float32)
BASIC = ResNetConfig((1, 2), False, 5, 3, 4)
BOTTLENECK = ResNetConfig((2, 1), True, 5, 3, 4)


def weights(c, seed=0):
    """Random, by the names of files."""
    rng, out = np.random.default_rng(seed), {}

    def conv(name, o, i, k):
        out[f"{name}.weight"] = rng.normal(size=(o, i, k, k)) / np.sqrt(i * k * k)

    def norm(name, n):
        out.update({f"{name}.weight": rng.random(n) + 0.5, f"{name}.bias": rng.normal(size=n) / 3,
                    f"{name}.running_mean": rng.normal(size=n) / 3,
                    f"{name}.running_var": rng.random(n) + 0.5})

    conv("conv1", c.width, c.in_channels, 7)
    norm("bn1", c.width)
    into, width = c.width, c.width
    for stage, depth in enumerate(c.depths, 1):
        for i in range(depth):
            at, last = f"layer{stage}.{i}", width * (4 if c.bottleneck else 1)
            parts = ([(width, into, 1), (width, width, 3), (last, width, 1)] if c.bottleneck
                     else [(width, into, 3), (width, width, 3)])
            for j, part in enumerate(parts, 1):
                conv(f"{at}.conv{j}", *part)
                norm(f"{at}.bn{j}", part[0])
            if into != last or (stage > 1 and i == 0):
                conv(f"{at}.downsample.0", last, into, 1)
                norm(f"{at}.downsample.1", last)
            into = last
        width *= 2
    out["fc.weight"], out["fc.bias"] = rng.normal(size=(c.num_classes, into)), rng.normal(
        size=c.num_classes)
    return {k: v.astype(np.float32) for k, v in out.items()}


def torch_resnet(torch, c, w, x):
    F = torch.nn.functional

    def convolved(at, conv, bn, x, stride=1):
        kernel = w[f"{at}{conv}.weight"]
        x = F.conv2d(x, kernel, None, stride, kernel.shape[-1] // 2)
        return F.batch_norm(x, *(w[f"{at}{bn}.{n}"] for n in (
            "running_mean", "running_var", "weight", "bias")))

    x = F.max_pool2d(convolved("", "conv1", "bn1", x, 2).relu(), 3, 2, 1)
    last = 3 if c.bottleneck else 2
    for stage, depth in enumerate(c.depths, 1):
        for i in range(depth):
            at, stride = f"layer{stage}.{i}.", 2 if stage > 1 and i == 0 else 1
            y = x
            for j in range(1, last + 1):
                strided = j == (2 if c.bottleneck else 1)
                y = convolved(at, f"conv{j}", f"bn{j}", y, stride if strided else 1)
                y = y if j == last else y.relu()
            if f"{at}downsample.0.weight" in w:
                x = convolved(at, "downsample.0", "downsample.1", x, stride)
            x = (x + y).relu()
    return F.linear(F.adaptive_avg_pool2d(x, 1).flatten(1), w["fc.weight"], w["fc.bias"])


def loaded(c, folder, w):
    tegg.save_safetensors(folder / "model.safetensors", w)
    return ResNet.from_safetensors(folder, c)


CONFIGS = pytest.mark.parametrize("config", [BASIC, BOTTLENECK], ids=["basic", "bottleneck"])


@CONFIGS
def test_compiled_equals_the_oracle(config, tmp_path):
    got = agree(loaded(config, tmp_path, weights(config)), PIXELS, atol=1e-4)
    assert got.shape == (2, 5) and np.ptp(got, 1).min() > 0.1


@CONFIGS
def test_against_pytorch(config, tmp_path):
    torch = pytest.importorskip("torch")
    w = weights(config, 1)
    got, _ = oracle(loaded(config, tmp_path, w), PIXELS)
    want = torch_resnet(torch, config, {k: torch.from_numpy(v) for k, v in w.items()},
                        torch.from_numpy(PIXELS))
    np.testing.assert_allclose(got, want.numpy(), atol=1e-4)


def test_features(tmp_path):
    model = loaded(BASIC, tmp_path, weights(BASIC))
    assert oracle(model.features, PIXELS)[0].shape == (2, 8, 5, 5)


@pytest.mark.parametrize(("name", "parameters"), [
    ("resnet18", 11_689_512), ("resnet34", 21_797_672), ("resnet50", 25_557_032),
    ("resnet101", 44_549_160), ("resnet152", 60_192_808)])
def test_the_models_by_name_have_the_known_number_of_parameters(name, parameters):
    model = ResNet(ResNetConfig.named(name))
    assert sum(int(np.prod(p.shape)) for p in model.parameters()) == parameters


def test_configs_and_files(tmp_path):
    w = weights(ResNetConfig.named("resnet18", 3))
    tegg.save_safetensors(tmp_path / "model.safetensors", w)
    (tmp_path / "config.json").write_text(json.dumps(
        {"architecture": "resnet18", "num_classes": 3}))
    model = ResNet.from_safetensors(tmp_path)
    assert model.config == ResNetConfig(num_classes=3)
    assert (model.fc.bias.data == w["fc.bias"]).all()
    counted = {**w, "bn1.num_batches_tracked": np.int64(7)}
    tegg.save_safetensors(tmp_path / "model.safetensors", counted)
    assert ResNet.from_safetensors(tmp_path).bn1.num_batches_tracked.data == 7
    with pytest.raises(WeightsError, match="ResNet: the state dict does not fit"):
        ResNet.from_safetensors(tmp_path, "resnet18")  # of 1000 classes
    (tmp_path / "config.json").write_text('{"architecture": "vgg11"}')
    with pytest.raises(WeightsError, match="architecture: no ResNet 'vgg11'; there are resnet18"):
        ResNet.from_safetensors(tmp_path)
    with pytest.raises(ArgumentError, match="no ResNet 'resnet5'"):
        ResNet.from_safetensors(tmp_path, "resnet5")
