"""Which stream a thread's programs run on: the default one, or what ``stream(...)`` says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tegg.errors import ArgumentError

_local = threading.local()
LEGACY = 1  # how other libraries name the default stream, which is 0 to the driver


def current_stream() -> int:
    """The handle of the stream that this thread's programs run on."""
    return getattr(_local, "handle", 0)


@contextmanager
def stream(of: Any) -> Iterator[int]:
    """Programs that this thread calls inside the block run on a stream.

    of: a handle; or a stream of PyCUDA, PyTorch, CuPy or Numba; or anything with
      ``__cuda_stream__``. Raises ArgumentError for anything else.
    """
    handle, before = handle_of(of), current_stream()
    _local.handle = handle
    try:
        yield handle
    finally:
        _local.handle = before


def handle_of(of: Any) -> int:
    """The handle of a stream of any library; the default stream is 0."""
    if isinstance(of, bool):
        raise ArgumentError(f"a CUDA stream is a handle or a stream object, not {of!r}")
    named = getattr(of, "__cuda_stream__", None)
    if named is not None:
        found = (named() if callable(named) else named)[1]
    else:
        found = of
        for name in ("handle", "cuda_stream", "ptr"):  # PyCUDA, Numba; PyTorch; CuPy
            found = getattr(found, name, found)
    try:
        handle = int(getattr(found, "value", found) or 0)  # Numba's is a ctypes handle
    except (TypeError, ValueError):
        raise ArgumentError(f"a CUDA stream is a handle or a stream object, not {of!r}") from None
    return 0 if handle == LEGACY else handle
