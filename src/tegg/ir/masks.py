"""What share of its scores an attention computes, as far as a kernel's body shows its mask."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tegg.bits import value_of

_HALF = 0.5  # of the keys: what comparisons of positions leave on average
_SEEN_THROUGH = ("Expand", "Reshape", "Permute", "Cast", "Held", "Contiguous")


def seen_share(body: Mapping[int, Any]) -> float:
    """The share of scores that is computed by the attention of a body, or 1 where it has none.

    A mask that the body computes by comparing positions skips keys; one that is read does not.
    """
    heads = [n for n in body.values() if n.op.kind == "attention"]
    return _HALF if any(_compares(body, c) for n in heads
                        for c in _conditions(body, n.args[0])) else 1.0


def _conditions(body: Mapping[int, Any], c: int) -> Iterator[int]:
    """What decides whether a value is -inf."""
    n = body.get(c)
    if n is None:
        return
    if n.op.name == "Select" and any(_is_lowest(body, a) for a in n.args[1:]):
        yield n.args[0]
    if n.op.name in ("Select", "Add", "Sub", "Mul", *_SEEN_THROUGH):
        for a in n.args:
            yield from _conditions(body, a)


def _is_lowest(body: Mapping[int, Any], c: int) -> bool:
    n = body.get(c)
    while n is not None and n.op.name in _SEEN_THROUGH:
        n = body.get(n.args[0])
    return n is not None and n.op.name == "Full" and value_of(n.attrs[2], n.attrs[0]) == -math.inf


def _compares(body: Mapping[int, Any], c: int) -> bool:
    """Whether a condition is, among others, a comparison with a position."""
    n = body.get(c)
    if n is None:
        return False
    if n.op.name in ("LessThan", "LessEqual"):
        return any(_is_position(body, a) for a in n.args)
    return n.op.name in ("Mul", "Add", "Not", "Minimum", "Maximum", *_SEEN_THROUGH) and any(
        _compares(body, a) for a in n.args)


def _is_position(body: Mapping[int, Any], c: int) -> bool:
    n = body.get(c)
    return n is not None and (n.op.name == "Iota" or n.op.name in _SEEN_THROUGH
                              and _is_position(body, n.args[0]))
