"""Phases in their order, with limits, and the built-in stacks of rule sets: pipelines.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from tegg.errors import ArgumentError

FACTS = "facts"  # the phase whose rule sets run in every round of every phase
LIMITS = ("rounds", "nodes", "ms")


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase: it ends when nothing changes, or at a limit on rounds, e-nodes or time."""

    name: str
    rounds: int
    nodes: int
    ms: float


@lru_cache(maxsize=1)
def _read() -> dict:
    return tomllib.loads((Path(str(files("tegg.rules"))) / "pipelines.toml").read_text())


def phases(limits: Mapping[str, Mapping[str, Any]] | None = None) -> tuple[Phase, ...]:
    """The phases in order. ``limits`` changes some: ``{"algebra": {"rounds": 4}}``; the name
    ``"*"`` means every phase.

    Raises ArgumentError for an unknown phase or limit.
    """
    found = _read()
    out = [Phase(name, **{**found["limits"], **own}) for name, own in found["phase"].items()]
    for name, own in (limits or {}).items():
        if name != "*" and name not in found["phase"]:
            raise ArgumentError(f"there is no phase {name!r}; there are "
                                f"{', '.join(found['phase'])}")
        for key, value in own.items():
            if key not in LIMITS or isinstance(value, bool) or not value >= 0:
                raise ArgumentError(f"limit {key}={value!r} of phase {name!r} is not understood; "
                                    f"limits are {', '.join(LIMITS)}, numbers of 0 or more")
        out = [replace(p, **own) if name in ("*", p.name) else p for p in out]
    return tuple(out)


def rule_folders(pipeline: str) -> tuple[str, ...]:
    """The folders (or rule sets) of rules/ that a built-in pipeline stacks."""
    return tuple(_read()["pipeline"][pipeline])
