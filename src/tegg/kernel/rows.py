"""Rows: the passes that a loop goes over each of them in, and what lies along them."""

from __future__ import annotations

from collections.abc import Mapping

from tegg.dim import Dim
from tegg.dtype import DType
from tegg.kernel.index import Form, Var
from tegg.kernel.loops import Let, Loop, walk

Buffers = Mapping[int, tuple[DType, Dim]]  # slot -> dtype and number of elements


def passes(rows: Loop) -> list[tuple[int, Loop]]:
    """The vector loops of a loop's body, each with its place there."""
    return [(i, p) for i, p in enumerate(rows.body) if isinstance(p, Loop) and p.vector]


def follows(form: Form, var: Var) -> bool:
    """Whether memory is walked element by element where a variable grows."""
    return form.coefficient(var) == 1 and all(isinstance(a, Var) for a in form.terms)


def dearest(rows: Loop) -> int:
    """The pass in which most is computed: its number among ``passes``."""
    found = [cost(p) for _, p in passes(rows)]
    return max(range(len(found)), key=lambda i: found[i])


def cost(p: Loop) -> float:
    """Operations of one iteration."""
    return sum(s.value.cost for s, _ in walk(p.body) if isinstance(s, Let))
