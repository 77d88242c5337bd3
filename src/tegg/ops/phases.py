"""The results of a transposed convolution by their place within a stride.

Those at the same place, a phase, are reached by every so many taps only, and are a correlation of
what lies densely with these: nothing is multiplied by a zero that was put between elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tegg.dim import Dim


@dataclass(frozen=True, slots=True)
class Taps:
    """How results are spread along an axis: ``out[stride i + dilation a - padding] += x[i] w[a]``
    for a below ``kernel``."""

    kernel: int
    stride: int
    dilation: int
    padding: int

    def results(self, n: Dim, more: int) -> Dim:
        """Results of n elements, ``more`` added after them."""
        return ((n - 1) * self.stride + self.dilation * (self.kernel - 1) + 1
                - 2 * self.padding + more)

    def positions(self, n: Dim, more: int) -> Dim:
        """Strides that the results fill, the last one not always."""
        rest = self.dilation * (self.kernel - 1) + 1 - 2 * self.padding + more
        return n - 1 + -(-rest // self.stride)

    def phases(self) -> Iterator[Phase | None]:
        """What reaches the results at each place of a stride; None: nothing does."""
        common = math.gcd(self.stride, self.dilation)
        every = self.stride // common
        for place in range(self.stride):
            first = next((a for a in range(min(every, self.kernel))
                          if (place + self.padding - self.dilation * a) % self.stride == 0), None)
            yield None if first is None else Phase(
                first, every, -(-(self.kernel - first) // every), self.dilation // common,
                (place + self.padding - self.dilation * first) // self.stride)


@dataclass(frozen=True, slots=True)
class Phase:
    """``out[q] += x[q + at - apart j] w[first + every j]`` for j below ``count``."""

    first: int
    every: int
    count: int
    apart: int
    at: int

    @property
    def before(self) -> int:
        """Elements that are read before the first of x; fewer than none: that many are not."""
        return self.apart * (self.count - 1) - self.at

    def after(self, n: Dim, positions: Dim) -> Dim:
        """Elements that are read after the last of n of x."""
        return positions + self.at - n

    def reaches(self, n: Dim, positions: Dim) -> bool:
        """Whether any of n elements of x is read, where that is known."""
        after = self.after(n, positions)
        return not (isinstance(n, int) and isinstance(after, int)
                    and max(0, -self.before) + max(0, -after) >= n)
