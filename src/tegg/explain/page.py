"""A program, its e-graph and its kernels as one HTML page that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template

from tegg.bits import value_of
from tegg.display import counted, of_graph
from tegg.drawing import as_svg
from tegg.explain.explanation import RUNNERS_S, Explanation, KernelStory, explanation
from tegg.extract import fragment
from tegg.ir.classes import Cover, EClasses, ENode, KernelSpec
from tegg.ir.graph import Graph
from tegg.planning.choose import choose
from tegg.planning.target import Target, costs_of, on_device
from tegg.rewrite.compiler import Compiler, lowering, op_costs, stack as stacked
from tegg.rewrite.egraph import saturate
from tegg.rewrite.report import Report
from tegg.shape import show


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of the time line: a phase, its milliseconds, those of providers, what it did."""

    name: str
    ms: float
    provider_ms: float
    what: str


def view(graph: Graph, stack: Sequence[Compiler], target: Target, title: str,
         precision: str = "reals", budget_s: float = 5.0) -> str:
    """The page of a graph as a stack of compilers, and what a target brings of its own, make it.

    Raises ArgumentError where the extra ``display``, which draws the graph, is not installed.
    """
    stack = (*stack, lowering(target))
    costs = costs_of(target, precision).with_ops(op_costs(stack, graph.table))
    done = saturate(on_device(graph, target), stack, precision=precision, trace=True,
                    features=(target.name, *target.features))
    chosen = choose(done.classes, target, costs, budget_s=budget_s, runners_s=RUNNERS_S)
    cover, stats = chosen.cover, chosen.plan.stats
    sources = [_source(spec, chosen.classes, target, i) for i, spec in enumerate(cover.kernels)]
    bars = [*_bars(done.report),
            Bar("extract", stats["extract_seconds"] * 1e3, 0.0,
                counted(len(cover.kernels), "kernel")),
            Bar("print", stats["lower_seconds"] * 1e3, 0.0, "kernels as source text")]
    told = explanation(done, cover)
    laws = {name: r.short_law for name, r in stacked(stack, graph.table).rules.items()}
    return Template(_template()).substitute(
        title=_text(title), summary=_text(_summary(told, done.report)), phases=_phases(bars),
        graph=_drawing(graph), kernels="\n".join(
            _kernel(i, story, source) for i, (story, source) in enumerate(zip(told.kernels,
                                                                              sources))),
        classes="\n".join(_classes(done.classes, cover)), rules=_rules(done.report, laws))


def _template() -> str:
    return files("tegg.explain").joinpath("page.html").read_text(encoding="utf-8")


def _text(value: object) -> str:
    """Text that stands for itself in HTML, attributes included."""
    return html.escape(str(value))


def _summary(told: Explanation, report: Report) -> str:
    gap = "unknown" if told.gap is None else f"{told.gap:.2%}"
    classes = f"{report.classes} {'class' if report.classes == 1 else 'classes'}"
    return (f"{counted(report.loaded, 'node')} became {counted(report.enodes, 'e-node')} in "
            f"{classes}, and {counted(len(told.kernels), 'kernel')}; predicted "
            f"{told.seconds * 1e6:.1f} us a run, gap to the best cover {gap}.")


# ---- time
def _bars(report: Report) -> list[Bar]:
    bars = [Bar("declare", report.declare_ms, 0.0, "rules to the engine"),
            Bar("load", report.load_ms, 0.0, f"{report.loaded} nodes")]
    for p in report.phases:
        stopped = f"; {p.stopped}" if p.hit else ""
        bars.append(Bar(p.name, p.ms + p.provider_ms, p.provider_ms,
                        f"{p.rounds} rounds, {sum(r.matches for r in p.rules.values())} matches, "
                        f"{p.enodes} e-nodes{stopped}"))
    return [*bars, Bar("freeze", report.freeze_ms, 0.0, f"{report.enodes} e-nodes")]


def _phases(bars: Iterable[Bar]) -> str:
    bars = list(bars)
    most = max(b.ms for b in bars) or 1.0
    rows = []
    for b in bars:
        own, provided = ((part / most * 100) for part in (b.ms - b.provider_ms, b.provider_ms))
        rows.append(f'<tr><td>{_text(b.name)}</td><td class="n">{b.ms:.1f}</td><td class="time">'
                    f'<div class="bar"><i style="width:{own:.2f}%"></i>'
                    f'<i style="width:{provided:.2f}%"></i></div></td><td>{_text(b.what)}</td>'
                    f"</tr>")
    return "\n".join(rows)


