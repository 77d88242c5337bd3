"""Conversions to 16 bits that only stores read are left to them, since a store rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tegg.kernel.loops import Accumulate, Block, Keep, Let, Loop, Stmt, Store, walk


def left_to_stores(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The tree with such conversions marked."""
    stored: set[int] = set()
    used: set[int] = set()
    for s, _ in walk(stmts):
        if isinstance(s, Store) and s.write.mode == "store":
            stored.add(s.write.value.id)
            used.update(v.id for v in s.write.needs() if v is not s.write.value)
        elif isinstance(s, Keep):
            used.add(s.value.id)
        elif isinstance(s, (Let, Accumulate)):
            used.update(v.id for v in s.needs())
        elif isinstance(s, Store):
            used.update(v.id for v in s.write.needs())
    return _marked(stmts, stored - used)


def _marked(stmts: Sequence[Stmt], alone: set[int]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in stmts:
        if isinstance(s, (Loop, Block)):
            s = replace(s, body=_marked(s.body, alone))
        elif isinstance(s, Let) and s.value.id in alone and _narrows(s):
            s = replace(s, stored=True)
        out.append(s)
    return tuple(out)


def _narrows(s: Let) -> bool:
    v = s.value
    return v.op == "Cast" and v.dtype.is_float and v.dtype.itemsize == 2
