"""Kernels that compute in 64 bits, for which half as many lanes fill a register.

A vector has as many lanes as a register has floats, so one of float64 is two registers wide. A
compiler that has no such registers keeps sums of them in memory: a sum of int64 took four times as
long on AVX2 as with vectors of one register.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Accumulate, Let, Loop, Stmt, vector_of, walk
from tegg.kernel.value import Val
from tegg.kernel.work import executions

_WIDE = 8  # bytes of a value of which half as many lanes fill a register
_FREE = ("const", "index", "cond", "size", "red")


@dataclass(slots=True)
class Widths:
    """Operations on vectors of 64-bit values and of narrower ones, by how often they are executed.
    against: whether fewer lanes are worse than many for another reason."""

    wide: float = 0.0
    narrow: float = 0.0
    against: bool = False

    @property
    def halved(self) -> bool:
        """Whether half as many lanes are better."""
        return self.wide > 0 and self.wide >= self.narrow and not self.against

    def add(self, body: Sequence[Stmt], lanes: Lanes) -> None:
        """Count a tree. An instruction gathers as many elements as a vector has lanes, and lanes
        along a running sum are joined at once."""
        for s, around in walk(body):
            loop = vector_of(around)
            if loop is None or not isinstance(s, (Let, Accumulate)) or not _follows(s, loop):
                continue
            v = s.value
            self.against |= _running(v, loop) or _gathered(v, loop, lanes)
            if v.op not in _FREE or isinstance(s, Accumulate):
                times = executions(around, False, lanes.width)
                if v.dtype.itemsize == _WIDE:
                    self.wide += times
                else:
                    self.narrow += times


def _follows(s: Let | Accumulate, loop: Loop) -> bool:
    """Whether it is done in each lane."""
    return isinstance(s, Accumulate) or loop.var in s.value.deps


def _running(v: Val, loop: Loop) -> bool:
    return v.op == "scan" and loop.var in v.attr.vars


def _gathered(v: Val, loop: Loop, lanes: Lanes) -> bool:
    return v.op == "load" and lanes.coefficient(v.attr.form, loop.var) not in (1, -1)
