"""A plan on the GPU: its kernels loaded, its arrays in two Metal buffers, or where files map them.

One buffer holds what stays from run to run, weights and what is computed from them; the other the
arena, arguments and results. The host sees both, so arguments are copied into place. A device hands
kernels each array at its place in them, or whole buffers, and kernels know where in them their
arrays lie (``Msl.head``). Weights and arguments that lie in maps of files are read there, where the
device takes maps over.
"""

from __future__ import annotations

import ctypes
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from mmap import mmap
from typing import Any

import numpy as np

from tegg.dim import Dim, Symbol, symbols
from tegg.mapped import mapped
from tegg.planning.plan import ALIGN, Call, Plan
from tegg.planning.target import ArraySpec

from .driver import Dispatch, Gpu, prelude
from .hazards import Place

_MAPS_KEPT = 16   # maps of files whose buffers are kept for arguments that come again
WIDEST = 16       # bytes that a thread moves at once, to where they divide the address
_SIZES_KEPT = 16  # combinations of sizes whose starts are kept


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a function: how many blocks, the buffer of its numbers, and the arrays that it
    touches: numbers of buffers, the first of their bytes and how many, and whether they may be
    written."""

    function: Any
    blocks: int
    given: Any
    arrays: tuple[tuple[int, int, int, bool], ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan at sizes: where each buffer lies in its Metal buffer, and the starts of each call."""

    offsets: Mapping[int, int]
    peak: int
    calls: tuple[tuple[Start, ...], ...]


