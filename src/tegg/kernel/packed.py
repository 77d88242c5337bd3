"""Text that an object keeps compressed: long, seldom read, and a tenth as large so."""

from __future__ import annotations

import zlib
from copy import copy
from typing import TypeVar

T = TypeVar("T")

_LEVEL = 1  # half the time of the default, and a tenth larger


class Packed:
    """An attribute of ``str`` that lies compressed in its object, in files of it too.

    Set on a class without slots; a frozen dataclass may have it in the place of a field.
    """

    def __init__(self, name: str) -> None:
        self._at = f"_{name}"

    def __get__(self, owner: object, kind: type) -> str:
        if owner is None:
            raise AttributeError(f"{kind.__name__} has no {self._at[1:]} of its own")
        return zlib.decompress(owner.__dict__[self._at]).decode()

    def __set__(self, owner: object, text: str) -> None:
        owner.__dict__[self._at] = zlib.compress(text.encode(), _LEVEL)


def altered(owner: T, **fields: object) -> T:
    """A copy of a dataclass with other values of some fields; what lies packed in it stays so."""
    out = copy(owner)
    for name, value in fields.items():
        object.__setattr__(out, name, value)  # it may be frozen
    return out
