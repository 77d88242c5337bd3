"""Asking for memory ahead: of rows that several passes go over, the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tegg.dim import Dim, hint, upper_bound
from tegg.dtype import DType
from tegg.kernel.index import Form, Var, variable
from tegg.kernel.loops import Ahead, Block, Let, Loop, Stmt, Store, walk

_ROW = 1 << 14   # bytes of a row up to which it and the next one stay in the nearest cache
_FAR = 1 << 19   # bytes of a buffer from which it may have to come from far away

Buffers = Mapping[int, tuple[DType, Dim]]


def ahead(body: Sequence[Stmt], buffers: Buffers) -> tuple[Stmt, ...]:
    """The statements, with requests for memory in the dearest of the passes over a row.

    Hardware follows a row to the end of a page, and no pass that computes waits for the next row:
    so what the next row reads is asked for, and what this one writes later. ``buffers``: slot ->
    dtype and number of elements.
    """
    return tuple(_statement(s, buffers) for s in body)


def _statement(s: Stmt, buffers: Buffers) -> Stmt:
    if isinstance(s, Block):
        return replace(s, body=ahead(s.body, buffers))
    if not isinstance(s, Loop) or s.vector:
        return s
    passes = [(i, p) for i, p in enumerate(s.body) if isinstance(p, Loop) and p.vector]
    if len(passes) < 2 or len({p.var.extent for _, p in passes}) > 1 or s.step != 1:
        return replace(s, body=ahead(s.body, buffers))
    turn = max(range(len(passes)), key=lambda i: _cost(passes[i][1]))
    at, host = passes[turn]
    asked = _asked(s, [p for _, p in passes], turn, buffers)
    if not asked:
        return s
    body = list(s.body)
    body[at] = replace(host, body=(*asked, *host.body))
    return replace(s, body=tuple(body))


def _cost(p: Loop) -> float:
    """Operations of one iteration."""
    return sum(s.value.cost for s, _ in walk(p.body) if isinstance(s, Let))


def _asked(rows: Loop, passes: Sequence[Loop], turn: int, buffers: Buffers) -> list[Stmt]:
    """What the pass number ``turn`` asks for: each place once."""
    out: dict[tuple[int, Form], Ahead] = {}
    var = passes[turn].var
    for i, p in enumerate(passes):
        for s in p.body:
            load = isinstance(s, Let) and s.value.op == "load" and not s.value.attr.guards
            store = isinstance(s, Store) and not s.past and not s.write.guards
            if not load and not store:
                continue
            slot, form = ((s.value.attr.slot, s.value.attr.form) if load
                          else (s.write.slot, s.write.form))
            dtype, size = buffers[slot]
            if not _follows(form, p.var, rows.var) or not _worth(p.var, dtype, size):
                continue
            later = store and i > turn
            moved = _moved(form, p.var, var, rows.var, 0 if later else 1)
            out.setdefault((slot, moved), Ahead(slot, moved, dtype, store))
    return list(out.values())


def _follows(form: Form, lane: Var, row: Var) -> bool:
    """Whether an index is contiguous along a row, and another one in the next row."""
    return (form.coefficient(lane) == 1 and form.coefficient(row) != 0
            and all(isinstance(a, Var) for a in form.terms))


def _worth(lane: Var, dtype: DType, size: Dim) -> bool:
    longest = upper_bound(lane.extent)
    return (longest is not None and longest * dtype.itemsize <= _ROW
            and hint(size) * dtype.itemsize >= _FAR)


def _moved(form: Form, lane: Var, to: Var, row: Var, by: int) -> Form:
    """The index for another variable along the row, some rows on."""
    step = form.coefficient(row)
    return form + variable(lane) * -1 + variable(to) + step * by
