"""Multiply-adds: a float product that only one sum uses is computed inside of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tegg.kernel.loops import Accumulate, Block, Keep, Let, Loop, Stmt, Store, walk
from tegg.kernel.value import Val


def fuse(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The tree with products moved into the sums beside them.

    The printer spells the result out, so that a value never depends on what a compiler happened
    to contract, and equal code gives equal bits in main loops, tails and other kernels.
    """
    return _block(stmts, _uses(stmts))


def _uses(stmts: Sequence[Stmt]) -> Counter[int]:
    uses: Counter[int] = Counter()
    for s, _ in walk(stmts):
        if isinstance(s, Let):
            uses.update(a.id for a in s.value.args)
        elif isinstance(s, Accumulate):
            uses[s.term.id] += 1
        elif isinstance(s, Keep):
            uses[s.value.id] += 1
        elif isinstance(s, Store):
            uses.update(v.id for v in s.write.needs())
    return uses


def _block(stmts: Sequence[Stmt], uses: Counter[int]) -> tuple[Stmt, ...]:
    here = {s.value.id: s.value for s in stmts if isinstance(s, Let) and s.value.op == "Mul"
            and s.value.dtype.is_float and uses[s.value.id] == 1}
    gone: set[int] = set()
    out: list[Stmt] = []
    for s in stmts:
        if isinstance(s, (Loop, Block)):
            s = replace(s, body=_block(s.body, uses))
        elif isinstance(s, Let) and s.value.op == "Add":
            s = Let(s.value, _product(s.value.args, here, gone))
        elif isinstance(s, Accumulate) and s.value.attr.kind == "sum" and s.value.dtype.is_float:
            s = replace(s, fused=_product((s.term,), here, gone))
        out.append(s)
    return tuple(s for s in out if not (isinstance(s, Let) and s.value.id in gone))


def _product(operands: Sequence[Val], here: dict[int, Val], gone: set[int]) -> Val | None:
    """The operand that is a product of this block's own, which then needs no place."""
    for v in operands:
        if v.id in here and v.id not in gone:
            gone.add(v.id)
            return v
    return None
