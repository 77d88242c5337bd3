"""From a graph to a compiled program: saturate, extract, lower, build; plans are cached."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tegg.runtime.buckets import Buckets, hinted
from tegg.cache import Cache, content_key, default
from tegg.ir.classes import EClasses, KernelSpec
from tegg.rewrite.compiler import Compiler, Generic, lowering, stack as stacked
from tegg.env import DEBUG
from tegg.errors import ArgumentError
from tegg.ir.fingerprint import describe
from tegg.ir.graph import Graph
from tegg.planning.plan import Plan
from tegg.runtime.compiled import Compiled
from tegg.ir.signature import Signature
from tegg.planning.target import Target, find
from tegg.version import code_stamp

if TYPE_CHECKING:
    from tegg.display import Picture
    from tegg.extract.cost import Costs


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile. budget_s: seconds that the exact cover may take; 0 takes the heuristic's.

    precision: ``"bitwise"`` (same bits) or ``"reals"`` (the order of sums is free).
    """

    compilers: tuple[Compiler, ...] = ()
    device: str = "cpu"
    precision: str = "reals"
    budget_s: float = 5.0
    cache: bool = True


def compile_graph(graph: Graph, options: Options) -> Compiled | Buckets:
    """The program that computes the graph's outputs and updates; one plan per combination where
    dims have several hints.

    Raises ArgumentError for a graph without outputs, ExtractionError where an op has no lowering.
    """
    if not graph.outputs and not graph.updates:
        raise ArgumentError("the graph has no outputs; mark one with tensor.output('name')")
    stack, target = resolve(options)
    signature = Signature.of(graph)
    if any(len(s.hints) > 1 for s in signature.symbols):
        return Buckets([(hints, _program(g, Signature.of(g), stack, target, options))
                        for hints, g in hinted(graph, signature)])
    return _program(graph, signature, stack, target, options)


def _program(graph: Graph, signature: Signature, stack: Sequence[Compiler], target: Target,
             options: Options) -> Compiled:
    weights = {i: s.source for i, s in enumerate(graph.inputs) if s.kind == "weight"}
    plan, explanation = _plan(graph, signature, stack, target, options)
    program = Compiled(signature, plan, weights, target, explanation,
                       lambda: _explained(graph, stack, target, options))
    _debug(program, plan, explanation)
    return program


def _explained(graph: Graph, stack: Sequence[Compiler], target: Target, options: Options) -> str:
    """Why the program became what it is: made when asked for, by saturating once more."""
    from tegg.explain.explanation import explain
    return explain(graph, stack, target, options.precision, options.budget_s).show()


def _debug(program: Compiled, plan: Plan, explanation: str) -> None:
    """What TEGG_DEBUG asks to see, on standard error."""
    level = DEBUG.get()
    parts = (plan.show(), explanation, program.source() if level >= 3 else "")
    for text in parts[:level]:
        print(text, file=sys.stderr)


def resolve(options: Options) -> tuple[tuple[Compiler, ...], Target]:
    """The stack that runs and its one target: a compiler's own, or that of ``device``.

    The target's own rules stand last.
    """
    stack = options.compilers or (Generic(),)
    for c in stack:
        if not isinstance(c, Compiler):
            raise ArgumentError(f"a stack is made of compilers, such as tegg.Generic() or "
                                f"tegg.Compiler('rules.egg'), not {c!r}")
    if not isinstance(options.budget_s, (int, float)):
        raise ArgumentError(f"budget_s is a number of seconds, not {options.budget_s!r}")
    targets = {c.target.name: c.target for c in stack if c.target is not None}
    if len(targets) > 1:
        raise ArgumentError(f"the stack names several devices: {', '.join(sorted(targets))}; "
                            f"a program runs on one")
    target = next(iter(targets.values()), None) or find(options.device)
    return (*stack, lowering(target)), target


def _plan(graph: Graph, signature: Signature, stack: Sequence[Compiler], target: Target,
          options: Options) -> tuple[Plan, str]:
    cache = default() if options.cache else None
    key = content_key(code_stamp(), describe(graph), target.identity(), repr(target.costs()),
                      *(c.identity() for c in stack), options.precision, str(options.budget_s))
    found = _cached(cache, key)
    if found is not None:
        return found
    made = _make(graph, signature, stack, target, options)
    if cache is not None:
        cache.put("plan", key, pickle.dumps(made))
    return made


def _cached(cache: Cache | None, key: str) -> tuple[Plan, str] | None:
    data = cache.read("plan", key) if cache is not None else None
    return None if data is None else pickle.loads(data)


def _make(graph: Graph, signature: Signature, stack: Sequence[Compiler], target: Target,
          options: Options) -> tuple[Plan, str]:
    from tegg.rewrite.egraph import saturate
    start = time.perf_counter()
    saturated = saturate(graph, stack, precision=options.precision,
                         features=(target.name, *target.features))
    seconds = time.perf_counter() - start
    costs = target.costs().with_ops(stacked(stack, graph.table).cost)
    plan = _planned(saturated.classes, signature, target, costs, options)
    plan.stats["saturate_seconds"] = seconds
    return plan, saturated.report.show()


def _planned(classes: EClasses, signature: Signature, target: Target, costs: Costs,
             options: Options) -> Plan:
    """The plan of the cheapest cover whose kernels the target takes.

    A kernel that it cannot lower is refused by name, and the choice is made again.
    """
    from tegg.extract import extract, fragment
    from tegg.planning.make import KernelRefused, make_plan
    refused: dict[tuple, str] = {}

    def accepts(spec: KernelSpec) -> str | None:
        return refused.get((spec.writes, spec.reads))

    while True:
        start = time.perf_counter()
        cover = extract(classes, costs, lowerable=target.unsupported, accepts=accepts,
                        target=target.name, budget_s=options.budget_s)
        middle = time.perf_counter()
        try:
            plan = make_plan(classes, cover, tuple(s.name for s in signature.symbols),
                             lambda s: fragment(s, classes), target.lower)
        except KernelRefused as e:
            refused[(e.spec.writes, e.spec.reads)] = e.reason
            continue
        plan.stats.update(extract_seconds=middle - start,
                          lower_seconds=time.perf_counter() - middle)
        return plan


def picture(graph: Graph, what: str, compilers: Sequence[Compiler] = ()) -> Picture:
    """The e-graph or the plan of a graph, for display. Raises ArgumentError for another one."""
    from tegg.display import of_classes, of_cover
    from tegg.rewrite.egraph import saturate
    from tegg.extract import extract
    if what not in ("egraph", "plan"):
        raise ArgumentError(f"display shows 'graph', 'egraph' or 'plan', not {what!r}")
    stack, target = resolve(Options(tuple(compilers)))
    classes = saturate(graph, stack, features=(target.name, *target.features)).classes
    if what == "egraph":
        return of_classes(classes)
    costs = target.costs().with_ops(stacked(stack, graph.table).cost)
    return of_cover(classes, extract(classes, costs, lowerable=target.unsupported,
                                     target=target.name))
