"""Why a program became what it is: phases and rules, and per kernel its form, cost and history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tegg.ir.classes import Cover, EClasses, KernelSpec
from tegg.ir.graph import Graph
from tegg.planning.choose import choose
from tegg.planning.target import Target, costs_of, on_device
from tegg.rewrite.compiler import Compiler, op_costs
from tegg.rewrite.egraph import Saturated, saturate
from tegg.rewrite.provenance import Derivations
from tegg.rewrite.report import Report

RUNNERS_S = 2.0  # seconds that asking for the second best may take


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One rule of a chain: its law, and the words of what it stated."""

    rule: str
    law: str
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelStory:
    """One kernel. seconds: predicted. runner_up: how many seconds more the program would take
    without it (inf: nothing can stand in; None: not asked), and what would run instead.

    chain: the rules that made its named ops from what was recorded, in an order of application.
    """

    label: str
    writes: tuple[str, ...]
    ahead: bool
    seconds: float
    runner_up: float | None
    instead: tuple[str, ...]
    chain: tuple[ChainStep, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A program explained. seconds: predicted for a run; gap: certified distance to the best."""

    report: Report
    kernels: tuple[KernelStory, ...]
    seconds: float
    gap: float | None

    def show(self) -> str:
        """The explanation as text."""
        lines = [self.report.show(), ""]
        for i, k in enumerate(self.kernels):
            lines += _kernel_lines(i, k)
        gap = "unknown" if self.gap is None else f"{self.gap:.2%}"
        return "\n".join([*lines, f"predicted {self.seconds * 1e6:.1f} us a run, gap {gap}"])


def explain(graph: Graph, stack: Sequence[Compiler], target: Target,
            precision: str = "reals", budget_s: float = 5.0) -> Explanation:
    """Saturate a graph with every match kept, choose its kernels, and say why each."""
    done = saturate(on_device(graph, target), stack, precision=precision, trace=True,
                    features=(target.name, *target.features))
    costs = costs_of(target, precision).with_ops(op_costs(stack, graph.table))
    return explanation(done, choose(done.classes, target, costs, budget_s=budget_s,
                                    runners_s=RUNNERS_S).cover)


def explanation(done: Saturated, cover: Cover) -> Explanation:
    """The explanation of a cover of a traced saturation."""
    assert done.trace is not None, "explanations need saturate(..., trace=True)"
    derived = Derivations(done.trace, done.classes)
    stories = tuple(_story(i, spec, cover, done.classes, derived)
                    for i, spec in enumerate(cover.kernels))
    return Explanation(done.report, stories, cover.seconds, cover.gap)


def _story(i: int, spec: KernelSpec, cover: Cover, classes: EClasses,
           derived: Derivations) -> KernelStory:
    runner = cover.runners.get(i)
    steps = list(dict.fromkeys(
        step for c, n in spec.body.items() if n.op.named for step in derived.chain(c, n)))
    chain = tuple(dict.fromkeys(
        ChainStep(s.rule.name, s.rule.short_law, tuple(name for name, _ in s.states))
        for s in steps))
    writes = tuple(f"{classes.dtype[o].name}[{','.join(map(str, classes.shape[o]))}]"
                   for o in spec.outs)
    return KernelStory(spec.label, writes, spec.ahead, spec.seconds,
                       None if runner is None else runner.seconds,
                       () if runner is None else tuple(s.label for s in runner.instead), chain)


def _kernel_lines(i: int, k: KernelStory) -> list[str]:
    when = ", ahead" if k.ahead else ""
    lines = [f"k{i} {k.label} -> {', '.join(k.writes)}: {k.seconds * 1e6:.1f} us{when}"]
    if k.runner_up is not None and k.instead:
        lines.append(f"    runner-up: {', '.join(k.instead)}: {k.runner_up * 1e6:+.1f} us")
    elif k.runner_up is not None:
        lines.append("    runner-up: none, nothing else can write this")
    lines += [f"    {s.rule}: {s.law}" for s in k.chain]
    return lines
