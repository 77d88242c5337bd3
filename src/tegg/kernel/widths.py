"""Kernels that compute in 64 bits, and kernels that compute in bytes: other numbers of lanes.

A vector has as many lanes as a register has floats, so one of float64 is two registers wide. A
compiler that has no such registers keeps sums of them in memory: a sum of int64 took four times as
long on AVX2 as with vectors of one register. One of bytes is a quarter of a register, and a mask
for it, of 32 bits a lane, four times as wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tegg.kernel.lane import Lanes
from tegg.kernel.loops import (
    Accumulate, Fetch, Keep, Let, Loop, Rest, Stmt, Store, Turn, Weave, vector_of, walk)
from tegg.kernel.value import Val
from tegg.kernel.work import executions

_WIDE = 8  # bytes of a value of which half as many lanes fill a register
_FREE = ("const", "index", "cond", "size", "red")
_MOVED = (Fetch, Keep, Rest, Turn, Weave)  # by way of scratch, whose layout goes by lanes


@dataclass(slots=True)
class Widths:
    """Operations on vectors of 64-bit values, of bytes, and of what is between, by how often they
    are executed. against: whether fewer lanes are worse than many for another reason. apart:
    whether lanes are not all of what lies side by side."""

    wide: float = 0.0
    narrow: float = 0.0
    small: float = 0.0
    against: bool = False
    apart: bool = False

    @property
    def halved(self) -> bool:
        """Whether half as many lanes are better."""
        return self.wide > 0 and self.wide >= self.narrow + self.small and not self.against

    @property
    def bytes(self) -> bool:
        """Whether lanes of bytes are better."""
        return self.small > 0 and self.wide == self.narrow == 0 and not self.apart

    def add(self, body: Sequence[Stmt], lanes: Lanes) -> None:
        """Count a tree. An instruction gathers as many elements as a vector has lanes, and lanes
        along a running sum are joined at once."""
        for s, around in walk(body):
            self.apart |= isinstance(s, _MOVED)
            loop = vector_of(around)
            if loop is None:
                continue
            self.apart |= isinstance(s, Store) and _scattered(s, loop, lanes)
            if not isinstance(s, (Let, Accumulate)) or not _follows(s, loop):
                continue
            v = s.value
            self.against |= _running(v, loop) or _gathered(v, loop, lanes)
            self.apart |= v.op in ("index", "cond", "scan") or _gathered(v, loop, lanes)
            if v.op not in _FREE or isinstance(s, Accumulate):
                times = executions(around, False, lanes.width)
                if v.dtype.itemsize == _WIDE:
                    self.wide += times
                elif v.dtype.itemsize == 1:
                    self.small += times
                else:
                    self.narrow += times


def _follows(s: Let | Accumulate, loop: Loop) -> bool:
    """Whether it is done in each lane."""
    return isinstance(s, Accumulate) or loop.var in s.value.deps


def _running(v: Val, loop: Loop) -> bool:
    return v.op == "scan" and loop.var in v.attr.vars


def _gathered(v: Val, loop: Loop, lanes: Lanes) -> bool:
    return v.op == "load" and lanes.coefficient(v.attr.form, loop.var) not in (1, -1)


def _scattered(s: Store, loop: Loop, lanes: Lanes) -> bool:
    """Whether the lanes of a result are stored one by one."""
    return (any(loop.var in f.vars() for f in s.write.forms())
            and lanes.coefficient(s.write.form, loop.var) != 1)
