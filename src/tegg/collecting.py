"""What a compilation leaves in memory: little, and its garbage is looked for at the end only.

A compilation makes many objects that live until it ends, and each pass of the collector of cycles
looks at all of them: a tenth of the time, and more in a process that holds a large library. Hardly
any of them is garbage before the end. Then the young objects are looked at once. What was freed
goes back to the system, for the C library would keep the pages; where a thread can do that once
nobody waits it does, and so it is with what else makes things smaller.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock, local
from typing import TypeVar

T = TypeVar("T")

_MOST = 1000  # things that wait: in a process that never rests the first of them are done


class _Own(local):
    """How many blocks this thread is in."""

    depth = 0


_own = _Own()
_lock = Lock()
_inside = 0       # how many are waiting for the end, in all threads
_resume = False   # whether the collector ran before the first of them
_waiting: deque[Callable[[], None]] = deque()  # what is done once nobody waits
_expected = False  # whether a thread tidies then


@contextmanager
def deferred() -> Iterator[None]:
    """No collection until the block ends, in whatever way; blocks may nest, and threads share one
    count. A collector that was off before stays off. After the last block the system is given what
    was freed, unless a thread is about to ``tidy``."""
    global _inside, _resume
    with _lock:
        if _inside == 0:
            _resume = gc.isenabled()
            gc.disable()
        _inside += 1
    _own.depth += 1
    try:
        yield
    finally:
        _own.depth -= 1
        with _lock:
            _inside -= 1
            last = _inside == 0
            if last and _resume:
                gc.enable()
                gc.collect(0)  # as it would soon, but before the pages of garbage are kept
        if last and not _expected:
            give_back()


def sweep() -> None:
    """Look for garbage between two phases of a block: once, of what is young, where there would be
    a collector but for the block. What comes next takes its place, and does not lie above it."""
    if _inside and _resume:
        gc.collect(0)


def _forget() -> None:
    """The child of a fork has one thread, and nobody else is in a block there."""
    global _inside, _lock, _expected
    _lock, _expected = Lock(), False
    if _inside and not _own.depth and _resume:
        gc.enable()
    _inside = _own.depth


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def compiling() -> bool:
    """Whether any thread is in such a block."""
    return _inside > 0


def at_rest(thing: T, f: Callable[[T], object]) -> None:
    """Do ``f`` to a thing, if it is still there, once nobody waits for a compilation."""
    seen = weakref.ref(thing)

    def done() -> None:
        if (there := seen()) is not None:
            f(there)
    _waiting.append(done)
    if len(_waiting) > _MOST:
        _first()


def expect_tidy() -> None:
    """A thread calls ``tidy`` once nobody waits: what is freed before goes back to the system then.
    The pages of what a program is given, and of what it computes first, need not be made anew."""
    global _expected
    _expected = True


def tidy() -> None:
    """Do what waited until nobody waits, and give the system what was freed."""
    global _expected
    _expected = False
    while _waiting:
        _first()
    give_back()


def _first() -> None:
    """Do what has waited longest."""
    try:
        done = _waiting.popleft()
    except IndexError:  # another thread took it
        return
    done()


def give_back() -> None:
    """Give the system what was freed, where the C library offers to (glibc)."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
