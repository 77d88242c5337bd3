"""Calls of public ops, drawn: arrays of adversarial layouts, axes, sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tegg
from tegg.testing.strategies import FLOATS, array
from tegg.dtype import DTYPES, DType

NUMBERS = tuple(d for d in DTYPES.values() if d.kind != "bool")
INTS = tuple(d for d in DTYPES.values() if d.kind == "int")
ALL = tuple(DTYPES.values())
BOOL = (DTYPES["bool"],)
INDEX = (DTYPES["i32"], DTYPES["i64"])


@dataclass(frozen=True)
class Call:
    """Arguments in NumPy arrays, as a formula takes them and as an op does."""

    args: tuple
    kwargs: dict[str, Any]


def call(*args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs)


class Draw:
    """Short names for what samplers draw."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw = data.draw
        self.rng = np.random.default_rng(data.draw(st.integers(0, 2 ** 32 - 1)))

    def pick(self, values: Any) -> Any:
        return self.draw(st.sampled_from(list(values)))

    def int(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def shape(self, least: int = 0, most: int = 4, small: int = 0, large: int = 4
              ) -> tuple[int, ...]:
        """Mostly unequal sizes, sometimes a square or a size 1 or 0."""
        return tuple(self.draw(st.lists(st.integers(small, large), min_size=least,
                                        max_size=most)))

    def axis(self, shape: tuple[int, ...]) -> int:
        return self.int(-len(shape), len(shape) - 1)

    def axes(self, shape: tuple[int, ...]) -> Any:
        """None, one axis, or several."""
        some = tuple(i for i in range(len(shape)) if self.flag())
        some = tuple(i - len(shape) if self.flag() else i for i in some)
        return self.pick([None, *([self.axis(shape)] if shape else []), some])

    def other(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to ``shape``."""
        cut = shape[self.int(0, len(shape)):]
        return tuple(1 if self.flag() and self.flag() else n for n in cut)

    def x(self, shape: tuple[int, ...], dtypes: Any = FLOATS, domain: str = "any",
          specials: bool = False) -> np.ndarray:
        dtype = dtypes if isinstance(dtypes, DType) else self.pick(dtypes)
        return np.asarray(array(self.rng, shape, dtype, domain, specials))

    def index(self, shape: tuple[int, ...], n: int, low: int = 0) -> np.ndarray:
        """Integers in low .. n-1."""
        return self.rng.integers(low, n, shape).astype(self.pick(INDEX).numpy)


# ---- adversarial layouts: a base array and the view of it that is the value
def _layouts(x: np.ndarray) -> dict[str, Any]:
    """Name -> (base, view as recorded); every view has the value x."""
    rank = x.ndim
    out = {"plain": (x, lambda t: t)}
    if rank > 1:
        out["swapped"] = (np.ascontiguousarray(np.swapaxes(x, 0, -1)),
                          lambda t: t.transpose(0, rank - 1))
    if rank:
        out["flipped"] = (np.ascontiguousarray(np.flip(x)), lambda t: t.flip())
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
        wide[..., 1::2] = x
        out["strided"] = (wide, lambda t: t[..., 1::2])
        out["narrowed"] = (np.pad(x, [(1, 2)] * rank), lambda t: t[(slice(1, -2),) * rank])
    if rank and x.shape[0] == 1:
        out["expanded"] = (x.reshape(x.shape[1:]), lambda t: t.expand(1, *x.shape[1:]))
    if rank and x.size:
        out["flat"] = (x.reshape(-1), lambda t: t.reshape(x.shape))
    return out


@dataclass(frozen=True)
class Slot:
    """Stands in a recorded call for the view of a base array."""

    i: int
    view: Any


def lay_out(d: Draw, given: Call, bases: list[np.ndarray]) -> Call:
    """The call with its arrays in the layouts that are drawn; the bases are added to ``bases``."""
    def turn(v: Any) -> Any:
        if isinstance(v, np.ndarray):
            layouts = _layouts(v)
            base, view = layouts[d.pick(layouts)]
            bases.append(base)
            return Slot(len(bases) - 1, view)
        return _mapped(v, turn)
    return Call(turn(given.args), turn(given.kwargs))


def filled(given: Call, tensors: list) -> Call:
    """A laid out call on tensors."""
    def turn(v: Any) -> Any:
        return v.view(tensors[v.i]) if isinstance(v, Slot) else _mapped(v, turn)
    return Call(turn(given.args), turn(given.kwargs))


def wide(given: Call) -> Call:
    """A call whose halves are float32, in which the formulas are worked out."""
    def turn(v: Any) -> Any:
        if isinstance(v, np.ndarray):
            half = tegg.dtype(v.dtype).is_float and v.dtype.itemsize == 2
            return v.astype(np.float32) if half else v
        return _mapped(v, turn)
    return Call(turn(given.args), turn(given.kwargs))


def _mapped(v: Any, turn: Any) -> Any:
    if isinstance(v, dict):
        return {k: turn(x) for k, x in v.items()}
    return type(v)(map(turn, v)) if isinstance(v, (list, tuple)) else v


def first_dtype(given: Any) -> DType:
    """The dtype of the first array of a call."""
    todo = [*given.args, *given.kwargs.values()]
    while todo:
        v = todo.pop(0)
        if isinstance(v, np.ndarray):
            return tegg.dtype(v.dtype)
        if isinstance(v, (list, tuple)):
            todo = [*v, *todo]
    return tegg.f32


erf = np.vectorize(math.erf, otypes=[float])
