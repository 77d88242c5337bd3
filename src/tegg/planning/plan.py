"""The plan: kernels in order, the buffers they share, and one arena with reuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest

from tegg.dim import Dim, evaluate
from tegg.dtype import DType
from tegg.kernel.code import KernelCode

ALIGN = 64  # bytes; a cache line, and the widest vector


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of a plan. ``size`` counts elements.

    kind: ``input`` (of a call, by input slot), ``output`` (by output number), ``weight`` (by input
    slot), ``ahead`` (computed from weights, kept between runs) or ``arena`` (lives in one run).
    """

    kind: str
    dtype: DType
    size: Dim
    index: int = -1

    def bytes(self, sizes: Mapping[str, int]) -> int:
        return evaluate(self.size, sizes) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel applied to buffers: its inputs, outputs, temporaries. ``stages`` are the numbers
    of the kernel's stages that run (a stage that reads weights only runs ahead). ``offsets``:
    bytes by which each buffer begins later for this call; () where none does."""

    kernel: int
    buffers: tuple[int, ...]
    stages: tuple[int, ...]
    seconds: float
    label: str
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Tried:
    """One plan that was timed against others. seconds: measured of a run, or None where it was
    not; note: why it was not, or that it was chosen."""

    kernels: tuple[str, ...]
    predicted: float
    seconds: float | None
    note: str = ""


@dataclass(slots=True)
class Plan:
    """What runs, in order, on which memory. Pure data: it can be pickled and shown.

    narrowed: weight buffers that are read in another form, and its dtype; their values must fit.
    assumed: slots of weights, and what no element of theirs may exceed.
    tried: the plans that were timed before this one was chosen, by predicted time.
    """

    kernels: list[KernelCode]
    buffers: list[Buffer]
    ahead: list[Call]
    run: list[Call]
    before: list[tuple[int, int]]  # copies (from, to) before the run: outputs that are inputs
    after: list[tuple[int, int]]   # copies after it, in turn: classes with two names, old states
    symbols: tuple[str, ...]       # the order of ``sizes`` in every kernel call
    seconds: float
    gap: float | None
    stats: dict[str, float] = field(default_factory=dict)
    narrowed: list[tuple[int, DType]] = field(default_factory=list)
    assumed: dict[int, float] = field(default_factory=dict)
    tried: list[Tried] = field(default_factory=list)

    def layout(self, sizes: Mapping[str, int]) -> Layout:
        """Offsets of the arena buffers for given sizes of the symbols."""
        return _pack([(i, b.bytes(sizes)) for i, b in enumerate(self.buffers)
                      if b.kind == "arena"], self._lifetimes())

    def touched(self, call: Call, sizes: Mapping[str, int]) -> int:
        """Bytes of the buffers that a call of the run reads or writes: not of weights that only
        its packing reads. A call without stages copies its buffer."""
        stages = [self.kernels[call.kernel].stages[i] for i in call.stages]
        used = {call.buffers[i] for s in stages for i in s.reads | s.writes} or {*call.buffers}
        return sum(self.buffers[b].bytes(sizes) for b in used)

    def _lifetimes(self) -> dict[int, tuple[int, int]]:
        life: dict[int, tuple[int, int]] = {}
        for t, call in enumerate(self.run):
            for b in call.buffers:
                first, _ = life.get(b, (t, t))
                life[b] = (first, t)
        end = len(self.run)
        for source, _ in self.after:  # one may have been put aside, where states change places
            life[source] = (life.get(source, (end, end))[0], end)
        return life

    def show(self) -> str:
        """The plan as text: one line per call, and per plan that was timed against it. Behind a
        buffer stand the bytes by which it begins later for the call."""
        lines = []
        for part, calls in (("ahead", self.ahead), ("run", self.run)):
            for c in calls:
                names = ", ".join(f"{self.buffers[b].kind}{b}:{self.buffers[b].dtype.name}"
                                  f"{f'+{at}' if at else ''}"
                                  for b, at in zip_longest(c.buffers, c.offsets, fillvalue=0))
                lines.append(f"{part}: {self.kernels[c.kernel].name}({names})  {c.label}  "
                             f"{c.seconds * 1e6:.1f} us predicted")
        for i, t in enumerate(self.tried):
            took = "not timed" if t.seconds is None else f"{t.seconds * 1e6:.1f} us measured"
            lines.append(f"tried: plan {i} of {len(t.kernels)} calls, {t.predicted * 1e6:.1f} us "
                         f"predicted, {took}{', ' * bool(t.note)}{t.note}: {', '.join(t.kernels)}")
        if self.tried:
            whose = "the oracle" if self.stats.get("oracle") else "the first plan"
            lines.append(f"their results were compared with those of {whose}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where arena buffers lie. ``peak`` is the arena's size, ``live`` the largest live set."""

    offsets: Mapping[int, int]
    peak: int
    live: int


def _pack(wanted: list[tuple[int, int]], life: Mapping[int, tuple[int, int]]) -> Layout:
    """Offsets by decreasing size, each at the lowest place that is free while it lives."""
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last
    offsets: dict[int, int] = {}
    for i, size in sorted(wanted, key=lambda w: (-w[1], w[0])):
        if i not in life:
            continue
        first, last = life[i]
        size = -(-max(size, 1) // ALIGN) * ALIGN
        at = 0
        for lo, hi, a, z in sorted(placed):
            if a <= last and first <= z and lo < at + size and at < hi:
                at = hi
        offsets[i] = at
        placed.append((at, at + size, first, last))
    peak = max((p[1] for p in placed), default=0)
    times = {p[2] for p in placed}
    live = max((sum(p[1] - p[0] for p in placed if p[2] <= t <= p[3]) for t in times), default=0)
    return Layout(offsets, peak, live)
