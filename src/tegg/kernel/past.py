"""Results that are written past the caches, where these do not hold them until they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tegg.dim import Dim, hint
from tegg.kernel.index import Var
from tegg.kernel.loops import Block, Comes, Loop, Past, Stmt, Store
from tegg.kernel.rows import Buffers, cost, dearest, follows, passes

LEAST = 1 << 22  # bytes of a result that the caches of any CPU hold
LIGHT = 16       # operations an element up to which memory is what rows wait for


def past(body: Sequence[Stmt], buffers: Buffers) -> tuple[Stmt, ...]:
    """The statements, with stores along rows told how they come, should they go past the caches.

    A line is read before its first element is written, unless it is written whole and past the
    caches. Whether it is, is decided when the kernel runs: by the machine's caches and by where
    the rows lie.
    """
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Block):
            s = replace(s, body=past(s.body, buffers))
        elif isinstance(s, Loop) and not s.vector:
            s = replace(s, body=_rows(s, buffers))
        elif isinstance(s, Loop) and cost(s) <= LIGHT:
            s = _along(s, Comes.ALONG, buffers)
        out.append(s)
    return tuple(out)


def _rows(rows: Loop, buffers: Buffers) -> tuple[Stmt, ...]:
    """The body of a loop. What the dearest pass over a row writes comes as fast as it is computed,
    what others write faster than any memory takes it in."""
    found = passes(rows)
    if not found:
        return past(rows.body, buffers)
    turn = dearest(rows)
    if cost(found[turn][1]) > LIGHT:
        return rows.body
    body = list(rows.body)
    for i, (at, p) in enumerate(found):
        body[at] = _along(p, Comes.ALONG if i == turn else Comes.BURST, buffers)
    return tuple(body)


def _along(row: Loop, comes: Comes, buffers: Buffers) -> Loop:
    touched: Dim = 0
    for dtype, size in buffers.values():
        touched = touched + size * dtype.itemsize
    return replace(row, body=tuple(
        replace(s, past=Past(comes, touched))
        if isinstance(s, Store) and _whole(s, row.var, buffers) else s for s in row.body))


def _whole(s: Store, var: Var, buffers: Buffers) -> bool:
    """Whether whole vectors are written side by side, of a result that may be large."""
    w = s.write
    dtype, size = buffers[w.slot]
    return (s.past is None and w.mode == "store" and not w.guards
            and hint(size) * dtype.itemsize >= LEAST and follows(w.form, var))
