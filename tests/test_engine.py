"""The door to egglog: rows through a file, replay, failures in our words."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tegg.errors import RuleError
from tegg.rewrite.engine import Conflict, Engine, fits


def engine() -> Engine:
    e = Engine()
    e.run("(relation seen (i64 String i64))")
    return e


ROWS = [(1, "2,n", 3), (-4, "", 9218868437227405312), (5, "a;b,-;()", -9223372036854775808),
        (6, "grüße", 0)]


def rows(e: Engine) -> set:
    return {(e.int_of(i[0]), e.text_of(i[1]), e.int_of(i[2]))
            for i, _, _ in e.rows("seen")}


@pytest.fixture(params=["in memory", "on a disk", "forbidden"])
def passing(request, monkeypatch):
    """The ways that rows are passed."""
    def forbidden(name: str) -> int:
        raise PermissionError(1, "Operation not permitted")

    if request.param == "on a disk":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif request.param == "forbidden":
        monkeypatch.setattr(os, "memfd_create", forbidden, raising=False)
    elif not hasattr(os, "memfd_create"):
        pytest.skip("this system has no files in memory")


def test_rows_go_through_a_file_as_they_are(tmp_path, monkeypatch, passing):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    e = engine()
    e.insert({"seen": ROWS})
    assert rows(e) == set(ROWS)
    assert not list(Path(tmp_path).iterdir())  # and leave nothing behind


def test_a_relation_has_its_own_rows_alone(tmp_path, monkeypatch, passing):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    e = engine()
    e.run("(relation few (i64))")
    e.insert({"seen": ROWS, "few": [(7,)]})  # the second text is the shorter one
    assert rows(e) == set(ROWS)
    assert [e.int_of(i[0]) for i, _, _ in e.rows("few")] == [7]


texts = st.text(st.sampled_from("ab \t\n\r\v\x1c\x85\u2028\\\"é,"), max_size=3)


@given(st.lists(st.tuples(texts, texts), max_size=4))
def test_rows_that_fit_arrive_as_they_are(pairs):
    e = Engine()
    e.run("(relation both (String String))")
    e.insert({"both": [p for p in pairs if fits(p)]})
    found = {tuple(map(e.text_of, i)) for i, _, _ in e.rows("both")}
    assert found == {p for p in pairs if fits(p)}


@pytest.mark.parametrize("row", [("",), ("", ""), (" a", 1), ("a ", 1), ("a\tb", 1), ("a\nb", 1),
                                 ("\x85", 1)])
def test_rows_that_egglog_would_change_do_not_fit(row):
    assert not fits(row)


@pytest.mark.parametrize("row", [(0,), ("", 0), ("a b", 1), ("1,0", "\"\\")])
def test_other_rows_fit(row):
    assert fits(row)


def test_a_replay_has_the_same_rows():
    e = engine()
    e.insert({"seen": ROWS})
    assert rows(e.replay()) == set(ROWS)


def test_rows_that_do_not_fit_are_refused(passing):
    with pytest.raises(RuleError, match="egglog refuses"):
        engine().insert({"unheard-of": ROWS})


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


FORKED = """
import os, sys
import numpy as np
import tegg

x = np.ones((4, 4), np.float32)
first = tegg.compile(lambda x: (x @ x).softmax(-1))
want = first(x)
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
assert np.array_equal(first(x), want)
try:
    tegg.compile(lambda x: x * 3)(x)
except tegg.BackendError as e:
    print(e, flush=True)  # and the child ends, though an e-graph of its parent is kept
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_the_child_of_a_fork_runs_and_refuses_to_compile(tmp_path):
    with open(tmp_path / "out", "w+") as out:
        done = subprocess.run([sys.executable, "-c", FORKED], timeout=60, stdout=out, stderr=out,
                              env=os.environ | {"TEGG_CACHE": str(tmp_path)}, check=False)
        out.seek(0)
        text = out.read()
    assert done.returncode == 0, text
    assert text.startswith("this process was forked")  # nothing else is said
    assert "compile before the fork, or start processes by multiprocessing's 'spawn'" in text
