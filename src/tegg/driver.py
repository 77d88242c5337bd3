"""From a graph to a compiled program: saturate, extract, lower, build; plans are cached."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tegg.buckets import Buckets, hinted
from tegg.cache import Cache, content_key, default
from tegg.compiler import Compiler, Generic
from tegg.errors import ArgumentError
from tegg.fingerprint import describe
from tegg.graph import Graph
from tegg.plan import Plan
from tegg.planning import make_plan
from tegg.runtime import Compiled
from tegg.signature import Signature
from tegg.target import Target, find
from tegg.version import __version__


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
    return Compiled(signature, plan, weights, target, explanation)


def resolve(options: Options) -> tuple[tuple[Compiler, ...], Target]:
    """The stack that runs and its one target: a compiler's own, or that of ``device``."""
    stack = options.compilers or (Generic(),)
    targets = {c.target.name: c.target for c in stack if c.target is not None}
    if len(targets) > 1:
        raise ArgumentError(f"the stack names several devices: {', '.join(sorted(targets))}; "
                            f"a program runs on one")
    return stack, next(iter(targets.values()), None) or find(options.device)


def _plan(graph: Graph, signature: Signature, stack: Sequence[Compiler], target: Target,
          options: Options) -> tuple[Plan, str]:
    cache = default() if options.cache else None
    key = content_key(__version__, describe(graph), target.identity(),
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
    from tegg.egraph import saturate
    from tegg.extract import extract, fragment
    clock = time.perf_counter
    start = clock()
    saturated = saturate(graph, stack, precision=options.precision)
    middle = clock()
    cover = extract(saturated.classes, target.costs(), lowerable=target.unsupported,
                    budget_s=options.budget_s, target=target.name)
    end = clock()
    plan = make_plan(saturated.classes, cover, tuple(s.name for s in signature.symbols),
                     lambda s: fragment(s, saturated.classes), target.lower)
    plan.stats.update(saturate_seconds=middle - start, extract_seconds=end - middle,
                      lower_seconds=clock() - end)
    return plan, str(saturated.report)
