"""The one door to egglog: text in, plain rows out, every failure an error of ours."""

from __future__ import annotations

import ctypes
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tegg.errors import RuleError

Row = tuple[int | str, ...]


def _open() -> Any:
    from tegg.rewrite.bindings import opened
    return opened()


_ALIVE: weakref.WeakValueDictionary[int, Engine] = weakref.WeakValueDictionary()
_HELD: list[Any] = []  # e-graphs, over a fork


def _hold() -> None:
    """To free an e-graph in the child of a fork would wait for threads that are not there, and what
    other threads kept is dropped in it at once: so they stay."""
    alive = (r() for r in _ALIVE.valuerefs())  # a copy: other threads may make one now
    _HELD[:] = [e._egraph for e in alive if e is not None]


def _abandon() -> None:
    for egraph in _HELD:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(egraph))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_HELD.clear, after_in_child=_abandon)


@dataclass(frozen=True, slots=True)
class Run:
    """What one round of a rule set did: whether facts changed; of rules that matched, or took time
    that was measured, matches and seconds."""

    changed: bool
    matches: dict[str, int]
    seconds: dict[str, float]


class Conflict(RuleError):
    """Two different facts about one class: a shape or a dtype disagrees."""


class Engine:
    """One egglog e-graph. It belongs to the thread that made it, and must die there."""

    __slots__ = ("__weakref__", "_egraph", "_frozen", "_pushed", "changes", "log")

    def __init__(self) -> None:
        self._egraph = _open()
        self._frozen: Any = None  # its rows, until something is run
        _ALIVE[id(self)] = self
        # Everything that was run or inserted, so that a failure can be replayed.
        self.log: list[str | Mapping[str, list[Row]]] = []
        self.changes = 0  # grows whenever rules changed something
        self._pushed: list[tuple[int, int]] = []

    def close(self) -> None:
        """Free the e-graph, here, in its thread, whoever still knows of it."""
        self._egraph = self._frozen = None

    def run(self, text: str) -> list:
        """Run a command or a few. Raises Conflict or RuleError with egglog's words."""
        out = self._run(text)
        self.log.append(text)
        return out

    def _run(self, text: str) -> list:
        self._frozen = None
        try:
            return self._egraph.run_program(*self._egraph.parse_program(text))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as e:  # noqa: BLE001, a Rust panic is a BaseException
            words = str(e)
            kind = Conflict if "Illegal merge" in words else RuleError
            raise kind(f"egglog refuses {_cut(text)}: {words}") from None

    def insert(self, rows: Mapping[str, list[Row]]) -> None:
        """Many rows that pass ``fits``, of relations of numbers and texts.

        A command a row takes ten times as long, so they go through a file.
        """
        with _passing() as (file, path):
            for relation, found in rows.items():
                file.seek(0)
                file.truncate()
                file.writelines("\t".join(map(str, row)) + "\n" for row in found)
                file.flush()
                self._run(f'(input {relation} "{path}")')
        self.log.append(rows)

    def run_rules(self, ruleset: str) -> Run:
        """One round of a rule set."""
        report = self.run(f"(run-schedule (run {ruleset}))")[0].report
        self.changes += report.updated
        from tegg.rewrite.bindings import OPTIONS
        tick = 1.0 if OPTIONS else 1e3  # 13 gives whole milliseconds as if microseconds
        seconds = {n: t.total_seconds() * tick
                   for n, t in report.search_and_apply_time_per_rule.items() if t}
        matches = {n: count for n, count in report.num_matches_per_rule.items() if count}
        return Run(report.updated, matches, seconds)

    def sizes(self) -> dict[str, int]:
        """Rows per function."""
        out: Any = self._egraph.run_program(*self._egraph.parse_program("(print-size)"))
        return dict(out[0].sizes)

    def sizes_after(self, ruleset: str) -> dict[str, int]:
        """Rows per function after one more round of a rule set, which is then taken back."""
        self.push()
        try:
            self._run(f"(run-schedule (run {ruleset}))")
            return self.sizes()
        finally:
            self.pop()

    def push(self) -> None:
        """Keep a copy of all that there is, for ``pop`` to come back to."""
        self._run("(push)")
        self._pushed.append((len(self.log), self.changes))

    def pop(self) -> None:
        """Forget what was done since the last ``push``."""
        self._run("(pop)")
        steps, self.changes = self._pushed.pop()
        del self.log[steps:]

    def replay(self, steps: int | None = None) -> Engine:
        """A new e-graph to which everything was done that was done to this one, or the first of it.
        """
        other = Engine()
        for entry in self.log[:steps]:
            if isinstance(entry, str):
                other.run(entry)
            else:
                other.insert(entry)
        return other

    def rows(self, function: str) -> list[tuple[list, Any, bool]]:
        """The rows of a function: ``(inputs, output, subsumed)``; values are hashable."""
        if self._frozen is None:
            self._frozen = self._egraph.freeze().functions
        found = self._frozen[function].rows
        return [(row.inputs, row.output, row.subsumed) for row in found]

    def lookup(self, function: str, value: Any) -> Any:
        """What a function of one argument says of a value, or None."""
        return self._egraph.lookup_function(function, [value])

    def text_of(self, value) -> str:
        """The String behind a value."""
        return self._egraph.value_to_string(value)

    def int_of(self, value) -> int:
        """The i64 behind a value."""
        return self._egraph.value_to_i64(value)


def fits(row: Row) -> bool:
    """Whether ``insert`` takes a row as it is: egglog cuts lines at tabs, leaves out blank ones,
    and drops the space at both ends of a text."""
    texts = [x for x in row if isinstance(x, str)]
    return any(map(str, row)) and all(x == x.strip() and not {"\t", "\n"} & set(x) for x in texts)


@contextmanager
def _passing() -> Iterator[tuple[TextIO, str]]:
    """A file that is gone after the block, and its path: in memory where the system has that, for
    on a disk it takes longer than the rows of a small graph."""
    handle = _memory()
    path = ""
    if handle is None:
        handle, path = tempfile.mkstemp(suffix=".tsv")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file, Path(path).as_posix() if path else f"/proc/self/fd/{handle}"
    finally:
        if path:
            os.unlink(path)


def _memory() -> int | None:
    """A file in memory that has a path, or None."""
    if not hasattr(os, "memfd_create") or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.memfd_create("tegg-rows")
    except OSError:  # a sandbox may forbid it
        return None


def _cut(text: str) -> str:
    return text if len(text) <= 160 else text[:157] + "..."
