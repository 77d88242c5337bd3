"""What installed packages offer under entry points: found by name, loaded, and checked.

``importlib.metadata`` reads them. It brings the packages for mail and for archives, 2 MB that a
process keeps, so it is not asked where tegg alone is found to offer something.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache, partial
from importlib import import_module
from importlib.machinery import PathFinder
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tegg.errors import TeggError
from tegg.version import __version__

# As in pyproject.toml, where others look.
OWN = MappingProxyType({
    "tegg.backends": {"cpu": "tegg.backends.cpu.target:target",
                      "cuda": "tegg.backends.cuda.target:target",
                      "metal": "tegg.backends.metal.target:target"},
    "tegg.compilers": {"bf16": "tegg.rewrite.compiler:Bf16",
                       "fp16": "tegg.rewrite.compiler:Fp16",
                       "generic": "tegg.rewrite.compiler:Generic",
                       "tf32": "tegg.rewrite.compiler:Tf32",
                       "winograd": "tegg.rewrite.compiler:Winograd"}})


@dataclass(frozen=True, slots=True)
class Offer:
    """What a package offers under a name; ``value`` says where, as ``module:function``."""

    name: str
    value: str
    package: str
    load: Callable[[], Any] = field(compare=False)


def offered(group: str) -> tuple[str, ...]:
    """The names that packages offer in a group of entry points, sorted."""
    return tuple(sorted({o.name for o in _offers(group)}))


def load(group: str, what: str, name: str, error: type[TeggError], *arguments: str) -> Any:
    """What a package offers under a name: the result of the function that its entry point names.

    what: ``"compiler"``, ... in messages. arguments: of that function. Raises ``error`` for a name
    that nobody offers, or two packages do, and for a package that fails to import.
    """
    found = list(dict.fromkeys(o for o in _offers(group) if o.name == name))
    if not found:
        known = offered(group)
        near = get_close_matches(name, known, 1)
        raise error(f"no package offers a {what} {name!r}"
                    + (f"; did you mean {near[0]!r}?" if near else "")
                    + f" (installed: {', '.join(known) or 'none'})")
    if len(found) > 1:
        raise error(f"{' and '.join(f'{o.package} ({o.value})' for o in found)} each offer a "
                    f"{what} {name!r}; uninstall one, or import the one that you want and stack it")
    return _made(found[0], what, error, *arguments)


def _offers(group: str) -> tuple[Offer, ...]:
    """What is offered in a group. To look for it reads a file of every package that is installed,
    so it is done again only where a folder of packages has changed."""
    return _read(group, tuple((folder, _changed(folder)) for folder in sys.path))


def _changed(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=8)
def _read(group: str, stamp: tuple[tuple[str, int], ...]) -> tuple[Offer, ...]:
    own = [Offer(name, value, f"tegg {__version__}", partial(_own, value))
           for name, value in OWN[group].items()]
    if not _others_may(group):
        return tuple(own)
    from importlib.metadata import entry_points
    found = [Offer(e.name, e.value, f"{e.dist.name} {e.dist.version}" if e.dist
                   else "an unknown package", e.load)
             for e in entry_points(group=group) if not e.dist or e.dist.name != "tegg"]
    return (*own, *found)


def _own(value: str) -> Any:
    module, _, function = value.partition(":")
    return getattr(import_module(module), function)


def _others_may(group: str) -> bool:
    """Whether a package besides tegg may offer something in a group: one whose entry points say so,
    or one that lies where only ``importlib.metadata`` knows to look."""
    return (any(hasattr(f, "find_distributions") and f is not PathFinder for f in sys.meta_path)
            or any(points is None or f"[{group}]" in points
                   for folder in sys.path for points in _entry_points(folder)))


def _entry_points(folder: str) -> Iterator[str | None]:
    """The entry points of each package in a folder of the path, as text, but for tegg's own; None
    where it is no folder but an archive."""
    try:
        infos = [n for n in os.listdir(folder or ".") if n.endswith((".dist-info", ".egg-info"))]
    except OSError:
        if os.path.isfile(folder):
            yield None
        return
    for info in infos:
        if info.partition("-")[0].removesuffix(".egg") != "tegg":
            with suppress(OSError):  # most packages have none
                yield Path(folder, info, "entry_points.txt").read_text("utf-8", "replace")


def _made(offer: Offer, what: str, error: type[TeggError], *arguments: str) -> Any:
    try:
        make = offer.load()
        if arguments and not signature(make).parameters:
            raise error(f"the {what} {offer.name!r} has no models: write {offer.name!r}, not "
                        f"{':'.join((offer.name, *arguments))!r}")
        return make(*arguments)
    except TeggError:
        raise
    except Exception as e:
        raise error(f"the {what} {offer.name!r} of package {offer.package} does not load "
                    f"({offer.value}): {type(e).__name__}: {e}; repair or uninstall the package"
                    ) from e
