"""Compiled programs as files, with their weights."""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path

from tegg.runtime.buckets import Buckets
from tegg.cache import write_atomic
from tegg.errors import ArgumentError, TeggError
from tegg.runtime.compiled import Compiled

_MAGIC = b"tegg program\n"  # then the digest of what follows, which is a pickle
_DIGEST = hashlib.sha256().digest_size


def save(program: Compiled | Buckets, path: str | Path) -> None:
    """Write a program (``f.program(...)``, or what a graph compiles to) with its weights.

    Raises ArgumentError for anything else.
    """
    if not isinstance(program, (Compiled, Buckets)):
        raise ArgumentError(f"save takes a compiled program, such as f.program(arguments...), not "
                            f"a {type(program).__name__}")
    start = len(_MAGIC) + _DIGEST
    file = io.BytesIO()
    file.write(_MAGIC + bytes(_DIGEST))
    pickle.dump(program, file)
    with file.getbuffer() as data:  # weights are large: they are not copied again
        data[len(_MAGIC):start] = hashlib.sha256(data[start:]).digest()
        write_atomic(Path(path), data)


def load(path: str | Path) -> Compiled | Buckets:
    """A program that ``save`` wrote; kernels are compiled again where the machine differs.

    It is a pickle, which can run code: load only files that you trust. Raises ArgumentError for
    a file that is no saved program, or is damaged.
    """
    try:
        found = pickle.loads(_intact(path))
    except TeggError:
        raise
    except Exception as e:  # noqa: BLE001 - what a pickle runs may raise anything
        raise ArgumentError(f"{path} is no saved program: {str(e) or type(e).__name__}") from None
    if not isinstance(found, (Compiled, Buckets)):
        raise ArgumentError(f"{path} holds a {type(found).__name__}, no saved program")
    return found


def _intact(path: str | Path) -> memoryview:
    """The pickle in a file. Files of earlier versions are nothing else, and have no digest."""
    data = memoryview(Path(path).read_bytes())
    if data[:len(_MAGIC)] != _MAGIC:
        return data
    start = len(_MAGIC) + _DIGEST
    if hashlib.sha256(data[start:]).digest() != data[len(_MAGIC):start]:
        raise ArgumentError(f"{path} is damaged, or was not copied to its end; save the program "
                            f"again")
    return data[start:]
