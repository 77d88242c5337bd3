"""A plan on the GPU: kernels loaded, weights and arena kept there, runs as one graph or a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from itertools import zip_longest
from typing import Any

from tegg.dim import Dim, Symbol
from tegg.planning.plan import Call, Plan
from tegg.planning.target import ArraySpec

from .arrays import Arrays
from .blas_calls import product_of
from .cubin import cubin
from .driver import Device, Event, Memory
from .replay import Launch, Replay, Step
from .resources import Resources
from .streams import current_stream
from .transfers import Transfers

KEPT = 8  # sizes of the symbols, and graphs, that are kept; the oldest go first


def prelude() -> str:
    """The header that stands above all kernels."""
    return files("tegg.backends.cuda").joinpath("prelude.h").read_text(encoding="utf-8")


def source_of(plan: Plan) -> str:
    """The program text of a plan."""
    return "\n".join([prelude(), *(k.source for k in plan.kernels)])


@dataclass(frozen=True, slots=True)
class _Sized:
    """What sizes of the symbols decide: bytes of buffers, the arena, blocks of every launch."""

    values: Mapping[str, int]
    nbytes: tuple[int, ...]
    offsets: Mapping[int, int]
    peak: int
    blocks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Run:
    """A run: its buffers, where each lies on the device, and its stream."""

    buffers: Any
    addresses: Sequence[int]
    sized: _Sized
    resident: AbstractSet[int]
    stream: int

    @property
    def given(self) -> tuple[Any, Sequence[int], Sequence[int], AbstractSet[int], int]:
        """What transfers ask for."""
        return self.buffers, self.addresses, self.sized.nbytes, self.resident, self.stream


class Loaded:
    """A plan whose kernels are loaded. Runs of it follow one another, whatever their streams.

    ``buffers`` hold addresses of the host, or of the device where a buffer is ``resident``. Values
    between kernels, weights and what is computed from them live on the device alone.
    """

    def __init__(self, plan: Plan, device: Device, results: str = "numpy",
                 graph: bool = True) -> None:
        self.plan, self._device, self._graph = plan, device, graph
        self.arrays = Arrays(device, results)
        self._source = source_of(plan)
        self._stages = {s.function: s for k in plan.kernels for s in k.stages}
        launched = {n: s.launch for n, s in self._stages.items() if s.launch is not None}
        self.resources: tuple[Resources, ...] = ()
        with device.current():
            if launched:
                made = cubin(self._source, device.architecture)
                self.resources = made.resources
                self._module = device.load(made.code, list(launched))
                for name, s in launched.items():
                    device.allow_shared(self._module.functions[name], s.shared)
            if len(launched) < len(self._stages):
                device.cublas()  # where it is missing, that is said now
        self._transfers = Transfers(plan, device)
        self._fixed: dict[int, Memory] = {}                 # weights, and what they make
        self._memory: dict[tuple[str, int], Memory] = {}    # of arguments and the arena, by use
        self._sizes: dict[tuple[int, ...], _Sized] = {}
        self._replays: list[tuple[Replay, Any]] = []        # with what they were last given
        self._last: tuple[int, Event] | None = None         # the stream of the last run, its end
        self._keep: Any = None

    # ---- memory
    def _sized(self, sizes: Any) -> _Sized:
        key = tuple(int(sizes[i]) for i in range(len(self.plan.symbols)))
        found = self._sizes.get(key)
        if found is None:
            while len(self._sizes) >= KEPT:
                del self._sizes[next(iter(self._sizes))]
            found = self._sizes[key] = self._computed(dict(zip(self.plan.symbols, key)))
        return found

    def _computed(self, named: Mapping[str, int]) -> _Sized:
        layout = self.plan.layout(named)
        blocks = {n: s.launch.blocks(named, self._device.most_blocks)
                  for n, s in self._stages.items() if s.launch is not None}
        return _Sized(named, tuple(b.bytes(named) for b in self.plan.buffers), layout.offsets,
                      layout.peak, blocks)

    def _kept(self, key: tuple[str, int], nbytes: int) -> int:
        """Memory for a use, kept from the last run where it is large enough."""
        held = self._memory.get(key)
        if held is None or held.nbytes < nbytes:
            self._memory.pop(key, None)
            held = None  # freed before more is asked for
            held = self._memory[key] = self._device.allocate(nbytes)
        return held.address

    def _addresses(self, buffers: Any, sized: _Sized, resident: AbstractSet[int]) -> list[int]:
        """Where every buffer lies on the device; one argument under two numbers lies once."""
        arena = self._kept(("arena", 0), sized.peak) if sized.peak else 0
        out = []
        for i, b in enumerate(self.plan.buffers):
            if i in self._fixed:
                out.append(self._fixed[i].address)
            elif b.kind == "arena":
                out.append(arena + sized.offsets.get(i, 0))
            elif i in resident:
                out.append(int(buffers[i] or 0))
            elif i in self._transfers.there:
                out.append(self._kept((b.kind, b.index), sized.nbytes[i]))
            else:
                out.append(0)
        return out

    # ---- runs
    def run_ahead(self, buffers: Any, sizes: Any) -> None:
        """Take the weights, and run the calls that depend on them only."""
        device, sized = self._device, self._sized([0] * len(self.plan.symbols))
        with device.current():
            fixed = {}
            for i, b in enumerate(self.plan.buffers):
                if b.kind in ("weight", "ahead") and i not in self._transfers.weights:
                    fixed[i] = device.allocate(b.bytes({}))
                    if b.kind == "weight":
                        device.upload(fixed[i].address, buffers[i], b.bytes({}))
            addresses = [fixed[i].address if i in fixed else 0
                         for i in range(len(self.plan.buffers))]
            for step in self._steps(self.plan.ahead, addresses, sized):
                device.start(step, 0)
            device.wait(0)
            self._fixed = fixed

    def run(self, buffers: Any, sizes: Any, resident: AbstractSet[int] = frozenset(),
            keep: object = None) -> None:
        """Run once on the thread's stream. Returns when arrays of the host are read and written;
        where all are ``resident``, at once. ``keep`` lives until the next run."""
        with self._running(buffers, sizes, resident) as run:
            self._start(run)
        self._keep = keep

    def profile(self, buffers: Any, sizes: Any,
                resident: AbstractSet[int] = frozenset()) -> list[float]:
        """Seconds of each call of the plan: of kernels by events between them, of copies by events
        around each."""
        device = self._device
        with self._running(buffers, sizes, resident) as run:
            groups = [self._steps([call], run.addresses, run.sized) for call in self.plan.run]
            out = device.times(groups, run.stream)
            for i, call in enumerate(self.plan.run):
                moves = self.plan.kernels[call.kernel].moves
                if moves:  # once more, so that it is timed
                    begin = device.mark(run.stream)
                    self._transfers.copy(moves, call.buffers[0], *run.given)
                    out[i] = device.seconds(begin, device.mark(run.stream))
            return out

    def timed(self, buffers: Any, sizes: Any, repeats: int,
              resident: AbstractSet[int] = frozenset()) -> list[float]:
        """Seconds on the device of each of several runs, one after the other."""
        with self._running(buffers, sizes, resident) as run:
            steps = self._steps(self.plan.run, run.addresses, run.sized)
            return self._device.times([steps] * repeats, run.stream)

    @contextmanager
    def _running(self, buffers: Any, sizes: Any,
                 resident: AbstractSet[int]) -> Iterator[_Run]:
        """What is around a run on the thread's stream: arguments there before, results after."""
        stream = current_stream()
        with self._device.current():
            sized = self._sized(sizes)
            self._follow(stream)
            run = _Run(buffers, self._addresses(buffers, sized, resident), sized, resident, stream)
            self._transfers.bring(*run.given)
            yield run
            self._transfers.give(*run.given)
            self._mark(stream)

    def _follow(self, stream: int) -> None:
        """The arena is one: a run on another stream waits for the last."""
        if self._last is not None and self._last[0] != stream:
            self._device.after(stream, self._last[1])

    def _mark(self, stream: int) -> None:
        if self._last is None:
            self._last = (stream, self._device.mark(stream))
        else:
            self._last[1].again(stream)
            self._last = (stream, self._last[1])

    def _start(self, run: _Run) -> None:
        """One graph of all steps, kept and changed where it must be; or one after the other, also
        where a product is new to the library, which then loads its kernels."""
        stream, given = run.stream, (tuple(run.addresses), run.sized)
        for i, (replay, last) in enumerate(self._replays):
            if last == given and replay.serves(stream):
                self._replays.append(self._replays.pop(i))
                return replay.start(stream)
        steps = self._steps(self.plan.run, run.addresses, run.sized)
        if not self._graph or len(steps) < 2 or not self._device.can_replay(steps):
            for step in steps:
                self._device.start(step, stream)
            return None
        replay = self._replay(steps, stream)
        self._replays.append((replay, given))
        return replay.start(stream)

    def _replay(self, steps: Sequence[Step], stream: int) -> Replay:
        """A kept graph that fits, changed; else a new one."""
        found = next((i for i, (r, _) in enumerate(self._replays)
                      if r.serves(stream) and r.fits(steps)), None)
        if found is not None:
            replay, _ = self._replays.pop(found)
            if replay.change(steps):
                return replay
            replay.close()
        while len(self._replays) >= KEPT:
            self._replays.pop(0)[0].close()
        return self._device.replay(steps, stream)

    def _steps(self, calls: Sequence[Call], addresses: Sequence[int],
               sized: _Sized) -> list[Step]:
        """What calls start, with their arguments. A stage that has nothing to do is left out."""
        out: list[Step] = []
        for call in calls:
            kernel = self.plan.kernels[call.kernel]
            values = tuple(sized.values[s] for s in kernel.symbols)
            at = [addresses[b] + begin
                  for b, begin in zip_longest(call.buffers, call.offsets, fillvalue=0)]
            for i in call.stages:
                stage = kernel.stages[i]
                if stage.product is not None:
                    product = product_of(stage.product, sized.values, at)
                    out += [] if product is None else [product]
                    continue
                assert stage.launch is not None, f"{stage.function} is not for blocks of threads"
                blocks = sized.blocks[stage.function]
                if blocks:
                    pointers = tuple(at[b] for b in stage.launch.buffers)
                    out.append(Launch(self._module.functions[stage.function], blocks,
                                      stage.launch.threads, stage.launch.shared,
                                      pointers + values))
        return out

    def __del__(self) -> None:
        for replay, _ in getattr(self, "_replays", ()):
            self._device.finish(replay.close)

    # ---- what else an executable is asked
    def source(self) -> str:
        return self._source

    def caller(self, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec],
               symbols: Sequence[Symbol], claims: Sequence[Dim]) -> None:
        """There is no call path past Python."""

    def prepare(self, caller: Any, buffers: Any, keep: object, sizes: Sequence[int]) -> None:
        """Nobody asks: there is no caller."""

    def bound(self, buffers: Any, sizes: Sequence[int], keep: object,
              resident: AbstractSet[int] = frozenset()) -> Callable[[], None]:
        def run() -> None:
            self.run(buffers, sizes, resident, keep)
        return run
