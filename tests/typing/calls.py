"""What a type checker says of calls that users write. Checked by mypy, never run."""

from typing import Any, assert_type

import numpy as np

import tegg
from tegg import Tensor


def functions(x: Tensor, y: Tensor, a: np.ndarray) -> None:
    assert_type(tegg.softmax(x, -1), Tensor)
    assert_type(tegg.softmax(x, dim=-1), Tensor)
    assert_type(tegg.softmax(x, axis=-1), Tensor)
    assert_type(tegg.concatenate([x, y], axis=0), Tensor)
    assert_type(tegg.cat((x, a), 1), Tensor)
    assert_type(tegg.where(x > 0, x, 0.0), Tensor)
    assert_type(tegg.clip(x, 0, 1), Tensor)
    assert_type(tegg.topk(x, 3).indices, Tensor)
    assert_type(tegg.var(x, axis=0, ddof=1, keepdims=True), Tensor)


def methods(x: Tensor, y: Tensor) -> None:
    assert_type(x.softmax(-1), Tensor)
    assert_type(x.sum(axis=(0, 1), keepdims=True), Tensor)
    assert_type(x.sum(0, keepdim=True), Tensor)
    assert_type(x.multiply(y).absolute().amax(), Tensor)
    assert_type(x.view(3, -1).permute(1, 0).astype("f16"), Tensor)
    assert_type(x.split(2, axis=1), tuple[Tensor, ...])
    assert_type(x.gelu("tanh").relu(), Tensor)
    assert_type(x.T @ y, Tensor)


def operators(x: Tensor, y: Tensor) -> None:
    assert_type(x @ y, Tensor)
    assert_type(x[1:, ..., None], Tensor)
    assert_type(x[x.argmax(0), ::-1], Tensor)
    assert_type(2 - x * y / 3 ** x, Tensor)
    assert_type((x < y) & ~(x == y), Tensor)
    assert_type(-abs(x) % 2 // y, Tensor)


def refused(x: Tensor) -> None:
    x.sofmax(-1)  # type: ignore[attr-defined]
    x.softmax(dmi=1)  # type: ignore[call-overload]
    tegg.sofmax(x)  # type: ignore[attr-defined]


@tegg.compile
def compiled(a: np.ndarray) -> Tensor:
    return tegg.relu(a)


def calls(a: np.ndarray, g: tegg.Graph) -> None:
    assert_type(compiled(a), Any)
    assert_type(tegg.compile(compiled)(a), Any)
    assert_type(tegg.compile(dims={"a": (tegg.dim("n"), None)})(compiled)(a), Any)
    assert_type(compiled.explain(), str)
    assert_type(tegg.compile(g).explain(), str)
