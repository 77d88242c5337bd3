"""Which scatters write over the old value of a state, and so touch no more than they are given."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def over_state(c: int, node, states: Collection[tuple[int, int]],
               body: Mapping[int, object]) -> bool:
    """Whether value ``c`` is a scatter into the old value of a state, which nothing else reads.

    states: old and new values.
    """
    if node.op.kind != "index" or not node.op.staged:
        return False
    base, *given = node.args
    return ((base, c) in states and base not in given and not any(
        base in n.args for other, n in body.items() if other != c))  # type: ignore[attr-defined]
