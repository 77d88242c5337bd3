"""Which operand of a contraction is summed along one axis only; where reshapes leave an axis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tegg.contraction import Spec
from tegg.dim import Shape, product
from tegg.rewrite.providers import Fact
from tegg.rewrite.view import View


@dataclass(frozen=True, slots=True)
class Averages:
    """``(sums-first x y i k)``: a contraction by the spec i sums axis k of x, and nothing else.

    ``(sums-second x y i k j)``: it sums axis k of y only, and j is the spec with y first.
    """

    name = "averages"
    known = 3
    relations = MappingProxyType({"sums-first": ("Tensor", "Tensor", "String", "i64"),
                                  "sums-second": ("Tensor", "Tensor", "String", "i64", "String")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """The axis that is summed, if it is one."""
        spec = Spec.parse(given[2])
        if len(spec.k) != 1:
            return []
        if relation == "sums-first":
            return [(spec.x.index(spec.k),)]
        return [(spec.y.index(spec.k), str(Spec(spec.y, spec.x, spec.out)))]

    def facts(self, view: View) -> Iterable[Fact]:
        for _, n in view.having("Contract"):
            for relation, a in zip(self.relations, n.args):
                if any(m.op.name == "Softmax" for m in view.nodes[a]):
                    for found in self.completions(relation, *n.args, n.attrs[0]):
                        yield (relation, *n.args, n.attrs[0], *found)


@dataclass(frozen=True, slots=True)
class KeptAxes:
    """``(keeps-axis x k s j)``: reshaped to s, which splits or joins other axes, axis k of x is
    axis j: of the same size, and so is all that comes after it."""

    name = "kept axes"
    known = 3
    relations = MappingProxyType({"keeps-axis": ("Tensor", "i64", "String", "i64")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """The axis after the reshape."""
        x, axis, shape = given
        return [(j,) for j in _kept(x.shape, axis, shape)]

    def facts(self, view: View) -> Iterable[Fact]:
        for c, n in view.having("Reshape"):
            (a,) = n.args
            for m in view.nodes[a]:
                if m.op.name == "Softmax":
                    for j in _kept(view.shape[a], m.attrs[0], view.shape[c]):
                        yield ("keeps-axis", m.args[0], m.attrs[0], n.attrs[0], j)


def _kept(old: Shape, axis: int, new: Shape) -> list[int]:
    """Where an axis is after a reshape; nowhere if only axes of size 1 come and go, which whoever
    reads index maps sees through anyway."""
    if [n for n in old if n != 1] == [n for n in new if n != 1] or old[axis] == 1:
        return []
    return [j for j, n in enumerate(new) if n == old[axis]
            and product(new[j + 1:]) == product(old[axis + 1:])][:1]
