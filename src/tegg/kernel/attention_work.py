"""What an attention in one kernel executes, and the memory that it moves."""

from __future__ import annotations

from collections.abc import Iterable

from tegg.dim import hint
from tegg.ir.template import SOFTMAX
from tegg.kernel.attention_classify import Attention
from tegg.kernel.code import Temporary, Work
from tegg.kernel.domain import spread
from tegg.kernel.flops import flops
from tegg.kernel.work import bytes_read, bytes_written


def attention_work(a: Attention, aside: Iterable[Temporary] = ()) -> Work:
    """Both products and the softmax between them; every operand is read once, and what is set
    ``aside`` for a second kernel written and read."""
    batch, m, n = (hint(spread(v)) for v in (a.second.batch, a.second.m, a.second.groups[0].n))
    keys, depth = hint(a.second.depth), hint(a.first.depth)
    scores = batch * m * keys
    each = SOFTMAX + flops(a.scores, frozenset(), frozenset({a.product.id}))
    read = bytes_read(a.read, a.first.propagation.graph)
    moved = sum(hint(t.size) * t.dtype.itemsize for t in aside)
    return Work(int(scores * (2 * depth + 2 * n + each)), int(scores * (depth + n)), read + moved,
                bytes_written(a.second.writes) + moved)
