"""The door to egglog: rows through a file, replay, failures in our words."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tegg.errors import RuleError
from tegg.rewrite.engine import Conflict, Engine


def engine() -> Engine:
    e = Engine()
    e.run("(relation seen (i64 String i64))")
    return e


ROWS = [(1, "2,n", 3), (-4, "", 9218868437227405312), (5, "a;b,-;()", -9223372036854775808),
        (6, "grüße", 0)]


def rows(e: Engine) -> set:
    return {(e.int_of(i[0]), e.text_of(i[1]), e.int_of(i[2]))
            for i, _, _ in e.rows(["seen"])["seen"]}


def test_rows_go_through_a_file_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    e = engine()
    e.insert("seen", ROWS)
    assert rows(e) == set(ROWS)
    assert not list(Path(tmp_path).iterdir())  # and leave nothing behind


def test_a_replay_has_the_same_rows():
    e = engine()
    e.insert("seen", ROWS)
    assert rows(e.replay()) == set(ROWS)


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(RuleError, match="egglog refuses"):
        engine().insert("unheard-of", ROWS)


def test_two_facts_of_one_key_are_a_conflict():
    e = Engine()
    e.run("(function f (i64) i64 :no-merge)")
    e.run("(set (f 1) 2)")
    with pytest.raises(Conflict, match="Illegal merge"):
        e.run("(set (f 1) 3)")


def test_the_engine_is_loaded_alone_and_once():
    text = ("import sys, tegg.rewrite.bindings as ours\n"
            "assert 'egglog' not in sys.modules\n"
            "import egglog\nfrom egglog import bindings\n"
            "assert ours.EGraph is bindings.EGraph\n")
    subprocess.run([sys.executable, "-c", text], check=True)
    subprocess.run([sys.executable, "-c", "import egglog\n" + text.replace("not in", "in")],
                   check=True)
