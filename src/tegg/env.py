"""The table of environment variables: name, type, default, and what each does."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from tegg.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable. ``kind`` is ``"int"`` or ``"path"``; the default may be None."""

    name: str
    kind: str
    default: int | str | None
    doc: str

    def get(self) -> Any:
        """The value now. Raises ArgumentError where the text is no value of the kind."""
        text = os.environ.get(self.name)
        if text is None or text == "":
            return self.default
        if self.kind == "path":
            return text
        try:
            value = int(text)
        except ValueError:
            value = -1
        if value < 0:
            raise ArgumentError(f"{self.name}={text!r} is not a whole number of 0 or more; "
                                f"{self.doc}")
        return value


CACHE = Variable("TEGG_CACHE", "path", None, "folder of the on-disk cache")
CACHE_LIMIT = Variable("TEGG_CACHE_LIMIT", "int", 2048, "megabytes that the on-disk cache may hold")
THREADS = Variable("TEGG_THREADS", "int", 0, "threads a run may use; 0 takes those it is allowed")
DEBUG = Variable("TEGG_DEBUG", "int", 0,
                 "what each compilation prints: 1 its plan, 2 also the rules, 3 also the source")
CC = Variable("TEGG_CC", "path", None, "the C compiler to use instead of the first one found")
COSTS = Variable("TEGG_COSTS", "path", None, "a device's cost profile, instead of the one that "
                 "tegg tune measured: a file, or one that is shipped, such as 'cpu/generic'")

VARIABLES = (CACHE, CACHE_LIMIT, THREADS, DEBUG, CC, COSTS)
