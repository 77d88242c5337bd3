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

    def strides(self, n: Dim, results: Dim) -> Dim:
        """Strides that the results of n elements fill, the last one not always."""
        rest = results - (n - 1) * self.stride
        assert isinstance(rest, int), "results are a stride apart"
        return n - 1 - (-rest // self.stride)

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

    def bands(self) -> list[Band]:
        """The phases by how many taps reach them, where nothing is dilated or left out."""
        most, more = divmod(self.kernel, self.stride)
        found = (Band(self.stride, 0, more, most + 1),
                 Band(self.stride, more, self.stride - more, most))
        return [b for b in found if b.phases]


@dataclass(frozen=True, slots=True)
class Band:
    """``out[stride q + first + r] += x[q - j] w[first + r + stride j]`` for r below ``phases`` and
    j below ``count``."""

    stride: int
    first: int
    phases: int
    count: int


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
