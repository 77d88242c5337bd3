"""Bounds on magnitudes, by interval arithmetic from what ops can give at most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import MappingProxyType

import numpy as np

from tegg.bits import value_of
from tegg.dim import Shape
from tegg.ir.classes import ENode
from tegg.rewrite.providers import Fact
from tegg.rewrite.view import View

LARGEST = 65504 * (1 - 2.0 ** -10)  # float16's largest value, less what float32 work may be off
EXPONENT = 100.0  # exponentials of more are not bounded: they may overflow float32
ROUNDS = 64       # a cycle of classes could tighten its bounds for ever


class Bounds:
    """``(fits-f16 t)``: no finite element of t is beyond float16's range, wherever inputs are
    finite and weights within what is stated of them; of an input: where it is converted, it is
    checked when it is bound."""

    name = "bounds"
    weighs = True
    relations = MappingProxyType({"fits-f16": ("Tensor",)})

    def facts(self, view: View) -> Iterable[Fact]:
        for c, most in bounds(view).items():
            if most <= LARGEST:
                yield ("fits-f16", c)
        for c, _ in view.having("Input"):
            yield ("fits-f16", c)


def bounds(view: View) -> dict[int, float]:
    """Class -> what no element's magnitude exceeds, where that is known. NaNs do not count."""
    known: dict[int, float] = {}
    for _ in range(ROUNDS):
        changed = False
        for c, nodes in view.nodes.items():
            best = min((_bound(n, c, known, view) for n in nodes), default=math.inf)
            if best < known.get(c, math.inf):
                known[c] = best
                changed = True
        if not changed:
            break
    return known


def _bound(n: ENode, c: int, known: dict[int, float], view: View) -> float:
    """The bound of an e-node, or infinity."""
    name, args = n.op.name, [known.get(a, math.inf) for a in n.args]
    if view.dtype[c].kind == "bool":
        return 1.0
    if name == "Input":
        return view.most.get(n.attrs[0], math.inf)
    if name == "Full":
        value = abs(float(value_of(n.attrs[2], view.dtype[c])))
        return math.inf if math.isnan(value) else value
    if name in AT_MOST_ONE:
        return 1.0
    if name == "Cast":
        source = view.dtype[n.args[0]]
        if source.kind == "int" and view.dtype[c].is_float:
            return min(args[0], float(-np.iinfo(source.numpy).min or np.iinfo(source.numpy).max))
        return args[0] if view.dtype[c].is_float else math.inf
    if n.op.kind == "movement":
        fill = abs(float(value_of(n.attrs[2], view.dtype[c]))) if name == "Pad" else 0.0
        return math.inf if math.isnan(fill) else max(args[0], fill)
    if name in SUMS:
        return _summed(SUMS[name], n, args, view)
    deciding = args[:1] if name in FIRST else args[-1:] if name in LAST else args
    if name not in RULES or math.inf in deciding:
        return math.inf
    return RULES[name](*args)


def _summed(rule: Callable, n: ENode, args: list[float], view: View) -> float:
    """The bound of an op that works along an axis of known size."""
    shape: Shape = view.shape[n.args[0]]
    axis = n.attrs[0]
    if not isinstance(axis, int) or not shape or not isinstance(shape[axis], int):
        return math.inf
    count = shape[axis]
    return rule(count, *args) if count else math.inf


FIRST = frozenset({"Gather", "Mod"})  # bounded by their first operand alone
LAST = frozenset({"Attention"})        # and by their last: weights that sum to 1
AT_MOST_ONE = frozenset({"Sin", "Cos", "Sigmoid", "Tanh", "Erf", "Softmax"})


def _exponential(base: float) -> Callable[[float], float]:
    return lambda x: base ** x if x <= EXPONENT / math.log2(base) else math.inf


RULES: MappingProxyType[str, Callable[..., float]] = MappingProxyType({
    "Add": lambda x, y: x + y, "Sub": lambda x, y: x + y, "Mul": lambda x, y: x * y,
    "Maximum": max, "Minimum": max, "Select": lambda c, x, y: max(x, y), "Mod": lambda x, y: x,
    "Neg": lambda x: x, "Abs": lambda x: x, "Relu": lambda x: x, "Silu": lambda x: x,
    "Gelu": lambda x: x, "GeluTanh": lambda x: x, "Floor": lambda x: x + 1.0, "Sqrt": math.sqrt,
    "Exp": _exponential(math.e), "Exp2": _exponential(2.0), "Contiguous": lambda x: x,
    "Gather": lambda x, i: x, "Attention": lambda s, v: v, "Rope": lambda x, c, s: x * (c + s),
})
SUMS: MappingProxyType[str, Callable[..., float]] = MappingProxyType({
    "SumReduce": lambda n, x: n * x, "MaxReduce": lambda n, x: x, "Mean": lambda n, x: x,
    "Normalize": lambda n, x: math.sqrt(n), "RmsNormalize": lambda n, x: math.sqrt(n),
    "LayerNorm": lambda n, x, g, b: math.sqrt(n) * g + b,
    "RmsNorm": lambda n, x, g: math.sqrt(n) * g,
})
