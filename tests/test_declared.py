"""Engines that are lent with rules declared: nothing of a program stays, and nothing is shared."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegg.errors import RuleError
from tegg.ir.graph import Graph
from tegg.rewrite import declared as module
from tegg.rewrite.compiler import Generic
from tegg.rewrite.declared import Declaration, declared
from tegg.rewrite.egraph import saturate
from tegg.rewrite.engine import Engine

EDGES = [Declaration("(relation edge (i64 i64))"), Declaration("(relation path (i64 i64))")]
BASE = [*EDGES, Declaration(
    "(ruleset walk) (rule ((edge a b)) ((path a b)) :ruleset walk) "
    "(rule ((path a b) (edge b c)) ((path a c)) :ruleset walk)")]
STEP = Declaration("(ruleset step) (rule ((edge a b)) ((path a b)) :ruleset step)")


@pytest.fixture(autouse=True)
def nothing_kept():
    module._KEPT.last = None
    yield
    module._KEPT.last = None


def paths(e: Engine, edges) -> set:
    for a, b in edges:
        e.run(f"(edge {a} {b})")
    while e.run_rules("walk").changed:
        pass
    return {(e.int_of(i[0]), e.int_of(i[1])) for i, _, _ in e.rows("path")}


def closure(edges) -> set:
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in found if b == c} - found:
        found |= more
    return found


graphs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6)


@given(st.lists(graphs, min_size=1, max_size=4))
@settings(max_examples=20)
def test_what_one_block_did_no_other_sees(programs):
    module._KEPT.last = None
    lent = []
    for edges in programs:
        with declared(BASE) as e:
            lent.append(e)
            assert len(e.log) == len(BASE) and e.changes == 0
            e.run("(relation own (i64))")  # a name that would clash if it stayed
            assert paths(e, edges) == closure(edges)
    assert all(e is lent[0] for e in lent)


def test_what_is_a_program_s_own_is_declared_once_and_stays():
    own = [Declaration("(relation own (i64))")]
    for more, steps in ((own, 1), ([], 1), (own, 1), ([Declaration("(relation more (i64))")], 2)):
        with declared(BASE, more) as e:
            assert len(e.log) == len(BASE) + steps
            e.run("(own 1)")
            assert len(e.rows("own")) == 1  # facts do not stay
            assert paths(e, [(1, 2), (2, 3)]) == {(1, 2), (2, 3), (1, 3)}


def test_what_a_stack_declares_may_be_a_program_s_own_as_well():
    with declared(EDGES):
        pass
    for _ in range(2):
        with declared(BASE, [STEP, *BASE[2:]]) as e:
            assert len(e.log) == len(BASE) + 1
            assert paths(e, [(1, 2), (2, 3)]) == {(1, 2), (2, 3), (1, 3)}


def test_what_others_declare_is_added_and_does_nothing_until_it_is_named():
    def stepped(e: Engine) -> set:
        e.run("(edge 1 2) (edge 2 3)")
        e.run_rules("step")
        return {(e.int_of(i[0]), e.int_of(i[1])) for i, _, _ in e.rows("path")}

    with declared(BASE) as first:
        pass
    for _ in range(2):
        with declared([*EDGES, STEP]) as e:  # walk idles
            assert e is first and len(e.log) == len(BASE) + 1
            assert stepped(e) == {(1, 2), (2, 3)}
        with declared(BASE) as e:  # step idles
            assert e is first and paths(e, [(1, 2), (2, 3)]) == {(1, 2), (2, 3), (1, 3)}


@pytest.mark.parametrize("others", [
    [*EDGES, Declaration("(ruleset walk)")],  # a name that means something else
    [*BASE, Declaration("(edge 1 2)", fact=True)],
    [*EDGES[:1]],  # of what is kept most would idle
], ids=["name", "fact", "few"])
def test_an_engine_is_made_for_what_the_kept_one_cannot_serve(others):
    with declared(BASE) as first:
        pass
    with declared(others) as second:
        assert second is not first and len(second.log) == len(others)
    with declared(BASE) as third:
        assert third is not first and paths(third, []) == set()  # no fact stayed


def test_a_fact_holds_of_every_program_that_states_it():
    known = [*BASE, Declaration("(edge 1 2)", fact=True)]
    made = set()
    for _ in range(2):
        with declared(known) as e:
            made.add(e)
            assert paths(e, [(2, 3)]) == {(1, 2), (2, 3), (1, 3)}
    assert len(made) == 1


def test_an_engine_on_which_a_block_failed_is_not_lent_again():
    with pytest.raises(RuleError, match="egglog refuses"), declared(BASE) as failed:
        failed.run("(nonsense)")
    with declared(BASE) as e:
        assert e is not failed and paths(e, [(1, 2)]) == {(1, 2)}


def test_blocks_inside_one_another():
    with declared(BASE) as outer:
        outer.run("(edge 1 2)")
        with declared(BASE) as inner:
            assert inner is not outer and paths(inner, [(3, 4)]) == {(3, 4)}
        assert paths(outer, []) == {(1, 2)}


def test_what_is_not_to_be_kept_is_neither_kept_nor_lent():
    with declared(BASE) as first:
        pass
    with declared(BASE, keep=False) as e:
        assert e is not first
    with declared(BASE) as again:
        assert again is not e


def test_each_thread_has_its_own():
    with declared(BASE) as mine:
        pass
    theirs: list[bool] = []

    def run() -> None:
        with declared(BASE) as e:
            theirs.append(e is mine)
        with declared(BASE) as again:
            theirs.append(again is e)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert theirs == [False, True]


def test_programs_declare_the_rules_that_their_stacks_share_once(monkeypatch):
    made = []
    opened = Engine.__init__
    monkeypatch.setattr(Engine, "__init__", lambda e: (made.append(1), opened(e))[1])

    def fired(op: str, precision: str = "reals") -> set[str]:
        graph = Graph()
        x = graph.input("x", (2, 3), "f32")
        graph.outputs["out"] = graph.op(op, graph.op("Neg", graph.op("Neg", x)))
        return set(saturate(graph, Generic(), precision=precision).report.fired)

    def run() -> list[tuple[set[str], int]]:
        return [(fired(op, p), len(made)) for op, p in (
            ("Sqrt", "reals"), ("Exp2", "reals"), ("Sqrt", "reals"), ("Sqrt", "bitwise"))]

    with ThreadPoolExecutor(1) as fresh:  # this thread may have declared them for another test
        (alone, one), (exp, still), again, (other, two) = fresh.submit(run).result()
    assert alone and exp and again == (alone, 1) and one == still == 1
    assert other and two == 1
