"""Compiled kernels in the cache: each is compiled once per machine, whatever program it is part of.

Kernels are compiled in units of several, each a shared object. Beside it stands an entry for each
kernel, by its text without its name, that says in which shared object it lies and how its
functions are called there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tegg.cache import Cache, content_key
from tegg.kernel.code import KernelCode

from .toolchain import Toolchain
from .trimming import above

_KIND = "kernel"


def anonymous(kernel: KernelCode) -> str:
    """The text of a kernel without its name: its functions are ``name`` and ``name_...``.

    Variables may be called as a kernel is (``k0``), and so may arrays of theirs (``k0_[16]``).
    """
    name = re.escape(kernel.name)  # first, for a pattern that begins with letters is found sooner
    return re.sub(rf"{name}(?<=\b{name})(?=\(|_\w)", "@", kernel.source)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a kernel lies: a shared object, and the functions of its stages there, in order."""

    path: Path
    functions: tuple[str, ...]


class Objects:
    """The compiled kernels of one compiler. ``head``: what stands above a kernel in its unit."""

    def __init__(self, cache: Cache, compiler: Toolchain,
                 head: Callable[[KernelCode], str]) -> None:
        self._cache, self._compiler, self._head = cache, compiler, head
        self._salts: dict[str, str] = {}

    def find(self, kernel: KernelCode, text: str) -> Place | None:
        """Where a kernel of an ``anonymous`` text lies, or None. An entry whose shared object is
        gone goes too."""
        key = self._key(kernel, text)
        entry = self._cache.read(_KIND, key)
        if entry is None:
            return None
        unit, *functions = entry.decode().split()
        path = self._cache.get("so", unit)
        if path is None or len(functions) != len(kernel.stages):
            self._cache.drop(_KIND, key)
            return None
        return Place(path, tuple(functions))

    def compile(self, units: Sequence[Sequence[KernelCode]], bodies: Sequence[str],
                label: str) -> dict[str, Place]:
        """Compile units side by side, each of some kernels under one head, with a text;
        kernel -> its place.

        Raises BackendError with the compiler's words where one does not compile.
        """
        texts = {f"kernels{i}":
                 f"{above(self._cache, self._compiler, self._head(kernels[0]), body)}\n{body}\n"
                 for i, (kernels, body) in enumerate(zip(units, bodies, strict=True))}
        built = self._compiler.shared_objects(self._cache, texts, label)
        places: dict[str, Place] = {}
        for kernels, (unit, path) in zip(units, built, strict=True):
            for k in kernels:
                functions = tuple(s.function for s in k.stages)
                self._cache.put(_KIND, self._key(k, anonymous(k)),
                                " ".join((unit, *functions)).encode())
                places[k.name] = Place(path, functions)
        return places

    def _key(self, kernel: KernelCode, text: str) -> str:
        head = self._head(kernel)
        if head not in self._salts:
            self._salts[head] = content_key(self._compiler.identity(), head)
        return content_key(self._salts[head], text)
