"""Phases in their order, with limits, and the built-in stacks of rule sets: pipelines.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
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


def phases(own: Iterable[tuple[str, Mapping[str, Mapping[str, Any]]]] = ()) -> tuple[Phase, ...]:
    """The phases in order, with what compilers say of them: ``(compiler, {phase: settings})``.

    Settings of a phase that exists are limits; a new phase says ``after`` which it runs.
    Raises ArgumentError for a limit that is not understood, and where two compilers disagree.
    """
    found = _read()
    out = [Phase(name, **{**found["limits"], **mine}) for name, mine in found["phase"].items()]
    said: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for who, settings in own:
        for name, setting in settings.items():
            if not isinstance(name, str) or not isinstance(setting, Mapping):
                raise ArgumentError(f"compiler {who!r} says {setting!r} of the phase {name!r}; "
                                    f"settings are a dict, such as {{'rounds': 8}}")
            before = said.setdefault(name, (who, setting))
            if before[1] != setting:
                raise ArgumentError(f"compilers {before[0]!r} and {who!r} say different things of "
                                    f"the phase {name!r}: {before[1]} and {setting}; make them "
                                    f"agree, or rename the phase of one")
    for name, (who, setting) in said.items():
        limits = {k: v for k, v in setting.items() if k != "after"}
        if name not in [p.name for p in out]:
            _insert(out, name, who, setting)
        elif "after" in setting:
            raise ArgumentError(f"compiler {who!r} says after which phase {name!r} runs, which is "
                                f"one of tegg's; give a phase of its own another name")
        out = list(limited(tuple(out), {name: limits}))
    return tuple(out)


def _insert(out: list[Phase], name: str, who: str, setting: Mapping[str, Any]) -> None:
    """A compiler's own phase, right behind the one that it names."""
    order = [p.name for p in out]
    after = setting.get("after")
    if name != FACTS and after is not None and after not in order:
        near = get_close_matches(str(after), order, 1)
        raise ArgumentError(f"compiler {who!r} says that its phase {name!r} runs after {after!r}, "
                            f"which is none of {', '.join(order)}"
                            + (f"; did you mean {near[0]!r}?" if near else
                               "; a phase of its own comes behind one that was named before"))
    if name == FACTS or after is None:
        near = get_close_matches(name, order, 1)
        raise ArgumentError(f"compiler {who!r} has settings for a phase {name!r}, which is not one "
                            f"of tegg's ({', '.join(order)})"
                            + (f"; did you mean {near[0]!r}?" if near else "")
                            + '; a phase of its own says {"after": one of them}')
    out.insert(order.index(after) + 1, Phase(name, **_read()["limits"]))


def limited(order: tuple[Phase, ...],
            limits: Mapping[str, Mapping[str, Any]]) -> tuple[Phase, ...]:
    """Phases with other limits: ``{"algebra": {"rounds": 4}}``; ``"*"`` means every phase.

    Raises ArgumentError for an unknown phase or limit.
    """
    for name, own in limits.items():
        if name != "*" and name not in [p.name for p in order]:
            raise ArgumentError(f"there is no phase {name!r}; there are "
                                f"{', '.join(p.name for p in order)}")
        for key, value in own.items():
            if (key not in LIMITS or isinstance(value, bool) or not isinstance(value, (int, float))
                    or not value >= 0):
                raise ArgumentError(f"limit {key}={value!r} of phase {name!r} is not understood; "
                                    f"limits are {', '.join(LIMITS)}, numbers of 0 or more")
        order = tuple(replace(p, **own) if name in ("*", p.name) else p for p in order)
    return order


def rule_folders(pipeline: str) -> tuple[str, ...]:
    """The folders (or rule sets) of rules/ that a built-in pipeline stacks."""
    return tuple(_read()["pipeline"][pipeline])
