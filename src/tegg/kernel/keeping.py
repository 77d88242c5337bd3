"""Where values of a row stay between passes over it: forms, and their cost for a multiprocessor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

_PLAIN = 40      # registers of a thread beside those that keep values
_THREADS = 256   # of a block
_ASIDE = 1024    # bytes of shared memory that a block takes beside rows
_FLIGHT = 32     # bytes that a thread has asked for at a time: two of the widest accesses


@dataclass(frozen=True, slots=True)
class Row:
    """Passes over one row, of one thread: so many ``turns``, each for ``count`` neighbours.

    live: registers of 32 bits that what is kept takes at a time, of one neighbour. Bytes, of one
    turn: ``each`` that it takes in shared memory, ``first`` that passes read, ``again`` that later
    ones read where nothing is kept, ``moved`` to shared memory and back where it is kept there.
    room: bytes of shared memory that a thread may have. most, some: values that registers keep
    where all of the row stays, and else.
    """

    turns: int
    count: int
    live: int
    each: int
    first: int
    again: int
    moved: int
    room: int
    most: int
    some: int


@dataclass(frozen=True, slots=True)
class Kept:
    """``turns`` of a thread keep what they make in registers, ``beyond`` more in shared memory, and
    any others do it again; whole: there are none."""

    turns: int
    beyond: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Keeping:
    """A multiprocessor: what it has for rows, and what their bytes cost it in seconds.

    registers: of 32 bits; shared: bytes of its blocks' memory, of which one block has ``most``;
    blocks: at a time. far: to read a byte of memory; near: one of the cache of all multiprocessors,
    of which it has ``cache`` bytes; own: to move one to or from memory of the block. flight: bytes
    that must be under way for memory to be as fast as that. overlap: the share of the shorter of
    both times that hides behind the longer one.
    """

    registers: int
    shared: int
    most: int
    blocks: int
    far: float
    near: float
    cache: float
    own: float
    flight: float
    overlap: float

    def cheapest(self, row: Row) -> Kept:
        """The form of least cost; of equal ones that with least shared memory, and registers."""
        return min(self.forms(row), key=lambda k: (self.seconds(row, k), k.beyond, k.turns))

    def forms(self, row: Row) -> Iterator[Kept]:
        """Registers for all, where they hold it; registers and what shared memory leaves each of
        one, two or more blocks; some registers; nothing."""
        most, some = (min(row.turns, n // (row.count * row.live)) for n in (row.most, row.some))
        yield Kept(0, 0, False)
        for turns in {most, some}:
            if turns and (turns == some or turns == row.turns):
                yield Kept(turns, 0, turns == row.turns)
            for blocks in range(1, self.blocks + 1):
                had = self.most // _THREADS - row.room  # by other passes of the kernel
                fits = min(row.room, (self.shared // blocks - _ASIDE) // _THREADS - had) // row.each
                beyond = min(row.turns - turns, fits)
                whole = turns + beyond == row.turns
                if turns and beyond > 0 and (whole or turns == some):
                    yield Kept(turns, beyond, whole)

    def seconds(self, row: Row, k: Kept) -> float:
        """What a thread's share of a row costs in one of the forms."""
        at_once = self.at_once(row, k)
        if not at_once:
            return math.inf
        left = row.turns - k.turns - k.beyond
        rows = at_once * row.turns * row.first * _THREADS
        again = self.near if rows <= self.cache else self.far
        busy = min(1.0, at_once * _THREADS * _FLIGHT / self.flight)
        memory = (row.turns * row.first * self.far + left * row.again * again) / busy
        own = k.beyond * row.moved * self.own
        return max(memory, own) + (1.0 - self.overlap) * min(memory, own)

    def at_once(self, row: Row, k: Kept) -> int:
        """How many blocks a multiprocessor has room for."""
        registers = (_PLAIN + k.turns * row.count * row.live) * _THREADS
        shared = k.beyond * row.each * _THREADS + _ASIDE
        return min(self.blocks, self.registers // registers, self.shared // shared)
