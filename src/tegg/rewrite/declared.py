"""E-graphs in which rules are declared already: declaring them takes longer than running most.

A thread keeps the last e-graph that it used, with the rules and without any program. A program is
loaded after a ``push``, and ``pop`` takes it back. Either takes as long as the rules of a small
program, so that in a thread of e-graphs (``beside.py``) it is taken back, and pushed for the next
program, once the caller rests.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tegg.collecting import give_back
from tegg.errors import RuleError
from tegg.rewrite.beside import later
from tegg.rewrite.engine import Engine
from tegg.rewrite.rulefile import Rule


@dataclass(frozen=True, slots=True)
class Declaration:
    """Text that declares something to egglog, and the rule that it is, if it is one."""

    text: str
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class _Lent:
    """An engine that was pushed, the texts that it was made for, and others that were declared to
    it before. It ends with this, in its thread, whoever still knows of it: a provider may have kept
    a view."""

    key: tuple[str, ...]
    engine: Engine
    known: set[str]

    def __del__(self) -> None:
        self.engine.close()


class _Kept(threading.local):
    """An engine belongs to its thread, and so does what is kept."""

    last: _Lent | None = None


_KEPT = _Kept()


def _forget() -> None:
    """The child of a fork cannot use an engine of its parent's."""
    _KEPT.last = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def declared(declarations: Sequence[Declaration], own: Sequence[Declaration] = (),
             keep: bool = True) -> Iterator[Engine]:
    """An engine to which all this was declared, and nothing else but what stands for itself. It is
    good until the block ends.

    own: what not all programs with these declarations need. It stays declared, whatever comes
    after it, so it must not change what other programs do. keep: whether the next block with the
    same declarations may have the engine. One that is not kept, or on which a block failed, is
    closed. Raises RuleError, with the place of the rule, for a rule that egglog refuses.
    """
    key = tuple(d.text for d in declarations)
    lent, _KEPT.last = _KEPT.last, None  # a block inside this one declares for itself
    fresh = lent is None or not keep or lent.key != key
    if lent is None or fresh:
        lent = _Lent(key, Engine(), set(key))
    kept = False
    try:
        if fresh:
            _declare(lent.engine, declarations)
            lent.engine.push()
        new = [d for d in own if d.text not in lent.known]
        _declare(lent.engine, new)
        yield lent.engine
        kept = keep
    finally:
        if not kept:
            lent.engine.close()  # here, and not with the last frame of a failure, in any thread
    if kept:
        later(lambda rested: _take_back(lent, new, rested))


def _take_back(lent: _Lent, new: Sequence[Declaration], rested: bool) -> None:
    """What was done to an engine since it was lent, but for ``new`` declarations; then it may be
    lent again. Where nobody waits memory is tidied."""
    lent.engine.pop()  # what it comes back to is a copy, which lies elsewhere
    _declare(lent.engine, new)
    lent.known.update(d.text for d in new)
    lent.engine.push()
    if rested:
        lent.engine.pop()  # and a copy of that where it lay before: the heap ends as it began
        lent.engine.push()
        give_back()
    _KEPT.last = lent


def _declare(engine: Engine, declarations: Sequence[Declaration]) -> None:
    for d in declarations:
        try:
            engine.run(d.text)
        except RuleError as e:
            if d.rule is None:
                raise
            raise RuleError(f"{d.rule.place}: rule {d.rule.name!r}: {e}") from None
