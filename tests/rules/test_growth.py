"""The rule that a limit is blamed on is the one that grew, not the one that matched."""

from __future__ import annotations

import re

import pytest

import tegg
from tegg.ir.graph import Graph
from tegg.rewrite.compiler import Compiler, Generic
from tegg.rewrite.egraph import Saturated, _Saturation, saturate
from tegg.rewrite.engine import Engine
from tegg.rewrite.growth import Growth, explodes, growth
from tegg.rewrite.report import PhaseReport, RuleReport
from tegg.rewrite.rulefile import read_rules

HEADER = """;; Rules for a test.
;;
;; ruleset:  mine
;; class:    reals
;; phase:    names
;; uses:     {uses}
;; grows:    {grows}
;; targets:  any

(ruleset mine)
"""
# All pairs of negations, each of which states two that are there: matches without end.
IDLE = "rule ((= e (Neg a)) (= f (Neg b))) ((union e (Neg a)) (union f (Neg b)))"
GROW = "rule ((= e (Neg x))) ((Neg (Sin e)) (Neg (Cos e)))"
FACT = "\n;; (seen a n) means a thing\n(relation seen (Tensor i64))\n"
COUNT = "rule ((seen x n)) ((seen x (+ n 1)))"


def run(*rules: tuple[str, str], uses: str = "-", grows: str = "no", before: str = "",
        **limits: float) -> Saturated:
    text = HEADER.format(uses=uses, grows=grows) + before + "".join(
        f'\n;; a law\n({body} :ruleset mine :name "mine/{slug}")\n' for slug, body in rules)
    graph = Graph()
    x = graph.input("x", (2,), "f32")
    for i in range(4):
        graph.outputs[f"y{i}"] = x = graph.op("Neg", graph.op("Sin", x))
    return saturate(graph, [Generic(), Compiler(read_rules(text, "mine.egg"))],
                    limits={"names": limits}, trace=True)


def phase(done: Saturated) -> PhaseReport:
    return next(p for p in done.report.phases if p.name == "names")


@pytest.mark.parametrize("limits", [{"rounds": 5}, {"nodes": 150}])
def test_the_rule_that_explodes_stands_beside_one_that_matches_more(limits):
    names = phase(run(("idle", IDLE), ("grow", GROW), **limits))
    matches = {n: r.matches for n, r in names.rules.items()}
    assert matches["mine/idle"] > 20 * matches["mine/grow"]
    (limit, value), = limits.items()
    assert re.fullmatch(rf"stopped by {limit} {value}; the rule that grew most is mine/grow, by "
                        r"\d+ e-nodes in the last round", names.stopped)
    assert "mine/idle" not in names.grew and names.stopped in "\n".join(names.show())


def test_what_is_measured_is_what_the_last_round_added():
    """One rule alone: its growth is the difference of the sizes before and after."""
    sizes = [phase(run(("grow", GROW), rounds=n)).enodes for n in (5, 6)]
    assert phase(run(("grow", GROW), rounds=6)).grew["mine/grow"].enodes == sizes[1] - sizes[0]


def test_a_rule_that_stopped_growing_is_not_blamed():
    """Its last rounds are over when the limit is hit."""
    text = HEADER.format(uses="-", grows="yes 2").replace("mine", "early")
    early = read_rules(text + '\n;; a law\n(rewrite (Sin x) (Sin (Neg (Neg (Neg (Neg x))))) '
                              ':ruleset early :name "early/grow")\n', "early.egg")
    late = read_rules(HEADER.format(uses="-", grows="no") + '\n;; a law\n(rule ((= e (Cos x))) ('
                      '(union (Cos e) (Cos (Neg e)))) :ruleset mine :name "mine/slow")\n',
                      "mine.egg")
    graph = Graph()
    x = graph.input("x", (2,), "f32")
    for i in range(9):
        graph.outputs[f"y{i}"] = x = graph.op("Sin", x)
    graph.outputs["z"] = graph.op("Cos", x)
    names = phase(saturate(graph, [Compiler(early), Compiler(late)], limits={"names": {"rounds": 9}}))
    assert "is mine/slow, by" in names.stopped and names.rules["early/grow"].matches


