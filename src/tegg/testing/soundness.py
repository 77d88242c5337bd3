"""Soundness of one rule: on drawn graphs that it matches, what it states is true in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from types import MappingProxyType

import numpy as np

from tegg.rewrite.compiler import Stack
from tegg.dim import Dim, evaluate as size_of
from tegg.dtype import DTYPES, DType, bf16, bool_, f16, dtype, f32, f64, i64
from tegg.ir.graph import Node
from tegg.ir.oracle import evaluate
from tegg.rewrite.ruleheader import Header
from tegg.rewrite.rulefile import Relation, Rule, RuleSet
from tegg.rewrite.sexpr import List, Symbol
from tegg.testing.exact import exactly
from tegg.testing.guards import POLICIES, Miss, rotate
from tegg.testing.instance import Instance, instance
from tegg.testing.reproduce import Counterexample
from tegg.testing.terms import constants, is_constant_of, is_kind, rename
from tegg.testing.values import Run, draw_runs, numbers


class Unsound(AssertionError):
    """A rule states what is not true. ``example``: graph and values that show it, if it has any."""

    def __init__(self, text: str, example: Counterexample | None = None) -> None:
        super().__init__(text)
        self.example = example


SYMBOLIC = 0.3  # of the graphs have dims that are known only at run time, where a rule admits it
# How far apart both sides of a law of the reals may be: roundings of small graphs, with ample room.
REALS = MappingProxyType({"f64": 1e-9, "f32": 1e-3, "f16": 0.05, "bf16": 0.25})
FITTING = 40  # graphs that are drawn until one is of the kind of a rule's constants
EXACT_ELEMENTS = 64  # of a result: more are not evaluated with fractions


def relations(stacked: Stack) -> dict[str, Relation]:
    """The relations that rule sets of a stack declare, by name."""
    return {r.word.name: r for s in stacked.rule_sets for r in s.relations}


def check_rule(rule: Rule, rules: RuleSet, stacked: Stack, rng: Random) -> Instance:
    """Draw one graph that a rule matches, and check what it states on drawn values.

    Raises AssertionError with the rule's place, the graph and both values where it is wrong.
    """
    made = draw_instance(rule, rules, stacked, rng)
    check_instance(rule, rules, made, relations(stacked))
    return made


def draw_instance(rule: Rule, rules: RuleSet, stacked: Stack, rng: Random) -> Instance:
    """A graph that a rule matches, of the dtypes in which its class can be checked."""
    symbolic = rng.random() < SYMBOLIC
    dtypes = {"reals": (f64, i64, bool_), "rounds": (f32, f64, f16, bf16, i64, bool_)}.get(
        rules.header.kind, tuple(DTYPES.values()))
    for _ in range(FITTING):
        made = instance(rule, stacked.table, relations(stacked), dtypes, rng,
                        providers=stacked.providers, symbolic=symbolic)
        if fits(rule, made):
            break
    made.constants = numbers(rule, made.graph)
    return made


def fits(rule: Rule, made: Instance) -> bool:
    """Whether numbers that a rule states are of the kind of the classes that it states them of:
    elsewhere the loader lets it match nothing."""
    for action in rule.actions:
        found = [c for c in constants(action) if str(c.items[1]) not in ("true", "false")]
        with suppress(Miss):
            owner = made.known(action.items[1]) if found else None
            if owner is not None and not all(is_constant_of(c, owner.dtype) for c in found):
                return False
    return True


def check_instance(rule: Rule, rules: RuleSet, made: Instance,
                   known: Mapping[str, Relation]) -> None:
    """Check what a rule states about a graph that it matches."""
    claim = Claim(rule, rules.header, made, known, draw_runs(made, rules.header))
    for action in rule.actions:
        claim.action(action)


class Claim:
    """What the actions of a rule claim about an instance: each is checked, in NumPy and, for laws
    of the reals, in exact arithmetic."""

    def __init__(self, rule: Rule, header: Header, made: Instance, known: Mapping[str, Relation],
                 runs: Sequence[Run]) -> None:
        self.rule, self.header, self.made = rule, header, made
        self.known, self.runs = known, runs

    def fail(self, what: str, *values: object, run: Run | None = None,
             sides: tuple[Node, Node | None] | None = None) -> Unsound:
        lines = [f"{self.rule.place}: rule {self.rule.name!r} is not {self.header.kind}: {what}"]
        lines += [f"  {n} = {n.op.name}({', '.join(map(str, (*n.args, *n.attrs)))})"
                  for n in self.made.graph.nodes]
        if run is not None:
            lines += [f"  at {name} = {size}" for name, size in run.sizes.items()]
            lines += [f"  input {i}: {a.tolist()}" for i, a in run.arrays.items()]
        example = None if run is None or sides is None else Counterexample(
            self.made.graph, *sides, run.arrays, run.sizes)
        return Unsound("\n".join([*lines, *(f"  {v}" for v in values)]), example)

    def node(self, e: List | Symbol, owner: Node | None = None) -> Node:
        self.made.owner = owner
        try:
            node = self.made.known(e)
        except Miss:
            node = None
        finally:
            self.made.owner = None
        if node is None:
            odd = owner is not None and any(not is_constant_of(c, owner.dtype)
                                            for c in constants(e))
            raise self.fail(f"{e} cannot be built there; "
                            + (f"a constant takes the dtype of the class that is matched, "
                               f"{owner.dtype.name}: write (Full d s v) for another"
                               if odd and owner is not None else
                               "a guard on shapes or dtypes is missing"))
        return node

    def value(self, n: Node, run: Run) -> np.ndarray:
        try:
            return evaluate([n], run.arrays, run.sizes)[0]
        except (IndexError, KeyError, OverflowError, ValueError) as e:
            raise self.fail(f"{n} cannot be computed ({e}); its attributes do not fit its operands"
                            ) from None

    def action(self, action: List) -> None:
        head, items = action.head, action.items[1:]
        if head == "union":
            owner = self.node(items[0])
            self.same(owner, self.node(items[1], owner))
        elif head == "set" and items[0].head not in ("shape", "dtype"):
            self.words(items[0].head, items[0].items[1:])
        elif head == "set":
            fact, want = getattr(self.node(items[0].items[1]), items[0].head), self.made.attribute(
                items[1])
            if fact != want:
                raise self.fail(f"{items[0]} is {fact}, not {want}")
        elif head in self.known and self.known[head].means:
            for term in self.known[head].means:
                self.fact(rename(term, self.known[head], action))
        elif head not in ("subsume", "panic"):
            self.words(head, items)

    def fact(self, fact: List) -> None:
        """A part of the meaning of a relation that the rule states."""
        if fact.head == "=":
            self.same(self.node(fact.items[1]), self.node(fact.items[2],
                                                          self.node(fact.items[1])))
        else:
            self.action(fact)

    def words(self, head: str, items: tuple) -> None:
        """A relation whose meaning is in words. A policy claims nothing."""
        if head in POLICIES:
            return
        first = self.node(items[0])
        if head == "rotated":
            self.same(first, rotate(self.made.graph, self.node(items[1])))
            return
        if head == "sized":
            named = self.made.attribute(items[1])
            if not is_kind(named, "dims") or len(named) != 1:
                raise self.fail(f"{items[1]} is {named}, which is no size")
        elif head != "positive":
            raise self.fail(f"what {head} means is said in words, which no test reads; say it in "
                            f"terms above its declaration, as in ';; ({head} a b) means "
                            f"(= a (Recip b))'")
        for run in self.runs:
            value = self.value(first, run)
            good = (_positive(value, first.dtype) if head == "positive"
                    else _sized(value, first.dtype, named[0], run))
            if not good:
                raise self.fail(f"{head} is not true of {first}", value, run=run,
                                sides=(first, None))

    def same(self, a: Node, b: Node) -> None:
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise self.fail(f"shapes or dtypes differ: {a.shape} {a.dtype}, {b.shape} {b.dtype}")
        for run in self.runs:
            self.equal(a, b, run)

    def equal(self, a: Node, b: Node, run: Run) -> None:
        """Two nodes of one shape and dtype are equal at the sizes and values of a run."""
        x, y = self.value(a, run), self.value(b, run)
        wrong = differ(x, y, self.header)
        if run.meeting and wrong and not self.telling(a, b, run):
            return
        if wrong:
            raise self.fail(f"{a} and {b} differ", x.tolist(), y.tolist(), run=run, sides=(a, b))
        exact = self.header.kind == "reals" and a.dtype.is_float and x.size <= EXACT_ELEMENTS
        if exact and exactly(self.made.graph, a, b, run.arrays, run.sizes) is False:
            raise self.fail(f"{a} and {b} differ in exact arithmetic", x.tolist(), y.tolist(),
                            run=run)

    def telling(self, a: Node, b: Node, run: Run) -> bool:
        """Whether a difference at few numbers that meet is one of the law: not of an infinity or a
        NaN inside, of which nothing is promised, nor of rounding where a step is."""
        nodes = [n for n in self.made.graph.reachable([a, b]) if n.dtype.is_float]
        with np.errstate(all="ignore"):
            finite = all(np.all(np.isfinite(v)) for v in evaluate(nodes, run.arrays, run.sizes))
        return finite and not exactly(self.made.graph, a, b, run.arrays, run.sizes)


def _positive(value: np.ndarray, dtype: DType) -> bool:
    with np.errstate(invalid="ignore"):
        return dtype.is_float and bool(np.all(value > 0))


def _sized(value: np.ndarray, dtype: DType, size: Dim, run: Run) -> bool:
    wanted = np.asarray(size_of(size, run.sizes)).astype(dtype.numpy)
    return bool(np.all(value == wanted))


def differ(x: np.ndarray, y: np.ndarray, header: Header) -> bool:
    """Whether two values differ by more than the class of a rule set allows."""
    if not dtype(x.dtype).is_float:
        return not np.array_equal(x, y)
    if header.kind in ("bitwise", "facts"):
        x64, y64 = x.astype(np.float64), y.astype(np.float64)
        return not (np.array_equal(x64, y64, equal_nan=True) and np.array_equal(
            np.signbit(x64) & ~np.isnan(x64), np.signbit(y64) & ~np.isnan(y64)))
    bound = max(header.error, REALS[dtype(x.dtype).name] if header.kind == "reals" else 1e-9)
    scale = 1.0 + float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))
    with np.errstate(invalid="ignore"):
        return not np.all((np.abs(x - y) <= bound * scale) | (x == y)
                          | (np.isnan(x) & np.isnan(y)))
