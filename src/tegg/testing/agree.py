"""Every e-class must agree: each e-node, on its operands' values, gives its class's value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tegg.classes import EClasses, ENode
from tegg.compiler import Compiler
from tegg.dim import evaluate as size_of
from tegg.egraph import Saturated, saturate
from tegg.graph import Graph
from tegg.op import TOLERANCE
from tegg.oracle import apply, evaluate

MOST_ELEMENTS = 1 << 22  # of one value: larger products are checked through what sums them


def check_egraph(graph: Graph, compilers: Compiler | Sequence[Compiler],
                 inputs: Mapping[int, np.ndarray], sizes: Mapping[str, int] | None = None,
                 precision: str = "reals") -> Saturated:
    """Saturate a graph and compare every e-node with its class, whose value the oracle gives.

    Raises AssertionError that names the e-node, how far it is off, and how its class was
    recorded. Returns what saturation gave.
    """
    done = saturate(graph, compilers, precision)
    values = class_values(done.classes, inputs, sizes or {})
    for c, nodes in done.classes.nodes.items():
        for n in nodes:
            if n.op.name != "Input" and c in values and all(a in values for a in n.args):
                _check_node(done.classes, c, n, values, sizes or {})
    return done


def class_values(classes: EClasses, inputs: Mapping[int, np.ndarray],
                 sizes: Mapping[str, int]) -> dict[int, np.ndarray]:
    """The value of each class: of a node that was recorded in it, else of a first e-node."""
    graph = classes.graph
    recorded = {c: graph.nodes[i] for i, c in sorted(classes.of.items(), reverse=True)}
    recorded = {c: n for c, n in recorded.items() if _count(classes, c, sizes) <= MOST_ELEMENTS}
    values = dict(zip(recorded, evaluate(recorded.values(), inputs, sizes)))
    changed = True
    while changed:
        changed = False
        for c, nodes in classes.nodes.items():
            n = next((n for n in nodes if all(a in values for a in n.args)), None)
            if c not in values and n is not None and n.op.name != "Input":
                values[c] = _value(classes, c, n, values, sizes)
                changed = True
    return values


def _count(classes: EClasses, c: int, sizes: Mapping[str, int]) -> int:
    out = 1
    for d in classes.shape[c]:
        out *= size_of(d, sizes)
    return out


def _value(classes: EClasses, c: int, n: ENode, values: Mapping[int, np.ndarray],
           sizes: Mapping[str, int]) -> np.ndarray:
    return apply(n.op, [values[a] for a in n.args], n.attrs, classes.shape[c], classes.dtype[c],
                 sizes)


def _check_node(classes: EClasses, c: int, n: ENode, values: Mapping[int, np.ndarray],
                sizes: Mapping[str, int]) -> None:
    got, want = _value(classes, c, n, values, sizes), values[c]
    dtype = classes.dtype[c]
    if not dtype.is_float:
        good = np.array_equal(got, want)
        off = float(np.sum(got != want)) if got.size else 0.0
    else:
        got, want = got.astype(np.float64), want.astype(np.float64)
        scale = 1.0 + np.max(np.abs(want), initial=0.0, where=np.isfinite(want))
        bound = 8 * max(n.op.tolerance, 1.0) * TOLERANCE[dtype.name] * scale
        with np.errstate(invalid="ignore"):
            apart = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0,
                             np.abs(got - want))
        off = float(np.max(apart, initial=0.0))
        good = bool(np.all(apart <= bound))
    assert good, (f"{n!r} is off its class {c} by {off:.3g}; the class holds "
                  f"{[repr(m) for m in classes.nodes[c]]}")
