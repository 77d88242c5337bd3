"""The collector of cycles waits, and runs again, whatever happens inside."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from eclass_graphs import classes_of, encoder
from extraction import COSTS

import tegg
from tegg import collecting
from tegg.collecting import at_rest, deferred, expect_tidy, sweep, tidy
from tegg.errors import ExtractionError
from tegg.extract import extract
from tegg.rewrite.compiler import Generic
from tegg.rewrite.egraph import saturate
from tegg.runtime import driver
from tegg.runtime.compiled import Compiled


@pytest.fixture(autouse=True)
def _enabled():
    assert gc.isenabled()
    yield
    assert gc.isenabled()


def test_blocks_nest_and_the_last_one_ends_it():
    with deferred():
        with deferred():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_inside_ends_it_too():
    with pytest.raises(KeyError), deferred():
        raise KeyError
    assert gc.isenabled()
    with pytest.raises(ExtractionError):
        extract(classes_of(encoder(1)), COSTS, lowerable=lambda op, dtype: "never")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with deferred():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


class _Cycle:
    def __init__(self) -> None:
        self.self = self


def _swept() -> bool:
    """Whether young garbage is gone after a sweep."""
    seen = weakref.ref(_Cycle())
    sweep()
    return seen() is None


def test_between_two_phases_garbage_is_looked_for_where_a_collector_waits():
    with deferred():
        assert _swept() and not gc.isenabled()
    gc.disable()
    try:
        assert not _swept()
        with deferred():
            assert not _swept()
    finally:
        gc.enable()


def test_what_a_saturation_leaves_is_gone_before_a_program_is_made(monkeypatch):
    made, left = driver._make, []

    def make(graph, *args):
        plan = made(graph, *args)
        left.append(weakref.ref(_Cycle()))
        return plan

    def compiled(*args, **kwargs):
        assert left[0]() is None
        return Compiled(*args, **kwargs)

    monkeypatch.setattr(driver, "_make", make)
    monkeypatch.setattr(driver, "Compiled", compiled)
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(tegg.compile(lambda x: x + 1, cache=False)(x), x + 1)
    assert left


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("inside", (False, True))
def test_the_child_of_a_fork_does_not_wait_for_threads_that_it_lacks(inside):
    code = (
        "import gc, os, threading, warnings\n"
        "from contextlib import nullcontext\n"
        "from tegg import collecting\n"
        "from tegg.collecting import compiling, deferred, expect_tidy\n"
        "warnings.simplefilter('ignore')  # of forks beside threads\n"
        "begun, end = threading.Event(), threading.Event()\n"
        "def other():\n"
        "    with deferred():\n"
        "        begun.set()\n"
        "        end.wait()\n"
        "threading.Thread(target=other).start()\n"
        "begun.wait()\n"
        "expect_tidy()\n"
        f"with deferred() if {inside} else nullcontext():\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        f"        here = compiling() == {inside} and gc.isenabled() != {inside}\n"
        "        here &= not collecting._expected  # the child has no thread that tidies\n"
        "if not child:\n"
        "    os._exit(0 if here and not compiling() and gc.isenabled() else 1)\n"
        "status = os.waitpid(child, 0)[1]\n"
        "print(status, compiling(), gc.isenabled())\n"
        "end.set()\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                          check=False)
    assert (done.stdout, done.stderr) == ("0 True False\n", "")


def test_the_last_of_several_threads_ends_it():
    started, first_done, seen = threading.Barrier(2), threading.Event(), []

    def first() -> None:
        with deferred():
            started.wait()
        first_done.set()

    def second() -> None:
        with deferred():
            started.wait()
            first_done.wait()
            seen.append(gc.isenabled())

    threads = [threading.Thread(target=t) for t in (first, second)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [False] and gc.isenabled()


def test_saturation_and_extraction_are_not_interrupted():
    graph, starts = encoder(2), []
    gc.callbacks.append(lambda phase, info: starts.append(phase))
    try:
        with deferred():
            starts.clear()
            extract(saturate(graph, Generic()).classes, COSTS)
            assert not starts
    finally:
        gc.callbacks.pop()


def test_a_whole_compilation_is_not_interrupted(monkeypatch):
    seen = []
    for name in ("describe", "_make", "Compiled"):
        real = getattr(driver, name)
        monkeypatch.setattr(driver, name, lambda *a, f=real, n=name: (
            seen.append((n, gc.isenabled())), f(*a))[1])
    f = tegg.compile(lambda x: seen.append(("traced", gc.isenabled())) or tegg.softmax(x, -1))
    f.program(np.ones((3, 5), np.float32))
    names = {n for n, _ in seen}
    assert {"traced", "describe", "Compiled"} <= names and not any(on for _, on in seen)


def test_what_was_freed_goes_back_after_the_last_block(monkeypatch):
    trimmed = []
    monkeypatch.setattr(collecting, "_expected", False)
    monkeypatch.setattr(collecting, "_trim", lambda: lambda keep: trimmed.append(gc.isenabled()))
    with deferred():
        with deferred():
            pass
        assert not trimmed
    assert trimmed == [True]
    monkeypatch.setattr(collecting, "_trim", lambda: None)  # a C library without it
    with deferred():
        pass


def test_what_was_freed_waits_for_a_thread_that_tidies(monkeypatch):
    trimmed = []
    monkeypatch.setattr(collecting, "give_back", lambda: trimmed.append(1))
    expect_tidy()
    with deferred():
        pass
    assert not trimmed
    tidy()
    assert trimmed == [1]
    with deferred():  # nobody has said that a thread tidies after this one
        pass
    assert trimmed == [1, 1]


def test_what_a_compilation_freed_goes_back_once_its_caller_rests(monkeypatch):
    trimmed, end = [], time.monotonic() + 60
    monkeypatch.setattr(collecting, "give_back", lambda: trimmed.append(collecting.compiling()))
    tegg.compile(lambda x: x * 3 - 1, cache=False)(np.ones(5, np.float32))
    while not trimmed and time.monotonic() < end:
        time.sleep(0.01)
    assert trimmed == [False] and not collecting._expected


class _Text:
    def __init__(self, text: str) -> None:
        self.text = text

    def shorten(self) -> None:
        self.text = self.text[:1]


def test_what_makes_things_smaller_waits_until_nobody_does(monkeypatch):
    trimmed = []
    monkeypatch.setattr(collecting, "give_back", lambda: trimmed.append(1))
    kept, gone = _Text("kept"), _Text("gone")
    for text in (kept, gone):
        at_rest(text, _Text.shorten)
    seen = weakref.ref(gone)
    del gone, text
    assert seen() is None and kept.text == "kept"
    tidy()
    assert kept.text == "k" and trimmed == [1]
    kept.text = "again"
    tidy()
    assert kept.text == "again"  # each is done once


def test_a_process_that_never_rests_does_what_has_waited_longest(monkeypatch):
    monkeypatch.setattr(collecting, "_waiting", type(collecting._waiting)())
    monkeypatch.setattr(collecting, "_MOST", 2)
    texts = [_Text("text") for _ in range(4)]
    for t in texts:
        at_rest(t, _Text.shorten)
    assert [t.text for t in texts] == ["t", "t", "text", "text"]
    collecting._waiting.clear()
    collecting._first()  # another thread may have done all


def test_a_program_is_made_smaller_once_its_caller_rests():
    x = np.ones(5, np.float32)
    f = tegg.compile(lambda x: x * 3 + 1, cache=False)
    f(x)
    program = f.program(x)
    held = [k.__dict__["_source"] for k in program.plan.kernels]
    end = time.monotonic() + 60
    while not all(isinstance(h.held, bytes) for h in held) and time.monotonic() < end:
        time.sleep(0.01)
    assert held and all(isinstance(h.held, bytes) for h in held)
