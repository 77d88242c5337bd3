"""Gathering what is wrong with rules, so that one run tells all of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tegg.errors import RuleError


class Problems:
    """RuleErrors that are kept until everything has been looked at.

    unread: the rule files that are missing from what is looked at, since they could not be read.
    """

    __slots__ = ("found", "unread")

    def __init__(self) -> None:
        self.found: list[str] = []
        self.unread: list[Path] = []

    @contextmanager
    def gather(self) -> Iterator[None]:
        """Keep the problems of a RuleError that is raised inside, and go on behind."""
        try:
            yield
        except RuleError as e:
            self.found += e.problems

    def tell(self) -> None:
        """Raise RuleError with everything that was kept, each problem once."""
        if self.found:
            raise RuleError(*dict.fromkeys(self.found))
