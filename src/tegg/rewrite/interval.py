"""Intervals of integers: bounds that hold of every element, ints or dims, and how ops move them.

An operation of a dtype wraps. A bound that may wrap is no bound: then the dtype's own are left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from tegg.dim import Dim, Facts, Poly
from tegg.dtype import DType

MOST = 3  # bounds kept on one side: the best int, and dims that it does not imply
LARGEST = 2 ** 60  # of any symbol: no memory is larger, and kernels compute positions in 64 bits


@dataclass(frozen=True, slots=True)
class Interval:
    """Every element is at least each of ``lows`` and at most each of ``highs``.

    The first of both is an int; the others are symbolic dims. Of no elements anything holds.
    """

    lows: tuple[Dim, ...]
    highs: tuple[Dim, ...]

    @property
    def low(self) -> int:
        """The best bound below that is a number."""
        return int(self.lows[0])

    @property
    def high(self) -> int:
        """The best bound above that is a number."""
        return int(self.highs[0])

    @property
    def value(self) -> int | None:
        """The one number that every element is, or None."""
        return self.low if self.low == self.high else None

    @property
    def empty(self) -> bool:
        """Whether no number is inside: there is no such element."""
        return self.low > self.high


FALSE, TRUE, EITHER = Interval((0,), (0,)), Interval((1,), (1,)), Interval((0,), (1,))


def whole(dtype: DType) -> Interval:
    """All values of a dtype, an integer one or bool."""
    if dtype.kind == "bool":
        return EITHER
    info = np.iinfo(dtype.numpy)
    return Interval((int(info.min),), (int(info.max),))


def point(value: int) -> Interval:
    """One number."""
    return Interval((value,), (value,))


def largest(x: Dim) -> int:
    """What a dim cannot exceed, by the bounds of its symbols, of which none is above LARGEST."""
    if not isinstance(x, Poly):
        return x
    return sum(c * prod((LARGEST if s.max is None else s.max) if c > 0 else s.min for s in m)
               for m, c in x.terms.items())


def least(x: Dim) -> int:
    """What a dim cannot be below, by the bounds of its symbols."""
    return -largest(-1 * x)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Arithmetic of intervals, with what is known of symbolic sizes."""

    facts: Facts

    # ---- proofs
    def at_most(self, a: Dim, b: Dim) -> bool:
        """Whether a <= b is proven."""
        return largest(a - b) <= 0 or self.facts.nonnegative(b - a)

    def below(self, x: Interval, n: Dim) -> bool:
        """Whether every element is less than n."""
        return any(self.at_most(h, n - 1) for h in x.highs)

    # ---- making
    def bounded(self, lows: Iterable[Dim], highs: Iterable[Dim], dtype: DType) -> Interval:
        """An exact result as one of a dtype: all of it, where a bound of it is not in there."""
        full, lows, highs = whole(dtype), list(lows), list(highs)
        if not any(self.at_most(full.low, v) for v in lows) or not any(
                self.at_most(h, full.high) for h in highs):
            return full
        return self.meet(full, Interval((full.low, *lows), (full.high, *highs)))

    def meet(self, a: Interval, b: Interval) -> Interval:
        """What is in both."""
        return Interval(self._kept((*a.lows, *b.lows), -1), self._kept((*a.highs, *b.highs), 1))

    def _kept(self, bounds: tuple[Dim, ...], sign: int) -> tuple[Dim, ...]:
        """The best number, and dims that it does not imply. sign: 1 for upper bounds."""
        numbers = [b for b in bounds if isinstance(b, int)]
        out: list[Dim] = [min(numbers) if sign > 0 else max(numbers)]
        for b in dict.fromkeys(b for b in bounds if not isinstance(b, int)):
            if not any(self.at_most(*((o, b) if sign > 0 else (b, o))) for o in out):
                out.append(b)
        return tuple(out[:MOST])

    def join(self, a: Interval, b: Interval) -> Interval:
        """What is in either."""
        if a.empty or b.empty:
            return b if a.empty else a
        lows = [v for x, y in ((a, b), (b, a)) for v in x.lows
                if any(self.at_most(v, w) for w in y.lows)]
        highs = [v for x, y in ((a, b), (b, a)) for v in x.highs
                 if any(self.at_most(w, v) for w in y.highs)]
        return Interval(self._kept((min(a.low, b.low), *lows), -1),
                        self._kept((max(a.high, b.high), *highs), 1))

    # ---- arithmetic
    def add(self, a: Interval, b: Interval, dtype: DType) -> Interval:
        return self.bounded((x + y for x, y in product(a.lows, b.lows)),
                            (x + y for x, y in product(a.highs, b.highs)), dtype)

    def neg(self, a: Interval, dtype: DType) -> Interval:
        return self.bounded((-1 * v for v in a.highs), (-1 * v for v in a.lows), dtype)

    def sub(self, a: Interval, b: Interval, dtype: DType) -> Interval:
        return self.bounded((x - y for x, y in product(a.lows, b.highs)),
                            (x - y for x, y in product(a.highs, b.lows)), dtype)

    def mul(self, a: Interval, b: Interval, dtype: DType) -> Interval:
        corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        lows: list[Dim] = [min(corners)]
        highs: list[Dim] = [max(corners)]
        if a.low >= 0 and b.low >= 0:
            lows += [x * y for x, y in product(a.lows, b.lows) if _known(x, y, self.facts)]
            highs += [x * y for x, y in product(a.highs, b.highs)]
        for x, c in ((a, b.value), (b, a.value)):
            if c is not None:
                lows += [v * c for v in (x.lows if c >= 0 else x.highs)]
                highs += [v * c for v in (x.highs if c >= 0 else x.lows)]
        return self.bounded(lows, highs, dtype)

    def mod(self, a: Interval, b: Interval, dtype: DType) -> Interval:
        """fmod: the sign of a, less than b in size and at most a; 0 where b is 0."""
        size = max(abs(b.low), abs(b.high), 1) - 1
        sizes: list[Dim] = [size]
        if b.low >= 1:
            sizes += [v - 1 for v in b.highs]
        lows = [0] if a.low >= 0 else [-1 * v for v in sizes]
        highs = [0] if a.high <= 0 else sizes
        out = self.bounded(lows, highs, dtype)
        inside = Interval((min(a.low, 0), *(v for v in a.lows if self.at_most(v, 0))),
                          (max(a.high, 0), *(v for v in a.highs if self.at_most(0, v))))
        return self.meet(out, inside)

    def int_div(self, a: Interval, b: Interval, dtype: DType) -> Interval:
        """Towards 0; 0 where b is 0; the lowest by -1 wraps."""
        if b.low < 1:
            size = max(abs(a.low), abs(a.high))
            low = 0 if a.low >= 0 and b.low >= 0 else -size
            return self.meet(whole(dtype), Interval((low,), (size,)))
        corners = [_truncated(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        highs = a.highs if a.low >= 0 else ()
        return self.bounded([min(corners)], [max(corners), *highs], dtype)

    def maximum(self, a: Interval, b: Interval) -> Interval:
        return Interval(self._kept((*a.lows, *b.lows), -1), self.join(a, b).highs)

    def minimum(self, a: Interval, b: Interval) -> Interval:
        return Interval(self.join(a, b).lows, self._kept((*a.highs, *b.highs), 1))

    def absolute(self, a: Interval, dtype: DType) -> Interval:
        if a.low >= 0:
            return a
        return self.bounded([0], [max(-a.low, a.high)], dtype)

    def total(self, a: Interval, n: Dim, dtype: DType) -> Interval:
        """The sum of n elements."""
        return self.bounded((v * n for v in a.lows), (v * n for v in a.highs), dtype)

    # ---- comparison
    def less(self, a: Interval, b: Interval) -> Interval:
        """a < b, as far as it is decided."""
        return self._decided(any(self.below(a, v) for v in b.lows),
                             any(self.at_most(h, v) for h in b.highs for v in a.lows))

    def equal(self, a: Interval, b: Interval) -> Interval:
        apart = self.less(a, b) == TRUE or self.less(b, a) == TRUE
        return self._decided(a.value is not None and a.value == b.value, apart)

    @staticmethod
    def _decided(yes: bool, no: bool) -> Interval:
        return TRUE if yes else FALSE if no else EITHER


def opposite(a: Interval) -> Interval:
    """Not a, for bool."""
    return Interval((1 - a.high,), (1 - a.low,))


def _known(x: Dim, y: Dim, facts: Facts) -> bool:
    return facts.nonnegative(x) and facts.nonnegative(y)


def _truncated(x: int, y: int) -> int:
    return abs(x) // y * (1 if x >= 0 else -1)

