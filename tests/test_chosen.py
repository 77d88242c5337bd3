"""What saturation needs of a stack is worked out once, and providers are asked no more than that."""

from __future__ import annotations

import gc

import pytest

from tegg.ir.graph import Graph
from tegg.ir.op import OPS
from tegg.planning.target import find
from tegg.rewrite import declared as lent
from tegg.rewrite.beside import beside
from tegg.rewrite.chosen import chosen
from tegg.rewrite.compiler import Compiler, Generic, lowering, stack
from tegg.rewrite.egraph import saturate
from tegg.rewrite.engine import Engine
from tegg.rewrite.providers import Standing
from tegg.rewrite.providers.builtin import BUILTIN
from tegg.rewrite.providers.dtypes import DTypes
from tegg.rewrite.vocabulary import loader

FEATURES = frozenset({"cpu"})


def small() -> Graph:
    g = Graph()
    x, y = (g.input(n, (4, 8), "f32") for n in "xy")
    g.outputs["z"] = g.expansion("Softmax", g.op("Add", x, y), 1)
    return g


@pytest.fixture
def nothing_kept():
    forget()
    yield
    forget()


def forget() -> None:
    beside(lambda: setattr(lent._KEPT, "last", None))


def kept() -> Engine:
    return beside(lambda: lent._KEPT.last.engine)


def test_the_rules_of_a_stack_are_chosen_once():
    first, again = (chosen(stack(Generic()), False, "reals", FEATURES) for _ in range(2))
    assert first is again
    assert chosen(stack(Generic()), False, "bitwise", FEATURES) is not first
    assert chosen(stack(Generic()), False, "reals", frozenset({"cuda", "sm=80"})) is not first


def test_rounds_leave_out_rule_sets_that_have_grown_enough():
    rules = chosen(stack(Generic()), False, "reals", FEATURES)
    for phase, active in rules.active.items():
        bounded = [s for s in active if s.header.grows is not None]
        late = max((s.header.grows for s in bounded), default=0)
        first, last = (set(rules.round(phase, n)[1]) for n in (0, late))
        assert first - last == {m for s in bounded if s.header.grows for m in rules.members[s.name]}
        assert rules.round(phase, late) == rules.round(phase, late + 7)
        name, _ = rules.round(phase, 0)
        assert any(d.text.startswith(f"(unstable-combined-ruleset {name} ")
                   for d in rules.declarations)


def test_what_holds_of_every_program_is_declared_and_not_asked_for(monkeypatch, nothing_kept):
    def asked(self, view):
        raise AssertionError("a standing provider was asked")

    monkeypatch.setattr(DTypes, "facts", asked)
    rules = chosen(stack(Generic()), False, "reals", FEATURES)
    (standing,) = (p for p in BUILTIN if isinstance(p, Standing))
    texts = {d.text for d in rules.declarations}
    assert '(widens "f16" "f32")' in texts and '(float-type "bf16")' in texts
    assert len(standing.standing) == sum(t.startswith(tuple(f"({r} " for r in standing.relations))
                                         for t in texts)
    assert all(standing not in p for p in rules.needed.values())
    saturate(small(), Generic())


class Counting:
    """A provider that counts how often it is asked, and of which views."""

    name = "counting"
    relations = {"counted": ("Tensor",)}

    def __init__(self) -> None:
        self.views: list[object] = []

    def facts(self, view):
        self.views.append(view)
        return [("counted", c) for c, _ in view.having("Exp2")]


def test_a_provider_is_asked_in_phases_that_read_it_and_of_each_view_once(monkeypatch):
    provider = Counting()
    compilers = [Generic(), Compiler(providers=[provider])]
    saturate(small(), compilers)
    assert not provider.views  # no rule set reads what it states
    rules = chosen(stack(compilers), False, "reals", FEATURES)
    for phase in ("names", "idioms"):
        monkeypatch.setitem(rules.needed, phase, [*rules.needed[phase], provider])
    saturate(small(), compilers)
    assert len(provider.views) > 1
    assert len({id(v) for v in provider.views}) == len(provider.views)
    forget()  # the e-graph ends, though views of it are kept: here it could not be freed
    provider.views.clear()
    gc.collect()


def test_loaders_of_primops_stand_with_the_rules_and_others_are_declared_once(nothing_kept):
    saturate(small(), Generic())
    engine = kept()
    declared = [t for t in engine.log if isinstance(t, str)]
    usual = [op for op in OPS.values() if not op.named]
    assert [declared.count(loader(op).texts[1]) for op in usual] == [1] * len(usual)
    softmax = loader(OPS["Softmax"]).texts[1]
    assert softmax not in declared
    for _ in range(2):
        g = Graph()
        g.outputs["z"] = g.op("Softmax", g.input("x", (2, 4), "f32"), 1)
        saturate(g, Generic())
        assert kept() is engine
        declared = [t for t in engine.log if isinstance(t, str)]
        assert [declared.count(t) for t in (softmax, loader(OPS["Sin"]).texts[1])] == [1, 1]


def test_what_a_target_puts_into_stacks_is_checked_once():
    target = find("cpu")
    assert lowering(target) is lowering(find("cpu"))

    class Listed:
        name, rules, ops, providers = "listed", [*target.rules], [*target.ops], []

    listed = lowering(Listed())  # type: ignore[arg-type]
    assert (listed.name, listed.sources, listed.ops) == ("listed", target.rules, target.ops)


@pytest.mark.parametrize("rested", (True, False))
def test_an_engine_is_pushed_for_the_next_program(monkeypatch, nothing_kept, rested):
    """Each copy lies elsewhere: after an even number of them memory is laid out as before."""
    steps: list[str] = []
    for name in ("push", "pop"):
        real = getattr(Engine, name)
        monkeypatch.setattr(Engine, name, lambda self, n=name, f=real: (steps.append(n), f(self)))
    monkeypatch.setattr(lent, "later", lambda f: f(rested))
    for _ in range(2):
        saturate(small(), Generic())
    assert steps == ["push", *["pop", "push"] * (2 + 2 * rested)]
    assert kept().changes == 0  # it was taken back


def test_a_saturation_is_no_cyclic_garbage():
    graph, kept = small(), []
    saturate(graph, Generic())
    gc.collect()
    gc.disable()
    try:
        kept.append(saturate(graph, Generic()))
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_what_egglog_reads_at_once_is_as_long_for_any_program(monkeypatch):
    """Many facts in one text take it the square of their number."""
    longest: dict[int, int] = {}

    def run(engine, text, run=Engine._run):
        longest[layers] = max(longest.get(layers, 0), len(text))
        return run(engine, text)

    monkeypatch.setattr(Engine, "_run", run)
    for layers in (1, 12):
        g = Graph()
        x = g.input("x", (64, 64), "f32")
        for i in range(layers):
            w = g.input(f"w{i}", (64, 64), "f32")
            x = g.op("Exp2", g.op("Contract", x, w, "a,b;b,c;a,c", (64, 64)))
        g.outputs["y"] = x
        target = find("cpu")
        report = saturate(g, [Generic(), lowering(target)], features=("cpu", *target.features)
                          ).report
        assert sum(p.provided.get("cpu forms", 0) for p in report.phases) >= 2 * layers
    assert longest[12] <= longest[1] + len("(Node 99)")
