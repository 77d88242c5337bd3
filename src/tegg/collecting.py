"""Python's collector of cycles waits while a program is compiled.

A compilation makes many objects that live until it ends, and each pass of the collector looks at
all of them: a tenth of the time, and more in a process that holds a large library. Hardly any of
them is garbage before the end.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_inside = 0       # how many are waiting for the end, in all threads
_resume = False   # whether the collector ran before the first of them


@contextmanager
def deferred() -> Iterator[None]:
    """No collection until the block ends, in whatever way; blocks may nest, and threads share one
    count. A collector that was off before stays off."""
    global _inside, _resume
    with _lock:
        if _inside == 0:
            _resume = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _resume:
                gc.enable()
