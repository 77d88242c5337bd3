"""What lowering hands to a plan: C-family source of one kernel and how to call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tegg.dim import Dim, evaluate
from tegg.dtype import DType
from tegg.kernel.gemm import Gemm
from tegg.kernel.packed import Packed, altered


@dataclass(frozen=True, slots=True)
class Temporary:
    """Memory that a kernel needs while it runs, shared between threads: ``size`` elements.

    unit: it is used in whole units, and no more of them than ``size`` holds: a polynomial cannot
    round, so of sizes that a call gives it may count a part of one too many.
    """

    dtype: DType
    size: Dim
    unit: Dim = 1

    def at(self, sizes: Mapping[str, int]) -> Temporary:
        """As large as these sizes need."""
        unit = max(1, evaluate(self.unit, sizes))
        return Temporary(self.dtype, evaluate(self.size, sizes) // unit * unit)


@dataclass(frozen=True, slots=True)
class Launch:
    """How a function is started on a device that runs blocks of threads.

    threads: of one block. nests: for each nest the points that are dealt out, and how many of them
    a block takes at a time. buffers: positions of the pointers among the kernel's buffers, in the
    order of the arguments; the kernel's sizes follow them. shared: bytes of memory of the block
    that are set aside when it is started, beside what its text declares. beside: each nest has
    blocks of its own, where there are enough.
    """

    threads: int
    nests: tuple[tuple[Dim, int], ...]
    buffers: tuple[int, ...]
    shared: int = 0
    beside: bool = False

    def blocks(self, sizes: Mapping[str, int], most: int) -> int:
        """The blocks that the widest nest can use, or all of them side by side, at most ``most``;
        0 where nothing is to do."""
        wanted = [-(-evaluate(points, sizes) // each) for points, each in self.nests]
        return min(sum(wanted) if self.beside else max(wanted, default=0), most)


@dataclass(frozen=True, slots=True)
class Stage:
    """One function of a kernel. All threads finish a stage before the next begins.

    Called as ``void f(void *const *buffers, const int64_t *sizes, int tid, int nt)``. ``buffers``
    holds the kernel's inputs, then its outputs, then its temporaries; ``reads`` and ``writes``
    are positions in it. ``parallel`` False: only thread 0 has work. ``divisible``: a small share of
    it is no dearer for its size than a large one, so that it may be called for more shares than
    there are threads. ``launch``: how it is started
    instead, where a device runs blocks of threads. ``copy``: it copies one whole buffer to another,
    and is left out where both are one memory. ``product``: what a library of the device makes in
    its place.
    """

    function: str
    reads: frozenset[int]
    writes: frozenset[int]
    parallel: bool = True
    launch: Launch | None = None
    copy: tuple[int, int] | None = None
    product: Gemm | None = None
    divisible: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """What one run executes, at the hints of symbolic sizes (or exactly, where sizes are ints)."""

    evaluations: int  # scalar values computed, hoists and recomputation included
    iterations: int   # iterations of innermost loops (scalar count)
    loaded: int       # bytes read, each buffer at most once
    stored: int       # bytes written


@dataclass(frozen=True)  # without slots, for its source
class KernelCode:
    """The source of one kernel; ``symbols`` names the sizes it takes, in order.

    given: the sizes themselves, where the source serves more than one program: numbers, or dims in
    the program's symbols; then there are no symbols of its own.
    takes: which of the kernel's buffers each pointer is that its functions take; all of them in
    their order where it is empty.
    moves: of a copy between two memories, which has no source, where to: ``device`` or ``host``.
    core: what its functions call, stage by stage, through a table ``NAME_at`` that is filled where
    they are loaded; the digest of its text is in the source.
    lanes: of its vectors, where they are not as many as the device's; else 0.
    """

    name: str
    source: str
    stages: tuple[Stage, ...]
    temporaries: tuple[Temporary, ...]
    symbols: tuple[str, ...]
    work: Work
    notes: tuple[str, ...] = field(default=())
    moves: str = ""
    given: tuple[Dim, ...] = ()
    takes: tuple[int, ...] = ()
    core: KernelCode | None = None
    lanes: int = 0

    @property
    def symbolic(self) -> bool:
        """Whether sizes that only a call knows have a part in it."""
        return bool(self.symbols) or not all(isinstance(n, int) for n in self.given)


KernelCode.source = Packed("source")  # type: ignore[assignment]  # compiled once, then only shown


def at_given(code: KernelCode, given: tuple[Dim, ...], takes: tuple[int, ...] = ()) -> KernelCode:
    """A kernel that is called at sizes (and on buffers) that the program gives it, whose stages
    read and write buffers of the program's kernel."""
    def moved(buffers: frozenset[int]) -> frozenset[int]:
        return frozenset(takes[b] for b in buffers) if takes else buffers

    return altered(code, symbols=(), given=given, takes=takes, stages=tuple(
        replace(s, reads=moved(s.reads), writes=moved(s.writes)) for s in code.stages))
