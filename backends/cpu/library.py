"""Kernels compiled and loaded: those that the cache lacks in units, several where they are many."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tegg.cache import Cache, default
from tegg.cores import available
from tegg.errors import BackendError
from tegg.kernel.code import KernelCode

from . import toolchain
from .emit import BYTES
from .objects import Objects, Place, anonymous
from .runtime import runtime, text
from .toolchain import Toolchain

_UNIT = 12_000  # characters of kernels below which a unit of its own costs more than it saves
_BESIDE = 4      # loops that take a compiler as long as the rest of a kernel
_BINDING = """const struct rt_table *tegg_rt;
void tegg_bind(const struct rt_table *t) { tegg_rt = t; }
"""


@dataclass(frozen=True, slots=True)
class Library:
    """Loaded kernels. They stay loaded until the process ends."""

    kernels: tuple[KernelCode, ...]  # those that differ by more than their names
    functions: dict[str, int]  # name of a stage's function -> its address
    found: int                 # how many kernels were in the cache
    units: int                 # how many translation units were compiled for the rest

    @property
    def source(self) -> str:
        """The text of all kernels."""
        return "\n".join(k.source for k in self.kernels)


def headers(lanes: int) -> tuple[str, ...]:
    """What kernels of so many lanes may call; those of bytes are simple."""
    if lanes == BYTES:
        return ("vector.h", "stream.h")
    return ("vector.h", "gather.h", "vecmath.h", "near.h", "turn.h", "weave.h", "running.h",
            "stream.h")


@cache
def prelude(lanes: int) -> str:
    """What the kernels of a unit can use, of which it gets what they do: the runtime's table and
    the vector headers."""
    hidden = '__attribute__((visibility("hidden")))'
    return "\n".join([f"#define TEGG_LANES {lanes}", text("native/runtime.h"),
                      f"extern {hidden} const struct rt_table *tegg_rt;",
                      "#define rt_scratch(bytes) tegg_rt->scratch(bytes)",
                      "#define rt_pieces(tid, nt, each) tegg_rt->pieces(tid, nt, each)",
                      "#define rt_next(share) tegg_rt->next(share)",
                      "#define rt_last_cache tegg_rt->last_cache",
                      "#define rt_own_cache tegg_rt->own_cache",
                      *(text(h) for h in headers(lanes)),
                      "#pragma GCC visibility push(default)"])


def load(kernels: Sequence[KernelCode], compiler: Toolchain | None = None,
         cache: Cache | None = None, lanes: int | None = None) -> Library:
    """Compile kernels (or find them in the cache) and load them. ``lanes``: of their vectors, by
    default those of the machine.

    Raises BackendError with the compiler's words where a text does not compile.
    """
    compiler = compiler or toolchain.find()
    every = [*kernels, *(k.core for k in kernels if k.core is not None)]
    texts, twin = _distinct(every)
    distinct = [k for k, _ in texts]
    usual = lanes or compiler.lanes
    objects = Objects(cache or default(), compiler, lambda k: prelude(k.lanes or usual))
    places = {k.name: at for k, text in texts if (at := objects.find(k, text)) is not None}
    found = len(places)
    groups = _groups([k for k in distinct if k.name not in places])
    if groups:
        names = ", ".join(k.name for k in distinct[:6]) + ("..." if len(distinct) > 6 else "")
        places |= objects.compile(groups, ["\n".join([_BINDING, *(k.source for k in group)])
                                           for group in groups], f"kernels {names}")
    addresses = _addresses(distinct, places)
    functions = {s.function: addresses[twin.get(s.function, s.function)]
                 for k in every for s in k.stages}
    for k in distinct:
        if k.core is not None:
            _join(places[k.name], [functions[s.function] for s in k.core.stages])
    return Library(tuple(distinct), functions, found, len(groups))


def _addresses(kernels: Sequence[KernelCode], places: dict[str, Place]) -> dict[str, int]:
    """The addresses of the functions of kernels that lie in shared objects."""
    loaded = {path: _loaded(path) for path in {at.path for at in places.values()}}
    return {s.function: _address(loaded[places[k.name].path], name)
            for k in kernels for s, name in zip(k.stages, places[k.name].functions, strict=True)}


def _join(at: Place, functions: Sequence[int]) -> None:
    """Tell a kernel where the functions of its core are."""
    table = (ctypes.c_void_p * len(functions)).in_dll(
        ctypes.CDLL(str(at.path)), f"{at.functions[-1]}_at")
    table[:] = functions


def _loaded(path: Path) -> ctypes.CDLL:
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as e:
        raise BackendError(f"compiled kernels cannot be loaded: {e}; where that names a function, "
                           f"the Code of an op calls it without having it in functions=") from None
    loaded.tegg_bind(ctypes.c_void_p(runtime().table))
    return loaded


def _address(loaded: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(loaded[name], ctypes.c_void_p).value or 0


def _distinct(kernels: Sequence[KernelCode]
              ) -> tuple[list[tuple[KernelCode, str]], dict[str, str]]:
    """The kernels that differ by more than their names, with their texts without these, and for the
    rest: function -> its twin."""
    first: dict[tuple[str, int], KernelCode] = {}
    twin: dict[str, str] = {}
    for k in kernels:
        other = first.setdefault((anonymous(k), k.lanes), k)
        if other is not k:
            twin.update((mine.function, theirs.function)
                        for mine, theirs in zip(k.stages, other.stages, strict=True))
    return [(k, text) for (text, _), k in first.items()], twin


def _groups(kernels: Sequence[KernelCode]) -> list[list[KernelCode]]:
    """Kernels dealt to translation units, those with as many lanes to some of their own."""
    lanes = dict.fromkeys(k.lanes for k in kernels)
    return [group for n in lanes for group in _dealt([k for k in kernels if k.lanes == n])]


def _dealt(kernels: Sequence[KernelCode]) -> list[list[KernelCode]]:
    """Kernels dealt to translation units that take a compiler about as long, one per CPU at most;
    none for none."""
    total = sum(len(k.source) for k in kernels)
    groups: list[list[KernelCode]] = [[] for _ in range(max(1, min(available(), total // _UNIT)))]
    sizes = [0] * len(groups)
    for k in sorted(kernels, key=lambda k: (-_effort(k), k.name)):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(k)
        sizes[smallest] += _effort(k)
    return [g for g in groups if g]


def _effort(kernel: KernelCode) -> int:
    """How long a compiler takes for a kernel: most of it is for loops, whatever they hold."""
    return _BESIDE + kernel.source.count("for (")
