"""Profiles that were measured on a machine: where they lie, what they are for, whether they fit."""

from __future__ import annotations

import math
import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from tegg.cache import content_key, default, write_atomic
from tegg.errors import ArgumentError
from tegg.env import COSTS
from tegg.extract.cost import MEASURED, Costs, checked_costs, load_costs

VERSION = 2  # of what the numbers mean; a profile of another version is measured again
_TEXTS = ("device", "machine", "date")


@dataclass(frozen=True, slots=True)
class Profile:
    """Costs that were measured. machine: what tells one processor from another, in words;
    figures: what was measured on the way (name -> number), for people to look at; unrest: by how
    much the usual sample of all was above its best, which other programs cause."""

    costs: Costs
    device: str
    machine: str
    threads: int
    date: str = field(default_factory=lambda: date.today().isoformat())
    figures: Mapping[str, float] = field(default_factory=dict)
    unrest: float = 0.0

    def text(self) -> str:
        """The profile as TOML."""
        names = (*_TEXTS, "threads", "unrest")
        about = {"version": VERSION, **{n: getattr(self, n) for n in names}}
        body = {k: v for k, v in asdict(self.costs).items() if v is not None}
        body["levels"] = [{k: v for k, v in level.items() if v is not None}
                          for level in body["levels"]]
        head = (f"# Measured by `tegg tune --device {self.device}`: measure again rather than edit."
                f"\n# Rates are per second and thread; times are seconds.\n")
        return head + _toml({**body, MEASURED: {**about, "figures": dict(self.figures)}})

    def write(self, path: Path | None = None) -> Path:
        """Write it, at once or not at all: to the user's cache, or to another file."""
        place = path or user_profile(self.device, self.machine)
        if path is None:
            try:
                place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as e:
                raise ArgumentError(f"{place.parent} cannot be made ({e.strerror}); set TEGG_CACHE "
                                    f"to a folder that you own, or give a file by --output"
                                    ) from None
        write_atomic(place, self.text().encode())
        return place


def user_profile(device: str, machine: str) -> Path:
    """Where the profile of this user lies for a processor."""
    return default().root / "profiles" / f"{device}-{content_key(machine)[:16]}.toml"


def read_profile(path: Path, device: str, machine: str) -> Profile:
    """The profile of a file. Raises ArgumentError, which names the remedy, where it is malformed,
    of another version, or of another processor."""
    again = f"measure again by `tegg tune --device {device}`, or delete the file"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise ArgumentError(f"no cost profile {path}: {e.strerror or e}; {again}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise ArgumentError(f"the cost profile {path} is not TOML: {e}; {again}") from None
    about = data.pop(MEASURED, None)
    if not isinstance(about, dict) or not isinstance(about.get("figures", {}), dict) or not all(
            isinstance(about.get(n), str) for n in _TEXTS):
        raise ArgumentError(f"the cost profile {path} has no table [{MEASURED}] with "
                            f"{', '.join(_TEXTS)}; {again}")
    if about.get("version") != VERSION:
        raise ArgumentError(f"the cost profile {path} is of version {about.get('version')}, and "
                            f"this tegg reads version {VERSION}; {again}")
    if (about["device"], about["machine"]) != (device, machine):
        raise ArgumentError(f"the cost profile {path} is for {about['device']} on "
                            f"{about['machine']}, and this is {device} on {machine}; {again}")
    try:
        costs = checked_costs(data, str(path))
    except ArgumentError as e:
        raise ArgumentError(f"{e}; {again}") from None
    return Profile(costs, device, machine, costs.threads, about["date"], about.get("figures", {}),
                   about.get("unrest", 0.0))


def chosen_costs(device: str, threads: int | None = None) -> Costs | None:
    """The profile that ``TEGG_COSTS`` names, or None where it names none, or another device's:
    that of ``cuda/...`` is for CUDA alone. Raises ArgumentError for a malformed one."""
    chosen = COSTS.get()
    if chosen is None:
        return None
    found = load_costs(chosen, threads)
    other, _, rest = found.name.partition("/")
    return None if rest and other != device else found


def measured_costs(device: str, machine: str) -> Costs | None:
    """The costs that this user measured on this processor, or None.

    One that cannot be used is passed over with a warning that says why and what to do.
    """
    path = user_profile(device, machine)
    try:
        info = path.stat()
    except OSError:
        return None
    found = _known(path, info.st_mtime_ns, info.st_size, device, machine)
    if isinstance(found, Costs):
        return found
    warnings.warn(f"{found}; costs are those of the profile that is shipped", RuntimeWarning,
                  stacklevel=2)
    return None


@lru_cache(maxsize=8)
def _known(path: Path, changed: int, size: int, device: str, machine: str) -> Costs | str:
    """The costs of a file in one state, or what is wrong with it."""
    try:
        return read_profile(path, device, machine).costs
    except ArgumentError as e:
        return str(e)


# ---- TOML, as far as profiles need it
def _toml(data: Mapping[str, Any], prefix: str = "") -> str:
    plain = {k: v for k, v in data.items() if not isinstance(v, dict) and not _is_tables(v)}
    lines = [f"{_key(k)} = {_value(v)}" for k, v in plain.items()]
    for name, value in data.items():
        if name in plain:
            continue
        where = f"{prefix}{_key(name)}"
        for table in [value] if isinstance(value, dict) else value:
            mark = f"[{where}]" if isinstance(value, dict) else f"[[{where}]]"
            lines += ["", mark, _toml(table, f"{where}.").rstrip("\n")]
    return "\n".join(lines) + "\n"


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() \
        else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}"
                          for c in value)
        return f'"{escaped}"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float):
        return ("inf" if value > 0 else "-inf") if math.isinf(value) else f"{value:.6g}" \
            if "." in f"{value:.6g}" or "e" in f"{value:.6g}" else f"{value:.6g}.0"
    return str(value).lower() if isinstance(value, bool) else str(value)
