"""Facts about the sizes of axes, which text rules cannot read out of a shape."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from tegg.bits import bits_of, float_of
from tegg.dim import exact_div
from tegg.dtype import DType, f64
from tegg.rewrite.providers import Fact
from tegg.rewrite.view import View


class Dims:
    """``(unit-axis s k)``: axis k of shape s has size 1. ``(size s k n)``: it has the size n.

    ``(inverse-dim s k d v)``: v is the pattern of 1 over the size of axis k, as it is or rounded to
    the float dtype d, which the program has. ``(inverse-split s k d v w)``: v is the pattern of
    1 / (n m) in d and w of 1 / m, for the size n of axis k; ``(size-split s k nm m ones)``: the
    same for sizes themselves, with a shape of ones of the rank of s.
    """

    name = "dims"
    relations = MappingProxyType({
        "unit-axis": ("String", "i64"), "size": ("String", "i64", "String"),
        "inverse-dim": ("String", "i64", "String", "i64"),
        "inverse-split": ("String", "i64", "String", "i64", "i64"),
        "size-split": ("String", "i64", "String", "String", "String")})

    def facts(self, view: View) -> Iterable[Fact]:
        reduced = {(view.shape[n.args[0]], n.attrs[0]) for op in ("SumReduce", "MaxReduce")
                   for _, n in view.having(op)}
        floats = sorted({d for d in view.dtype.values() if d.is_float}, key=lambda d: d.name)
        for shape, axis in reduced:
            n = shape[axis]
            yield ("size", shape, axis, (n,))
            if n == 1:
                yield ("unit-axis", shape, axis)
            if isinstance(n, int) and n:
                for d in floats:
                    for v in inverses(n, d):
                        yield ("inverse-dim", shape, axis, d.name, v)
        yield from self._splits(view)

    def _splits(self, view: View) -> Iterable[Fact]:
        """For sums of sums: what is left of a scale when one axis takes its share."""
        nested = {(view.shape[n.args[0]], n.attrs[0]) for _, n in view.having("SumReduce")
                  if any(m.op.name == "SumReduce" for m in view.nodes[n.args[0]])}
        if not nested:
            return
        counts = {(d, v): n for _, f in view.having("Full") if (v := f.attrs[2])
                  and (d := f.attrs[0]).is_float and (n := _count(v, d)) is not None}
        sizes = {n.attrs[1][0] for _, n in view.having("Size")}
        for shape, axis in nested:
            n = shape[axis]
            if isinstance(n, int) and n > 1:
                for (d, v), count in counts.items():
                    if count % n == 0 and count > n:
                        yield ("inverse-split", shape, axis, d.name, v, bits_of(n / count, f64))
            for size in sizes:
                rest = exact_div(size, n)
                if rest is not None and rest != 1:
                    yield ("size-split", shape, axis, (size,), (rest,), (1,) * len(shape))


@lru_cache(maxsize=1024)
def inverses(n: int, d: DType) -> frozenset[int]:
    """The patterns that stand for 1/n in a float dtype: as it is, and rounded."""
    rounded = float(np.asarray(1.0 / n).astype(d.numpy))
    return frozenset(bits_of(x, f64) for x in (1.0 / n, rounded))


def _count(v: int, d: DType) -> int | None:
    """The count whose inverse a pattern is in a float dtype."""
    x = float_of(v)
    if not 2.0 ** -53 < x < 1:
        return None
    n = round(1 / x)
    return n if v in inverses(n, d) else None
