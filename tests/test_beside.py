"""E-graphs live in a thread beside each that compiles, whatever ends: a program, a thread, or all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextvars import ContextVar

import numpy as np
import pytest

import tegg
from tegg.collecting import deferred
from tegg.rewrite.beside import beside, later

WORD: ContextVar[str] = ContextVar("word", default="none")


def test_results_and_failures_come_back_from_one_thread_beside_each():
    mine = beside(threading.get_ident)
    assert mine not in (threading.get_ident(), None) and beside(threading.get_ident) == mine
    with pytest.raises(ZeroDivisionError, match="modulo by zero"):
        beside(lambda: 1 % 0)
    theirs: list[int] = []
    thread = threading.Thread(target=lambda: theirs.append(beside(threading.get_ident)))
    thread.start()
    thread.join()
    assert theirs[0] != mine


def test_there_the_context_is_the_caller_s():
    token = WORD.set("mine")
    try:
        assert beside(WORD.get) == "mine"
    finally:
        WORD.reset(token)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        beside(lambda: np.float32(1) / np.float32(0))


def test_inside_it_runs_at_once():
    assert beside(lambda: beside(threading.get_ident) == threading.get_ident())


def test_what_is_left_for_later_runs_there_after_what_runs():
    order: list[str] = []

    def first() -> None:
        later(lambda _: order.append("later"))
        order.append("first")
    beside(first)
    beside(lambda: order.append("next"))
    assert order == ["first", "later", "next"]
    later(lambda _: order.append("at once"))  # there is no such thread around this one
    assert order[-1] == "at once"


def test_what_is_left_for_later_waits_until_the_caller_rests(monkeypatch):
    monkeypatch.setattr("tegg.rewrite.beside.REST", 60.0)
    done, told = threading.Event(), list[bool]()

    def left(rested: bool) -> None:
        told.append(rested)
        done.set()
    beside(lambda: later(left))
    assert not done.wait(0.05)
    beside(lambda: None)  # wants the thread: that is before it
    assert told == [False]
    monkeypatch.setattr("tegg.rewrite.beside.REST", 0.01)
    done.clear()
    beside(lambda: later(left))
    assert done.wait(30) and told == [False, True]


def test_what_is_left_for_later_waits_while_anybody_compiles(monkeypatch):
    monkeypatch.setattr("tegg.rewrite.beside.REST", 0.01)
    done = threading.Event()
    with deferred():
        beside(lambda: later(lambda _: done.set()))
        assert not done.wait(0.2)
    assert done.wait(30)


def test_a_failure_of_what_was_left_is_logged(caplog):
    beside(lambda: later(lambda _: 1 % 0))  # type: ignore[arg-type, return-value]
    beside(lambda: None)
    assert "ZeroDivisionError" in caplog.text


def test_the_thread_beside_ends_with_its_own():
    def count() -> int:
        return sum(t.name.startswith("tegg-egraphs") for t in threading.enumerate())

    beside(count)
    before = count()
    thread = threading.Thread(target=beside, args=(count,))
    thread.start()
    thread.join()
    end = time.monotonic() + 30
    while count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert count() <= before


def test_rules_that_fail_leave_no_e_graph_to_another_thread(tmp_path):
    """It cannot be freed there: the engine would say so, as of any error that nobody sees."""
    place = tmp_path / "mine" / "bad.egg"
    place.parent.mkdir()
    place.write_text(
        ";; A sum that is taken for what it adds.\n;;\n;; ruleset: mine.bad\n;; class: reals\n"
        ";; phase: algebra\n;; uses: -\n;; grows: no\n;; targets: any\n\n(ruleset mine.bad)\n\n"
        ";; sum(x)  =>  x\n"
        "(rewrite (SumReduce x i) x :ruleset mine.bad :name \"bad/sum\")\n")
    with pytest.raises(tegg.RuleError, match="puts values of different shape"):
        tegg.compile(lambda x: x.sum(0), tegg.Compiler(str(place)), cache=False)(
            np.ones((2, 3), np.float32))


def test_a_process_may_end_while_e_graphs_are_taken_back(tmp_path):
    # one write a line: print writes the line and its end apart, and another thread's may come between
    code = ("import atexit, numpy as np, os, tegg, threading\n"
            "x = np.ones(3, np.float32)\n"
            "def run(): os.write(1, b'%.1f\\n' % tegg.compile(lambda x: x + 1, cache=False)(x)[0])\n"
            "threads = [threading.Thread(target=run) for _ in range(2)]\n"
            "[t.start() for t in threads]\n"
            "atexit.register(run)  # when no thread starts any more\n"
            "run()\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"TEGG_CACHE": str(tmp_path)}, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2.0\n" * 4, "")
