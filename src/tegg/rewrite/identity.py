"""What things in Python are made of, as texts for keys: alike elsewhere, if they are alike.

A key must not be that of other things, so what cannot be looked into is like nothing else.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import time
from collections.abc import Mapping, Set as AbstractSet
from functools import partial
from typing import Any

import numpy as np

from tegg.rewrite.sources import digest

_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+>")


def written(thing: Any) -> str:
    """A function or a class: the bytes of its file, its place there, and what it closes over.

    What has no file of Python is named; what was typed in is like nothing else.
    """
    if isinstance(thing, partial):
        return f"partial {written(thing.func)} {state(thing.args)} {state(thing.keywords)}"
    if not isinstance(thing, type) and not hasattr(thing, "__code__"):
        return _named(thing)
    try:
        text = digest(inspect.getfile(thing))
    except (TypeError, OSError):
        return f"{thing!r} {time.time_ns()}"
    if isinstance(thing, type):
        return f"{thing.__qualname__} {text}"
    closed = [cell.cell_contents for cell in thing.__closure__ or ()]
    return (f"{thing.__code__.co_firstlineno} {state(thing.__defaults__)} "
            f"{state(thing.__kwdefaults__)} {state(closed)} {text}")


def state(value: Any) -> str:
    """A value that an object or a function holds."""
    if isinstance(value, np.ndarray):
        whole = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.dtype} {value.shape} {whole}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{state(k)}: {state(v)}' for k, v in value.items())}}}"
    if isinstance(value, AbstractSet):
        return f"{{{', '.join(sorted(map(state, value)))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(state, value))}]"
    return written(value) if callable(value) else _named(value)


def made_of(thing: object) -> str:
    """An object: its class, and what its attributes hold."""
    names = (*(n for c in type(thing).__mro__ for n in _slots(c)), *getattr(thing, "__dict__", ()))
    held = {n: getattr(thing, n) for n in names if hasattr(thing, n)}
    return f"{written(type(thing))} {state(held)}"


def _slots(cls: type) -> tuple[str, ...]:
    found = cls.__dict__.get("__slots__", ())
    names = (found,) if isinstance(found, str) else tuple(found)
    return tuple(n for n in names if not n.startswith("__"))


def _named(thing: Any) -> str:
    """Its text, unless that is where it happens to lie, where another may lie next."""
    text = repr(thing)
    return f"{text} {time.time_ns()}" if _ADDRESS.search(text) else text
