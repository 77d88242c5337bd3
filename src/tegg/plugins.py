"""What installed packages offer under entry points: found by name, loaded, and checked."""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from typing import Any

from tegg.errors import TeggError


def offered(group: str) -> tuple[str, ...]:
    """The names that packages offer in a group of entry points, sorted."""
    return tuple(sorted({e.name for e in _entries(group)}))


def load(group: str, what: str, name: str, error: type[TeggError], *arguments: str) -> Any:
    """What a package offers under a name: the result of the function that its entry point names.

    what: ``"compiler"``, ... in messages. arguments: of that function. Raises ``error`` for a name
    that nobody offers, or two packages do, and for a package that fails to import.
    """
    found = list(dict.fromkeys(e for e in _entries(group) if e.name == name))
    if len(found) > 1:  # a package's name is a file to be read
        found = list({(_package(e), e.value): e for e in found}.values())
    if not found:
        known = offered(group)
        near = get_close_matches(name, known, 1)
        raise error(f"no package offers a {what} {name!r}"
                    + (f"; did you mean {near[0]!r}?" if near else "")
                    + f" (installed: {', '.join(known) or 'none'})")
    if len(found) > 1:
        raise error(f"{' and '.join(f'{_package(e)} ({e.value})' for e in found)} each offer a "
                    f"{what} {name!r}; uninstall one, or import the one that you want and stack it")
    return _made(found[0], what, error, *arguments)


def _entries(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group. To look for them reads a file of every package that is
    installed, so it is done again only where a folder of packages has changed."""
    return _read(group, tuple((folder, _changed(folder)) for folder in sys.path))


def _changed(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=8)
def _read(group: str, stamp: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def _made(entry: EntryPoint, what: str, error: type[TeggError], *arguments: str) -> Any:
    try:
        make = entry.load()
        if arguments and not signature(make).parameters:
            raise error(f"the {what} {entry.name!r} has no models: write {entry.name!r}, not "
                        f"{':'.join((entry.name, *arguments))!r}")
        return make(*arguments)
    except TeggError:
        raise
    except Exception as e:
        raise error(f"the {what} {entry.name!r} of package {_package(entry)} does not load "
                    f"({entry.value}): {type(e).__name__}: {e}; repair or uninstall the package"
                    ) from e


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
