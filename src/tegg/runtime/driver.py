"""From a graph to a compiled program: saturate, extract, lower, build; plans are cached."""

from __future__ import annotations

import pickle
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tegg.runtime.buckets import Buckets, hinted
from tegg.cache import Cache, content_key, default
from tegg.collecting import deferred, sweep
from tegg.ir.classes import Cover, EClasses
from tegg.rewrite.compiler import Compiler, Generic, lowering, op_costs
from tegg.env import DEBUG
from tegg.errors import ArgumentError, LimitWarning
from tegg.ir.fingerprint import describe
from tegg.ir.graph import Graph
from tegg.planning.plan import Plan
from tegg.runtime.compiled import Compiled
from tegg.runtime.weighing import data_of, weighed
from tegg.ir.signature import Signature
from tegg.ir.template import form_of
from tegg.planning.target import Target, check_target, costs_of, find, on_device
from tegg.version import code_stamp

if TYPE_CHECKING:
    from tegg.display import Picture
    from tegg.extract import Wanted
    from tegg.extract.cost import Costs


SEARCHES = ("cost", "measure")


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile. budget_s: seconds that the exact cover may take; 0 takes the heuristic's.

    precision: ``"bitwise"`` (same bits) or ``"reals"`` (the order of sums is free).
    search: ``"cost"`` takes the best plan by prediction, ``"measure"`` times the best few for
      about ``search_s`` seconds; ``seed`` draws their inputs, and which few.
    """

    compilers: tuple[Compiler, ...] = ()
    device: str = "cpu"
    precision: str = "reals"
    budget_s: float = 5.0
    cache: bool = True
    search: str = "cost"
    search_s: float = 10.0
    seed: int = 0

    def check(self) -> None:
        """Raises ArgumentError for a number that is none, and for a search that is unknown."""
        for name, least in (("budget_s", 0.0), ("search_s", 0.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
                raise ArgumentError(f"{name} is a number of seconds, not {value!r}")
        if self.search not in SEARCHES:
            raise ArgumentError(f"search is {' or '.join(map(repr, SEARCHES))}, not "
                                f"{self.search!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ArgumentError(f"seed is a whole number of 0 or more, not {self.seed!r}")

    def decide(self) -> tuple[str, ...]:
        """What of the options decides a plan, besides the stack and the device."""
        found = (self.precision, str(self.budget_s), self.search)
        measured = (str(self.search_s), str(self.seed)) if self.search == "measure" else ()
        return found + measured


@deferred()
def compile_graph(graph: Graph, options: Options) -> Compiled | Buckets:
    """The program that computes the graph's outputs and updates; one plan per combination where
    dims have several hints.

    Raises ArgumentError for a graph without outputs and for weights without arrays, ExtractionError
    where an op has no lowering.
    """
    if not graph.outputs and not graph.updates:
        raise ArgumentError("the graph has no outputs; mark one with tensor.output('name')")
    stack, target = resolve(options)
    graph = weighed(graph, stack)
    signature = Signature.of(graph)
    if any(len(s.hints) > 1 for s in signature.symbols):
        return Buckets([(hints, _program(g, Signature.of(g), stack, target, options))
                        for hints, g in hinted(graph, signature)])
    return _program(graph, signature, stack, target, options)


def plan_graph(graph: Graph, options: Options) -> Plan:
    """The plan of a graph, which is not built: that needs no device."""
    stack, target = resolve(options)
    return _plan(weighed(graph, stack), Signature.of(graph), stack, target, options)[0]


def candidate_plans(graph: Graph, options: Options, wanted: Wanted) -> list[Plan]:
    """The best plan of a graph by prediction, then others that are worth a try; none is built."""
    stack, target = resolve(options)
    classes, _, _ = _saturated(weighed(graph, stack), stack, target, options)
    costs = costs_of(target, options.precision).with_ops(op_costs(stack, graph.table))
    return [p for p, _ in _planned(classes, Signature.of(graph), target, costs, options, wanted)]


def _program(graph: Graph, signature: Signature, stack: Sequence[Compiler], target: Target,
             options: Options) -> Compiled:
    weights = _weights(graph)
    plan, explanation = _plan(graph, signature, stack, target, options)
    sweep()  # what lasts is made next
    unbound = graph.unbound()  # what is kept for explanations holds no weights
    program = Compiled(signature, plan, weights, target, explanation,
                       lambda: _explained(unbound, stack, target, options))
    _debug(program, plan, explanation)
    return program


def _weights(graph: Graph) -> dict[int, Any]:
    """What each weight is bound to, by input slot. Raises ArgumentError where that is nothing."""
    found = {i: s.source for i, s in enumerate(graph.inputs) if s.kind == "weight"}
    unbound = [graph.inputs[i].name for i, source in found.items() if source is None]
    if unbound:
        raise ArgumentError(f"no array is given for {', '.join(unbound)}: a weight is bound to one "
                            f"where it is recorded (source=); leave out kind='weight' for what "
                            f"each call is given")
    return found


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
    options.check()
    owners = [c for c in stack if c.target is not None]
    targets = {getattr(c.target, "name", ""): c.target for c in owners}
    if len(targets) > 1:
        raise ArgumentError(f"the stack names several devices: {', '.join(sorted(targets))}; "
                            f"a program runs on one")
    for c in owners:
        check_target(c.target, f"target= of compiler {c.name!r}")
    target = next(iter(targets.values()), None) or find(options.device)
    return (*stack, lowering(target)), target


def _plan(graph: Graph, signature: Signature, stack: Sequence[Compiler], target: Target,
          options: Options) -> tuple[Plan, str]:
    cache = default() if options.cache else None
    key = "" if cache is None else content_key(
        code_stamp(), describe(graph), target.identity(), repr(target.costs()),
        *(c.identity() for c in stack), *options.decide())
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


def _saturated(graph: Graph, stack: Sequence[Compiler], target: Target,
               options: Options) -> tuple[EClasses, str, float]:
    """The classes of a graph, what the rules did, and in how many seconds."""
    from tegg.rewrite.egraph import saturate
    start = time.perf_counter()
    saturated = saturate(on_device(graph, target), stack, precision=options.precision,
                         features=(target.name, *target.features))
    seconds = time.perf_counter() - start
    for phase in saturated.report.phases:
        if phase.hit:
            warnings.warn(f"phase {phase.name} of the rules was {phase.stopped}; the program is "
                          f"right, and may be slower than it could be; bound that rule by "
                          f"'grows:', or give the phase other limits", LimitWarning, stacklevel=2)
    return saturated.classes, saturated.report.show(), seconds


def _make(graph: Graph, signature: Signature, stack: Sequence[Compiler], target: Target,
          options: Options) -> tuple[Plan, str]:
    classes, story, seconds = _saturated(graph, stack, target, options)
    sweep()
    costs = costs_of(target, options.precision).with_ops(op_costs(stack, graph.table))
    plan = _measured(graph, classes, signature, stack, target, costs, options) \
        if options.search == "measure" else \
        _planned(classes, signature, target, costs, options)[0][0]
    plan.stats["saturate_seconds"] = seconds
    return plan, story


def _measured(graph: Graph, classes: EClasses, signature: Signature, stack: Sequence[Compiler],
              target: Target, costs: Costs, options: Options) -> Plan:
    """The plan that runs fastest of the best few by prediction."""
    from tegg.extract import Wanted
    from tegg.runtime.search import CHOOSING, PLANS, fastest
    deadline = time.monotonic() + options.search_s
    plans = _planned(classes, signature, target, costs, options,
                     Wanted(PLANS - 1, options.search_s * CHOOSING, options.seed))
    weights = _weights(graph)
    return fastest(graph, plans, lambda p: Compiled(signature, p, weights, target),
                   deadline=deadline, seed=options.seed, coarse=any(c.rounds for c in stack),
                   weights={i: data_of(w) for i, w in weights.items()})


def _planned(classes: EClasses, signature: Signature, target: Target, costs: Costs,
             options: Options, others: Wanted | None = None
             ) -> list[tuple[Plan, tuple[str, ...]]]:
    """The plan of the cheapest cover whose kernels the target takes, and of others, each with what
    its kernels are."""
    from tegg.planning.choose import choose, planned
    from tegg.planning.make import KernelRefused
    symbols = tuple(s.name for s in signature.symbols)
    chosen = choose(classes, target, costs, symbols, budget_s=options.budget_s, others=others)
    found = [(chosen.plan, _kernels(chosen.cover))]
    for cover in chosen.cover.others:
        with suppress(KernelRefused):
            found.append((planned(chosen.classes, cover, target, symbols), _kernels(cover)))
    return found


def _kernels(cover: Cover) -> tuple[str, ...]:
    """What the kernels of a cover are, forms with their attributes."""
    out = []
    for spec in (s for s in cover.kernels if not s.ahead):
        anchor = None if spec.anchor is None else spec.body[spec.anchor]
        form = "" if anchor is None else f"({', '.join(map(str, form_of(anchor)[1:]))})"
        out.append(spec.label + form)
    return tuple(out)


def picture(graph: Graph, what: str, compilers: Sequence[Compiler] = ()) -> Picture:
    """The e-graph or the plan of a graph, for display. Raises ArgumentError for another one."""
    from tegg.display import of_classes, of_cover
    from tegg.rewrite.egraph import saturate
    from tegg.planning.choose import choose
    if what not in ("egraph", "plan"):
        raise ArgumentError(f"display shows 'graph', 'egraph' or 'plan', not {what!r}")
    stack, target = resolve(Options(tuple(compilers)))
    classes = saturate(on_device(graph, target), stack,
                       features=(target.name, *target.features)).classes
    if what == "egraph":
        return of_classes(classes)
    chosen = choose(classes, target, target.costs().with_ops(op_costs(stack, graph.table)))
    return of_cover(chosen.classes, chosen.cover)
