"""PyTorch's and NumPy's keywords alike: ``dim``/``axis`` and ``keepdim``/``keepdims``."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import TypeVar

from tegg.errors import ArgumentError
from tegg.ops.value import fail

F = TypeVar("F", bound=Callable)
ALIASES = {"axis": "dim", "axes": "dim", "keepdims": "keepdim", "ddof": "correction"}


def spelled(f: F) -> F:
    """``f`` with NumPy's keywords beside its own.

    Raises ArgumentError for an unknown keyword, naming the nearest, and for one given twice.
    """
    signature = inspect.signature(f)
    known = [p.name for p in signature.parameters.values() if p.kind is not p.VAR_POSITIONAL]

    @functools.wraps(f)
    def call(*args, **kwargs):
        if not kwargs:
            return f(*args)
        names = {}
        for key, value in kwargs.items():
            name = key if key in known else ALIASES.get(key, key)
            if name not in known:
                _unknown(f.__name__, key, known)
            if name in names:
                fail(ArgumentError, f"{f.__name__}: {key}= says again what {name}= says")
            names[name] = value
        return f(*args, **names)

    return call  # type: ignore[return-value]


def _unknown(function: str, key: str, known: list[str]) -> None:
    spellings = [*known, *(a for a, name in ALIASES.items() if name in known)]
    near = difflib.get_close_matches(key, spellings, 1)
    remedy = f"did you mean {near[0]}=?" if near else f"it has {', '.join(spellings[1:])}"
    fail(ArgumentError, f"{function}: no keyword {key}=; {remedy}")
