"""Finding rule files: by path, by folder, or by the name of a built-in rule set; each read once."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

from tegg.errors import RuleError
from tegg.rewrite.problems import Problems
from tegg.rewrite.rulefile import RuleSet, read_rule_file

_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")  # of a built-in rule set, or of a folder of them


@cache
def builtin_root() -> Path:
    """The folder of the built-in rule files."""
    return Path(str(files("tegg.rules")))


def read_source(source: str | Path, problems: Problems) -> list[RuleSet]:
    """The rule sets of a path, a folder or a name, but for those that cannot be read: of these, and
    where there are none, ``problems`` hears."""
    found: list[RuleSet] = []
    with problems.gather():
        for path, root in rule_files(source):
            try:
                found.append(_cached(path, root))
            except RuleError as e:
                problems.found += e.problems
                problems.unread.append(path)
    return found


def rule_files(source: str | Path) -> Sequence[tuple[Path, Path | None]]:
    """The rule files that a source means, each with the folder that its name counts from.

    A text that names a built-in rule set means it, whatever lies in the working directory.
    """
    built_in = _built_in(source) if isinstance(source, str) else None
    if built_in is not None:
        return built_in
    root, path = builtin_root(), Path(source)
    if not str(source).strip():
        raise RuleError("an empty text names no rule file; give a path, a folder or a built-in "
                        "rule set")
    if path.is_dir():
        found: list[tuple[Path, Path | None]] = [(p, None) for p in sorted(path.rglob("*.egg"))]
        if not found:
            raise RuleError(f"{source}: the folder holds no .egg file; give another")
        return found
    if path.suffix == ".egg":
        return [(path, None)]
    names = sorted({".".join(p.relative_to(root).with_suffix("").parts)
                    for p in root.rglob("*.egg")} | {p.name for p in root.iterdir() if p.is_dir()})
    near = get_close_matches(str(source), names, 1)
    raise RuleError(f"{source}: is no .egg file, no folder and no built-in rule set"
                    + (f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"))


@dataclass(frozen=True, slots=True)
class _Listed:
    """The rule files of a built-in name, and the times of the folders that were looked through: a
    file that comes or goes changes that of its folder."""

    files: tuple[tuple[Path, Path], ...]
    folders: tuple[tuple[str, int], ...]

    @property
    def valid(self) -> bool:
        return all(_changed(name) == time for name, time in self.folders)


_LISTED: dict[str, _Listed] = {}


def _built_in(name: str) -> tuple[tuple[Path, Path], ...] | None:
    """The rule files of a built-in rule set, or of a folder of them; None for another text."""
    known = _LISTED.get(name)
    if known is not None and known.valid:
        return known.files
    root = builtin_root()
    inside = root.joinpath(*name.split(".")) if _NAME.fullmatch(name) else root
    if inside != root and inside.is_dir():
        folders, found = [f for f, _, _ in os.walk(inside)], sorted(inside.rglob("*.egg"))
    elif inside != root and inside.with_suffix(".egg").is_file():
        folders, found = [str(inside.parent)], [inside.with_suffix(".egg")]
    else:
        return None
    times = tuple((f, _changed(f)) for f in folders)
    made = _LISTED[name] = _Listed(tuple((p, root) for p in found), times)
    return made.files


def _changed(name: str) -> int:
    try:
        return os.stat(name).st_mtime_ns
    except OSError:
        return 0


def known(source: str) -> bool:
    """Whether a text means rule files that are there."""
    try:
        return bool(rule_files(source))
    except RuleError:
        return False


def _cached(path: Path, root: Path | None) -> RuleSet:
    try:
        stamp = os.stat(path)
    except OSError:
        return read_rule_file(path, root)
    return _read_once(path, root, stamp.st_mtime_ns, stamp.st_size)


def text_of(path: Path) -> str:
    """The text of a rule file; reading it as rules says what is wrong with one that has none."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def digest(path: str | Path) -> str:
    """What stands for the bytes of a file in a key; they are read again only where it has changed.

    Raises OSError for a file that cannot be read.
    """
    stamp = os.stat(path)
    return _digest(path, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=512)
def _digest(path: str | Path, changed: int, size: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@lru_cache(maxsize=512)
def _read_once(path: Path, root: Path | None, changed: int, size: int) -> RuleSet:
    return read_rule_file(path, root)