# ---- the graph
def _drawing(graph: Graph) -> str:
    svg = as_svg(of_graph(graph))
    return f'<div class="drawing">{svg[svg.index("<svg"):]}</div>'


# ---- kernels
def _source(spec: KernelSpec, classes: EClasses, target: Target, number: int) -> str:
    """What the target makes of a kernel."""
    weights = {c: s.kind == "weight" for slot, s in enumerate(classes.graph.inputs)
               for c in _input_classes(classes, slot)}
    fixed = frozenset(i for i, c in enumerate(spec.leaves) if weights.get(c, False))
    return target.lower(fragment(spec, classes), f"k{number}", fixed).source


def _input_classes(classes: EClasses, slot: int) -> list[int]:
    return [c for i, c in classes.of.items()
            if (n := classes.graph.nodes[i]).op.name == "Input" and n.attrs[0] == slot]


def _kernel(i: int, story: KernelStory, source: str) -> str:
    when = ", ahead" if story.ahead else ""
    chain = "".join(f"<li><code>{_text(s.rule)}</code> {_text(s.law)}</li>" for s in story.chain)
    chain = f"<ul>{chain}</ul>" if chain else "<p>As it was recorded.</p>"
    return (f'<details id="k{i}"><summary>k{i} <b>{_text(story.label)}</b> '
            f"<span>&rarr; {_text(', '.join(story.writes))}, {story.seconds * 1e6:.2f} us{when}"
            f"</span></summary><div><p>{_text(_runner(story))}</p>{chain}"
            f"<pre>{_text(source)}</pre></div></details>")


def _runner(story: KernelStory) -> str:
    if story.runner_up is None:
        return "Runner-up: not asked for."
    if not story.instead:
        return "Runner-up: none, nothing else can write this."
    return f"Runner-up: {', '.join(story.instead)}, {story.runner_up * 1e6:+.2f} us."


# ---- the e-graph
def _classes(classes: EClasses, cover: Cover) -> Iterable[str]:
    """Every class with its e-nodes; those that kernels compute are marked, with the kernels."""
    chosen: dict[int, dict[ENode, list[int]]] = {}
    for i, spec in enumerate(cover.kernels):
        for c, n in spec.body.items():
            chosen.setdefault(c, {}).setdefault(n, []).append(i)
    names: dict[int, list[str]] = {}
    for name, c in classes.outputs.items():
        names.setdefault(c, []).append(f"output {name}")
    for c, nodes in classes.nodes.items():
        marked = chosen.get(c, {})
        forms = "".join(_enode(n, classes.dtype[c], classes, marked.get(n, ())) for n in nodes)
        title = ", ".join([*names.get(c, ()), *(_heading(n, classes) for n in (
            list(marked) or nodes)[:1])])
        yield (f'<details id="c{c}"><summary>c{c} <b>{_text(title)}</b> <span>'
               f"{_text(classes.dtype[c].name)} {_text(show(classes.shape[c]))}, {len(nodes)} "
               f"{'way' if len(nodes) == 1 else 'ways'}</span></summary><div><ul>{forms}</ul>"
               f"</div></details>")


def _heading(n: ENode, classes: EClasses) -> str:
    if n.op.name == "Input":
        return f"Input {classes.graph.inputs[n.attrs[0]].name}"
    return n.op.name


def _enode(n: ENode, dtype, classes: EClasses, kernels: Iterable[int]) -> str:
    args = ", ".join(f'<a href="#c{a}">c{a}</a>' for a in n.args)
    attrs = _text(", ".join(f"{name}={_value(name, v, dtype)}"
                            for (name, _), v in zip(n.op.attrs, n.attrs)))
    inside = ", ".join(part for part in (args, attrs) if part)
    marks = " ".join(f'<a class="badge" href="#k{k}">k{k}</a>' for k in kernels)
    cls = ' class="chosen"' if marks else ""
    head = _text(_heading(n, classes))
    return f'<li{cls}><span class="mono">{head}({inside})</span> {marks}</li>'


def _value(name: str, value: object, dtype) -> object:
    if isinstance(value, tuple):
        return show(value)
    return value_of(value, dtype) if name == "bits" and isinstance(value, int) else value


def _rules(report: Report, laws: Mapping[str, str]) -> str:
    return "\n".join(
        f'<tr><td><code>{_text(name)}</code></td><td class="n">{report.rules[name].matches}</td>'
        f'<td class="n">{report.rules[name].ms:.2f}</td><td>{_text(laws.get(name, ""))}</td></tr>'
        for name in report.fired)
