"""A compiled program: call it with NumPy arrays, bind it, profile it, save it."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tegg.dim import evaluate
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.locks import WEIGHTS
from tegg.planning.plan import Plan
from tegg.ir.signature import Signature
from tegg.planning.target import Configured, Target, find
from tegg.runtime.bound import Bound
from tegg.runtime.devicecalls import DeviceCalls
from tegg.runtime.fastcall import FastCalls
from tegg.runtime.held import HeldWeights
from tegg.runtime.workspace import Workspace, Workspaces, address, result


class Compiled:
    """A program for one device: NumPy arrays in, a dict of NumPy arrays out.

    Calls may come from several threads at once; a state must not be shared by two calls in flight.
    Weights are used where they lie; what was computed from them ahead is computed again after a
    ``Parameter`` was assigned or loaded (or after ``refresh()``, for arrays changed in place).
    """

    def __init__(self, signature: Signature, plan: Plan, weights: Mapping[int, Any],
                 target: Target, explanation: str = "",
                 explain: Callable[[], str] | None = None,
                 ahead: Mapping[int, np.ndarray] | None = None) -> None:
        self.signature, self.plan, self.target = signature, plan, target
        self._explain = explain  # the whole story, which is not kept in files
        self._explanation = explanation
        self._executable = target.build(plan)
        executable: Any = self._executable
        self._device = DeviceCalls(self, executable) if hasattr(executable, "arrays") else None
        self._held = HeldWeights(plan, weights, self._device is None, ahead)
        self._spaces = Workspaces(plan, self._device is not None)
        self._lock = threading.Lock()
        self._versions: tuple | None = None
        self._bounds: weakref.WeakSet[Bound] = weakref.WeakSet()
        self._inputs = [self._buffers_of("input", a.slot) for a in signature.arguments]
        self._outputs = [self._buffers_of("output", i) for i in range(len(signature.results))]
        self._fast = FastCalls(self._executable, signature, self._inputs, self._outputs)

    def _buffers_of(self, kind: str, index: int) -> tuple[int, ...]:
        return tuple(i for i, b in enumerate(self.plan.buffers)
                     if b.kind == kind and b.index == index)

    # ---- weights
    def refresh(self) -> None:
        """Compute again what depends on weights only."""
        held = self._held
        with self._lock:
            with WEIGHTS:  # not while some of them are replaced and others are not
                versions, arrays = held.versions(), held.arrays()
            fixed, done = held.prepared(arrays)
            self._run_ahead(fixed, done)
            self._fast.clear()
            self._spaces.refresh(held.settle(fixed))
            self._versions = versions
            for bound in list(self._bounds):
                bound.look()

    def _run_ahead(self, fixed: Mapping[int, np.ndarray], done: frozenset[int]) -> None:
        pointers = (ctypes.c_void_p * len(self.plan.buffers))()
        for i, array in fixed.items():
            pointers[i] = address(array)
        sizes = (ctypes.c_int64 * max(1, len(self.plan.symbols)))()
        executable = self._executable
        if done:  # their weights are no more, and what they computed stays
            left = [c for n, c in enumerate(self.plan.ahead) if n not in done]
            executable = self.target.build(replace(self.plan, ahead=left))
        executable.run_ahead(pointers, sizes)

    # ---- calls
    def attempt(self, args: tuple) -> tuple[np.ndarray, ...] | None:
        """The results by the fast path, or None, with nothing done, where it does not apply."""
        if self._held.versioned and self._versions != self._held.versions():
            return None
        return self._fast.call(*args)

    def __call__(self, *args: Any, out: Mapping[str, Any] | None = None,
                 **kwargs: Any) -> dict[str, Any]:
        """Run. Inputs by position or name; ``out`` maps output names to arrays to write into.
        Arrays that lie on the program's device are read and written there.

        Raises ArgumentError, DTypeError or ShapeError, before anything is written.
        """
        values = self.signature.by_name(args, kwargs)
        if self._device is not None and self._device.concerns(values, out):
            return self._device.call(values, out)
        if out is None:
            done = self.attempt(tuple(values))
            if done is not None:
                return {r.name: v for r, v in zip(self.signature.results, done)}
        arrays = self.signature.arrays(values)
        sizes = self.signature.sizes(arrays)
        results = self._results(sizes, out, arrays)
        self._run(arrays, sizes, [r[0] for r in results])
        for made, wanted in results:
            if wanted is not made:
                wanted[...] = made
        return {r.name: wanted for r, (_, wanted) in zip(self.signature.results, results)}

    def _results(self, sizes: Mapping[str, int], out: Mapping[str, np.ndarray] | None,
                 arrays: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Per result the array that kernels write, and the one the caller gets."""
        out = self._named(out)
        pairs: list[tuple[np.ndarray, np.ndarray]] = []
        for r in self.signature.results:
            shape = tuple(evaluate(d, sizes) for d in r.shape)
            wanted = out.get(r.name)
            if wanted is None:
                made = wanted = result(shape, r.dtype.numpy)
            else:
                made = self._given(r.name, wanted, shape, r.dtype.numpy, arrays)
                if any(np.may_share_memory(wanted, other) for _, other in pairs):
                    raise ArgumentError(f"out {r.name!r} shares memory with the array of another "
                                        f"output, of which one would be lost; give each its own")
            pairs.append((made, wanted))
        return pairs

    def _named(self, out: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """``out`` as a mapping of names that exist."""
        out = {} if out is None else out
        names = ", ".join(r.name for r in self.signature.results)
        if not isinstance(out, Mapping):
            raise ArgumentError(f"out= takes a dict of output names and arrays, not a "
                                f"{type(out).__name__}; outputs are {names}")
        unknown = set(out) - {r.name for r in self.signature.results}
        if unknown:
            raise ArgumentError(f"out= names {', '.join(map(str, unknown))}; outputs are {names}")
        return out

    @staticmethod
    def _given(name: str, wanted: np.ndarray, shape: tuple[int, ...], dtype: np.dtype,
               arrays: Sequence[np.ndarray]) -> np.ndarray:
        if not isinstance(wanted, np.ndarray) or wanted.dtype.newbyteorder("=") != dtype:
            kind = getattr(wanted, "dtype", type(wanted).__name__)
            raise DTypeError(f"out {name!r} is {kind}; it must be an array of {dtype}")
        if wanted.shape != shape:
            raise ShapeError(f"out {name!r} has shape {wanted.shape}; the result is {shape}")
        if not wanted.flags.writeable:
            raise ArgumentError(f"out {name!r} is read-only")
        usable = (wanted.flags.c_contiguous and wanted.dtype == dtype
                  and not any(np.may_share_memory(wanted, a) for a in arrays))
        return wanted if usable else np.empty(shape, dtype)

    def _run(self, arrays: Sequence[np.ndarray], sizes: Mapping[str, int],
             results: Sequence[np.ndarray]) -> None:
        key, space = self._prepared(arrays, sizes, results)
        self._executable.run(space.pointers, space.sizes)
        with self._lock:  # a refresh in between would leave old weights to the fast path
            kept = space.generation == self._spaces.generation and self._fast.offer(key, space)
        if not kept:
            self._spaces.give(key, space)

    def _prepared(self, arrays, sizes, results) -> tuple[tuple[int, ...], Workspace]:
        if self._versions != self._held.versions():
            self.refresh()
        key = tuple(sizes[s] for s in self.plan.symbols)
        space = self._spaces.take(key)
        pointers = space.pointers
        for where, a in zip(self._inputs, arrays):
            for i in where:
                pointers[i] = address(a)
        for where, r in zip(self._outputs, results):
            for i in where:
                pointers[i] = address(r)
        return key, space

    def bind(self, *args: Any, out: Mapping[str, Any] | None = None,
             **kwargs: Any) -> Bound:
        """Arguments and outputs prepared once. Arrays must need no conversion: they are read
        and written in place by every call. Raises ArgumentError for one that would be copied."""
        values = self.signature.by_name(args, kwargs)
        if self._device is not None and self._device.concerns(values, out):
            return self._device.bind(values, out)
        arrays = self.signature.arrays(values)
        for a, made, value in zip(self.signature.arguments, arrays, values):
            if not isinstance(value, np.ndarray) or address(made) != address(value):
                raise ArgumentError(f"bind needs {a.name!r} as a C-contiguous NumPy array of "
                                    f"{a.dtype.name}, apart from every state: a copy would not "
                                    f"see later changes")
        sizes = self.signature.sizes(arrays)
        pairs = self._results(sizes, out, arrays)
        for r, (made, wanted) in zip(self.signature.results, pairs):
            if made is not wanted:
                raise ArgumentError(f"bind needs out {r.name!r} C-contiguous, of native byte "
                                    f"order, and apart from every input")
        return Bound(self, arrays, [made for made, _ in pairs], sizes)

    # ---- what it is made of
    @property
    def stats(self) -> dict[str, float]:
        """Counts and times of the compilation, and the arena at the hints of symbolic sizes."""
        sizes = {s.name: s.hint for s in self.signature.symbols}
        layout = self.plan.layout(sizes)
        return {**self.plan.stats, "kernels": len(self.plan.kernels),
                "calls": len(self.plan.run), "calls_ahead": len(self.plan.ahead),
                **self._held.bytes(),
                "arena_bytes": layout.peak, "live_bytes": layout.live,
                "predicted_seconds": self.plan.seconds}

    def explain(self) -> str:
        """Why it became what it is: the phases and rules that fired; per kernel its form, cost and
        runner-up, and the chain of rules from the primops to it; then the plan.

        A program that was loaded from a file tells what was kept with it: the rules that fired.
        """
        story = self._explanation if self._explain is None else self._explain()
        return f"{story}\n{self.plan.show()}"

    def source(self) -> str:
        """The program text that was compiled for the device."""
        return self._executable.source()

    def profile(self, *args: Any, repeats: int = 5, **kwargs: Any) -> list[dict[str, Any]]:
        """Per call of the plan: the best measured seconds of ``repeats`` runs beside the predicted
        ones, bytes of the buffers that it reads or writes, and share of the run."""
        values = self.signature.by_name(args, kwargs)
        if self._device is not None and self._device.concerns(values, None):
            return self._measured(*self._device.profile(values, repeats))
        arrays = [self.signature.array(a, v).copy() if a.state else self.signature.array(a, v)
                  for a, v in zip(self.signature.arguments, values)]
        sizes = self.signature.sizes(arrays)
        results = [m for m, _ in self._results(sizes, None, arrays)]
        key, space = self._prepared(arrays, sizes, results)
        runs = [self._executable.profile(space.pointers, space.sizes) for _ in range(repeats)]
        self._spaces.give(key, space)
        return self._measured(runs, sizes)

    def _measured(self, runs: Sequence[Sequence[float]],
                  sizes: Mapping[str, int]) -> list[dict[str, Any]]:
        best = [min(r[i] for r in runs) for i in range(len(self.plan.run))]
        total = sum(best) or 1.0
        return [{"kernel": self.plan.kernels[c.kernel].name, "what": c.label, "seconds": s,
                 "predicted": c.seconds, "share": s / total,
                 "bytes": self.plan.touched(c, sizes)}
                for c, s in zip(self.plan.run, best)]

    # ---- saving
    def __getstate__(self) -> dict[str, Any]:
        with self._lock, WEIGHTS:
            held = self._held.saved()
        settings = self.target.settings if isinstance(self.target, Configured) else {}
        return {"signature": self.signature, "plan": self.plan, "target": self.target.name,
                "settings": dict(settings), "explanation": self._explanation, **held}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Compiled.__init__(self, state["signature"], state["plan"], state["weights"],
                          find(state["target"], state.get("settings")), state["explanation"],
                          ahead=state["ahead"])
