"""A plan run in Python, kernel by kernel, on NumPy arrays: for simulators and tests."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from tegg.dim import Dim, Symbol
from tegg.kernel.code import KernelCode
from tegg.planning.plan import Call, Plan
from tegg.planning.target import ArraySpec

Launch = Callable[[KernelCode, list[np.ndarray], Mapping[str, int]], None]
"""``(kernel, its inputs, outputs and temporaries as flat arrays, sizes by name)``."""


class Interpreter:
    """An executable whose kernels are run by a Python function. It has no fast call path."""

    def __init__(self, plan: Plan, launch: Launch) -> None:
        self.plan, self.launch = plan, launch
        self._busy = threading.Lock()

    def run(self, buffers: Any, sizes: Any) -> None:
        """Run the plan: copies before, its calls, copies after."""
        named = self._named(sizes)
        with self._busy:
            self._copy(self.plan.before, buffers, named)
            for call in self.plan.run:
                self._call(call, buffers, named)
            self._copy(self.plan.after, buffers, named)

    def run_ahead(self, buffers: Any, sizes: Any) -> None:
        """Run the calls that depend on weights only."""
        with self._busy:
            for call in self.plan.ahead:
                self._call(call, buffers, self._named(sizes))

    def profile(self, buffers: Any, sizes: Any) -> list[float]:
        """Run once; the seconds of each call."""
        named, out = self._named(sizes), []
        with self._busy:
            self._copy(self.plan.before, buffers, named)
            for call in self.plan.run:
                start = time.perf_counter()
                self._call(call, buffers, named)
                out.append(time.perf_counter() - start)
            self._copy(self.plan.after, buffers, named)
        return out

    def source(self) -> str:
        """The program text."""
        return "\n".join(dict.fromkeys(k.source for k in self.plan.kernels))

    def bound(self, buffers: Any, sizes: Sequence[int], keep: object) -> Callable[[], None]:
        """A function of no arguments that runs on these buffers."""
        def run() -> None:
            self.run(buffers, sizes)

        run.keep = keep  # type: ignore[attr-defined]
        return run

    def caller(self, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec],
               symbols: Sequence[Symbol], claims: Sequence[Dim]) -> None:
        """There is no fast call path."""
        return

    def prepare(self, caller: Any, buffers: Any, keep: object, sizes: Sequence[int]) -> None:
        """Nothing is prepared where there is no fast call path."""

    def _named(self, sizes: Sequence[int]) -> dict[str, int]:
        return dict(zip(self.plan.symbols, sizes))

    def _call(self, call: Call, buffers: Any, sizes: Mapping[str, int]) -> None:
        if self.plan.kernels[call.kernel].moves:
            return  # there is one memory
        arrays = [self._array(b, buffers[b], sizes, at)
                  for b, at in zip_longest(call.buffers, call.offsets, fillvalue=0)]
        self.launch(self.plan.kernels[call.kernel], arrays, sizes)

    def _array(self, number: int, address: int, sizes: Mapping[str, int],
               at: int) -> np.ndarray:
        """A buffer from so many bytes on."""
        buffer = self.plan.buffers[number]
        count = buffer.bytes(sizes) - at
        if count <= 0:
            return np.empty(0, buffer.dtype.numpy)
        return np.frombuffer(memoryview((ctypes.c_char * count).from_address(address + at)),
                             buffer.dtype.numpy)

    def _copy(self, pairs: Sequence[tuple[int, int]], buffers: Any,
              sizes: Mapping[str, int]) -> None:
        for source, to in pairs:
            ctypes.memmove(buffers[to], buffers[source], self.plan.buffers[source].bytes(sizes))
