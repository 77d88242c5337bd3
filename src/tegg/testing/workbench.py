"""Everything that is checked of a rule: sound, live, each guard needed, and no growth.

Third parties run it on their own files: ``tegg rules check FILES``, or ``check_rules`` in a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from tegg.dtype import DTYPES
from tegg.errors import TeggError
from tegg.ir.graph import Graph
from tegg.rewrite.compiler import Compiler, Stack, stack
from tegg.rewrite.egraph import saturate
from tegg.rewrite.providers import Showing
from tegg.rewrite.rulefile import Rule, RuleSet
from tegg.rewrite.sexpr import List
from tegg.testing.guards import POLICIES
from tegg.testing.instance import instance
from tegg.testing.reproduce import shrink
from tegg.testing.soundness import Unsound, check_rule, differ, relations
from tegg.testing.terms import leaves

SOUND_DRAWS = 100    # graphs on which a rule must hold
GUARD_DRAWS = 400    # graphs among which one must break a rule that lacks a guard
LIVE_DRAWS = 20      # graphs of its own left side, on one of which a rule must fire
BUFFER_WORDS = ("Load", "Store", "StoreAs")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. check: ``sound live guard growth``, or ``form`` of what no rule can be
    read from, which then has no name. problem: empty where all is well.

    program: Python text that shows the problem, where values do.
    """

    rule: str
    check: str
    problem: str = ""
    program: str = ""


def check_rules(sets: Sequence[RuleSet], compilers: Sequence[Compiler],
                seed: int = 0) -> Iterator[Finding]:
    """Check every rule of rule sets that belong to a stack of compilers.

    The same seed draws the same graphs.
    """
    stacked = stack(compilers)
    for home in sets:
        for rule in home.rules:
            yield sound(rule, home, stacked, seed)
            if not reads_memory(rule):
                yield live(rule, stacked, compilers, seed)
            for i in guards_of(rule):
                yield guard_needed(rule, home, stacked, i, seed)


def sound(rule: Rule, home: RuleSet, stacked: Stack, seed: int = 0) -> Finding:
    """Whether what a rule states is true in NumPy; of several counterexamples the smallest."""
    found: list[Unsound] = []
    for i in range(SOUND_DRAWS):
        try:
            check_rule(rule, home, stacked, Random(f"{seed} {i}"))
        except Unsound as e:
            found.append(e)
        except AssertionError as e:
            return Finding(rule.name, "sound", str(e))
    if not found:
        return Finding(rule.name, "sound")
    best = min(found, key=lambda e: e.example.size if e.example else (1 << 60, 0))
    if best.example is None:
        return Finding(rule.name, "sound", str(best))
    small = shrink(best.example, partial(differ, header=home.header))
    return Finding(rule.name, "sound", str(best).splitlines()[0], small.program())


def live(rule: Rule, stacked: Stack, compilers: Sequence[Compiler], seed: int = 0) -> Finding:
    """Whether a rule fires on a graph that is its own left side, and the phases come to an end."""
    features = {"cpu", *(t.replace(">=", "=") for x in stacked.rule_sets for t in x.header.targets)}
    try:
        for graph in _left_sides(rule, stacked, seed):
            graph.outputs = {f"y{n.id}": n for n in graph.nodes}
            report = saturate(graph, compilers, features=features).report
            hits = [f"phase {p.name} was {p.stopped}" for p in report.phases if p.hit]
            if hits:
                return Finding(rule.name, "growth", min(hits))
            if rule.name in report.rules and report.rules[rule.name].matches:
                return Finding(rule.name, "live")
    except (AssertionError, TeggError) as e:  # no graph can be made of it, or it contradicts itself
        return Finding(rule.name, "live", str(e))
    return Finding(rule.name, "live", f"{rule.place}: rule {rule.name!r} never fired on "
                                      f"{LIVE_DRAWS} graphs of its own left side; an earlier phase "
                                      f"may rewrite what it looks for")


def _left_sides(rule: Rule, stacked: Stack, seed: int) -> Iterator[Graph]:
    """Programs that a rule should match: those that providers of its facts show, and drawn ones."""
    reads = {fact.head for fact in rule.query if isinstance(fact, List)}
    for p in stacked.providers:
        if isinstance(p, Showing) and reads & set(p.relations):
            yield p.example()
    for i in range(LIVE_DRAWS):
        yield instance(rule, stacked.table, relations(stacked), tuple(DTYPES.values()),
                       Random(f"{seed} {i}"), providers=stacked.providers).graph


def guard_needed(rule: Rule, home: RuleSet, stacked: Stack, guard: int, seed: int = 0) -> Finding:
    """Whether a rule without one of its guards would be wrong somewhere."""
    bare = Rule(rule.name, rule.law, tuple(f for i, f in enumerate(rule.query) if i != guard),
                rule.actions, rule.place)
    try:
        for i in range(GUARD_DRAWS):
            check_rule(bare, home, stacked, Random(f"{seed} {i}"))
    except AssertionError:
        return Finding(rule.name, "guard")
    return Finding(rule.name, "guard", f"{rule.place}: rule {rule.name!r} holds without its guard "
                                       f"{rule.query[guard]} on {GUARD_DRAWS} graphs; remove it")


def guards_of(rule: Rule) -> list[int]:
    """Guards that only test: relations whose variables the rest of the rule binds."""
    out = []
    for i, fact in enumerate(rule.query):
        rest = [f for j, f in enumerate(rule.query) if j != i]
        bound = {str(v) for f in rest for v in leaves(f)}
        tests = isinstance(fact, List) and fact.head not in ("=", *POLICIES)
        if tests and {str(v) for v in leaves(fact)} <= bound:
            out.append(i)
    return out


def reads_memory(rule: Rule) -> bool:
    """Whether a rule matches Buffers, which a graph does not hold."""
    def has(e) -> bool:
        return isinstance(e, List) and (e.head in BUFFER_WORDS or any(map(has, e.items)))

    return any(map(has, rule.query))
