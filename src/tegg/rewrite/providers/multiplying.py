"""Which products may be made of operands with fewer bits: a licence, for any target's templates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tegg.dtype import DType, bf16, f16, f32
from tegg.ir.graph import Graph, Node
from tegg.ir.op import PRODUCTS
from tegg.ir.template import LICENCE
from tegg.rewrite.providers import Fact
from tegg.rewrite.providers.bounds import LARGEST, bounds
from tegg.rewrite.providers.rounding import KEEP, kept
from tegg.rewrite.view import View


@dataclass(frozen=True, slots=True)
class Multiplying:
    """``(may-multiply x y s d)``: a product of x and y by the spec s may round its operands to d
    (``bf16``, ``f16``, ``tf32``) as it reads them; its sums stay float32.

    Of an attention, x are scores: what is rounded is their softmax, and the operands of the
    products that they are computed from. Float16 asks for operands whose range is proven, or for
    weights, which rest as float16 and are checked when they are bound. Of a product whose result a
    user's rules keep (``keep-f32``) no operand is rounded.
    """

    dtype: str
    known = 3
    relations = MappingProxyType({**LICENCE, **KEEP})
    reads = tuple(KEEP)

    @property
    def name(self) -> str:
        return f"products in {self.dtype}"

    def example(self) -> Graph:
        """Attention of weights, whose range is checked when they are bound."""
        g = Graph()
        g.outputs["y"] = _attention(g, *(g.input(n, _HEADS, "f32", "weight") for n in "qkv"))
        return g

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What the relation says of two operands and a spec."""
        if relation in KEEP:
            return []
        x, y, _ = given
        return [(self.dtype,)] if x.dtype is f32 and y.dtype is f32 else []

    def facts(self, view: View) -> Iterable[Fact]:
        fits, keep = self._fitting(view), kept(view)
        for c, nodes in view.nodes.items():
            for n in nodes:
                if n.op.kind not in PRODUCTS or n.op.template or c in keep \
                        or view.dtype[c] is not f32:
                    continue
                below = _scored(view, n.args[0]) if n.op.kind == "attention" else {n.args[0]}
                read = {n.args[1], *below}
                if fits is None or fits.issuperset(read):
                    yield ("may-multiply", *n.args, n.attrs[0], self.dtype)

    def _fitting(self, view: View) -> set[int] | None:
        """Classes that are in range, or None where every one is."""
        if self.dtype != "f16":
            return None
        fits = {c for c, most in bounds(view).items() if most <= LARGEST}
        fits |= {c for c, n in view.having("Input") if n.attrs[0] in view.weights}
        return _moved(view, fits)


@dataclass(frozen=True, slots=True)
class Attending:
    """``(attends-in x y s d)``: of an attention of scores x and values y by the spec s, whatever is
    multiplied holds values of d alone, but for the weights: no operand of the products that scores
    are computed from is rounded by a product in d, nor are the values.

    Whether the weights may be is for a rule to say.
    """

    dtypes: tuple[DType, ...] = (f16, bf16)
    name = "attention of halves"
    known = 3
    relations = MappingProxyType({"attends-in": ("Tensor", "Tensor", "String", "String")})

    def example(self) -> Graph:
        """Attention of its first dtype, whose scores stay float32."""
        g, d = Graph(), self.dtypes[0]
        out = _attention(g, *(g.cast(g.input(n, _HEADS, d.name), f32) for n in "qkv"))
        g.outputs["y"] = g.cast(out, d)
        return g

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What the relation may say of scores, values and a spec."""
        x, y, _ = given
        return [(d.name,) for d in self.dtypes] if x.dtype is f32 and y.dtype is f32 else []

    def facts(self, view: View) -> Iterable[Fact]:
        found = [n for _, n in view.having("Attention") if view.dtype[n.args[0]] is f32]
        for d in self.dtypes if found else ():
            holds = _moved(view, {
                c for c, n in view.having("Cast")
                if view.dtype[c] is f32 and view.dtype[n.args[0]] is d})
            for n in found:
                below = _scored(view, n.args[0])
                if below and holds.issuperset({n.args[1], *below}):
                    yield ("attends-in", *n.args, n.attrs[0], d.name)


_HEADS = (2, 32, 16)  # of the examples: heads, positions, columns


def _attention(g: Graph, q: Node, k: Node, v: Node) -> Node:
    """What rules find to be attention."""
    heads, m, _ = _HEADS
    scores = g.expansion("Contract", q, k, "h,m,e;h,n,e;h,m,n", (heads, m, m))
    weights = g.expansion("Softmax", scores, 2)
    return g.expansion("Contract", weights, v, "h,m,n;h,n,e;h,m,e", _HEADS)


def _moved(view: View, known: set[int]) -> set[int]:
    """Known classes, and those that hold elements of these alone, elsewhere."""
    known, changed = set(known), True
    while changed:
        moved = {c for c, nodes in view.nodes.items() if c not in known and any(
            n.op.kind == "movement" and n.op.name != "Pad" and n.args[0] in known
            for n in nodes)}
        known |= moved
        changed = bool(moved)
    return known


def _scored(view: View, scores: int) -> set[int]:
    """The operands of the products below some scores."""
    todo, seen, found = [scores], set(), set()
    while todo:
        c = todo.pop()
        if c in seen:
            continue
        seen.add(c)
        nodes = view.nodes.get(c, ())
        products = [n for n in nodes if n.op.kind == "contract"]
        found |= {a for n in products for a in n.args}
        if not products:
            todo.extend(a for n in nodes for a in n.args)
    return found
