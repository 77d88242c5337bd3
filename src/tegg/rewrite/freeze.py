"""Freezing: the part of a saturated e-graph that the results need, as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable

from tegg.bits import value_of
from tegg.ir.classes import EClasses, ENode
from tegg.errors import RuleError
from tegg.ir.graph import Graph
from tegg.rewrite.stating import type_of
from tegg.rewrite.view import View

ROUNDING = 1e-2  # between constants that folding computed in halves, each in its own order


def freeze(graph: Graph, view: View, subsuming: Callable[[], list[str]]) -> EClasses:
    """The classes reachable from outputs and updates, without self-loops and mirror twins.

    subsuming: gives the rules that subsumed something. Raises RuleError where they left a class
    without e-nodes, and where an e-node does not have the shape and dtype of its class.
    """
    of = view.of
    roots = [of.get(n.id, -1) for n in (*graph.outputs.values(), *graph.updates.values())]
    nodes = _reachable(roots, view)
    if nodes is None:
        raise RuleError(f"rules {', '.join(subsuming())} subsumed every form of a value that the "
                        f"program needs: what was to stand for it is made of it, or was subsumed "
                        f"as well; leave ':subsume' out")
    for c, forms in nodes.items():
        for n in forms:
            _verify(c, n, view)
    return EClasses(graph, nodes, {c: view.shape[c] for c in nodes},
                    {c: view.dtype[c] for c in nodes},
                    {i: c for i, c in of.items() if c in nodes and i < len(graph.nodes)},
                    {c: forms for c, forms in view.forms.items() if c in nodes}, view.table,
                    view.narrow & nodes.keys())


def contradiction(view: View) -> tuple[int, float, float] | None:
    """A class that holds two constants of different values, and the two; None where there is none.

    Constants of one class may differ by rounding: some were computed, in another order each.
    """
    for c, nodes in view.nodes.items():
        found = [value_of(n.attrs[2], view.dtype[c]) for n in nodes
                 if n.op.name == "Full" and c in view.dtype]
        for other in found[1:]:
            if not alike(found[0], other):
                return c, found[0], other
    return None


def alike(a: float, b: float) -> bool:
    """Whether two constants may be one value; laws of the reals promise nothing of inf and NaN."""
    return a == b or not (math.isfinite(a) and math.isfinite(b)) or (
        isinstance(a, float) and math.isclose(a, b, rel_tol=ROUNDING, abs_tol=ROUNDING))


def _reachable(roots: list[int], view: View) -> dict[int, list[ENode]] | None:
    """The classes that roots need, with their nodes; None where one of them has none."""
    out: dict[int, list[ENode]] = {}
    todo = list(reversed(roots))
    while todo:
        c = todo.pop()
        if c not in view.nodes:
            return None
        if c not in out:
            out[c] = _distinct(c, view.nodes[c])
            todo.extend(a for n in reversed(out[c]) for a in reversed(n.args))
    return out


def _distinct(c: int, nodes: list[ENode]) -> list[ENode]:
    """Without nodes that have their own class as operand, or swap operands of another."""
    found: dict[tuple, ENode] = {}
    for n in nodes:
        if c not in n.args:
            args = tuple(sorted(n.args)) if n.op.commutative else n.args
            found.setdefault((n.op.name, args, n.attrs), n)
    return list(found.values())


def _verify(c: int, n: ENode, view: View) -> None:
    shape, dtype = type_of(n, view)
    if shape != view.shape[c] or dtype is not view.dtype[c]:
        raise RuleError(f"a rule put {n!r} of shape {shape} and dtype {dtype.name} in a class of "
                        f"shape {view.shape[c]} and dtype {view.dtype[c].name}; add the guard "
                        f"that it lacks")
