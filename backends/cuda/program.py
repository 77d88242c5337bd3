"""A plan on the GPU: its kernels loaded, weights kept there, arguments copied in and out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from itertools import pairwise
from typing import Any

from tegg.dim import Dim, Symbol, symbols
from tegg.planning.plan import Call, Plan
from tegg.planning.target import ArraySpec

from .driver import Device


def prelude() -> str:
    """The header that stands above all kernels."""
    return files("tegg.backends.cuda").joinpath("prelude.h").read_text(encoding="utf-8")


class Loaded:
    """A plan whose kernels are loaded. Runs of it wait for one another.

    Addresses that it is given are of the host, and those of the arena are not used: values between
    kernels, weights and what is computed from them live on the device.
    """

    def __init__(self, plan: Plan, device: Device) -> None:
        self.plan, self._device = plan, device
        self._source = "\n".join([prelude(), *(k.source for k in plan.kernels)])
        stages = [(k, s) for k in plan.kernels for s in k.stages]
        with device.current():
            self._functions = device.load(self._source, [s.function for _, s in stages])
            for k, s in stages:
                assert s.launch is not None, f"{s.function} was not lowered for blocks of threads"
                device.prepare(self._functions[s.function], len(s.launch.buffers), len(k.symbols))
        self._sized = {i for i, b in enumerate(plan.buffers)  # weights that go along each time
                       if b.kind == "weight" and symbols(b.size)}
        self._fixed: dict[int, Any] = {}              # weights, and what is computed from them
        self._memory: dict[tuple[str, int], Any] = {}  # of arguments and of the arena, by use
        self._held: dict[tuple[str, int], int] = {}
        self._written = self._changed()

    def _changed(self) -> set[int]:
        """Buffers that a run writes."""
        out = {to for _, to in (*self.plan.before, *self.plan.after)}
        for call in self.plan.run:
            for s in call.stages:
                out |= {call.buffers[w] for w in self.plan.kernels[call.kernel].stages[s].writes}
        return out

    # ---- memory
    def _kept(self, key: tuple[str, int], nbytes: int) -> int:
        """Memory for a use, kept from the last run where it is large enough."""
        if self._held.get(key, -1) < nbytes:
            self._memory.pop(key, None)
            self._memory[key], self._held[key] = self._device.allocate(nbytes), nbytes
        return int(self._memory[key])

    def _addresses(self, sizes: Mapping[str, int]) -> list[int]:
        """Where every buffer lies on the device; one argument under two numbers lies once."""
        layout = self.plan.layout(sizes)
        arena = self._kept(("arena", 0), layout.peak)
        out = []
        for i, b in enumerate(self.plan.buffers):
            if i in self._fixed:
                out.append(int(self._fixed[i]))
            elif b.kind == "arena":
                out.append(arena + layout.offsets.get(i, 0))
            else:
                out.append(self._kept((b.kind, b.index), b.bytes(sizes)))
        return out

    def _sizes(self, sizes: Any) -> dict[str, int]:
        return {name: int(sizes[i]) for i, name in enumerate(self.plan.symbols)}

    # ---- runs
    def run_ahead(self, buffers: Any, sizes: Any) -> None:
        """Take the weights, and run the calls that depend on them only."""
        device, named = self._device, self._sizes(sizes)
        with device.current():
            fixed = {}
            for i, b in enumerate(self.plan.buffers):
                if b.kind in ("weight", "ahead") and i not in self._sized:
                    fixed[i] = device.allocate(b.bytes({}))
                    if b.kind == "weight":
                        device.upload(int(fixed[i]), buffers[i], b.bytes({}))
            addresses = [int(fixed.get(i, 0)) for i in range(len(self.plan.buffers))]
            for call in self.plan.ahead:
                self._call(call, addresses, named)
            self._fixed = fixed

    def run(self, buffers: Any, sizes: Any) -> None:
        named = self._sizes(sizes)
        with self._device.current():
            addresses = self._given(buffers, named)
            for call in self.plan.run:
                self._call(call, addresses, named)
            self._taken(buffers, addresses, named)

    def profile(self, buffers: Any, sizes: Any) -> list[float]:
        device, named = self._device, self._sizes(sizes)
        with device.current():
            addresses = self._given(buffers, named)
            marks = [device.mark()]
            for call in self.plan.run:
                self._call(call, addresses, named)
                marks.append(device.mark())
            out = [device.seconds(a, b) for a, b in pairwise(marks)]
            self._taken(buffers, addresses, named)
            return out

    def _given(self, buffers: Any, sizes: Mapping[str, int]) -> list[int]:
        """Arguments are copied to the device."""
        addresses = self._addresses(sizes)
        for i, b in enumerate(self.plan.buffers):
            if b.kind == "input" or i in self._sized:
                self._device.upload(addresses[i], buffers[i], b.bytes(sizes))
        self._copies(self.plan.before, addresses, sizes)
        return addresses

    def _taken(self, buffers: Any, addresses: Sequence[int], sizes: Mapping[str, int]) -> None:
        """Results, and arguments that were changed, are copied back."""
        self._copies(self.plan.after, addresses, sizes)
        for i, b in enumerate(self.plan.buffers):
            if b.kind in ("input", "output") and i in self._written:
                self._device.download(buffers[i], addresses[i], b.bytes(sizes))

    def _copies(self, pairs: Sequence[tuple[int, int]], addresses: Sequence[int],
                sizes: Mapping[str, int]) -> None:
        for source, to in pairs:
            self._device.copy(addresses[to], addresses[source],
                              self.plan.buffers[source].bytes(sizes))

    def _call(self, call: Call, addresses: Sequence[int], sizes: Mapping[str, int]) -> None:
        kernel = self.plan.kernels[call.kernel]
        for i in call.stages:
            stage = kernel.stages[i]
            assert stage.launch is not None
            blocks = stage.launch.blocks(sizes, self._device.most_blocks)
            if blocks:
                self._device.launch(self._functions[stage.function], blocks, stage.launch.threads,
                                    [*(addresses[call.buffers[b]] for b in stage.launch.buffers),
                                     *(sizes[s] for s in kernel.symbols)])

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
