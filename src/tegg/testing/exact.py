"""Both sides of a law in exact arithmetic: rationals in the place of floats, no rounding at all.

A graph is evaluated element by element in a *domain*, which says what its scalars are: rationals
here, terms of a solver in ``tegg.testing.smt``. Functions that leave the rationals (exp2, log2,
sin, sqrt, erf) are *free*: nothing is assumed of them but that equal arguments give equal values.
What is equal with free functions is equal with the real ones, whatever they do.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial, reduce
from typing import Any, Protocol
from zlib import crc32

import numpy as np

from tegg.bits import value_of
from tegg.dim import evaluate as size_of
from tegg.dtype import DType, dtype as as_dtype, f64, widens
from tegg.ir.graph import Graph, Node
from tegg.ir.oracle import concrete

FREE = ("Log2", "Exp2", "Sin", "Sqrt", "Erf")
ELEMENTWISE = ("Add", "Mul", "Sub", "Neg", "Div", "Recip", "Select", "LessThan", "LessEqual",
               "Equal", "Not", "Maximum", "Minimum", "Relu", "Abs", "Contiguous")
OBJECTS = ("Reshape", "Permute", "Expand", "Slice", "Flip", "Window", "Gather")  # as NumPy moves
PRIME = 2 ** 31 - 1


class Undecided(Exception):
    """Exact arithmetic has nothing to say here: an infinity, a division by zero, an op beyond it.
    """


class Domain(Protocol):
    """What scalars are. op: a function of scalars for each name of ELEMENTWISE that it has."""

    @property
    def op(self) -> Mapping[str, Callable]: ...

    def full(self, value: float, dtype: DType) -> Any:
        """A constant."""

    def free(self, name: str, x: Any) -> Any:
        """A function of which nothing is known."""


class Evaluator:
    """Values of the nodes of a graph in a domain, as arrays of its scalars.

    Raises Undecided for an op that the domain lacks.
    """

    def __init__(self, graph: Graph, domain: Domain, inputs: Mapping[int, np.ndarray],
                 sizes: Mapping[str, int] | None = None) -> None:
        self.graph, self.domain, self.inputs = graph, domain, inputs
        self.sizes = sizes or {}
        self.values: dict[int, np.ndarray] = {}

    def shape(self, n: Node) -> tuple[int, ...]:
        """The shape of a node at the sizes of the run."""
        return tuple(size_of(d, self.sizes) for d in n.shape)

    def attrs(self, n: Node) -> tuple:
        """Its attributes at these sizes."""
        return concrete(n.attrs, n.op, self.sizes)

    def value(self, n: Node) -> np.ndarray:
        if n.id not in self.values:
            self.values[n.id] = found = self._value(n)
            if n.dtype.kind == "int" and not all(_inside(v, n.dtype) for v in found.flat):
                raise Undecided("an integer that wraps")
        return self.values[n.id]

    def _value(self, n: Node) -> np.ndarray:
        name = n.op.name
        for idiom in self.graph.idioms:
            if idiom.node is n and idiom.op.name in FREE:
                return self._map(partial(self.domain.free, idiom.op.name),
                                 self.value(idiom.args[0]))
        if name == "Input":
            return self.inputs[n.attrs[0]]
        if name in ("Full", "Size", "Iota"):
            return self._source(n)
        if name in ELEMENTWISE:
            if name not in self.domain.op:
                raise Undecided(name)
            return self._map(self.domain.op[name], *map(self.value, n.args))
        if name in FREE:
            return self._map(partial(self.domain.free, name), self.value(n.args[0]))
        if name in ("SumReduce", "MaxReduce"):
            return self._reduce(n)
        if name == "Pad":
            return self._pad(n)
        if name in OBJECTS:
            return self._moved(n)
        if name == "Cast" and _exact(n.args[0].dtype, n.dtype):
            return self.value(n.args[0])
        if n.op.expand is None:
            raise Undecided(name)
        return self.value(self.graph.expansion(name, *n.args, *n.attrs))

    def _moved(self, n: Node) -> np.ndarray:
        x, *index = map(self.value, n.args)
        if any(not isinstance(i, int) for a in index for i in a.flat):
            raise Undecided("an index that is not known")
        arrays = [x, *(a.astype(np.int64) for a in index)]
        assert n.op.meaning is not None
        moved = n.op.meaning(arrays, self.attrs(n), self.shape(n), n.dtype)
        if n.shape:
            return np.asarray(moved, object)
        out = np.empty((), object)
        out[()] = moved.item() if isinstance(moved, np.ndarray) else moved
        return out

    def _source(self, n: Node) -> np.ndarray:
        if n.op.name == "Full":
            return self._filled(self.shape(n), n.attrs[2], n.dtype)
        assert n.op.meaning is not None
        exact = n.op.meaning([], self.attrs(n), self.shape(n), n.dtype)
        return self._map(lambda v: self.domain.full(v, n.dtype), exact.astype(object))

    def _filled(self, shape: tuple, bits: int, dtype: DType) -> np.ndarray:
        out = np.empty(shape, object)
        out[...] = self.domain.full(value_of(bits, dtype), dtype)
        return out

    @staticmethod
    def _map(f: Callable, *arrays: np.ndarray) -> np.ndarray:
        out = np.empty(arrays[0].shape, object)
        for i in np.ndindex(out.shape):
            out[i] = f(*(a[i] for a in arrays))
        return out

    def _reduce(self, n: Node) -> np.ndarray:
        x, (axis,) = self.value(n.args[0]), n.attrs
        rows = np.moveaxis(x, axis, -1)
        sums = n.op.name == "SumReduce"
        f = self.domain.op.get("Sum" if sums and x.shape[axis] > 1 else
                               "Add" if sums else "Maximum")
        if f is None or not (x.shape[axis] or sums):
            raise Undecided(n.op.name)
        out = np.empty(rows.shape[:-1], object)
        for i in np.ndindex(out.shape):
            out[i] = reduce(f, rows[i]) if x.shape[axis] else self.domain.full(0.0, n.dtype)
        return np.expand_dims(out, axis)

    def _pad(self, n: Node) -> np.ndarray:
        low, high, fill = self.attrs(n)
        shape = self.shape(n)
        if not shape:
            return self.value(n.args[0])
        out = self._filled(shape, fill, n.dtype)
        out[tuple(slice(a, d - b) for a, b, d in zip(low, high, shape))] = self.value(n.args[0])
        return out


# ---- rationals
def _divide(a: Fraction, b: Fraction) -> Fraction:
    if b == 0:
        raise Undecided("a division by zero")
    return a / b


def _either(a: Any, b: Any) -> Any:
    """Add and Mul of bool are or and and."""
    return (a or b) if isinstance(a, bool) else a + b


def _both(a: Any, b: Any) -> Any:
    return (a and b) if isinstance(a, bool) else a * b


RATIONAL: Mapping[str, Callable] = {
    "Add": _either, "Sum": _either, "Mul": _both, "Sub": operator.sub, "Neg": operator.neg,
    "Div": _divide, "Recip": lambda a: _divide(Fraction(1), a), "LessThan": operator.lt,
    "LessEqual": operator.le, "Equal": operator.eq, "Not": operator.not_, "Maximum": max,
    "Minimum": min, "Relu": lambda a: max(a, 0), "Abs": abs, "Contiguous": lambda a: a,
    "Select": lambda c, a, b: a if c else b}


class Rationals:
    """Fractions, bools and ints. used: whether a free function had a say."""

    op = RATIONAL

    def __init__(self) -> None:
        self.used = False

    def full(self, value: float, dtype: DType) -> Any:
        """A float constant stands for the simplest fraction that rounds to it: 1/3 for 0.333..."""
        if not dtype.is_float:
            return bool(value) if dtype.kind == "bool" else int(value)
        return simplest(value, dtype)

    def free(self, name: str, x: Fraction) -> Fraction:
        """A number that looks random, the same for the same argument."""
        self.used = True
        code = crc32(f"{name} {x}".encode())
        return Fraction(code % PRIME + 1, crc32(f"{x} {name}".encode()) % 1000 + 1)


def simplest(value: float, dtype: DType = f64) -> Fraction:
    """The fraction of the smallest denominator that rounds to a float in a dtype."""
    kind = dtype.numpy.type
    with np.errstate(over="ignore"):
        here = kind(value)
        ends = np.nextafter(here, kind(0)), np.nextafter(here, kind(np.inf))
    if not np.isfinite(here):
        raise Undecided("an infinity or NaN")
    if here < 0:
        return -simplest(-value, dtype)
    if here == 0:
        return Fraction(0)
    exact = Fraction(float(here))
    low = (exact + Fraction(float(ends[0]))) / 2
    beyond = Fraction(float(ends[1])) if np.isfinite(ends[1]) else 3 * exact - 2 * low
    return _between(low, (exact + beyond) / 2)


def _between(low: Fraction, high: Fraction) -> Fraction:
    """The fraction of the smallest denominator with ``low < it < high``, for ``0 <= low``."""
    whole = low.numerator // low.denominator
    if whole + 1 < high:
        return Fraction(whole + 1)
    if low == whole:  # between whole and at most whole + 1: the first 1 / n that is small enough
        n = 1 / (high - whole)
        return whole + Fraction(1, n.numerator // n.denominator + 1)
    return whole + 1 / _between(1 / (high - whole), 1 / (low - whole))


def rationals(array: np.ndarray) -> np.ndarray:
    """The elements of an array as they are, without rounding. Raises Undecided beyond them."""
    out = np.empty(array.shape, object)
    for i in np.ndindex(array.shape):
        x = array[i].item()
        if isinstance(x, float) and not np.isfinite(x):
            raise Undecided("an infinity or NaN")
        out[i] = Fraction(x) if isinstance(x, float) else x
    return out


def _inside(value: Any, dtype: DType) -> bool:
    """Whether an integer, where it is known, is one of a dtype."""
    info = np.iinfo(dtype.numpy)
    return not isinstance(value, int) or info.min <= value <= info.max


def _exact(a: DType, b: DType) -> bool:
    """Whether a cast changes no value: to the same dtype, or to a wider float."""
    return a is b or widens(a, b)


def exactly(graph: Graph, a: Node, b: Node, arrays: Mapping[int, np.ndarray],
            sizes: Mapping[str, int] | None = None) -> bool | None:
    """Whether two nodes are equal in exact arithmetic; None where that decides nothing.

    They may differ with free functions and yet be equal: then nothing is decided.
    """
    domain = Rationals()
    try:
        inputs = {slot: rationals(x.astype(np.float64)) if as_dtype(x.dtype).is_float
                  else x.astype(object) for slot, x in arrays.items()}
        run = Evaluator(graph, domain, inputs, sizes)
        same = bool(np.array_equal(run.value(a), run.value(b)))
    except Undecided:
        return None
    return same or (None if domain.used else False)
