"""Asking for memory ahead: of rows the next ones, of a long row what follows; and for places of
stores that go anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tegg.dim import Dim, hint, upper_bound
from tegg.kernel.domain import Write
from tegg.kernel.index import Form, Gathered, Var, variable
from tegg.kernel.loops import Ahead, Block, Comes, Let, Loop, Stmt, Store
from tegg.kernel.rows import Buffers, cost, dearest, follows, passes
from tegg.kernel.value import Val, reachable

ROW = 1 << 14   # bytes of a row up to which it and the next one stay in the nearest cache
NEAR = 1 << 15  # bytes that are asked for and not read yet, from which the first are lost again
FAR = 1 << 19   # bytes of a buffer from which it may have to come from far away
VAST = 1 << 24  # bytes that rows read and write, from which most of them come from far away
HIDES = 8.0     # operations of an element beside which all that is asked for comes in time
PAGE = 1 << 12  # bytes to whose end hardware follows a row


def ahead(body: Sequence[Stmt], buffers: Buffers) -> tuple[Stmt, ...]:
    """The statements, with requests for memory in the passes over a row.

    Hardware follows a row to the end of a page, and no pass that computes waits for the next row:
    so what the next row reads is asked for, and what is written later.
    """
    return tuple(_statement(s, buffers) for s in body)


def _statement(s: Stmt, buffers: Buffers) -> Stmt:
    if isinstance(s, Block):
        return replace(s, body=ahead(s.body, buffers))
    if isinstance(s, Store):
        return replace(s, asked=_anywhere(s, buffers))
    if not isinstance(s, Loop):
        return s
    if s.vector:
        return replace(s, body=(*_along(s, buffers), *s.body)) if s.shared else s
    found = passes(s)
    if len({p.var.extent for _, p in found}) != 1 or s.step != 1:
        return replace(s, body=ahead(s.body, buffers))
    body = list(s.body)
    for turn, asked in _next(s, [p for _, p in found], buffers).items():
        at, host = found[turn]
        body[at] = replace(host, body=(*asked, *host.body))
    return replace(s, body=tuple(body))


def _anywhere(s: Store, buffers: Buffers) -> bool:
    """Whether a store goes where an index says, into memory that may be far away. An update reads
    it first, and reads do not wait for one another."""
    w = s.write
    size = hint(buffers[w.slot][1]) * buffers[w.slot][0].itemsize
    return (w.mode == "store" and size >= FAR
            and any(isinstance(atom, Gathered) for atom in w.form.terms))


def _next(rows: Loop, passes: Sequence[Loop], buffers: Buffers) -> dict[int, list[Ahead]]:
    """What each pass asks for, by its number: each place once."""
    touched = [_touched(p, buffers) for p in passes]
    reads, writes = _turns(rows, [a for asked in touched for a in asked], buffers)
    out: dict[tuple[int, Form], tuple[int, Ahead]] = {}
    for i, p in enumerate(passes):
        longest = upper_bound(p.var.extent)
        for asked in touched[i]:
            slot, form = asked.slot, asked.form
            if (form.coefficient(rows.var) != 0 and longest is not None
                    and longest * asked.dtype.itemsize <= ROW):
                turn = writes if asked.use == "write" else reads
                on = 0 if asked.use == "write" and i > turn else 1
                moved = (form + variable(p.var) * -1 + variable(passes[turn].var)
                         + form.coefficient(rows.var) * on)
                out.setdefault((slot, moved), (turn, replace(asked, form=moved)))
    found: dict[int, list[Ahead]] = {}
    for turn, asked in out.values():
        found.setdefault(turn, []).append(asked)
    return found


def _turns(rows: Loop, touched: Sequence[Ahead], buffers: Buffers) -> tuple[int, int]:
    """The passes that ask for what is read, and for what is written: the dearest, beside whose
    operations both come, or where they come from far away and no pass computes for as long, the
    first two, so that memory is at work in both."""
    found, turn = [p for _, p in passes(rows)], dearest(rows)
    moved = sum(hint(buffers[slot][1]) * buffers[slot][0].itemsize
                for slot in {a.slot for a in touched})
    if moved < VAST or cost(found[turn]) >= HIDES:
        return turn, turn
    return 0, min(1, len(found) - 1)


def _along(row: Loop, buffers: Buffers) -> list[Ahead]:
    """What one long row asks for: the same place of the next page."""
    out: dict[tuple[int, Form], Ahead] = {}
    for asked in _touched(row, buffers):
        moved = asked.form + PAGE // asked.dtype.itemsize
        out.setdefault((asked.slot, moved), replace(asked, form=moved))
    return list(out.values())


def coming(operand: Val, along: Var, over: Var, size: Dim, together: int,
           far: bool = True) -> list[Ahead]:
    """What is asked for where an operand of ``size`` elements is read in runs along one variable,
    ``together`` of them side by side, over the other: of short runs those a page on, which need
    not lie one behind another; of long ones the same place of the next page, or nothing where so
    many pages would not stay near, or it is not to be ``far`` on (``turning`` is for these)."""
    out: list[Ahead] = []
    for v in _in_runs(operand, along, over, size):
        form, run = v.attr.form, max(1, hint(along.extent)) * v.dtype.itemsize
        rows = -(-PAGE // (together * run)) * together
        if (together > 1 or run < PAGE) and rows * run < NEAR:
            moved = form.coefficient(over) * rows
        elif far and together * PAGE < NEAR:
            moved = PAGE // v.dtype.itemsize
        else:
            continue
        out.append(Ahead(v.attr.slot, form + moved, v.dtype, "run"))
    return out


def turning(operand: Val, along: Var, over: Var, size: Dim, together: int,
            far: bool = True) -> list[Ahead]:
    """What is asked for, at other places of the two variables, where ``coming`` asks for nothing
    because it would be too far on: the runs a little further on, and past their ends the first
    elements of those that are read next."""
    if coming(operand, along, over, size, together, far):
        return []
    return [Ahead(v.attr.slot, v.attr.form, v.dtype, "run")
            for v in _in_runs(operand, along, over, size)]


def later(operand: Val, along: Var, over: Var, size: Dim) -> list[Ahead]:
    """What is asked for, at other places of the two variables, while something else is read: an
    operand that is read in runs after it, which no hardware knows of yet."""
    return [Ahead(v.attr.slot, v.attr.form, v.dtype, "read")
            for v in _in_runs(operand, along, over, size)]


def below(values: Sequence[Val], writes: Sequence[Write], along: Var, over: Var,
          rows: int) -> list[Ahead]:
    """What a row of results, of these values, reads and writes along one variable so many rows on
    over the other: a row takes so long to compute that all of it has come by then."""
    found = [Ahead(v.attr.slot, v.attr.form, v.dtype, "read") for v in values
             if v.op == "load" and not v.attr.guards]
    found += [Ahead(w.slot, w.form, w.value.dtype, "write") for w in writes if not w.guards]
    return [replace(a, form=a.form + a.form.coefficient(over) * rows) for a in dict.fromkeys(found)
            if a.form.coefficient(along) == 1 and a.form.coefficient(over) != 0
            and all(isinstance(v, Var) for v in a.form.terms)
            and _span(a.form) * a.dtype.itemsize >= FAR]


def _span(form: Form) -> int:
    """How many elements lie from the first to the last place of variables."""
    return 1 + sum(abs(hint(k)) * (hint(v.extent) - 1) for v, k in form.terms.items()
                   if isinstance(v, Var))


def _in_runs(operand: Val, along: Var, over: Var, size: Dim) -> list[Val]:
    """What an operand reads, of buffers that may be far away, in runs along one variable."""
    return [v for v in reachable([operand])
            if v.op == "load" and not v.attr.guards and hint(size) * v.dtype.itemsize >= FAR
            and v.attr.form.coefficient(along) == 1 and v.attr.form.coefficient(over) != 0
            and all(isinstance(a, Var) for a in v.attr.form.terms)]


def _touched(p: Loop, buffers: Buffers) -> list[Ahead]:
    """What a pass reads or writes along it, of buffers that may be far away, where it does so."""
    found: list[Ahead] = []
    for s in p.body:
        if isinstance(s, Let) and s.value.op == "load" and not s.value.attr.guards:
            form = _whole_row(s.value.attr.form, p.var)
            found.append(Ahead(s.value.attr.slot, form, s.value.dtype, "read"))
        elif isinstance(s, Store) and not _turned(s) and not s.write.guards:
            w = s.write
            found.append(Ahead(w.slot, w.form, w.value.dtype, "write", s.past))
    return [a for a in found if hint(buffers[a.slot][1]) * a.dtype.itemsize >= FAR
            and follows(a.form, p.var)]


def _whole_row(form: Form, along: Var) -> Form:
    """Where a loop over a row reads that form; if it gathers from a row as long, all of that one is
    read, in whatever order."""
    for a, k in form.terms.items():
        if isinstance(a, Gathered) and a.clamped and a.extent == along.extent and k == 1:
            return form + Form(0, {a: -1}) + variable(along)
    return form


def _turned(s: Store) -> bool:
    return s.past is not None and s.past.comes is Comes.TURNED
