"""Small operands that rows read again and again, of which each thread has a copy that begins where
a cache line does.

Where an operand begins is its owner's affair. A vector that lies across two lines is read as two
parts, and rows that begin between lines cost as much again; the copy saves one of the two. Of
halves the copy is float32, so that they are widened once and not for each row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tegg.dim import hint
from tegg.dtype import DType, f32
from tegg.kernel.index import Var
from tegg.kernel.loops import Let, Loop, Stmt, Turn, walk, writes
from tegg.kernel.rows import Buffers, follows

MOST = 1 << 14  # bytes of the copies of a kernel: a first cache has room for them and for a row
AGAIN = 256     # times that each element is read, of which threads share the copy's cost


def lined(body: Sequence[Stmt], buffers: Buffers) -> Mapping[int, int]:
    """The slots to copy and the bytes of each copy."""
    written = {w.slot for w in writes(body)}
    turned = {s.value.attr.slot for s, _ in walk(body) if isinstance(s, Turn)}
    times: dict[int, int] = {}
    for s, around in walk(body):
        if isinstance(s, Let) and s.value.op == "load" and around and around[-1].vector:
            load = s.value.attr
            if load.slot not in written and follows(load.form, around[-1].var):
                times[load.slot] = max(times.get(load.slot, 0), _times(load.form.vars(), around))
    found: dict[int, int] = {}
    for slot, n in sorted(times.items()):
        dtype, size = buffers[slot]
        wide = is_half(dtype)
        if n >= AGAIN and isinstance(size, int) and not (wide and slot in turned):
            nbytes = size * (f32 if wide else dtype).itemsize
            if sum(found.values()) + nbytes <= MOST:
                found[slot] = nbytes
    return found


def is_half(dtype: DType) -> bool:
    """Whether a copy is wider than what is copied."""
    return dtype.is_float and dtype.itemsize < f32.itemsize


def _times(vars: frozenset[Var], around: Sequence[Loop]) -> int:
    """How often loops come to the same element: the iterations of those that it does not depend on,
    nor through what they leave to a loop inside."""
    left = {loop.part for loop in around} | {loop.strip.var for loop in around if loop.strip}
    return math.prod(hint(loop.var.extent) for loop in around
                     if loop.var not in vars and loop.var not in left)