class Loaded:
    """A plan whose kernels are loaded. Runs of it wait for one another.

    Addresses that it is given are of the host, and those of the arena are not used.
    """

    def __init__(self, plan: Plan, device: Gpu) -> None:
        self.plan, self._device = plan, device
        self._source = "\n".join([prelude(), *(k.source for k in plan.kernels)])
        names = [s.function for k in plan.kernels for s in k.stages]
        with device.current():
            self._functions = device.load(self._source, names)
            self._memory = device.allocate(ALIGN)
        self._sized = {i for i, b in enumerate(plan.buffers)  # weights that go along each time
                       if b.kind == "weight" and symbols(b.size)}
        self._lasting = [i for i, b in enumerate(plan.buffers)
                         if b.kind in ("weight", "ahead") and i not in self._sized]
        self._stays, self._size = self._stack(self._lasting, {}, 0)
        self._maps: dict[int, tuple[mmap, Any]] = {}  # by the address of a map: its own buffer
        self._resting: dict[int, Place] = {}  # weights that are read where a file is mapped
        self._fixed = self._memory  # until weights are taken
        self._placed: OrderedDict[tuple[int, ...], Placed] = OrderedDict()
        self._written = self._changed()
        self._moved = self._written | {i for pair in (*plan.before, *plan.after) for i in pair}

    def _changed(self) -> set[int]:
        """Buffers that a run writes."""
        out = {to for _, to in (*self.plan.before, *self.plan.after)}
        for call in self.plan.run:
            for s in call.stages:
                out |= {call.buffers[w] for w in self.plan.kernels[call.kernel].stages[s].writes}
        return out

    # ---- where things lie
    def _stack(self, which: Iterable[int], sizes: Mapping[str, int],
               at: int) -> tuple[dict[int, int], int]:
        """Offsets of buffers one behind the other, and the end of the last."""
        out = {}
        for i in which:
            out[i] = at
            at += -(-max(1, self.plan.buffers[i].bytes(sizes)) // ALIGN) * ALIGN
        return out, at

    def _place(self, sizes: Sequence[int]) -> Placed:
        """The plan at sizes, kept from the last run at them."""
        key = tuple(sizes)
        if key in self._placed:
            self._placed.move_to_end(key)
            return self._placed[key]
        named = dict(zip(self.plan.symbols, key))
        layout = self.plan.layout(named)
        offsets = {i: layout.offsets.get(i, 0) for i, b in enumerate(self.plan.buffers)
                   if b.kind == "arena"}
        lasting = frozenset(self._lasting)
        more, peak = self._stack((i for i, b in enumerate(self.plan.buffers)
                                  if i not in offsets and i not in lasting), named, layout.peak)
        offsets.update(more)
        made = Placed(offsets, peak, tuple(self._starts(c, offsets, named) for c in self.plan.run))
        self._placed[key] = made
        if len(self._placed) > _SIZES_KEPT:
            self._placed.popitem(last=False)
        return made

    def _starts(self, call: Call, offsets: Mapping[int, int],
                sizes: Mapping[str, int]) -> tuple[Start, ...]:
        kernel, out = self.plan.kernels[call.kernel], []
        for i in call.stages:
            stage = kernel.stages[i]
            assert stage.launch is not None, f"{stage.function} was not lowered for blocks"
            blocks = stage.launch.blocks(sizes, self._device.most_blocks)
            places = [(call.buffers[b], call.offsets[b] if call.offsets else 0)
                      for b in stage.launch.buffers]
            where = () if self._device.bound else (
                ~(self._stays[b] + at) if b in self._stays else offsets[b] + at
                for b, at in places)
            numbers = [0, *where, *(sizes[s] for s in kernel.symbols)]
            if blocks:
                given = self._device.allocate(8 * len(numbers))
                self._device.bytes(given)[:8 * len(numbers)].view(np.int64)[...] = numbers
                arrays = tuple((b, at, self.plan.buffers[b].bytes(sizes) - at,
                                slot in stage.writes)
                               for (b, at), slot in zip(places, stage.launch.buffers))
                out.append(Start(self._functions[stage.function], blocks, given, arrays))
        return tuple(out)

    # ---- runs
    def run_ahead(self, buffers: Any, sizes: Any) -> None:
        """Take the weights, and run the calls that depend on them only."""
        with self._device.current():
            self._maps, weights = {}, [i for i in self._lasting
                                       if self.plan.buffers[i].kind == "weight"]
            found = {i: self._mapped(buffers[i], self.plan.buffers[i].bytes({}))
                     for i in weights if i not in self._moved}
            self._resting = {i: p for i, p in found.items() if p is not None}
            self._stays, self._size = self._stack(
                (i for i in self._lasting if i not in self._resting), {}, 0)
            self._fixed = self._device.allocate(self._size)
            view = self._device.bytes(self._fixed)
            for i in weights:
                if i in self._stays:
                    at, n = self._stays[i], self.plan.buffers[i].bytes({})
                    view[at:at + n] = _host(buffers[i], n)
            self._run([s for c in self.plan.ahead for s in self._starts(c, {}, {})], {}, {})

    def _mapped(self, address: int, nbytes: int) -> Place | None:
        """Bytes of the host as the device can read them without a copy: where they lie in a map of
        a file, aligned as kernels move them."""
        found = mapped(int(address), nbytes) if self._device.bound and nbytes else None
        if found is None or int(address) % WIDEST:
            return None
        pages, at = found
        start = int(address) - at
        if start not in self._maps:
            self._maps[start] = pages, self._device.adopt(pages)
            if len(self._maps) > _MAPS_KEPT:
                del self._maps[next(iter(self._maps))]
        buffer = self._maps[start][1]
        return None if buffer is None else Place(buffer, at, nbytes)

    def run(self, buffers: Any, sizes: Any) -> None:
        with self._device.current():
            placed, read = self._given(buffers, sizes)
            self._run([s for c in placed.calls for s in c], placed.offsets, read)
            self._taken(buffers, sizes, placed)

    def profile(self, buffers: Any, sizes: Any) -> list[float]:
        """Seconds of each call with the wait for it, by the host's clock."""
        with self._device.current():
            (placed, read), out = self._given(buffers, sizes), []
            for starts in placed.calls:
                begin = time.perf_counter()
                self._run(starts, placed.offsets, read)
                out.append(time.perf_counter() - begin)
            self._taken(buffers, sizes, placed)
            return out

    def _run(self, starts: Iterable[Start], offsets: Mapping[int, int],
             read: Mapping[int, Place]) -> None:
        """Start kernels. read: arguments that lie where they are mapped."""
        def place(i: int, at: int, nbytes: int, written: bool) -> Place:
            rests = read.get(i) or self._resting.get(i)
            if rests is not None:
                return replace(rests, offset=rests.offset + at, nbytes=nbytes)
            stays = i in self._stays
            return Place(self._fixed if stays else self._memory,
                         (self._stays[i] if stays else offsets[i]) + at, nbytes, written)

        whole = (Place(self._fixed), Place(self._memory))
        self._device.run([Dispatch(s.function, s.blocks, (
            *((place(*a) for a in s.arrays) if self._device.bound else whole), Place(s.given)))
            for s in starts])

    def _given(self, buffers: Any, sizes: Any) -> tuple[Placed, dict[int, Place]]:
        """Arguments are copied to where kernels read them, but for those that lie in maps."""
        placed = self._place([int(sizes[i]) for i in range(len(self.plan.symbols))])
        if len(self._memory_bytes()) < placed.peak:
            self._memory = self._device.allocate(placed.peak)
        read = {}
        for i, b in enumerate(self.plan.buffers):
            if b.kind == "input" or i in self._sized:
                view = self._view(i, sizes, placed)
                rests = None if i in self._moved else self._mapped(buffers[i], view.size)
                if rests is None:
                    view[...] = _host(buffers[i], view.size)
                else:
                    read[i] = rests
        self._copies(self.plan.before, sizes, placed)
        return placed, read

    def _taken(self, buffers: Any, sizes: Any, placed: Placed) -> None:
        """Results, and arguments that were changed, are copied back."""
        self._copies(self.plan.after, sizes, placed)
        for i, b in enumerate(self.plan.buffers):
            if b.kind in ("input", "output") and i in self._written:
                view = self._view(i, sizes, placed)
                _host(buffers[i], view.size)[...] = view

    def _copies(self, pairs: Sequence[tuple[int, int]], sizes: Any, placed: Placed) -> None:
        for source, to in pairs:
            self._view(to, sizes, placed)[...] = self._view(source, sizes, placed)

    def _memory_bytes(self) -> np.ndarray:
        return self._device.bytes(self._memory)

    def _view(self, i: int, sizes: Any, placed: Placed) -> np.ndarray:
        """The bytes of a buffer of the plan."""
        named = {name: int(sizes[k]) for k, name in enumerate(self.plan.symbols)}
        n, stays = self.plan.buffers[i].bytes(named), i in self._stays
        at = self._stays[i] if stays else placed.offsets[i]
        return (self._device.bytes(self._fixed) if stays else self._memory_bytes())[at:at + n]

    # ---- what else an executable is asked
    def source(self) -> str:
        return self._source

    def caller(self, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec],
               symbols: Sequence[Symbol], claims: Sequence[Dim]) -> None:
        """There is no call path past Python."""

    def prepare(self, caller: Any, buffers: Any, keep: object, sizes: Sequence[int]) -> None:
        """Nobody asks: there is no caller."""

    def bound(self, buffers: Any, sizes: Sequence[int], keep: object) -> Callable[[], None]:
        def run(held: object = keep) -> None:
            self.run(buffers, sizes)
        return run


def _host(address: int, nbytes: int) -> np.ndarray:
    """Bytes of the host at an address."""
    if not nbytes:
        return np.empty(0, np.uint8)
    return np.frombuffer((ctypes.c_char * nbytes).from_address(int(address)), np.uint8)
