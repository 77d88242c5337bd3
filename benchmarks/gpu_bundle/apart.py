"""Work on the GPU in a process beside this one, so that a piece that fails does not end the others.

A fault of a kernel loses the GPU to its process, and a kernel that does not end keeps it waiting.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tegg.errors import BackendError


def rows(script: Path, options: Sequence[str], names: Iterable[str],
         seconds: float) -> Iterator[dict[str, Any]]:
    """What ``script --worker`` says of each name. One that fails is ``ok: False`` and ``says`` why,
    and the next has a fresh process; so has one after which nothing came for some seconds."""
    worker: _Worker | None = None
    try:
        for name in names:
            worker = worker or _Worker(script, options)
            row = worker.asked(name, seconds)
            if "says" in row:
                worker.end()
                worker = None
            yield row
    finally:
        if worker is not None:
            worker.end()


def serve(work: Callable[[str], dict[str, Any]]) -> int:
    """The worker's side: a name comes in each line, and a row goes out. What others print goes with
    the errors."""
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        for line in sys.stdin:
            name = line.rstrip("\n")
            try:
                row = {"name": name, **work(name)}
            except BackendError as e:
                row = {"name": name, "ok": False, "says": str(e)}
            print(json.dumps(row), file=out, flush=True)
    return 0


class _Worker:
    """A process that works on one name at a time."""

    def __init__(self, script: Path, options: Sequence[str]) -> None:
        self._process = subprocess.Popen([sys.executable, str(script), "--worker", *options],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def asked(self, name: str, seconds: float) -> dict[str, Any]:
        to, back = self._process.stdin, self._process.stdout
        assert to is not None and back is not None
        says = ""
        try:
            to.write(f"{name}\n")
            to.flush()
            if not select.select([back], [], [], seconds)[0]:
                says = f"no result in {seconds:.0f} s, and its process was ended"
        except BrokenPipeError:
            pass  # it has ended, which is read next
        line = "" if says else back.readline()
        if line:
            row: dict[str, Any] = json.loads(line)
            return row
        return {"name": name, "ok": False,
                "says": says or f"its process ended with status {self._process.wait()}"}

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
