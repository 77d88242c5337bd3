"""Proven ranges: the integers that each class of a view can hold.

Every e-node of a class bounds it, and all of them hold at once. The branches of a Select are
judged under what its condition says of their operands at the same position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType

from tegg.bits import value_of
from tegg.dim import Dim
from tegg.dtype import DType
from tegg.ir.classes import ENode
from tegg.rewrite.interval import (EITHER, FALSE, TRUE, Interval, Intervals, least, opposite,
                                   point, whole)
from tegg.rewrite.view import View

Get = Callable[[int], Interval]

PASSES = 4  # classes can be each other's operands; bounds get no worse from pass to pass
DEEP = 3    # how far a condition is followed into a branch, and into its own parts
MOVED = ("Reshape", "Permute", "Expand", "Slice", "Flip", "Window", "Contiguous")


class Ranges:
    """``of(c)``: the interval of a class of integers or bools; None for any other class.

    They are those of the last view, where rules did nothing to integers meanwhile.
    """

    def __init__(self, view: View) -> None:
        said = {c: view.nodes.get(c) for c in _whole_numbers(view)}
        before, self.intervals, self.known = view.kept.get(Ranges, (None, None, None))
        if said != before:
            settled = _Settling(view)
            self.intervals, self.known = settled.intervals, settled.known
            view.kept[Ranges] = said, self.intervals, self.known

    def of(self, c: int) -> Interval | None:
        return self.known.get(c)

    def within(self, c: int, n: Dim) -> bool:
        """Whether every element of a class of integers is proven to lie in 0 .. n-1."""
        x = self.known.get(c)
        return x is not None and x.low >= 0 and self.intervals.below(x, n)


def _whole_numbers(view: View) -> Iterator[int]:
    """The classes of integers and bools."""
    return (c for c, d in view.dtype.items() if not d.is_float and c in view.shape)


class _Settling:
    """Works the intervals out. The view may keep what comes of it, so that holds no view."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.intervals = Intervals(view.codec.facts)
        self.known: dict[int, Interval] = {c: whole(view.dtype[c]) for c in _whole_numbers(view)}
        order, cyclic = self._order()
        for _ in range(PASSES if cyclic else 1):
            before = dict(self.known)
            for c in order:
                self.known[c] = self._refined(c, self.known.__getitem__)
            if self.known == before:
                break

    def _order(self) -> tuple[list[int], bool]:
        """Operands before users, as far as there is such an order, and whether there is none: then
        what is known of a class is better the second time."""
        seen: set[int] = set()
        above: set[int] = set()  # classes that are seen, and not all that is below them
        out: list[int] = []
        cyclic = False
        todo = [(c, False) for c in self.known]
        while todo:
            c, done = todo.pop()
            if done:
                out.append(c)
                above.discard(c)
            elif c not in seen:
                seen.add(c)
                above.add(c)
                todo.append((c, True))
                operands = [a for n in self.view.nodes.get(c, ()) for a in n.args
                            if a in self.known]
                cyclic = cyclic or not above.isdisjoint(operands)
                todo.extend((a, False) for a in operands if a not in seen)
        return out, cyclic

    def _refined(self, c: int, get: Get) -> Interval:
        out = self.known[c]
        for n in self.view.nodes.get(c, ()):
            out = self.intervals.meet(out, self._node(n, c, get))
        return out

    # ---- one e-node
    def _node(self, n: ENode, c: int, get: Get) -> Interval:
        """What an e-node of a class can be, given its operands."""
        dtype = self.view.dtype[c]
        if n.op.name in _SOURCES:
            return _SOURCES[n.op.name](self.intervals, n.attrs, dtype)
        if n.op.name == "Select":
            return self._select(n, get)
        if n.op.name == "Cast":
            return self._cast(n, dtype, get)
        if not n.args or any(a not in self.known for a in n.args):
            return whole(dtype)
        if n.op.name in MOVED:
            return get(n.args[0])
        if n.op.name in ("SumReduce", "MaxReduce"):
            return self._reduced(n, dtype, get)
        args = [get(a) for a in n.args]
        if n.op.name == "Gather":
            return args[0]
        if n.op.name == "Scatter":
            return whole(dtype) if n.attrs[1] == "add" else self.intervals.join(args[0], args[2])
        if n.op.name == "Pad":
            fill = point(int(value_of(n.attrs[2], dtype)))
            return self.intervals.join(args[0], fill)
        rules = _BOOL if self.view.dtype[n.args[0]].kind == "bool" else _INT
        rule = rules.get(n.op.name)
        return whole(dtype) if rule is None else rule(self.intervals, args, dtype)

    def _cast(self, n: ENode, dtype: DType, get: Get) -> Interval:
        (a,) = n.args
        if a not in self.known:
            return whole(dtype)
        x = get(a)
        if dtype.kind == "bool":
            return opposite(self.intervals.equal(x, FALSE))
        return self.intervals.bounded(x.lows, x.highs, dtype)

    def _reduced(self, n: ENode, dtype: DType, get: Get) -> Interval:
        (a,) = n.args
        size = self.view.shape[a][n.attrs[0]]
        if n.op.name == "SumReduce" and dtype.kind == "int":
            return self.intervals.total(get(a), size, dtype)
        some = self.intervals.at_most(1, size)  # of nothing: the lowest value
        return get(a) if some else whole(dtype)

    # ---- Select: a branch matters only where the condition takes it
    def _select(self, n: ENode, get: Get) -> Interval:
        condition, yes, no = n.args
        if yes not in self.known or no not in self.known:
            return EITHER
        out: Interval | None = None
        for truth, branch in ((TRUE, yes), (FALSE, no)):
            if self.intervals.meet(get(condition), truth).empty:
                continue
            said: dict[int, Interval] = {}
            self._assume(condition, truth is TRUE, said, DEEP)
            if any(x.empty for x in said.values()):
                continue
            x = self._under(branch, said, DEEP)
            out = x if out is None else self.intervals.join(out, x)
        return whole(self.view.dtype[yes]) if out is None else out

    def _under(self, c: int, said: dict[int, Interval], deep: int) -> Interval:
        """The range of a branch, given that of other classes at the same position."""
        out = said.get(c, self.known[c])
        if not deep or not said:
            return out
        for n in self.view.nodes.get(c, ()):
            if n.op.kind == "elementwise" and n.op.name not in ("Select", "Cast"):
                out = self.intervals.meet(out, self._node(
                    n, c, lambda a: self._under(a, said, deep - 1)))
        return out

    def _assume(self, c: int, truth: bool, said: dict[int, Interval], deep: int) -> None:
        """Add what follows from a condition: ranges of the classes that it compares."""
        for n in self.view.nodes.get(c, ()) if deep else ():
            if n.op.name == "Not":
                self._assume(n.args[0], not truth, said, deep - 1)
            elif n.op.name == "Select":
                first, second = (self.known.get(a) for a in n.args[1:])
                if (first, second) in ((TRUE, FALSE), (FALSE, TRUE)):
                    self._assume(n.args[0], truth is (first == TRUE), said, deep - 1)
            elif n.op.name in ("Add", "Mul"):
                self._either_or_both(n, truth, said, deep)
            elif n.op.name in _COMPARED and all(a in self.known for a in n.args):
                self._compared(n, truth, said)

    def _either_or_both(self, n: ENode, truth: bool, said: dict[int, Interval], deep: int) -> None:
        """or and and: both parts are known, or one part because the other is decided already."""
        a, b = n.args
        for part, other in ((a, b), (b, a)):
            both = truth is (n.op.name == "Mul")
            if both or self.known.get(other) == (FALSE if truth else TRUE):
                self._assume(part, truth, said, deep - 1)

    def _compared(self, n: ENode, truth: bool, said: dict[int, Interval]) -> None:
        a, b = n.args
        if n.op.name == "Equal":
            if truth:
                self._say(a, self.known[b], said)
                self._say(b, self.known[a], said)
            return
        if not truth:  # not a < b: b <= a
            a, b = b, a
        gap = int((n.op.name == "LessThan") is truth)
        x, y = self.known[a], self.known[b]
        self._say(a, Interval((x.low,), tuple(h - gap for h in y.highs)), said)
        self._say(b, Interval(tuple(v + gap for v in x.lows), (y.high,)), said)

    def _say(self, c: int, x: Interval, said: dict[int, Interval]) -> None:
        said[c] = self.intervals.meet(said.get(c, self.known[c]), x)


