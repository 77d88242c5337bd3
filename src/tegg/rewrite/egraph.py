"""Saturation: a graph becomes terms, rule sets run in phases, and the classes come back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from time import perf_counter

from tegg.bits import value_of
from tegg.collecting import deferred
from tegg.dtype import dtype
from tegg.ir.classes import EClasses
from tegg.rewrite.beside import beside
from tegg.rewrite.chosen import Chosen, chosen
from tegg.rewrite.compiler import PRECISIONS, Compiler, Stack, stack
from tegg.rewrite.declared import declared
from tegg.rewrite.encode import Codec
from tegg.rewrite.engine import Conflict, Engine
from tegg.errors import ArgumentError, RuleError
from tegg.rewrite.growth import Growth, explodes, growth
from tegg.rewrite.freeze import alike, contradiction, freeze
from tegg.ir.graph import Graph
from tegg.rewrite.loading import Loading
from tegg.rewrite.pipeline import Phase, limited
from tegg.rewrite.providers import Provider
from tegg.rewrite.report import PhaseReport, Report, RuleReport
from tegg.rewrite.provenance import Trace
from tegg.rewrite.rulecheck import variable_sorts
from tegg.rewrite.ruletext import plain_name
from tegg.rewrite.rulefile import Rule
from tegg.rewrite.sexpr import List, heads_of
from tegg.rewrite.stating import Stater
from tegg.rewrite.view import Reader, View
from tegg.rewrite.tables import read_tables


@dataclass(frozen=True, slots=True)
class Saturated:
    """The classes of a saturated graph, and what happened on the way.

    trace: every match of every rule, where that was asked for.
    """

    classes: EClasses
    report: Report
    trace: Trace | None = None


@deferred()
def saturate(graph: Graph, compilers: Compiler | Sequence[Compiler], precision: str = "reals",
             limits: Mapping[str, Mapping[str, float]] | None = None,
             features: Iterable[str] = ("cpu",), trace: bool = False) -> Saturated:
    """Load a graph, run the rule sets of a stack of compilers in phases, and freeze the classes.

    precision: ``"bitwise"`` or ``"reals"``. limits: as in ``pipeline.phases``. features: what the
    target can do, as names, with a level where rules ask for one: ``("cuda", "sm=80")``.
    trace: whether to keep every match of every rule, for explanations.
    """
    if precision not in PRECISIONS:
        raise ArgumentError(f"precision is {' or '.join(map(repr, PRECISIONS))}, not {precision!r}")
    stacked = stack(compilers, graph.table)
    order = limited(stacked.phases, limits or {})
    return beside(lambda: _run(graph, stacked, order, precision, tuple(features), trace))


def _run(graph: Graph, stacked: Stack, order: tuple[Phase, ...], precision: str,
         features: tuple[str, ...], trace: bool) -> Saturated:
    """Saturate, in the thread of this one's e-graphs."""
    with _saturated(graph, stacked, order, trace, precision, features) as run:
        found = contradiction(run.view())
        if found is None:
            return Saturated(run.freeze(), run.report, run.trace() if trace else None)
        suspects = run.suspects() if trace else None
    if suspects is None:
        with _saturated(graph, stacked, order, True, precision, features) as again:
            suspects = again.suspects()
    raise RuleError(f"rules put the constants {found[1]!r} and {found[2]!r} in one class; what "
                    f"stated a value of that class: {', '.join(suspects) or 'folding'}")


@contextmanager
def _saturated(graph: Graph, stacked: Stack, order: tuple[Phase, ...], traced: bool,
               precision: str, features: Iterable[str]) -> Iterator[_Saturation]:
    """A saturation, run to its end. Its engine is good until the block ends.

    One that is traced keeps matches in relations of its own, and so has an engine of its own.
    """
    start = perf_counter()
    rules = chosen(stacked, traced, precision, frozenset(features))
    ready = perf_counter()
    codec = Codec(graph.facts)
    loading = Loading(graph, codec, precision)
    loaded = perf_counter()
    with declared(rules.declarations, loading.declarations, keep=not traced) as engine:
        run = _Saturation(graph, rules, codec, engine)
        run.report.declare_ms = (perf_counter() - loaded + ready - start) * 1e3
        loading.load(engine)
        run.report.loaded = loading.count
        run.report.load_ms = (perf_counter() - start) * 1e3 - run.report.declare_ms
        for phase in order:
            run.phase(phase)
        run.stater.complete(run.view())
        yield run


