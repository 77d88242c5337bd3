"""``check_backend``: one call that holds a target against the oracle, row by row and as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tegg.dtype import DTYPES, DType, f32, f64
from tegg.errors import LoweringError
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph, Node
from tegg.ir.op import OPS
from tegg.ir.oracle import evaluate
from tegg.planning.target import Target, check_target
from tegg.rewrite.compiler import Compiler, Generic, lowering, stack
from tegg.runtime.compiled import Compiled
from tegg.runtime.driver import Options, compile_graph
from tegg.testing.compilers import check_classes
from tegg.testing.kernels import Kernels
from tegg.testing.programs import Program, programs as random_programs
from tegg.testing.property import HealthCheck, given, note, seed as seeded, settings
from tegg.testing.rows import check_drawn, check_elementwise
from tegg.testing.tolerance import close
from tegg.testing.views import NAMED as NAMED_VIEWS, Views, views as random_views

LARGEST = 300_000   # elements of one value of a random program
DEAREST = 3e7       # values that one kernel of a random program may evaluate


@dataclass(slots=True)
class BackendReport:
    """What was checked. rows: names of rows that ran. programs, views, classes: how many."""

    target: str
    rows: set[str] = field(default_factory=set)
    programs: int = 0
    views: int = 0
    classes: int = 0

    def __str__(self) -> str:
        return (f"{self.target}: {len(self.rows)} rows, {self.programs} programs, {self.views} "
                f"programs of views, {self.classes} e-classes agree with the oracle")


def check_backend(target: Target, compilers: Sequence[Compiler] = (), *, examples: int = 20,
                  seed: int = 0, slack: float = 1.0,
                  calls: Mapping[str, Any] | None = None) -> BackendReport:
    """Hold a target against the oracle: every row that it lowers, in every dtype, with the values
    that break things; random programs, through the stack of compilers; random programs of
    adversarial views, at several symbolic sizes; and every e-class of the random programs.

    compilers: what is stacked on the target, by default ``tegg.Generic()``.
    examples: how many programs of each kind are drawn; rows along axes get a quarter each.
    seed: the same seed draws the same programs. slack: multiple of the tolerances.
    calls: row -> a strategy of ``(operands, attributes)``, for rows whose attributes are other
      than axes, dtypes and an epsilon.
    Memory lies between pages that cannot be touched. Raises AssertionError with the smallest
    example that was found.
    """
    check_target(target, "what check_backend is given")
    compilers = tuple(compilers) or (Generic(),)
    if not any(c.target is target for c in compilers):
        compilers = (*compilers, Compiler(name=target.name, target=target))
    report = BackendReport(target.name)
    check_rows(target, compilers, report, max(2, examples // 4), seed, calls or {})
    check_programs(target, compilers, report, examples, seed, slack)
    check_views(target, compilers, report, examples, seed, slack)
    return report


def check_rows(target: Target, compilers: Sequence[Compiler], report: BackendReport,
               examples: int, seed: int, calls: Mapping[str, Any]) -> None:
    """Every row that the target lowers by itself."""
    table = stack(compilers).table
    for dtype in (d for d in DTYPES.values() if holds(target, d)):
        report.rows |= check_elementwise(target, table, dtype, seed)
        report.rows |= check_drawn(target, table, dtype, examples, seed, calls)


def holds(target: Target, dtype: DType) -> bool:
    """Whether a target has values of a dtype at all."""
    return any(target.unsupported(op, dtype) is None for op in (*target.ops, *OPS.values()))


def _holds_all(target: Target, graph: Graph, roots: Sequence[Node]) -> bool:
    """Whether it has those of all dtypes of a program."""
    return all(holds(target, d) for d in {n.dtype for n in graph.reachable(roots)}
               | {s.dtype for s in graph.inputs})


def check_programs(target: Target, compilers: Sequence[Compiler], report: BackendReport,
                   examples: int, seed: int, slack: float) -> None:
    """Random programs: named inputs, weights, states, several outputs, symbolic sizes."""
    @settings(max_examples=examples, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))
    @seeded(seed)
    @given(program=random_programs(doubles=holds(target, f64)))
    def run(program: Program) -> None:
        g = program.graph
        if not _holds_all(target, g, [*g.outputs.values(), *g.updates.values()]):
            return
        report.classes += check_classes(program, (*compilers, lowering(target)), slack,
                                        (target.name, *target.features))
        check_program(program, Options(tuple(compilers), cache=False), slack)
        report.programs += 1

    run()


def check_program(program: Program, options: Options, slack: float = 1.0) -> None:
    """Compile a random program, and compare its outputs and states with the oracle's.

    Raises AssertionError that names the output.
    """
    g = program.graph
    inputs = program.bind()
    names, updates = list(g.outputs), list(g.updates)
    nodes = [*g.outputs.values(), *g.updates.values()]
    wanted = evaluate(nodes, inputs, program.sizes)
    compiled = compile_graph(g, options)
    assert isinstance(compiled, Compiled)

    def fast(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        given_ = compiled.attempt(tuple(arrays.values()))
        return compiled(**arrays) if given_ is None else dict(zip(names, given_))

    for call in (lambda arrays: compiled(**arrays), fast):
        arrays = {s.name: inputs[i].copy() for i, s in enumerate(g.inputs) if s.kind != "weight"}
        got = call(arrays)
        results = [got[n] for n in names] + [arrays[g.inputs[s].name] for s in updates]
        for name, node, r, w in zip([*names, *updates], nodes, results, wanted):
            # a float64 that was computed from float32 is as exact as those
            narrow = node.dtype is f64 and any(n.dtype is f32 for n in g.reachable([node]))
            why = close(r, w, f32 if narrow else node.dtype, slack)
            assert why is None, f"output {name!r} of {program!r}: {why}"


def check_views(target: Target, compilers: Sequence[Compiler], report: BackendReport,
                examples: int, seed: int, slack: float) -> None:
    """Random programs of views, of constant and of symbolic shapes."""
    named = not any(target.unsupported(OPS[name], f32) for name in NAMED_VIEWS)
    for symbolic in (False, True):
        @settings(max_examples=examples, deadline=None, database=None,
                  suppress_health_check=list(HealthCheck))
        @seeded(seed)
        @given(case=random_views(symbolic, named, doubles=holds(target, f64)))
        def run(case: Views) -> None:
            if not _holds_all(target, case.graph, case.outputs):
                return
            report.views += (check_view(target, case, slack)
                             or check_compiled_view(case, compilers, slack))

        run()


def check_view(target: Target, case: Views, slack: float = 1.0) -> bool:
    """Lower a program of views as one kernel and run it at several sizes, between guard pages.
    Whether the target takes it as one kernel.

    Raises AssertionError that says at which sizes it is wrong.
    """
    nodes = case.graph.reachable(case.outputs)
    if any(n.op.name != "Input" and target.unsupported(n.op, n.dtype) for n in nodes):
        return False
    try:
        kernels = Kernels(target, [Fragment(case.graph, case.outputs, ())])
    except LoweringError:
        return False
    code = kernels.codes[0]  # copies to the device follow
    note(code.source)
    if code.work.evaluations > DEAREST:
        return False
    for i, sizes in enumerate(case.runs if code.symbolic else case.runs[:1]):
        if any(size > LARGEST for size in case.counts(sizes)):
            continue
        inputs = case.inputs(sizes, i)
        wanted = evaluate(case.outputs, inputs, sizes)
        for at_end in (True, False):
            (got,) = kernels.run([inputs], sizes, at_end)
            for a, b, n in zip(got, wanted, case.outputs):
                why = close(*_bounded(a, b), n.dtype, 8 * slack)
                assert why is None, f"at {sizes}: {why}\n{case!r}"
    return True


def check_compiled_view(case: Views, compilers: Sequence[Compiler], slack: float = 1.0) -> bool:
    """Compile a program of views for a target that computes it by other ops than it is written in,
    and run it at several sizes.

    Raises AssertionError that says at which sizes it is wrong.
    """
    graph = case.bind()
    compiled = compile_graph(graph, Options(tuple(compilers), cache=False))
    for i, sizes in enumerate(case.runs):
        if any(size > LARGEST for size in case.counts(sizes)):
            continue
        inputs = case.inputs(sizes, i)
        wanted = evaluate(case.outputs, inputs, sizes)
        got = compiled(**{s.name: inputs[slot] for slot, s in enumerate(graph.inputs)})
        for r, w, n in zip(got.values(), wanted, case.outputs):
            why = close(*_bounded(r, w), n.dtype, 8 * slack)
            assert why is None, f"at {sizes}: {why}\n{case!r}"
    return True


def _bounded(got: np.ndarray, want: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Without the elements that are the maximum of nothing, or near it."""
    if want.dtype.kind in "iub":
        return got, want
    keep = np.abs(want) < 1e30
    return (np.where(keep, got, 0).astype(want.dtype), np.where(keep, want, 0).astype(want.dtype))
