"""Contractions read off index maps: sums of products, whatever movement their operands carry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from string import ascii_letters
from types import MappingProxyType

from tegg.contraction import Axes, Spec
from tegg.dtype import bool_
from tegg.rewrite.providers import Fact
from tegg.rewrite.providers.walk import origin, regroup, variables
from tegg.rewrite.view import View

MOST = 4  # products kept for one class: alternatives multiply, and one is enough


@dataclass(frozen=True, slots=True)
class Product:
    """A class as ``sum x * y``: per axis of x, y and itself the loop variable, "" for size 1.

    index: every variable of the product, the summed ones included.
    """

    x: int
    y: int
    ax: Axes
    ay: Axes
    out: Axes
    index: frozenset[str]

    @property
    def summed(self) -> frozenset[str]:
        return self.index - set(self.out)

    def shown_as(self, out: Axes) -> Product:
        """The same sum with another map of its result."""
        return Product(self.x, self.y, self.ax, self.ay, out, self.index)


class Contractions:
    """``(contraction e x y spec)``: e is the sum of products of x and y that spec says."""

    name = "contractions"
    relations = MappingProxyType({"contraction": ("Tensor", "Tensor", "Tensor", "String")})

    def facts(self, view: View) -> Iterable[Fact]:
        memo: dict[int, list[Product]] = {}
        for c, _ in view.having("SumReduce"):
            if view.dtype[c] is not bool_:
                for p in _products(c, view, memo):
                    if (found := _spec(p)) is not None:
                        (x, y), spec = found
                        yield ("contraction", c, x, y, spec)


def _products(c: int, view: View, memo: dict[int, list[Product]]) -> list[Product]:
    """The ways in which a class is a product, or a sum of one, behind movement of size-1 axes."""
    if c in memo:
        return memo[c]
    found = memo[c] = []  # a cycle of movement adds nothing
    for n in view.nodes[c]:
        if n.op.name == "Mul":
            x, y = n.args
            found.append(_of_mul(c, x, y, view))
        elif n.op.name == "SumReduce":
            below = _products(n.args[0], view, memo)
            found += [p.shown_as(_without(p.out, n.attrs[0])) for p in below]
        elif n.op.name in ("Reshape", "Permute"):
            shapes = view.shape[n.args[0]], view.shape[c]
            for p in [p for p in _products(n.args[0], view, memo) if p.summed]:
                out = (tuple(p.out[i] for i in n.attrs[0]) if n.op.name == "Permute"
                       else regroup(p.out, *shapes))
                if out is not None:
                    found.append(p.shown_as(out))
    memo[c] = list(dict.fromkeys(found))[:MOST]
    return memo[c]


def _of_mul(c: int, x: int, y: int, view: View) -> Product:
    index = variables(view.shape[c])
    (x, ax), (y, ay) = origin(x, index, view), origin(y, index, view)
    return Product(x, y, ax, ay, index, frozenset(index) - {""})


def _without(axes: Axes, axis: int) -> Axes:
    return axes[:axis] + ("",) + axes[axis + 1:]


def _spec(p: Product) -> tuple[tuple[int, int], str] | None:
    """The operands and the spec of a sum of products, or None where it is no contraction.

    What is summed stands in both operands, what is kept in one of them, and at least one kept
    variable in only one (otherwise it is a row reduction). The second operand has the innermost
    variable that is not shared, and variables are named in the order of the result: one spec
    for equal contractions.
    """
    x, y, out = set(p.ax) - {""}, set(p.ay) - {""}, [a for a in p.out if a]
    alone = [a for a in out if (a in x) != (a in y)]
    if not p.summed or not p.summed <= x & y or not set(out) <= x | y or not alone:
        return None
    operands, axes = (p.x, p.y), (p.ax, p.ay)
    if alone[-1] in x:
        operands, axes = operands[::-1], axes[::-1]
    order = out + [a for a in axes[0] if a in p.summed]
    named = dict(zip(order, ascii_letters), **{"": ""})
    text = str(Spec(*(tuple(named[a] for a in m) for m in (*axes, p.out))))
    return operands, text
