"""One-hot sums read off index maps: sums that pick one element of a table per index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import MappingProxyType

from tegg.bits import value_of
from tegg.contraction import Axes
from tegg.dim import Dim, Shape, product
from tegg.rewrite.providers import Fact
from tegg.rewrite.providers.walk import origin, regroup, variables
from tegg.rewrite.ranges import Ranges
from tegg.rewrite.view import View

DEEP = 4  # casts and movement between a one-hot mask and its comparison
SUMS = ("Reshape", "Permute", "SumReduce")
Index = tuple[str, int, Axes]  # the variable that is compared, with which class, and its axes


@dataclass(frozen=True, slots=True)
class Lookup:
    """A class as ``sum over v of [v = index] table``; axes: of the table, the index, the class."""

    table: int
    index: int
    v: str
    at: Axes
    of: Axes
    out: Axes


class Lookups:
    """``(one-hot-sum e t i k n o u w)``: e is the sum over axis k of t, of size n, of
    ``[position = i] t``, laid out as Gather(t, i, k), of shape w; ones have the shape o in i's
    rank, and i has the shape u among e's axes.

    ``(one-hot-sum-moved e t i k n o u w a p b)``: the same, where e is that reshaped to a,
    permuted by p and reshaped to b. ``(one-hot-sum-batched e t i q s m f n o u w a p b)``: the same
    where i and t share axes, of m rows in all: t permuted by q and reshaped to s has them joined
    with the axis of size n, in front, and i has the row numbers reshaped to f.
    """

    name = "lookups"
    relations = MappingProxyType({
        "one-hot-sum": ("Tensor",) * 3 + ("i64",) + ("String",) * 4,
        "one-hot-sum-moved": ("Tensor",) * 3 + ("i64",) + ("String",) * 7,
        "one-hot-sum-batched": ("Tensor",) * 3 + ("String",) * 11})

    def facts(self, view: View) -> Iterable[Fact]:
        if not view.having("Equal"):
            return
        masks = _Masks(view)
        memo: dict[int, list[tuple[int, Axes]]] = {}
        for c in [c for c, nodes in view.nodes.items() if any(n.op.name in SUMS for n in nodes)]:
            for body, out in _sums(c, view, memo):
                for found in masks.lookups(body, out):
                    yield from _fact(c, found, view)


def _sums(c: int, view: View, memo: dict[int, list[tuple[int, Axes]]]) -> list[tuple[int, Axes]]:
    """What a class is a sum of, behind movement of axes of size 1: a class, and which of its
    variables each axis of the sum has."""
    if c in memo:
        return memo[c]
    found = memo[c] = []  # a cycle of movement adds nothing
    for n in view.nodes[c]:
        if n.op.name == "SumReduce":
            (a,), axis = n.args, n.attrs[0]
            for body, out in [*_sums(a, view, memo), (a, variables(view.shape[a]))]:
                found.append((body, out[:axis] + ("",) + out[axis + 1:]))
        elif n.op.name in ("Reshape", "Permute"):
            shapes = view.shape[n.args[0]], view.shape[c]
            for body, out in list(_sums(n.args[0], view, memo)):
                moved = (tuple(out[i] for i in n.attrs[0]) if n.op.name == "Permute"
                         else regroup(out, *shapes))
                if moved is not None:
                    found.append((body, moved))
    memo[c] = list(dict.fromkeys(found))
    return memo[c]


class _Masks:
    """Reads masks: values that are 1 where a position equals an index, and 0 elsewhere."""

    def __init__(self, view: View) -> None:
        self.view = view

    def lookups(self, body: int, out: Axes) -> Iterator[Lookup]:
        """The one-hot sums that a class is, summed over its variables that ``out`` lacks."""
        index = variables(self.view.shape[body])
        summed = set(index) - set(out) - {""}
        if len(summed) == 1:
            for (v, i, of), table in self._products(body, index):
                t, at = origin(table, index, self.view)
                if v in summed and at.count(v) == 1:
                    yield Lookup(t, i, v, at, of, out)

    def _products(self, body: int, index: Axes) -> Iterator[tuple[Index, int]]:
        """Masks times a value, by a product or by a choice."""
        for n in self.view.nodes[body]:
            if n.op.name == "Mul":
                for mask, table in (n.args, n.args[::-1]):
                    yield from ((i, table) for i in self._mask(mask, index, DEEP))
            elif n.op.name == "Select" and self._all(n.args[2], 0):
                yield from ((i, n.args[1]) for i in self._condition(n.args[0], index))

    def _mask(self, c: int, index: Axes, deep: int) -> Iterator[Index]:
        c, index = origin(c, index, self.view)
        for n in self.view.nodes[c] if deep else ():
            if n.op.name == "Cast":
                yield from self._mask(n.args[0], index, deep - 1)
            elif n.op.name == "Select" and self._all(n.args[1], 1) and self._all(n.args[2], 0):
                yield from self._condition(n.args[0], index)
            elif n.op.name == "Equal":
                yield from self._condition(c, index)

    def _condition(self, c: int, index: Axes) -> Iterator[Index]:
        """Comparisons of a position with something that does not depend on it."""
        c, index = origin(c, index, self.view)
        for n in self.view.nodes[c]:
            if n.op.name == "Equal" and self.view.dtype[n.args[0]].kind == "int":
                for position, other in (n.args, n.args[::-1]):
                    p, at = origin(position, index, self.view)
                    i, of = origin(other, index, self.view)
                    if self._counts(p) and at[0] and at[0] not in of:
                        yield at[0], i, of

    def _counts(self, c: int) -> bool:
        """Whether a class is 0, 1, 2, ... and its dtype holds them all."""
        return (any(n.op.name == "Iota" for n in self.view.nodes[c])
                and self.view.found(Ranges).within(c, self.view.shape[c][0]))

    def _all(self, c: int, value: int) -> bool:
        """Whether every element of a class is a number."""
        c, _ = origin(c, variables(self.view.shape[c]), self.view)
        return any(n.op.name == "Full" and value_of(n.attrs[2], self.view.dtype[c]) == value
                   for n in self.view.nodes[c])


def _fact(c: int, x: Lookup, view: View) -> Iterator[Fact]:
    """The fact that says a lookup, in the plainest of the three forms; none where what would be
    gathered from may be empty."""
    table, index = view.shape[x.table], view.shape[x.index]
    k = x.at.index(x.v)
    shared = [a for a in x.of if a and a in x.at]
    rows = product(tuple(table[x.at.index(a)] for a in shared))
    if not view.codec.facts.nonnegative(rows * table[k] - 1):
        return
    n, ones = (table[k],), (1,) * len(index)
    if not shared:
        letters = x.at[:k] + x.of + x.at[k + 1:]
        whole = table[:k] + index + table[k + 1:]
        among = (1,) * k + index + (1,) * (len(table) - k - 1)
        if letters == x.out and whole == view.shape[c]:
            yield ("one-hot-sum", c, x.table, x.index, k, n, ones, among, whole)
        elif (moves := _moves(letters, x.out, whole)) is not None:
            yield ("one-hot-sum-moved", c, x.table, x.index, k, n, ones, among, whole, *moves,
                   view.shape[c])
        return
    order = [x.at.index(a) for a in shared] + [k]
    rest = [a for a in range(len(table)) if a not in order]
    tail = tuple(table[a] for a in rest)
    letters, whole = x.of + tuple(x.at[a] for a in rest), index + tail
    moves = _moves(letters, x.out, whole)
    if moves is not None:
        numbers = tuple(d if a in shared else 1 for a, d in zip(x.of, index))
        yield ("one-hot-sum-batched", c, x.table, x.index, (*order, *rest), (rows * n[0], *tail),
               (rows,), numbers, n, ones, index + (1,) * len(tail), whole, *moves, view.shape[c])


def _moves(letters: Axes, out: Axes, shape: Shape) -> tuple[Shape, tuple[int, ...]] | None:
    """The shape without axes of size 1, and how it is permuted, on the way to ``out``'s order."""
    named = {a: d for a, d in zip(letters, shape) if a}
    wanted = [a for a in out if a]
    if sorted(named) != sorted(wanted):
        return None
    kept: tuple[Dim, ...] = tuple(named.values())
    return kept, tuple(list(named).index(a) for a in wanted)
