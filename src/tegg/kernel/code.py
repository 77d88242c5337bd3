"""What lowering hands to a plan: C-family source of one kernel and how to call it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tegg.dim import Dim
from tegg.dtype import DType


@dataclass(frozen=True, slots=True)
class Temporary:
    """Memory that a kernel needs while it runs, shared between threads: ``size`` elements."""

    dtype: DType
    size: Dim


@dataclass(frozen=True, slots=True)
class Stage:
    """One function of a kernel. All threads finish a stage before the next begins.

    Called as ``void f(void *const *buffers, const int64_t *sizes, int tid, int nt)``. ``buffers``
    holds the kernel's inputs, then its outputs, then its temporaries; ``reads`` and ``writes``
    are positions in it. ``parallel`` False: only thread 0 has work.
    """

    function: str
    reads: frozenset[int]
    writes: frozenset[int]
    parallel: bool = True


@dataclass(frozen=True, slots=True)
class Work:
    """What one run executes, at the hints of symbolic sizes (or exactly, where sizes are ints)."""

    evaluations: int  # scalar values computed, hoists and recomputation included
    iterations: int   # iterations of innermost loops (scalar count)
    loaded: int       # bytes read, each buffer at most once
    stored: int       # bytes written


@dataclass(frozen=True, slots=True)
class KernelCode:
    """The source of one kernel; ``symbols`` names the sizes it takes, in order."""

    name: str
    source: str
    stages: tuple[Stage, ...]
    temporaries: tuple[Temporary, ...]
    symbols: tuple[str, ...]
    work: Work
    notes: tuple[str, ...] = field(default=())
