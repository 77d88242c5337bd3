"""Facts about the integers that classes can hold."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from tegg.dim import Dim
from tegg.rewrite.interval import whole
from tegg.rewrite.providers import Fact
from tegg.rewrite.providers.walk import origin, variables
from tegg.rewrite.ranges import Ranges
from tegg.rewrite.view import View


class RangeFacts:
    """``(range e a b)``: every element of e, integers or bools, is in a .. b; stated where that
    is less than the whole dtype.

    ``(within i n)``: every element of i is in 0 .. n-1, for a size n of an axis that i is compared
    with position by position, or gathers from.
    """

    name = "ranges"
    relations = MappingProxyType({"range": ("Tensor", "i64", "i64"),
                                  "within": ("Tensor", "String")})

    def facts(self, view: View) -> Iterable[Fact]:
        ranges = view.found(Ranges)
        for c, x in ranges.known.items():
            if c in view.nodes and not x.empty and x != whole(view.dtype[c]):
                yield ("range", c, x.low, x.high)
        for i, n in dict.fromkeys(_questions(view)):
            if ranges.within(i, n):
                yield ("within", i, (n,))


def _questions(view: View) -> Iterable[tuple[int, Dim]]:
    """Classes of integers, with the sizes of axes that they may be positions of."""
    for _, n in view.having("Gather"):
        yield n.args[1], view.shape[n.args[0]][n.attrs[0]]
    for c, n in view.having("Equal"):
        p, q = (origin(a, variables(view.shape[c]), view)[0] for a in n.args)
        for position, index in ((p, q), (q, p)):
            for m in view.nodes[position]:
                if m.op.name == "Iota":
                    yield index, view.shape[position][0]
