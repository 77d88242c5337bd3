"""Compiled programs as files, with their weights."""

from __future__ import annotations

import pickle
from pathlib import Path

from tegg.runtime.buckets import Buckets
from tegg.cache import write_atomic
from tegg.errors import ArgumentError
from tegg.runtime.compiled import Compiled

_DAMAGED = (OSError, pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError,
            KeyError, ValueError, TypeError)


def save(program: Compiled | Buckets, path: str | Path) -> None:
    """Write a program (``f.program(...)``, or what a graph compiles to) with its weights.

    Raises ArgumentError for anything else.
    """
    if not isinstance(program, (Compiled, Buckets)):
        raise ArgumentError(f"save takes a compiled program, such as f.program(arguments...), not "
                            f"a {type(program).__name__}")
    write_atomic(Path(path), pickle.dumps(program))


def load(path: str | Path) -> Compiled | Buckets:
    """A program that ``save`` wrote; kernels are compiled again where the machine differs.

    It is a pickle, which can run code: load only files that you trust. Raises ArgumentError for
    a file that is no saved program.
    """
    try:
        found = pickle.loads(Path(path).read_bytes())
    except _DAMAGED as e:
        raise ArgumentError(f"{path} is no saved program: {e}") from None
    if not isinstance(found, (Compiled, Buckets)):
        raise ArgumentError(f"{path} holds a {type(found).__name__}, no saved program")
    return found