class _Saturation:
    """One saturation, in one thread, on an engine that is lent to it."""

    def __init__(self, graph: Graph, rules: Chosen, codec: Codec, engine: Engine) -> None:
        self.graph, self.stack, self.rules = graph, rules.stack, rules
        self.engine, self.codec = engine, codec
        self.stater = Stater(self.engine, self.stack.table, self.codec, len(graph.nodes))
        self.reader = Reader(self.engine, self.stack.table, self.codec, graph.inputs, rules.reads)
        self.report = Report(skipped=dict(rules.skipped))
        self.report.rules.update((name, RuleReport()) for name in rules.owner.values())
        self.last: tuple[int, dict[str, int]] = (0, {})  # the last round: its place in the
        #   engine's log, and rule set -> how many terms and facts its matches stated, old and new
        self.seen: tuple[int, View] | None = None  # the last view, and when it was taken
        self.provided: dict[Provider, int] = {}  # provider -> after how many changes it was asked
        self.counted: tuple[int, int] | None = None  # e-nodes, after how many changes
        self.stated = 0  # what rounds stated since then, terms and facts, old and new

    # ---- running
    def phase(self, phase: Phase) -> None:
        """Rounds and providers in turn, until neither changes anything or a limit is hit."""
        if phase.name not in self.rules.active:
            return
        report = PhaseReport(phase.name)
        self.report.phases.append(report)
        providers = self.rules.needed[phase.name]
        start = perf_counter()
        self.provide(providers, report)
        self.rounds(phase, report, start)
        while not report.hit and self.provide(providers, report):
            self.rounds(phase, report, start)
        report.enodes = self.enodes()
        report.ms = (perf_counter() - start) * 1e3 - report.provider_ms

    def rounds(self, phase: Phase, report: PhaseReport, start: float) -> None:
        """One round after the other, until one changes nothing or a limit is hit."""
        sizes: list[int] = []
        while not (hit := self.limit(phase, report, start, sizes)):
            ran = self.round(report)
            report.rounds += 1
            if not ran:
                return
        report.hit = hit
        if report.rounds:
            report.grew = self.growth()

    def limit(self, phase: Phase, report: PhaseReport, start: float, sizes: list[int]) -> str:
        if report.rounds >= phase.rounds:
            return f"rounds {phase.rounds}"
        if (perf_counter() - start) * 1e3 > phase.ms:
            return f"ms {phase.ms}"
        sizes.append(self.at_most(min(phase.nodes, 2 * sizes[-1]) if sizes else 0))
        if sizes[-1] > phase.nodes:
            return f"nodes {phase.nodes}"
        return (f"nodes {phase.nodes}, far beyond which the next round would go"
                if explodes(sizes, phase.nodes) else "")

    def round(self, report: PhaseReport) -> bool:
        """One round of the sets that still may run. Whether it changed anything."""
        ruleset, names = self.rules.round(report.name, report.rounds)
        if not names:
            return False
        start = len(self.engine.log)
        try:
            run = self.engine.run_rules(ruleset)
        except Conflict as e:
            raise self.culprit(names, e) from None
        matched: dict[str, int] = {}
        for name in run.matches | run.seconds:
            plain, count = plain_name(name), run.matches.get(name, 0)
            ms = run.seconds.get(name, 0.0) * 1e3
            self.report.rules[plain].add(count, ms)
            if count:
                report.rules.setdefault(plain, RuleReport()).add(count, ms)
                matched[plain] = matched.get(plain, 0) + count
        self.last = start, {n: matched[r] * self.rules.stated(r) for n in names
                            if (r := self.rules.owner[n]) in matched} if matched else {}
        self.stated += sum(self.last[1].values())
        return run.changed

    def growth(self) -> dict[str, Growth]:
        """What rules added in the last round: it is played again, each rule by itself."""
        start, most = self.last
        if not most:
            return {}
        relations = [w for w in self.stack.words if w not in self.stack.table]
        with closing(self.engine.replay(start)) as engine:
            found = growth(engine, most, self.stack.table, relations)
        return {self.rules.owner[n]: g for n, g in found.items()}

    def culprit(self, names: tuple[str, ...], conflict: Conflict) -> RuleError:
        """Run everything up to the failed round again, then its rules one by one."""
        with closing(self.engine.replay()) as engine:
            for name in names:
                try:
                    engine.run_rules(name)
                except Conflict:
                    rule = self.stack.rules[self.rules.owner[name]]
                    if built := self.built(rule):
                        who = " or ".join(repr(r.name) for r in built)
                        return RuleError(f"{built[0].place}: rule {who} built an op of another "
                                         f"shape or dtype than its class has, as {rule.name!r} "
                                         f"saw; add a guard on (shape e) or (dtype e)")
                    return RuleError(f"{rule.place}: rule {rule.name!r} puts values of different "
                                     f"shape or dtype in one class; add a guard on (shape e) or "
                                     f"(dtype e)")
        return conflict

    def built(self, seen: Rule) -> list[Rule]:
        """The rules that matched and built an op of which another one only states facts."""
        if any(a.head == "union" for a in seen.actions if isinstance(a, List)):
            return []
        heads = {h for fact in seen.query for h in heads_of(fact) if h in self.stack.table}
        return [r for r in self.stack.rules.values() if r.name in self.report.rules
                and self.report.rules[r.name].matches
                and any(heads & heads_of(a) for a in r.actions)]

    def enodes(self) -> int:
        """How many e-nodes there are."""
        changes = self.engine.changes
        if self.counted is None or self.counted[0] != changes:
            if self.seen is not None and self.seen[0] == changes:
                total = self.seen[1].enodes
            else:
                sizes = self.engine.sizes()
                total = sum(sizes.get(name, 0) for name in self.stack.table)
            self.counted, self.stated = (changes, total), 0
        return self.counted[1]

    def at_most(self, enough: int) -> int:
        """How many e-nodes there are; or, where even all that was stated makes no more than
        ``enough``, so many, for to count them takes as long as a small round."""
        most = 0 if self.counted is None else self.counted[1] + self.stated
        return most if 0 < most <= enough else self.enodes()

    # ---- facts from Python
    def provide(self, providers: list[Provider], report: PhaseReport) -> int:
        """State what the providers see now. How many facts were new."""
        start = perf_counter()
        view = self.view()
        new = self.stater.complete(view)
        for p in providers:
            report.provided.setdefault(p.name, 0)
            if self.provided.get(p) == self.engine.changes:  # it would see what it saw
                continue
            self.provided[p] = self.engine.changes
            n = self.stater.state(p, view)
            report.provided[p.name] += n
            new += n
        report.provider_ms += (perf_counter() - start) * 1e3
        return new

    def view(self) -> View:
        """The e-graph as it is now."""
        if self.seen is None or self.seen[0] != self.engine.changes:
            self.seen = self.engine.changes, self.reader.look()
        return self.seen[1]

    def freeze(self) -> EClasses:
        """The classes that outputs and updates need."""
        start = perf_counter()
        classes = freeze(self.graph, self.view(), self.subsuming)
        self.report.enodes = sum(map(len, classes.nodes.values()))
        self.report.classes = len(classes.nodes)
        self.report.freeze_ms = (perf_counter() - start) * 1e3
        return classes

    def subsuming(self) -> list[str]:
        """The rules that subsumed something."""
        matched = self.report.rules
        return [r.name for r in self.stack.rules.values()
                if r.name in matched and matched[r.name].matches
                and any(isinstance(a, List) and a.head == "subsume" for a in r.actions)]

    def suspects(self) -> list[str]:
        """The rules that united something with a class that holds two different constants."""
        trace = self.trace()
        values: dict[object, list[float]] = {}
        for inputs, output in trace.tables.rows["Full"]:
            values.setdefault(output, []).append(value_of(int(inputs[2]), dtype(str(inputs[0]))))
        odd = {c for c, found in values.items() if not all(alike(found[0], v) for v in found)}
        return sorted({name for name, bindings in trace.matches.items()
                       for action in trace.rules[name].actions
                       if isinstance(action, List) and action.head == "union"
                       for b in bindings if b.get(str(action.items[1])) in odd})

    def trace(self) -> Trace:
        """The matches of all rules, and every row."""
        words = self.stack.words
        kept = self.rules.kept
        tables = read_tables(self.engine, words, kept.values())
        matches = {name: [dict(zip(variable_sorts(self.stack.rules[name], words), inputs))
                          for inputs, _ in tables.rows[word.name]]
                   for name, word in kept.items()}
        return Trace(tables, words, self.codec, self.stack.rules, matches)
