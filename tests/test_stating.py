"""Facts about classes without a node of the graph: by a term, or by a name where that is long."""

from __future__ import annotations

from collections import Counter

import pytest
import tegg

from tegg.rewrite import stating
from tegg.rewrite.compiler import Generic, lowering
from tegg.rewrite.egraph import saturate
from tegg.rewrite.engine import Engine
from tegg.rewrite.stating import Stater
from tegg.planning.target import find


@pytest.fixture
def terms(monkeypatch) -> list[str]:
    """The terms that classes without a name are given."""
    found: list[str] = []
    named = Stater._named

    def watched(self, n):
        found.append(named(self, n))
        return found[-1]

    monkeypatch.setattr(Stater, "_named", watched)
    return found


def _attention() -> tegg.Graph:
    """A token's attention, of query heads that share key heads: rules put its softmax together of
    scores in other shapes."""
    g = tegg.Graph()
    q, k, v = (g.tensor(s) for s in ((1, 9, 1, 16), (1, 3, 32, 16), (1, 3, 32, 16)))
    mask = g.tensor((1, 32), "bool", "mask")
    tegg.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True).output("y")
    return g


def _found() -> tuple[Counter, Counter]:
    """E-nodes by op of what attention becomes on this device, and facts by provider."""
    target = find("cpu")
    done = saturate(_attention(), (Generic(), lowering(target)),
                    features=(target.name, *target.features))
    facts: Counter = Counter()
    for phase in done.report.phases:
        facts.update(phase.provided)
    return Counter(n.op.name for ns in done.classes.nodes.values() for n in ns), facts


def test_facts_of_numbers_and_texts_are_the_same_as_rows_or_commands(monkeypatch):
    inserted: list[str] = []
    insert = Engine.insert

    def watched(self, rows):
        inserted.extend(rows)
        insert(self, rows)

    monkeypatch.setattr(Engine, "insert", watched)
    as_rows = _found()
    by_rows = [name for name in inserted if not name.startswith("loaded")]
    assert by_rows
    inserted.clear()
    monkeypatch.setattr(stating, "fits", lambda row: False)
    assert _found() == as_rows
    assert not [name for name in inserted if not name.startswith("loaded")]


def test_a_term_stands_for_a_class_as_a_name_does(monkeypatch, terms):
    by_terms = _found()
    assert terms and not any(t.startswith("(Node ") for t in terms)
    terms.clear()
    monkeypatch.setattr(stating, "_SHORT", 0)
    assert _found() == by_terms
    assert terms and all(t.startswith("(Node ") for t in terms)


def test_a_long_term_gets_a_name(monkeypatch, terms):
    by_terms = _found()
    most = min(map(len, terms))
    assert most < max(map(len, terms))
    terms.clear()
    monkeypatch.setattr(stating, "_SHORT", most)
    assert _found() == by_terms
    assert {t.startswith("(Node ") for t in terms} == {True, False}
    assert max(map(len, terms)) <= most


def test_a_subsumed_term_still_stands_for_its_class():
    """Rules may subsume an e-node after it became the term of its class."""
    e = Engine()
    for text in ("(sort T)", "(constructor Leaf (i64) T)", "(constructor Op (T) T)",
                 "(relation fact (T))", "(Op (Leaf 0))", "(union (Op (Leaf 0)) (Leaf 1))",
                 "(ruleset r)", "(rule ((Op x)) ((subsume (Op x))) :ruleset r)", "(run r 1)",
                 "(fact (Op (Leaf 0)))"):
        e.run(text)
    ((_, made, subsumed),) = e.rows("Op")
    (((stated,), _, _),) = e.rows("fact")
    assert subsumed and stated == made
    assert stated in {output for _, output, _ in e.rows("Leaf")}
