"""Saturation: a graph becomes terms, rule sets run in phases, and the classes come back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from tegg.bits import value_of
from tegg.collecting import deferred
from tegg.dtype import dtype
from tegg.ir.classes import EClasses
from tegg.rewrite.compiler import PRECISIONS, Compiler, Stack, stack
from tegg.rewrite.declared import Declaration, declared
from tegg.rewrite.encode import Codec
from tegg.rewrite.engine import Conflict, Engine, Row
from tegg.errors import ArgumentError, RuleError
from tegg.rewrite.growth import Growth, explodes, growth
from tegg.rewrite.freeze import alike, contradiction, freeze
from tegg.ir.graph import Graph, Node
from tegg.ir.op import Op
from tegg.rewrite.pipeline import FACTS, Phase, limited
from tegg.rewrite.providers import Provider, Reading
from tegg.rewrite.report import PhaseReport, Report, RuleReport
from tegg.rewrite.provenance import Trace
from tegg.rewrite.rulecheck import variable_sorts
from tegg.rewrite.rulefile import Rule, RuleSet
from tegg.rewrite.ruletext import GUARDS, plain_name, rule_texts, variable
from tegg.rewrite.sexpr import Expr, List
from tegg.rewrite.stating import Stater
from tegg.rewrite.view import Reader, View
from tegg.rewrite.tables import read_tables
from tegg.rewrite.vocabulary import Word, loader, prelude


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
    chosen = _Chosen(stacked, traced)
    chosen.choose(precision, features)
    with declared(chosen.declarations, keep=not traced) as engine:
        run = _Saturation(graph, chosen, order, engine)
        run.report.declare_ms = (perf_counter() - start) * 1e3
        run.load(precision)
        for phase in order:
            run.phase(phase)
        run.stater.complete(run.view())
        yield run


class _Chosen:
    """The rule sets of a stack that run, and what declares them."""

    def __init__(self, stacked: Stack, traced: bool) -> None:
        self.stack, self.traced = stacked, traced
        self.declarations = [Declaration(command) for command in prelude(stacked.words)]
        self.sets: list[RuleSet] = []
        self.members: dict[str, list[str]] = {}  # rule set -> its egglog rule sets, one a rule
        self.owner: dict[str, str] = {}  # egglog rule set -> rule
        self.kept: dict[str, Word] = {}  # rule -> the relation that keeps its matches
        self.skipped: dict[str, str] = {}

    def choose(self, precision: str, features: Iterable[str]) -> None:
        """Every rule that may run at a precision, on a target with these features."""
        for s in self.stack.rule_sets:
            if s.header.kind not in PRECISIONS[precision]:
                self.skipped[s.name] = f"class {s.header.kind}, precision {precision}"
            elif not _runs_on(s.header.targets, features):
                self.skipped[s.name] = f"for {', '.join(s.header.targets)} only"
            else:
                self.choose_set(s)

    def choose_set(self, s: RuleSet) -> None:
        self.sets.append(s)
        self.members[s.name] = []
        for rule in s.rules:
            name = f"r{len(self.owner)}"
            self.owner[name] = rule.name
            self.members[s.name].append(name)
            text = (self.tracing(rule, name) if self.traced
                    else self.stack.texts[rule.name].replace("{}", name))
            self.declarations.append(Declaration(f"(ruleset {name}) {text}", rule))

    def tracing(self, rule: Rule, name: str) -> str:
        """The text of a rule that keeps its matches as rows of a relation."""
        sorts = variable_sorts(rule, self.stack.words)
        word = self.kept[rule.name] = Word(f"match-{name}", tuple(sorts.values()), "", "relation")
        self.declarations.append(Declaration(f"(relation {word.name} ({' '.join(word.args)}))"))
        also = f"({' '.join([word.name, *map(variable, sorts)])})"
        return " ".join(rule_texts(rule, self.stack.words, name, also))


class _Saturation:
    """One saturation, in one thread, on an engine that is lent to it."""

    def __init__(self, graph: Graph, chosen: _Chosen, order: tuple[Phase, ...],
                 engine: Engine) -> None:
        self.graph, self.stack, self.order = graph, chosen.stack, order
        self.engine, self.codec = engine, Codec(graph.facts)
        self.stater = Stater(self.engine, self.stack.table, self.codec, len(graph.nodes))
        reads = {r for p in self.stack.providers if isinstance(p, Reading) for r in p.reads}
        self.reader = Reader(self.engine, self.stack.table, self.codec, graph.inputs, reads)
        self.sets, self.members, self.owner = chosen.sets, chosen.members, chosen.owner
        self.kept = chosen.kept
        self.report = Report(skipped=chosen.skipped)
        self.report.rules.update((name, RuleReport()) for name in self.owner.values())
        self.combined: dict[tuple[str, ...], str] = {}
        self.last: tuple[int, dict[str, int]] = (0, {})  # the last round: its place in the
        #   engine's log, and rule set -> how many terms and facts its matches stated, old and new
        self.seen: tuple[int, View] | None = None  # the last view, and when it was taken

    # ---- loading
    def load(self, precision: str) -> None:
        """One row a node; commutative operands in canonical order; idioms united.

        A named op of floats may round otherwise than its expansion: bitwise keeps the expansion,
        unless the row says that both have the same bits.
        """
        start = perf_counter()
        graph = self.graph
        live = {n.id: n for n in graph.reachable()}
        idioms = [i for i in graph.idioms if i.node.id in live
                  and (precision != "bitwise" or i.op.same_bits or not i.node.dtype.is_float)]
        live.update((n.id, n) for i in idioms for n in graph.reachable(i.args))
        constant: set[int] = set()
        rows: dict[Op, list[Row]] = {}
        for n in sorted(live.values(), key=lambda n: n.id):
            if n.op.name == "Full" or (n.args and all(a.id in constant for a in n.args)):
                constant.add(n.id)
            args = self.ordered(n.op, n.args, constant)
            attrs = (self.codec.encode(kind, v) for (_, kind), v in zip(n.op.attrs, n.attrs))
            rows.setdefault(n.op, []).append(
                (*(a.id for a in args), *attrs, n.id, self.codec.encode("shape", n.shape),
                 n.dtype.name))
        for op, found in rows.items():
            name, commands = loader(op)
            for command in commands:
                self.engine.run(command)
            self.engine.insert(name, found)
        self.engine.run_rules("loading")
        for i in idioms:
            self.load_idiom(i.node, self.term(i.op, i.args, i.attrs, constant))
        self.report.loaded = len(live)
        self.report.load_ms = (perf_counter() - start) * 1e3

    def load_idiom(self, node: Node, term: str) -> None:
        try:
            self.engine.run(f"(union (Node {node.id}) {term})")
        except Conflict:
            raise RuleError(f"the idiom {term} was recorded for {node!r}, which has another shape "
                            f"or dtype; correct the expansion of its op") from None

    def term(self, op, args: tuple[Node, ...], attrs: tuple, constant: set[int]) -> str:
        """An op over loaded nodes, as text."""
        nodes = " ".join(f"(Node {a.id})" for a in self.ordered(op, args, constant))
        return f"({op.name} {nodes} {self.codec.attrs(op, attrs)})"

    @staticmethod
    def ordered(op: Op, args: tuple[Node, ...], constant: set[int]) -> tuple[Node, ...]:
        """Operands as rules look for them: a plain one, then an Expand, then a constant."""
        if not op.commutative:
            return args
        return tuple(sorted(args, key=lambda a: (a.id in constant, a.op.name == "Expand", a.id)))

    # ---- running
    def phase(self, phase: Phase) -> None:
        """Rounds and providers in turn, until neither changes anything or a limit is hit."""
        active = [s for s in self.sets if {phase.name, FACTS} & set(s.header.phases)]
        if not any(phase.name in s.header.phases for s in active):
            return
        report = PhaseReport(phase.name)
        self.report.phases.append(report)
        providers = self.needed(active)
        start = perf_counter()
        self.provide(providers, report)
        self.rounds(phase, active, report, start)
        while not report.hit and self.provide(providers, report):
            self.rounds(phase, active, report, start)
        report.enodes = self.enodes()
        report.ms = (perf_counter() - start) * 1e3 - report.provider_ms

    def rounds(self, phase: Phase, active: list[RuleSet], report: PhaseReport,
               start: float) -> None:
        """One round after the other, until one changes nothing or a limit is hit."""
        sizes: list[int] = []
        while not (hit := self.limit(phase, report, start, sizes)):
            ran = self.round(active, report)
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
        sizes.append(self.enodes())
        if sizes[-1] > phase.nodes:
            return f"nodes {phase.nodes}"
        return (f"nodes {phase.nodes}, far beyond which the next round would go"
                if explodes(sizes, phase.nodes) else "")

    def round(self, active: list[RuleSet], report: PhaseReport) -> bool:
        """One round of the sets that still may run. Whether it changed anything."""
        number = report.rounds
        names = tuple(r for s in active for r in self.members[s.name]
                      if s.header.grows is None or number < s.header.grows)
        ruleset = self.combined.get(names)
        if ruleset is None:
            ruleset = self.combined[names] = f"c{len(self.combined)}"
            self.engine.run(f"(unstable-combined-ruleset {ruleset} {' '.join(names)})")
        start = len(self.engine.log)
        try:
            run = self.engine.run_rules(ruleset)
        except Conflict as e:
            raise self.culprit(names, e) from None
        matched: dict[str, int] = {}
        for name, count in run.matches.items():
            plain, ms = plain_name(name), run.seconds.get(name, 0.0) * 1e3
            self.report.rules[plain].add(count, ms)
            if count:
                report.rules.setdefault(plain, RuleReport()).add(count, ms)
                matched[plain] = matched.get(plain, 0) + count
        self.last = start, {n: matched[r] * self.stated(r) for n in names
                            if (r := self.owner[n]) in matched}
        return run.changed

    def stated(self, rule: str) -> int:
        """How many terms and facts a match of a rule states."""
        def count(e: Expr) -> int:
            return (e.head in self.stack.words or e.head == "Const") + sum(
                map(count, e.items)) if isinstance(e, List) else 0

        return sum(map(count, self.stack.rules[rule].actions))

    def growth(self) -> dict[str, Growth]:
        """What rules added in the last round: it is played again, each rule by itself."""
        start, most = self.last
        words = self.stack.words
        found = growth(self.engine.replay(start), most, self.stack.table,
                       [w for w in words if w not in self.stack.table]) if most else {}
        return {self.owner[n]: g for n, g in found.items()}

    def culprit(self, names: tuple[str, ...], conflict: Conflict) -> RuleError:
        """Run everything up to the failed round again, then its rules one by one."""
        engine = self.engine.replay()
        for name in names:
            try:
                engine.run_rules(name)
            except Conflict:
                rule = self.stack.rules[self.owner[name]]
                return RuleError(f"{rule.place}: rule {rule.name!r} puts values of different shape "
                                 f"or dtype in one class; add a guard on (shape e) or (dtype e)")
        return conflict

    def enodes(self) -> int:
        sizes = self.engine.sizes()
        return sum(sizes.get(name, 0) for name in self.stack.table)

    # ---- facts from Python
    def needed(self, active: list[RuleSet]) -> list[Provider]:
        """Providers of a relation that a rule set of the phase reads, itself or by a constant."""
        uses = {u for s in active for u in s.header.uses} | set(GUARDS)
        return [p for p in self.stack.providers if uses & set(p.relations)]

    def provide(self, providers: list[Provider], report: PhaseReport) -> int:
        """State what the providers see now. How many facts were new."""
        start = perf_counter()
        view = self.view()
        new = self.stater.complete(view)
        for p in providers:
            n = self.stater.state(p, view)
            report.provided[p.name] = report.provided.get(p.name, 0) + n
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
        classes = freeze(self.graph, self.view())
        self.report.enodes = sum(map(len, classes.nodes.values()))
        self.report.classes = len(classes.nodes)
        self.report.freeze_ms = (perf_counter() - start) * 1e3
        return classes

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
        tables = read_tables(self.engine, words, self.kept.values())
        matches = {name: [dict(zip(variable_sorts(self.stack.rules[name], words), inputs))
                          for inputs, _ in tables.rows[word.name]]
                   for name, word in self.kept.items()}
        return Trace(tables, words, self.codec, self.stack.rules, matches)


def _runs_on(targets: tuple[str, ...], features: Iterable[str]) -> bool:
    """Whether a target has one of the features that a rule set asks for; none asks for any."""
    levels = {name: int(level or 0) for name, _, level in (f.partition("=") for f in features)}

    def has(target: str) -> bool:
        name, _, level = target.partition(">=")
        return name in levels and levels[name] >= int(level or 0)

    return not targets or any(map(has, targets))
