"""Every e-class must agree: each e-node, on its operands' values, gives its class's value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tegg.ir.classes import EClasses, ENode
from tegg.rewrite.compiler import Compiler
from tegg.dim import evaluate as size_of, symbols
from tegg.dtype import dtype
from tegg.rewrite.egraph import Saturated, saturate
from tegg.ir.graph import Graph
from tegg.ir.op import TOLERANCE
from tegg.ir.oracle import apply, evaluate

MOST_ELEMENTS = 1 << 22  # of one value: larger products are checked through what sums them


def check_egraph(graph: Graph, compilers: Compiler | Sequence[Compiler],
                 inputs: Mapping[int, np.ndarray] | None = None,
                 sizes: Mapping[str, int] | None = None, precision: str = "reals",
                 slack: float = 1.0, features: Iterable[str] = ("cpu",)) -> Saturated:
    """Saturate a graph and compare every e-node with its class, whose value the oracle gives.

    inputs: input slot -> values, by default some of the operands' domains. sizes: of symbols, by
    default their hints.
    ``"bitwise"`` asks for the same bits (NaN = NaN). ``"reals"`` asks for the op's tolerance,
    relative to its operands and result, times ``slack``, wherever all of them are finite: laws of
    the reals promise nothing beyond. Raises AssertionError that names the e-node, how far it is
    off, and what its class holds. Returns what saturation gave.
    """
    done = saturate(graph, compilers, precision, features=features)
    sizes = {s.name: s.hint for n in graph.nodes for d in n.shape for s in symbols(d)} | {
        **(sizes or {})}
    values = class_values(done.classes, any_inputs(graph, sizes) if inputs is None else inputs,
                          sizes)
    for c, nodes in done.classes.nodes.items():
        for n in nodes:
            if n.op.name != "Input" and c in values and all(a in values for a in n.args):
                got = _value(done.classes, c, n, values, sizes)
                off = _off(n, got, values[c], [values[a] for a in n.args],
                           None if precision == "bitwise" else slack)
                assert not off, (f"{n!r} is off its class {c} by {off:.3g}; the class holds "
                                 f"{[repr(m) for m in nodes]}")
    return done


def any_inputs(graph: Graph, sizes: Mapping[str, int], seed: int = 0) -> dict[int, np.ndarray]:
    """Values for every input: small positive numbers, which every op's domain has."""
    rng = np.random.default_rng(seed)
    found = {}
    for slot, spec in enumerate(graph.inputs):
        shape = tuple(size_of(d, sizes) for d in spec.shape)
        values = rng.uniform(0.25, 2, shape) if spec.dtype.is_float else rng.integers(0, 2, shape)
        found[slot] = values.astype(spec.dtype.numpy)
    return found


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


def _off(n: ENode, got: np.ndarray, want: np.ndarray, operands: list[np.ndarray],
         slack: float | None) -> float:
    """How far an e-node is off, or 0.0 where that is within bounds. No slack: the same bits."""
    name = dtype(want.dtype).name
    if name not in TOLERANCE:
        return float(np.sum(got != want))
    got, want, *operands = (x.astype(np.float64) for x in (got, want, *operands))
    if slack is None:
        same = (got == want) & (np.signbit(got) == np.signbit(want))
        return float(np.sum(~(same | (np.isnan(got) & np.isnan(want)))))
    finite = np.isfinite(got) & np.isfinite(want)
    if not all(np.all(np.isfinite(x)) for x in operands):
        return 0.0
    scale = max([1.0, *(float(np.max(np.abs(x), initial=0.0)) for x in operands),
                 float(np.max(np.abs(want), initial=0.0, where=finite))])
    with np.errstate(invalid="ignore"):  # inf - inf, which ``where`` leaves out
        apart = float(np.max(np.abs(got - want), initial=0.0, where=finite))
    bound = 8 * slack * max(n.op.tolerance, 1.0) * TOLERANCE[name] * scale
    return apart if apart > bound else 0.0
