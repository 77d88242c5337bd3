"""Linear, Embedding and the norms of last axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tegg.dtype import DType, dtype as as_dtype
from tegg.nn.module import Module
from tegg.nn.parameter import Parameter
from tegg.ops.index import embedding
from tegg.ops.linalg import linear
from tegg.ops.norm import layer_norm, rms_norm
from tegg.ops.value import Operand
from tegg.shape import as_shape
from tegg.tensor import Tensor

Seed = int | np.random.Generator | None


def generator(seed: Seed) -> np.random.Generator:
    """A generator of its own for one parameter, so that the order of reading changes nothing."""
    return np.random.default_rng(seed).spawn(1)[0]


def uniform(shape: tuple[int, ...], bound: float, dtype: DType | str, seed: Seed) -> Parameter:
    """A parameter drawn from [-bound, bound) when it is first read."""
    rng, kind = generator(seed), as_dtype(dtype).numpy
    return Parameter.lazy(shape, dtype, lambda: rng.uniform(-bound, bound, shape).astype(kind))


def constant(shape: tuple[int, ...], value: float, dtype: DType | str) -> Parameter:
    """A parameter filled with one value."""
    kind = as_dtype(dtype).numpy
    return Parameter.lazy(shape, dtype, lambda: np.full(shape, value, kind))


class Linear(Module):
    """x weight^T + bias. weight: (out_features, in_features), bias: (out_features,), both drawn
    from +-1/sqrt(in_features), as in PyTorch; ``seed`` is an int or a NumPy Generator."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True,
                 dtype: DType | str = "f32", seed: Seed = None) -> None:
        as_shape((in_features, out_features))
        seed = np.random.default_rng(seed)
        bound = 1 / math.sqrt(max(in_features, 1))
        self.weight = uniform((out_features, in_features), bound, dtype, seed)
        self.bias = uniform((out_features,), bound, dtype, seed) if bias else None

    def forward(self, x: Operand) -> Tensor:
        return linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        out, into = self.weight.shape
        return f"{into}, {out}" + ("" if self.bias is not None else ", bias=False")


class Embedding(Module):
    """Rows of weight (num_embeddings, embedding_dim), drawn from a normal distribution, by
    integers. An index outside is clamped; one that is known while recording raises ShapeError."""

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: DType | str = "f32",
                 seed: Seed = None) -> None:
        shape, rng, kind = (num_embeddings, embedding_dim), generator(seed), as_dtype(dtype).numpy
        self.weight = Parameter.lazy(shape, dtype, lambda: rng.normal(size=shape).astype(kind))

    def forward(self, index: Operand) -> Tensor:
        return embedding(index, self.weight)

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.weight.shape))


class LayerNorm(Module):
    """``layer_norm`` over the last axes with a learned weight (1) and bias (0)."""

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-5, bias: bool = True,
                 dtype: DType | str = "f32") -> None:
        self.shape = _shape(normalized_shape)
        self.eps = eps
        self.weight = constant(self.shape, 1, dtype)
        self.bias = constant(self.shape, 0, dtype) if bias else None

    def forward(self, x: Operand) -> Tensor:
        return layer_norm(x, self.shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.shape}, eps={self.eps}"


class RMSNorm(Module):
    """``rms_norm`` over the last axes with a learned weight (1)."""

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-6,
                 dtype: DType | str = "f32") -> None:
        self.shape = _shape(normalized_shape)
        self.eps = eps
        self.weight = constant(self.shape, 1, dtype)

    def forward(self, x: Operand) -> Tensor:
        return rms_norm(x, self.shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.shape}, eps={self.eps}"


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
