"""E-graphs in which rules are declared already: declaring them takes longer than running most.

A thread keeps the last e-graph that it used, with the rules and without any program. Most rules
of two stacks are the same: what a program's stack has more is declared to the kept one, and what it
has not lies idle there. A program is loaded after a ``push``, and ``pop`` takes it back. Either
takes as long as the rules of a small program, so that in a thread of e-graphs (``beside.py``) it is
taken back, and pushed for the next program, once the caller rests.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tegg.collecting import expect_tidy, tidy
from tegg.errors import RuleError
from tegg.rewrite.beside import later
from tegg.rewrite.engine import Engine
from tegg.rewrite.rulefile import Rule

# An e-graph that holds so many times what a stack declares is not kept for that: whatever is
# declared is copied for every program.
_MOST = 2


@dataclass(frozen=True, slots=True)
class Declaration:
    """Text that declares something to egglog by a name; or a fact, which has none and holds of
    every program. rule: the rule that it is, if it is one."""

    text: str
    rule: Rule | None = None
    fact: bool = False

    @property
    def name(self) -> str:
        """The sort, function, rule set... that it declares: the word that follows the command."""
        return "" if self.fact else self.text.split(None, 2)[1].rstrip(")")


@dataclass(slots=True, eq=False)
class _Lent:
    """An engine that was pushed, and what was declared to it before. It ends with this, in its
    thread, whoever still knows of it: a provider may have kept a view."""

    engine: Engine
    facts: frozenset[str]
    texts: set[str] = field(default_factory=set)  # of facts and all else
    names: set[str] = field(default_factory=set)

    def declare(self, declarations: Sequence[Declaration]) -> None:
        """Declare what stays, whatever comes after it."""
        _declare(self.engine, declarations)
        self.texts.update(d.text for d in declarations)
        self.names.update(d.name for d in declarations)

    def lacks(self, wanted: Sequence[Declaration]) -> list[Declaration]:
        """What of this it does not know yet, each once."""
        return list({d.text: d for d in wanted if d.text not in self.texts}.values())

    def serves(self, wanted: Sequence[Declaration]) -> bool:
        """Whether all this is known or may be declared: no name is taken, no fact is too many."""
        return (self.facts == _facts(wanted) and len(self.texts) <= _MOST * len(wanted)
                and self.names.isdisjoint(d.name for d in self.lacks(wanted)))

    def __del__(self) -> None:
        self.engine.close()


def _facts(declarations: Sequence[Declaration]) -> frozenset[str]:
    return frozenset(d.text for d in declarations if d.fact)


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
    """An engine to which all this was declared, and nothing else that a program could meet: what
    has a name does nothing until it is named. It is good until the block ends.

    own: what not all programs with these declarations need, and no facts. keep: whether a later
    block may have the engine. One that is not kept, or on which a block failed, is closed. Raises
    RuleError, with the place of the rule, for a rule that egglog refuses.
    """
    wanted = (*declarations, *own)
    lent, _KEPT.last = _KEPT.last, None  # a block inside this one declares for itself
    fresh = lent is None or not keep or not lent.serves(wanted)
    if lent is None or fresh:
        lent = _Lent(Engine(), _facts(declarations))
    kept = False
    try:
        if fresh:
            lent.declare(declarations)
            lent.engine.push()
        new = lent.lacks(wanted)
        _declare(lent.engine, new)
        yield lent.engine
        kept = keep
    finally:
        if not kept:
            lent.engine.close()  # here, and not with the last frame of a failure, in any thread
    if kept:
        expect_tidy()
        later(lambda rested: _take_back(lent, new, rested))


def _take_back(lent: _Lent, new: Sequence[Declaration], rested: bool) -> None:
    """What was done to an engine since it was lent, but for ``new`` declarations; then it may be
    lent again. Where nobody waits memory is tidied."""
    lent.engine.pop()  # what it comes back to is a copy, which lies elsewhere
    lent.declare(new)
    lent.engine.push()
    if rested:
        lent.engine.pop()  # and a copy of that where it lay before: the heap ends as it began
        lent.engine.push()
        tidy()
    _KEPT.last = lent


def _declare(engine: Engine, declarations: Sequence[Declaration]) -> None:
    for d in declarations:
        try:
            engine.run(d.text)
        except RuleError as e:
            if d.rule is None:
                raise
            raise RuleError(f"{d.rule.place}: rule {d.rule.name!r}: {e}") from None
