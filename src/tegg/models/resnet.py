"""ResNet: residual blocks of convolutions, in the layout of torchvision (and timm)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tegg.errors import ArgumentError, WeightsError
from tegg.models.files import PathLike, config_beside, read_config, read_weights
from tegg.nn import BatchNorm2d, Conv2d, Linear, MaxPool2d, Module, Sequential
from tegg.ops import mean, relu
from tegg.tensor import Tensor

_DEPTHS = {"resnet18": (False, (2, 2, 2, 2)), "resnet34": (False, (3, 4, 6, 3)),
           "resnet50": (True, (3, 4, 6, 3)), "resnet101": (True, (3, 4, 23, 3)),
           "resnet152": (True, (3, 8, 36, 3))}


@dataclass(frozen=True, slots=True)
class ResNetConfig:
    """Blocks per stage, whether they are bottlenecks, classes, channels of the images, and of the
    first stage. The defaults are ResNet-18's."""

    depths: tuple[int, ...] = (2, 2, 2, 2)
    bottleneck: bool = False
    num_classes: int = 1000
    in_channels: int = 3
    width: int = 64

    @classmethod
    def named(cls, name: str, num_classes: int = 1000) -> ResNetConfig:
        """``resnet18``, ``resnet34``, ``resnet50``, ``resnet101`` or ``resnet152``. Raises
        ArgumentError for another name."""
        if name not in _DEPTHS:
            raise ArgumentError(f"no ResNet {name!r}; there are {', '.join(_DEPTHS)}")
        bottleneck, depths = _DEPTHS[name]
        return cls(depths, bottleneck, num_classes)

    @classmethod
    def from_json(cls, path: PathLike) -> ResNetConfig:
        """The model that a ``config.json`` names by ``architecture`` and ``num_classes``, as timm
        writes it (torchvision writes none). Raises WeightsError for another kind of model."""
        config = read_config(path, {})
        try:
            return cls.named(config.get("architecture", ""), config.get("num_classes", 1000))
        except ArgumentError as e:
            raise WeightsError(f"{path}: architecture: {e}") from None


class _Block(Module):
    """Convolutions whose result is added to the input, itself convolved where sizes differ."""

    expansion: int

    def _shortcut(self, into: int, out: int, stride: int) -> Sequential | None:
        if stride == 1 and into == out:
            return None
        return Sequential(Conv2d(into, out, 1, stride, bias=False), BatchNorm2d(out))

    def _added(self, x: Tensor, y: Tensor) -> Tensor:
        return relu(y + (x if self.downsample is None else self.downsample(x)))

    downsample: Sequential | None


class BasicBlock(_Block):
    """Two convolutions of 3 x 3."""

    expansion = 1

    def __init__(self, into: int, width: int, stride: int) -> None:
        self.conv1 = Conv2d(into, width, 3, stride, 1, bias=False)
        self.bn1 = BatchNorm2d(width)
        self.conv2 = Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = BatchNorm2d(width)
        self.downsample = self._shortcut(into, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = relu(self.bn1(self.conv1(x)))
        return self._added(x, self.bn2(self.conv2(y)))


class Bottleneck(_Block):
    """1 x 1, 3 x 3 with the stride, and 1 x 1 to four times the width."""

    expansion = 4

    def __init__(self, into: int, width: int, stride: int) -> None:
        out = width * self.expansion
        self.conv1 = Conv2d(into, width, 1, bias=False)
        self.bn1 = BatchNorm2d(width)
        self.conv2 = Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = BatchNorm2d(width)
        self.conv3 = Conv2d(width, out, 1, bias=False)
        self.bn3 = BatchNorm2d(out)
        self.downsample = self._shortcut(into, out, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = relu(self.bn1(self.conv1(x)))
        y = relu(self.bn2(self.conv2(y)))
        return self._added(x, self.bn3(self.conv3(y)))


class ResNet(Module):
    """Images (batch, in_channels, height, width), normalised as in training, to logits (batch,
    num_classes). Height and width are 32 or more, of any size.

    ``from_safetensors`` loads the state dicts of torchvision and timm, which are the same.
    """

    def __init__(self, config: ResNetConfig | None = None) -> None:
        config = config or ResNetConfig()
        block = Bottleneck if config.bottleneck else BasicBlock
        width = into = config.width
        self.config = config
        self.conv1 = Conv2d(config.in_channels, width, 7, 2, 3, bias=False)
        self.bn1 = BatchNorm2d(width)
        self.maxpool = MaxPool2d(3, 2, 1)
        for stage, depth in enumerate(config.depths):
            blocks = []
            for i in range(depth):
                blocks.append(block(into, width, 2 if stage and i == 0 else 1))
                into = width * block.expansion
            setattr(self, f"layer{stage + 1}", Sequential(*blocks))
            width *= 2
        self.fc = Linear(into, config.num_classes)

    def features(self, pixels: Tensor) -> Tensor:
        """What the last stage gives: (batch, channels, height / 32, width / 32) for four stages."""
        x = self.maxpool(relu(self.bn1(self.conv1(pixels))))
        for stage in range(len(self.config.depths)):
            x = getattr(self, f"layer{stage + 1}")(x)
        return x

    def forward(self, pixels: Tensor) -> Tensor:
        return self.fc(mean(self.features(pixels), (-2, -1)))

    @classmethod
    def from_safetensors(cls, path: PathLike, config: ResNetConfig | str | None = None) -> ResNet:
        """The model in a file, or in a folder that holds ``model.safetensors``. ``config`` may be
        a name such as ``"resnet50"``; without it a ``config.json`` beside the weights has it.

        Raises WeightsError where something is missing, damaged, or does not fit.
        """
        if isinstance(config, str):
            config = ResNetConfig.named(config)
        model = cls(config or ResNetConfig.from_json(config_beside(path)))
        state: dict[str, Any] = dict(read_weights(path))
        for name, _ in model.named_buffers():  # a count of training steps, which old files lack
            if name.endswith("num_batches_tracked"):
                state.setdefault(name, np.zeros((), np.int64))
        model.load_state_dict(state)
        return model
