"""E-graphs live in a thread beside each that compiles: what they need between two programs is done
there, while the caller rests."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from tegg.collecting import compiling

T = TypeVar("T")

# Seconds that what is left for later waits once nobody compiles: so long a small program takes to
# its first result. Both threads hold the interpreter's lock most of the time, and a CPU each.
REST = 0.05


class _Beside:
    """A thread beside another. wanted: something was submitted that is not left for later."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1, "tegg-egraphs")
        self.wanted = threading.Event()


class _Here(threading.local):
    """beside: the one that belongs to this thread. inside: this one, where it belongs to another,
    with which it ends."""

    beside: _Beside | None = None
    inside: weakref.ref[_Beside] | None = None


_HERE = _Here()


def _forget() -> None:
    """The child of a fork has one thread."""
    _HERE.beside = _HERE.inside = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def beside(f: Callable[[], T]) -> T:
    """What ``f`` returns, or raises, in the thread of this one's e-graphs, and in its context.

    A caller who is interrupted does not wait any longer; ``f`` goes on to its end.
    """
    if _HERE.inside is not None:
        return f()
    if _HERE.beside is None:
        _HERE.beside = _Beside()
    this, wanted = weakref.ref(_HERE.beside), _HERE.beside.wanted

    def run() -> T:
        wanted.clear()
        _HERE.inside = this
        return f()
    wanted.set()
    try:
        told = _HERE.beside.pool.submit(copy_context().run, run)
    except RuntimeError:  # no thread starts any more: the interpreter ends
        _HERE.beside = None  # and with it what it was given
        return f()
    return told.result()


def later(f: Callable[[bool], None]) -> None:
    """Run ``f`` in this thread of e-graphs once what runs is done and told, and the caller rests or
    wants the thread again: it is given whether he rests. In other threads it is run at once.

    What it raises then is logged, by ``concurrent.futures``: nobody waits for it.
    """
    this = None if _HERE.inside is None else _HERE.inside()
    if this is None:
        f(True)
        return
    wanted = this.wanted

    def rested() -> None:
        while not (asked := wanted.wait(REST)) and compiling():
            pass
        f(not asked)
    this.pool.submit(rested).add_done_callback(lambda told: told.result())
