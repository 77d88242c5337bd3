"""Saturation: phases, limits, alarms, precision, targets, and what a stack may not do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

import tegg

from tegg.bits import bits_of
from tegg.rewrite.compiler import Compiler, Generic, find, stack
from tegg.dim import dim
from tegg.rewrite.egraph import saturate
from tegg.errors import ArgumentError, RuleError, ShapeError
from tegg.ir.graph import Graph
from tegg.ir.op import OPS, Op
from tegg.rewrite.rulefile import read_rules
from tegg.dtype import f64

HEADER = """;; Rules for a test.
;;
;; ruleset:  mine
;; class:    {kind}
;; phase:    {phase}
;; uses:     {uses}
;; grows:    {grows}
;; targets:  {targets}

(ruleset mine)
"""


def rules(body: str, kind="reals", phase="names", uses="-", grows="no", targets="any"):
    text = HEADER.format(kind=kind, phase=phase, uses=uses, grows=grows, targets=targets)
    return read_rules(text + body, "mine.egg")


def rule(body: str, slug: str = "one") -> str:
    return f"\n;; a law\n({body} :ruleset mine :name \"mine/{slug}\")\n"


def small() -> Graph:
    graph = Graph()
    x, y = graph.input("x", (2, 3), "f32"), graph.input("y", (3,), "f32")
    graph.outputs["out"] = graph.mul(graph.op("Sqrt", x), y)
    return graph


def ops_of(graph: Graph, *compilers: Compiler, **options) -> set[str]:
    found = saturate(graph, compilers or [Generic()], **options).classes
    return {n.op.name for nodes in found.nodes.values() for n in nodes}


def test_a_rule_that_joins_different_shapes_is_named():
    wrong = rules(rule("rewrite (Sqrt x) x", "fine")
                  + rule("rule ((= e (SumReduce x k))) ((union e x))"))
    graph = Graph()
    graph.outputs["out"] = graph.op("SumReduce", graph.input("x", (2, 3), "f32"), 1)
    with pytest.raises(RuleError, match=re.escape(
            "mine.egg:16:1: rule 'mine/one' puts values of different shape or dtype in one class; "
            "add a guard on (shape e) or (dtype e)")):
        saturate(graph, Compiler(wrong))


def test_a_rule_that_builds_no_valid_op_is_refused():
    wrong = rules(rule("rewrite (Sqrt x) (Sin (Permute x p)) :when ((= p \"0,0\"))"))
    with pytest.raises(RuleError, match=r"a rule built Permute\(.*is not a "
                                        r"permutation .*; add the guard that the rule lacks"):
        saturate(small(), Compiler(wrong))


def test_limits_end_a_phase_and_are_reported():
    growing = rules(rule("rewrite (Sqrt x) (Sqrt (Neg (Neg x)))"), grows="yes 3")
    report = saturate(small(), Compiler(growing)).report
    assert report.phases[0].hit == "" and report.phases[0].enodes == report.loaded + 3 * 3
    growing = Compiler(rules(rule("rule ((= e (Neg x))) ((union (Neg e) (Neg (Neg e))))")))
    graph = Graph()
    graph.outputs["out"] = graph.op("Neg", graph.input("x", (2,), "f32"))
    for limit, hit in (({"rounds": 2}, "rounds 2"), ({"nodes": 1}, "nodes 1"), ({"ms": 0}, "ms 0")):
        assert saturate(graph, growing, limits={"*": limit}).report.phases[0].hit == hit
    with pytest.raises(ArgumentError, match="there is no phase 'name'; there are algebra, names"):
        saturate(graph, growing, limits={"name": {"rounds": 2}})
    with pytest.raises(ArgumentError, match="limit round=2 of phase 'names' is not understood"):
        saturate(graph, growing, limits={"names": {"round": 2}})


def test_order_of_a_stack_does_not_matter():
    late = Compiler(rules(rule("rewrite (Sqrt x) (Abs x)")))
    a, b = (ops_of(small(), *s) for s in ([Generic(), late], [late, Generic()]))
    assert a == b and "Abs" in a


def test_precision_and_targets_choose_rule_sets():
    sets = Compiler(rules(rule("rewrite (Sqrt x) (Abs x)"), targets="cuda>=80"))
    assert "Abs" not in ops_of(small(), sets)
    assert "Abs" in ops_of(small(), sets, features=("cuda=90",))
    assert "Abs" not in ops_of(small(), sets, features=("cuda=70",))
    assert saturate(small(), sets).report.skipped == {"mine": "for cuda>=80 only"}
    lossy = rules(rule("rewrite (Sqrt x) (Abs x)"), kind="rounds 2^-10")
    with pytest.raises(RuleError, match=re.escape(
            "mine.egg: rule set mine loses precision (class rounds), which compiler 'mine' does "
            "not admit; write Compiler(..., rounds=True)")):
        saturate(small(), Compiler(lossy))
    assert "Abs" in ops_of(small(), Compiler(lossy, rounds=True))
    assert "Abs" not in ops_of(small(), Compiler(lossy, rounds=True), precision="bitwise")
    with pytest.raises(ArgumentError, match="precision is 'bitwise' or 'reals', not 'fast'"):
        saturate(small(), Generic(), precision="fast")


def test_a_compiler_brings_ops_and_providers():
    double = Op("Twice", "elementwise", 1, OPS["Neg"].shape, OPS["Neg"].dtype,
                lambda a, t, s, d: a[0] + a[0], domains=("any",))

    class Big:
        name = "big"
        relations = MappingProxyType({"big": ("Tensor",)})

        def facts(self, view):
            return [("big", c) for c, s in view.shape.items() if s == (2, 3)]

    mine = rules(rule("rule ((= e (Mul x (Const 2.0))) (big e)) ((union e (Twice x)))"), uses="big")
    compiler = Compiler(mine, ops=[double], providers=[Big()])
    for shape, fires in (((2, 3), True), ((3, 2), False)):
        graph = Graph()
        graph.outputs["out"] = graph.mul(graph.input("x", shape, "f32"), 2)
        assert ("Twice" in ops_of(graph, Generic(), compiler)) is fires

    class Wrong(Big):
        def facts(self, view):
            return [("bigger", 0)]

    with pytest.raises(RuleError, match="provider 'big' states .'bigger', 0., which its relations"):
        saturate(small(), Compiler(mine, ops=[double], providers=[Wrong()]))


@pytest.mark.parametrize("bad, text", [
    ("fuse.sub", "compilers are tegg.Compiler objects, not 'fuse.sub'; write tegg.Compiler"),
    (3, "compilers are tegg.Compiler objects, not 3")])
def test_stacks_hold_compilers(bad, text):
    with pytest.raises(ArgumentError, match=re.escape(text)):
        stack([bad])


def test_what_does_not_fit_together():
    one = rules(rule("rewrite (Sqrt x) (Abs x)"))
    other = read_rules(one.text, "elsewhere/mine.egg")
    with pytest.raises(RuleError, match="rule set mine is defined by mine.egg and by elsewhere"):
        stack([Compiler(one), Compiler(other)])
    with pytest.raises(ArgumentError, match="brings an op 'Neg', which the op table has already"):
        stack(Compiler(ops=[replace(OPS["Neg"], doc="another")]))
    with pytest.raises(ArgumentError, match="takes paths of rule files, names of rule sets and "
                                            "rule sets, not 3"):
        Compiler(3)
    with pytest.raises(ArgumentError, match=r"takes rows tegg.Op\(...\), not 'Neg'"):
        Compiler(ops=["Neg"])
    with pytest.raises(ArgumentError, match="takes objects with name, relations and facts"):
        Compiler(providers=[object()])
    with pytest.raises(RuleError, match="there is no phase 'name'; there are facts, .*; did you "
                                        "mean names?"):
        stack(Compiler(rules(rule("rewrite (Sqrt x) x"), phase="name")))
    taken = "\n;; (Sqrt a) means a thing\n(relation Sqrt (Tensor))\n"
    with pytest.raises(RuleError, match="mine.egg:13:1: Sqrt is the name of an op or a built-in"):
        stack(Compiler(rules(taken)))
    again = "\n;; (widens a) means a thing\n(relation widens (Tensor))\n"
    with pytest.raises(RuleError, match="mine.egg:13:1: widens is declared otherwise by provider"):
        stack(Compiler(rules(again)))
    twin = read_rules(one.text.replace("mine", "a.mine").replace('"a.mine/', '"mine/'),
                      "a/mine.egg")
    with pytest.raises(RuleError, match="the name 'mine/one' is taken by mine.egg:13:1"):
        stack([Compiler(one), Compiler(twin)])
    with pytest.raises(RuleError, match="fuse.sup: is no .egg file, .* did you mean fuse.sub?"):
        stack(Compiler("fuse.sup"))
    with pytest.raises(RuleError, match="gone.egg: cannot be read .*; give the path of an .egg"):
        stack(Compiler("gone.egg"))


def test_rules_come_from_files_folders_and_names(tmp_path: Path):
    text = rules(rule("rewrite (Sqrt x) (Abs x)")).text
    (tmp_path / "mine.egg").write_text(text)
    for source in (tmp_path / "mine.egg", str(tmp_path)):
        assert [s.name for s in Compiler(source).rule_sets()] == ["mine"]
    assert {s.name for s in Compiler("algebra", "fuse.sub").rule_sets()} >= {
        "algebra.neg", "fuse.sub"}


def test_idioms_stand_in_the_class_of_their_expansion():
    graph = Graph()
    x = graph.input("x", (3,), "f32")
    graph.outputs["out"] = graph.idiom("Erf", x)
    classes = saturate(graph, Generic()).classes
    assert any(n.op.name == "Erf" for n in classes.nodes[classes.outputs["out"]])


def test_equal_dims_are_one_and_unequal_ones_of_one_name_are_refused():
    graph = Graph()
    a, b = dim("a", 1), dim("b", 1)
    graph.facts.same(a, b)
    x, y = graph.input("x", (a,), "f32"), graph.input("y", (b,), "f32")
    graph.outputs["out"] = graph.op("Add", x, y)
    classes = saturate(graph, Generic()).classes
    assert len(set(classes.shape.values())) == 1
    graph = Graph()
    for i, bound in enumerate((4, 5)):
        graph.outputs[f"{i}"] = graph.op("Sqrt", graph.input(f"{i}", (dim("n", 1, bound),), "f32"))
    with pytest.raises(ShapeError, match="two dims named alike but with different bounds"):
        saturate(graph, Generic())


def test_constants_fold_in_their_own_dtype():
    graph = Graph()
    x = graph.input("x", (2,), "f32")
    third = graph.op("Recip", graph.full(3, "f32"))
    nothing = graph.op("Recip", graph.full(0, "f32"))
    nan = graph.mul(nothing, 0)
    graph.outputs = {"a": graph.mul(x, third), "b": graph.mul(x, nan)}
    classes = saturate(graph, Generic()).classes
    values = {n.attrs[2] for nodes in classes.nodes.values() for n in nodes if n.op.name == "Full"}
    assert bits_of(float(np.float32(1) / np.float32(3)), f64) in values
    assert not any(np.isnan(np.int64(v).view(np.float64)) for v in values)


def test_state_updates_are_kept():
    graph = Graph()
    old = graph.input("cache", (2,), "f32", kind="state")
    graph.outputs["out"] = graph.op("Sqrt", old)
    graph.updates[0] = graph.add(old, 1)
    classes = saturate(graph, Generic()).classes
    assert classes.updates[0] in classes.nodes


def test_the_report_reads_well():
    text = saturate(small(), Generic()).report.show()
    assert re.search(r"load 6 nodes [\d.]+ ms, freeze \d+ e-nodes in \d+ classes", text)
    assert "phase algebra:" in text and "matches" in text


def test_half_stores_are_forms():
    body = rule("rule ((= e (Mul x y))) ((Store e))", "rest") + rule(
        'rewrite (Store t) (StoreAs "f16" t) :when ((= (dtype t) "f32"))', "half")
    graph = small()
    classes = saturate(graph, Compiler(rules(body, phase="memory"))).classes
    assert classes.forms == {classes.outputs["out"]: frozenset({"f16"})}


def test_shapes_and_dtypes_that_rules_get_wrong():
    other = Compiler(rules(rule("rewrite (Sqrt x) (LessThan x x)")))
    with pytest.raises(RuleError, match=r"a rule put LessThan\(\d, \d\) of shape \(2, 3\) and "
                                        r"dtype bool in a class of shape \(2, 3\) and dtype "
                                        r"f32; add"):
        saturate(small(), other)
    stated = Compiler(rules(rule("rule ((= e (Sqrt x))) ((set (shape (Neg e)) \"7\"))")))
    with pytest.raises(RuleError, match="Neg.* has shape \"2,3\" by the op table, and its class "
                                        "another; a rule built it without a guard on shapes"):
        saturate(small(), stated)


def test_an_idiom_of_another_shape_is_refused():
    graph = small()
    x = graph.nodes[0]
    bad = Op("Bad", "elementwise", 1, OPS["Neg"].shape, OPS["Neg"].dtype, lambda a, t, s, d: a[0],
             expand=lambda b, a, t: b.op("SumReduce", a[0], 0), domains=("any",))
    graph = Graph(table={**OPS, "Bad": bad})
    x = graph.input("x", (2, 3), "f32")
    graph.outputs["out"] = graph.op("Sqrt", graph.idiom("Bad", x))
    graph.outputs["also"] = graph.op("Bad", x)
    with pytest.raises(RuleError, match=r"the idiom \(Bad \(Node 0\) \) was recorded for .*, which "
                                        r"has another shape or dtype; correct the expansion"):
        saturate(graph, Generic())


def test_a_rule_that_egglog_refuses_is_named(monkeypatch):
    good = stack(Generic())
    broken = replace(good, texts=dict.fromkeys(good.rules, "(nonsense)"))
    monkeypatch.setattr("tegg.rewrite.egraph.stack", lambda compilers, table: broken)
    with pytest.raises(RuleError, match=r"\.egg:\d+:\d+: rule '[a-z/-]+': egglog refuses "):
        saturate(small(), Generic())


def test_what_egglog_refuses_is_an_error_of_ours():
    from tegg.rewrite.engine import Engine
    engine = Engine()
    with pytest.raises(RuleError, match="egglog refuses .nonsense.: "):
        engine.run("(nonsense)")
    engine.run("(ruleset r) (sort T) (constructor A () T)")
    command = '(rule ((= e (A))) ((A)) :ruleset r :name "twice")'
    engine.run(command)
    with pytest.raises(RuleError, match="twice"):  # a Rust panic in egglog 13
        engine.run(command)


def test_compilers_are_found_by_name():
    assert [s.name for s in find("generic").rule_sets()] == [
        s.name for s in Generic().rule_sets()]
    with pytest.raises(ArgumentError, match="no package offers a compiler 'genric'; did you mean "
                                            "'generic'[?] .installed: .*generic"):
        find("genric")


def test_facts_about_classes_that_rules_made_are_stated_once():
    """A class without a node of the graph is named; stating the same again is not news."""
    class All:
        name = "all"
        relations = {"seen": ("Tensor",)}

        def facts(self, view):
            return [("seen", c) for c in view.nodes]

    made = rules(rule("rewrite (Sqrt x) (Abs (Sin (Sin x)))")
                 + rule("rule ((= e (Sin x)) (seen e)) ((union e (Neg (Neg e))))", "two"),
                 uses="seen")
    graph = small()
    report = saturate(graph, Compiler(made, providers=[All()])).report
    assert report.phases[0].hit == "" and report.phases[0].rounds < 10
    assert report.rules["mine/two"].matches


def test_classes_keep_their_numbers_and_e_nodes_from_view_to_view():
    looks: list[tuple[dict, dict]] = []

    class Beside:
        """Reads what another one's relation says."""
        name = "beside"
        relations = {"asked": ("Tensor",)}
        reads = ("seen",)

        def facts(self, view):
            return [("asked", c) for c in view.stated["seen"]]

    class Looking:
        name = "looking"
        relations = {"seen": ("Tensor", "String", "i64")}
        reads = ("seen",)

        def facts(self, view):
            looks.append((dict(view.nodes), view.stated["seen"]))
            for c, n in view.having("Sqrt"):
                yield "seen", c, (3, 4), n.args[0]
                yield "seen", c, "text", 7

    made = rules(rule("rewrite (Sqrt x) (Abs (Sin (Sin x)))") + rule(
        'rule ((= e (Sin x)) (seen f t i) (asked f)) ((seen e "rule" i))', "two"),
        uses="seen asked")
    saturate(small(), Compiler(made, providers=[Looking(), Beside()]))
    (before, nothing), (after, stated) = looks[0], looks[-1]
    assert len(looks) > 1 and nothing is not stated
    made_before = {id(n) for ns in before.values() for n in ns}
    for c, nodes in before.items():  # nothing is united here but with what is new
        assert {id(n) for n in nodes} == {id(n) for n in after[c]} & made_before
    (root,) = (c for c, ns in after.items() if any(n.op.name == "Sqrt" for n in ns))
    (x,) = next(n.args for n in after[root] if n.op.name == "Sqrt")
    assert stated[root] == {("3,4", x), ("text", 7)}
    assert {("rule", x), ("rule", 7)} in stated.values()


@pytest.mark.parametrize("shape", [(1,), (1, 1), (2, 1), (1, 3), (3,)])
def test_reshapes_that_lead_back_come_to_an_end(shape):
    """Rules that follow a value through reshapes make new ones; those must be seen to be old."""
    g = tegg.Graph()
    for axis in range(len(shape)):
        tegg.cummin(g.tensor(shape, name=f"x{axis}"), axis).output(f"y{axis}")
    report = saturate(g, Generic()).report
    assert [p.hit for p in report.phases] == [""] * len(report.phases), report.show()
