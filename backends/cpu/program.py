"""Programs: the stages of a plan's kernels as steps that the runtime runs in one foreign call."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import accumulate

from tegg.dim import Dim, Poly
from tegg.kernel.code import KernelCode
from tegg.planning.plan import Call

from .block import Block
from .pieces import pieces
from .runtime import runtime


@dataclass(frozen=True, slots=True)
class Step:
    """One stage of one kernel on the program's buffers, or a copy if ``function`` is None."""

    function: str | None
    buffers: tuple[int, ...]
    reads: frozenset[int]
    writes: frozenset[int]
    parallel: bool = True
    sizes: tuple[int, ...] | None = None  # numbers of the program's symbols; None: all, in order
    bytes: Dim = 0                        # of a copy
    call: int = -1                        # the call of the plan that it is part of
    given: tuple[Dim, ...] = ()           # sizes that the function takes instead
    barrier: bool = False                 # all threads finish what came before first
    pieces: int = 1                       # calls that a thread's share is cut into
    streams: bool = False                 # reads what no cache holds: in order, from the first on
    offsets: tuple[int, ...] = ()         # bytes by which buffers begin later; (): none does


def steps_of(kernels: Sequence[KernelCode], calls: Sequence[Call],
             symbols: Sequence[str], serial: float = 0.0,
             far: AbstractSet[int] = frozenset()) -> list[Step]:
    """The steps of a plan's calls. ``symbols``: the order in which a run is given the sizes;
    ``serial``: seconds below which one thread does a kernel before others have heard of it;
    ``far``: buffers that come from memory where they are read."""
    steps = []
    for number, call in enumerate(calls):
        kernel = kernels[call.kernel]
        sizes = tuple(symbols.index(s) for s in kernel.symbols)
        tiny = not kernel.symbolic and 0 < call.seconds < serial
        taken = kernel.takes or range(len(call.buffers))
        takes = tuple(call.buffers[b] for b in taken)
        offsets = tuple(call.offsets[b] for b in taken) if call.offsets else ()
        for i in call.stages:
            stage = kernel.stages[i]
            reads = frozenset(call.buffers[b] for b in stage.reads)
            steps.append(Step(
                stage.function, takes, reads,
                frozenset(call.buffers[b] for b in stage.writes), stage.parallel and not tiny,
                None if sizes == tuple(range(len(sizes))) else sizes, 0, number, kernel.given,
                pieces=pieces(call.seconds / len(call.stages)) if stage.divisible else 1,
                streams=not reads.isdisjoint(far), offsets=offsets))
    return steps


def copy_step(source: int, to: int, nbytes: Dim) -> Step:
    """A copy of ``nbytes`` between buffers."""
    return Step(None, (source, to), frozenset({source}), frozenset({to}), bytes=nbytes)


def with_barriers(steps: Sequence[Step], shared: AbstractSet[int]) -> list[Step]:
    """The steps with a barrier before each that needs one.

    A step waits where it touches what an earlier one wrote, or writes what an earlier one touched,
    since the last barrier; and stages of one call wait for one another. ``shared`` are buffers
    that may lie in the same memory as other shared ones whose values are dead by then: writing
    one waits for every access to another. Steps that only thread 0 runs are in order anyway.
    """
    out: list[Step] = []
    since: list[Step] = []
    for step in steps:
        wait = any(_conflict(before, step, shared) for before in since)
        since = [step] if wait else [*since, step]
        out.append(replace(step, barrier=wait))
    return out


def _conflict(before: Step, step: Step, shared: AbstractSet[int]) -> bool:
    if not before.parallel and not step.parallel:
        return False
    touched = before.reads | before.writes
    alias = (step.writes & shared) and (touched & shared) - step.writes
    return bool(touched & step.writes or before.writes & step.reads or alias
                or before.call == step.call >= 0)


def encoded(dim: Dim, symbols: Sequence[str]) -> list[int]:
    """A dim as the stream that ``rt_evaluate`` reads."""
    terms = dim.terms.items() if isinstance(dim, Poly) else [((), dim)]
    out = [len(terms)]
    for factors, coefficient in terms:
        out += [coefficient, len(factors), *(symbols.index(s.name) for s in factors)]
    return out


class _Step(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("buffers", ctypes.c_void_p),
                ("offsets", ctypes.c_void_p), ("sizes", ctypes.c_void_p),
                ("given", ctypes.c_void_p),
                ("derived", ctypes.c_void_p), ("bytes", ctypes.c_void_p),
                ("buffer_count", ctypes.c_int32), ("size_count", ctypes.c_int32),
                ("serial", ctypes.c_int32), ("barrier", ctypes.c_int32),
                ("pieces", ctypes.c_int32), ("number", ctypes.c_int32),
                ("backwards", ctypes.c_int32)]


class _Program(ctypes.Structure):
    _fields_ = [("steps", ctypes.c_void_p), ("step_count", ctypes.c_int32),
                ("most_buffers", ctypes.c_int32), ("most_sizes", ctypes.c_int32),
                ("shared", ctypes.c_int32)]


class Program:
    """Steps in the form that the runtime reads. ``run`` may be called from several threads.

    calls: for each step the call of the plan that it is part of, or -1. shared: how many of them
    threads share.
    """

    def __init__(self, steps: Sequence[Step], functions: Mapping[str, int],
                 symbols: Sequence[str]) -> None:
        self.calls, self.symbols = tuple(s.call for s in steps), tuple(symbols)
        self._block = Block()
        shared = list(accumulate((s.parallel for s in steps), initial=0))
        self.shared = shared[-1]
        self._program = _Program(
            self._block.structures([self._step(s, functions, number)
                                    for s, number in zip(steps, shared)]), len(steps),
            max((len(s.buffers) for s in steps), default=0),
            max((max(len(s.sizes or ()), len(s.given)) for s in steps), default=0), shared[-1])
        self.address = ctypes.addressof(self._program)
        self._run = runtime().free.rt_run_program

    def _step(self, s: Step, functions: Mapping[str, int], number: int) -> _Step:
        block = self._block
        known = [n for n in s.given if isinstance(n, int)]
        derived = [block.int64s(encoded(n, self.symbols))
                   for n in s.given] if len(known) < len(s.given) else []
        return _Step(
            None if s.function is None else functions[s.function], block.int32s(s.buffers),
            block.int64s(s.offsets) if any(s.offsets) else None,
            None if s.sizes is None else block.int32s(s.sizes),
            block.int64s(known) if s.given and not derived else None,
            block.pointers(derived) if derived else None,
            block.int64s(encoded(s.bytes, self.symbols)),
            len(s.buffers), len(derived) or len(s.sizes or ()), not s.parallel, s.barrier,
            s.pieces, number, number % 2 and not s.streams)

    def run(self, buffers: ctypes.Array, sizes: ctypes.Array, threads: int) -> None:
        """Run on a table of pointers and one of sizes."""
        self._run(self.address, buffers, sizes, threads, None)

    def profile(self, buffers: ctypes.Array, sizes: ctypes.Array, threads: int) -> list[float]:
        """Run with a barrier around every step; the seconds of each."""
        seconds = (ctypes.c_double * max(1, len(self.calls)))()
        self._run(self.address, buffers, sizes, threads, seconds)
        return list(seconds)[:len(self.calls)]
