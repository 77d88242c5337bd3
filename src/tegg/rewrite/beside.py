"""E-graphs live in a thread beside each that compiles: what they need between two programs is done
there, while the caller goes on."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


class _Here(threading.local):
    """beside: of the thread that belongs to this one. inside: of this one, where it belongs to
    another, with which it ends."""

    beside: ThreadPoolExecutor | None = None
    inside: weakref.ref[ThreadPoolExecutor] | None = None


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
        _HERE.beside = ThreadPoolExecutor(1, "tegg-egraphs")
    pool = weakref.ref(_HERE.beside)

    def run() -> T:
        _HERE.inside = pool
        return f()
    try:
        told = _HERE.beside.submit(copy_context().run, run)
    except RuntimeError:  # no thread starts any more: the interpreter ends
        _HERE.beside = None  # and with it what it was given
        return f()
    return told.result()


def later(f: Callable[[], None]) -> None:
    """Run ``f`` in this thread of e-graphs once what runs is done and told; in others at once.

    What it raises then is logged, by ``concurrent.futures``: nobody waits for it.
    """
    pool = None if _HERE.inside is None else _HERE.inside()
    if pool is None:
        f()
    else:
        pool.submit(f).add_done_callback(lambda told: told.result())