def test_facts_grow_too():
    start = ("start", "rule ((= e (Sin x))) ((seen e 0))")
    names = phase(run(start, ("count", COUNT), before=FACT, uses="seen", rounds=9))
    assert "is mine/count, by 4 facts in the last round" in names.stopped


def test_a_graph_that_is_over_the_limit_blames_no_rule():
    names = phase(run(("grow", GROW), nodes=1))
    assert (names.rounds, names.stopped) == (0, "stopped by nodes 1")


def test_time_names_the_slowest():
    told = PhaseReport("names", rounds=3, hit="ms 5", grew={"a/b": Growth(7)},
                       rules={"a/b": RuleReport(2, 1.0), "a/c": RuleReport(1, 4.0)})
    assert told.stopped == ("stopped by ms 5; the rule that grew most is a/b, by 7 e-nodes in the "
                            "last round; the slowest is a/c, 4.00 ms")


def test_a_trial_leaves_nothing_behind():
    engine = Engine()
    engine.run("(sort T) (constructor A (i64) T) (relation B (i64)) (ruleset r) (ruleset s)")
    engine.run("(A 1) (A 2)")
    engine.run('(rule ((= e (A n))) ((A (+ n 10)) (A (+ n 20))) :ruleset r :name "r")')
    engine.run('(rule ((= e (A n))) ((B n)) :ruleset s :name "s")')
    for _ in range(2):
        assert growth(engine, {"r": 4, "s": 2}, ["A"], ["B"]) == {"r": Growth(4)}
        assert growth(engine, {"r": 4, "s": 5}, ["A"], ["B"])["s"] == Growth(0, 2)
    assert engine.sizes()["A"] == 2 and engine.run_rules("r").matches == {"r": 2}
    assert engine.replay(2).sizes()["A"] == 2


@pytest.mark.parametrize("sizes, limit, expected", [
    ([], 10, False), ([5, 50], 10, False), ([0, 3, 900], 10, False),
    ([3, 27, 2187], 200_000, True),          # all pairs
    ([10, 100, 1000], 200_000, False),       # by a factor: the limit itself will do
    ([3000, 9000, 20_000], 200_000, False),  # a burst that ends
    ([3, 27, 2187], 10 ** 7, False)])
def test_what_grows_by_the_square_is_seen_before_its_last_round(sizes, limit, expected):
    assert explodes(sizes, limit) is expected


def test_what_is_not_counted_is_never_more_than_was_said(monkeypatch):
    """A limit holds by the number of e-nodes that rules could have made, too."""
    said, counted = _Saturation.at_most, []

    def at_most(self: _Saturation, enough: int) -> int:
        most, sizes = said(self, enough), self.engine.sizes()
        exact = sum(sizes.get(name, 0) for name in self.stack.table)
        counted.append(most != exact)
        assert exact <= most and (most == exact or most <= enough)
        return most

    monkeypatch.setattr(_Saturation, "at_most", at_most)
    shape = tegg.ArraySpec((2, 6, 8), tegg.f32)
    for f in (lambda q: tegg.scaled_dot_product_attention(q, q, q, is_causal=True),
              lambda x: tegg.layer_norm(tegg.gelu(x), (8,)),
              lambda x: tegg.log_softmax(tegg.cumsum(x, -1) / 3, -1)):
        tegg.compile(f, cache=False).program(shape)
    assert any(counted)
    phase(run(("grow", GROW), nodes=150))


def test_all_pairs_of_something_stop_in_time():
    """The round that it would take to see that it is too much would not end."""
    pairs = "rule ((= e (Neg a)) (= f (Neg b))) ((Neg (Add e f)) (Neg (Mul e f)))"
    names = phase(run(("pairs", pairs)))
    assert re.fullmatch(r"stopped by nodes 200000, far beyond which the next round would go; the "
                        r"rule that grew most is mine/pairs, by \d+ e-nodes in the last round",
                        names.stopped)
    assert names.enodes < 200_000
