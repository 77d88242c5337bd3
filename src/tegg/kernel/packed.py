"""Text that an object keeps compressed: long, seldom read, and a tenth as large so.

A kernel's text is read a few times while it is compiled, and then hardly ever. It is compressed
once nobody waits for a program (``collecting.tidy``), or where it is pickled.
"""

from __future__ import annotations

import zlib
from copy import copy
from typing import TypeVar

from tegg.collecting import at_rest

T = TypeVar("T")

_LEVEL = 1  # half the time of the default, and a tenth larger


class _Text:
    """A text, compressed or not yet; copies of its owner share it."""

    __slots__ = ("__weakref__", "held")

    def __init__(self, held: str | bytes) -> None:
        self.held = held

    def read(self) -> str:
        held = self.held  # once: another thread may pack it now
        return held if isinstance(held, str) else zlib.decompress(held).decode()

    def pack(self) -> bytes:
        held = self.held
        if isinstance(held, str):
            self.held = held = zlib.compress(held.encode(), _LEVEL)
        return held

    def __reduce__(self) -> tuple[type[_Text], tuple[bytes]]:
        return _Text, (self.pack(),)


class Packed:
    """An attribute of ``str`` that lies compressed in its object, in files of it too.

    Set on a class without slots; a frozen dataclass may have it in the place of a field.
    """

    def __init__(self, name: str) -> None:
        self._at = f"_{name}"

    def __get__(self, owner: object, kind: type) -> str:
        if owner is None:
            raise AttributeError(f"{kind.__name__} has no {self._at[1:]} of its own")
        return owner.__dict__[self._at].read()

    def __set__(self, owner: object, text: str) -> None:
        owner.__dict__[self._at] = made = _Text(text)
        at_rest(made, _Text.pack)


def altered(owner: T, **fields: object) -> T:
    """A copy of a dataclass with other values of some fields; what lies packed in it stays so."""
    out = copy(owner)
    for name, value in fields.items():
        object.__setattr__(out, name, value)  # it may be frozen
    return out