_COMPARED = ("LessThan", "LessEqual", "Equal")
Rule = Callable[[Intervals, list[Interval], DType], Interval]

_SOURCES: MappingProxyType[str, Callable] = MappingProxyType({
    "Full": lambda i, attrs, d: point(int(value_of(attrs[2], d))),
    "Iota": lambda i, attrs, d: i.bounded([0], [attrs[1][0] - 1], d),
    "Size": lambda i, attrs, d: i.bounded([least(attrs[1][0]), attrs[1][0]], [attrs[1][0]], d)})

_BOTH: MappingProxyType[str, Rule] = MappingProxyType({
    "Maximum": lambda i, a, d: i.maximum(a[0], a[1]),
    "Minimum": lambda i, a, d: i.minimum(a[0], a[1]),
    "LessThan": lambda i, a, d: i.less(a[0], a[1]),
    "LessEqual": lambda i, a, d: opposite(i.less(a[1], a[0])),
    "Equal": lambda i, a, d: i.equal(a[0], a[1])})

_INT: MappingProxyType[str, Rule] = MappingProxyType({
    **_BOTH, "Add": lambda i, a, d: i.add(a[0], a[1], d),
    "Mul": lambda i, a, d: i.mul(a[0], a[1], d), "Sub": lambda i, a, d: i.sub(a[0], a[1], d),
    "Mod": lambda i, a, d: i.mod(a[0], a[1], d),
    "IntDiv": lambda i, a, d: i.int_div(a[0], a[1], d),
    "Neg": lambda i, a, d: i.neg(a[0], d), "Abs": lambda i, a, d: i.absolute(a[0], d),
    "Relu": lambda i, a, d: i.maximum(a[0], FALSE)})

_BOOL: MappingProxyType[str, Rule] = MappingProxyType({
    **_BOTH, "Add": _BOTH["Maximum"], "Mul": _BOTH["Minimum"],
    "Not": lambda i, a, d: opposite(a[0])})
