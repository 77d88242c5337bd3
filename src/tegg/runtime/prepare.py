"""Compiling ahead what programs share: the machine's own part of a first call.

Large products of plain operands take their sizes as arguments, so that a handful of kernels serves
most of them. Which forms these are is what the rules and the costs of this machine choose for usual
sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count

from tegg.ir.graph import Graph
from tegg.planning.plan import Plan
from tegg.planning.target import find
from tegg.runtime.driver import Options, plan_graph

# Rows of x, and both sides of w: one row and few (a token, a batch), one tile and many.
_USUAL = tuple((m, n) for m in (1, 64, 1024) for n in (1024, 4096))
STEPS = 2 * len(_USUAL)  # how many times ``prepare`` tells of a step


def prepare(device: str = "cpu", step: Callable[[str], None] = lambda name: None) -> int:
    """Compile the device's library and its usual products into the cache, where they are not there
    yet. How many kernels these are.

    Raises BackendError where the device or its compiler is missing.
    """
    plans: dict[tuple[str, ...], Plan] = {}
    target = find(device)
    for m, n in _USUAL:
        for linear in (False, True):
            plan = plan_graph(_product(m, n, linear), Options(device=device))
            plans.setdefault(tuple(k.source for k in plan.kernels), plan)
            step(f"{m} rows, {n} columns")
    first, *rest = plans.values()
    target.build(first)  # the library that all are linked with is compiled once
    with ThreadPoolExecutor(cpu_count()) as pool:
        list(pool.map(target.build, rest))
    return len(plans)


def _product(m: int, n: int, linear: bool) -> Graph:
    """x @ w, or x @ w.T, for a weight w of n x n."""
    graph = Graph()
    x, w = graph.input("x", (m, n), "f32"), graph.input("w", (n, n), "f32", "weight")
    spec = "a,c;b,c;a,b" if linear else "a,c;c,b;a,b"
    graph.outputs["out"] = graph.expansion("Contract", x, w, spec, (m, n))
    return graph
