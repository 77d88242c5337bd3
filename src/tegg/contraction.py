"""Contractions: which loop variables the axes of x, y and the result are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

Axes = tuple[str, ...]  # per axis the loop variable that indexes it; "" is an axis of size 1


@dataclass(frozen=True, slots=True)
class Spec:
    """``out[...] = sum x[...] * y[...]``; text form ``"a,b,k;n,k;a,b,n,"`` (x; y; out).

    Each letter is a loop variable and indexes at most one axis of an operand; an empty place is
    an axis of size 1. Letters that ``out`` lacks are summed, and stand in both operands. Sizes are
    read off the operands' shapes.
    """

    x: Axes
    y: Axes
    out: Axes
    _letters: tuple[str, str, str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Tell variables by what they index: all, x and out, y and out, x and y."""
        x, y, out = ("".join(axes) for axes in (self.x, self.y, self.out))
        object.__setattr__(self, "_letters", (
            "".join(c for c in out if c in x and c in y), "".join(c for c in out if c not in y),
            "".join(c for c in out if c not in x), "".join(c for c in x if c not in out)))

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(text: str) -> Spec:
        """The spec of a text. An operand of rank 0 is written ``-``."""
        x, y, out = (() if p == "-" else tuple(p.split(",")) for p in text.split(";"))
        return Spec(x, y, out)

    def __str__(self) -> str:
        return ";".join(",".join(p) if p else "-" for p in (self.x, self.y, self.out))

    @property
    def batch(self) -> str:
        """Variables of x, y and out."""
        return self._letters[0]

    @property
    def m(self) -> str:
        """Variables of x and out only."""
        return self._letters[1]

    @property
    def n(self) -> str:
        """Variables of y and out only."""
        return self._letters[2]

    @property
    def k(self) -> str:
        """Variables that are summed, in the order of x."""
        return self._letters[3]

    def sizes(self, x: tuple, y: tuple) -> dict[str, Any]:
        """Size of each variable, given the shapes of the operands."""
        out: dict[str, Any] = {}
        for axes, shape in ((self.x, x), (self.y, y)):
            out.update({a: n for a, n in zip(axes, shape) if a})
        return out

    def evaluate(self, x: np.ndarray, y: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The contraction in NumPy, through ``np.matmul``."""
        size = self.sizes(x.shape, y.shape)
        b, m, n, k = self.batch, self.m, self.n, self.k

        def arrange(v: np.ndarray, axes: Axes, *groups: str) -> np.ndarray:
            letters = [a for a in axes if a]
            v = v.reshape([size[a] for a in letters])
            v = v.transpose([letters.index(c) for g in groups for c in g])
            return v.reshape([_product(size[c] for c in g) for g in groups])

        out = arrange(x, self.x, b, m, k) @ arrange(y, self.y, b, k, n)
        order = b + m + n
        out = out.reshape([size[c] for c in order])
        wanted = "".join(self.out)
        return out.transpose([order.index(c) for c in wanted]).reshape(shape)


def _product(sizes) -> int:
    out = 1
    for s in sizes:
        out *= s
    return out
