"""E-graphs in which rules are declared already: declaring them takes longer than running most.

A thread keeps the last e-graph that it used, with the rules and without any program. A program is
loaded after a ``push``, and ``pop`` takes it back; both copy tables that hold nothing yet.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tegg.errors import RuleError
from tegg.rewrite.engine import Engine
from tegg.rewrite.rulefile import Rule


@dataclass(frozen=True, slots=True)
class Declaration:
    """Text that declares something to egglog, and the rule that it is, if it is one."""

    text: str
    rule: Rule | None = None


class _Kept(threading.local):
    """An engine belongs to its thread, and so does what is kept."""

    last: tuple[tuple[str, ...], Engine, set[str]] | None = None


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
    same declarations may have the engine. One on which a block failed is not kept. Raises
    RuleError, with the place of the rule, for a rule that egglog refuses.
    """
    key = tuple(d.text for d in declarations)
    kept, _KEPT.last = _KEPT.last, None  # a block inside this one declares for itself
    if keep and kept is not None and kept[0] == key:
        _, engine, known = kept
    else:
        engine, known = Engine(), set()
        _declare(engine, declarations)
    _declare(engine, [d for d in own if d.text not in known])
    known.update(d.text for d in own)
    engine.push()
    yield engine
    if keep:
        engine.pop()  # what it comes back to is a copy, which lies elsewhere
        engine.push()
        engine.pop()  # and a copy of that where it lay before: the heap ends as it began
        _KEPT.last = key, engine, known


def _declare(engine: Engine, declarations: Sequence[Declaration]) -> None:
    for d in declarations:
        try:
            engine.run(d.text)
        except RuleError as e:
            if d.rule is None:
                raise
            raise RuleError(f"{d.rule.place}: rule {d.rule.name!r}: {e}") from None
