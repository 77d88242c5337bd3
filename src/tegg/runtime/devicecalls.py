"""Calls some of whose arrays lie on the program's device, where they are read and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tegg.dim import evaluate
from tegg.errors import ArgumentError, ShapeError
from tegg.interchange import on_device
from tegg.ir.signature import Argument, Result
from tegg.planning.target import DeviceExecutable
from tegg.runtime.bound import Bound
from tegg.runtime.workspace import address, result
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.runtime.compiled import Compiled


@dataclass(slots=True)
class Made:
    """One result: the array that kernels write, where it is copied then, what the caller gets."""

    array: Any
    to: Any
    given: Any


class DeviceCalls:
    """Calls of a program with arrays on its device, beside arrays of the host.

    Raises ArgumentError, DTypeError, ShapeError or BackendError before anything is written.
    """

    def __init__(self, program: Compiled, executable: DeviceExecutable) -> None:
        self._program, self._executable = program, executable
        self._arrays = executable.arrays

    def concerns(self, values: Sequence[Any], out: Mapping[str, Any] | None) -> bool:
        """Whether anything of a call lies on the device, or is to be made there."""
        given = out.values() if isinstance(out, Mapping) else ()
        return self._arrays.wanted or any(map(on_device, (*values, *given)))

    def call(self, values: Sequence[Any], out: Mapping[str, Any] | None) -> dict[str, Any]:
        """See ``Compiled.__call__``."""
        p = self._program
        taken = self._taken(values)
        sizes = p.signature.sizes(taken)
        made = self._made(sizes, p._named(out), taken)
        results = [m.array for m in made]
        key, space = p._prepared(taken, sizes, results)
        self._executable.run(space.pointers, space.sizes, self._resident(taken, results),
                             (values, taken, made, space))
        p._spaces.give(key, space)
        for m in made:
            if m.to is not None and isinstance(m.to, np.ndarray):
                m.to[...] = m.array
            elif m.to is not None:
                self._arrays.copy(m.to, m.array)
        return {r.name: m.given for r, m in zip(p.signature.results, made)}

    def bind(self, values: Sequence[Any], out: Mapping[str, Any] | None) -> Bound:
        """See ``Compiled.bind``."""
        p = self._program
        taken = self._taken(values)
        for a, got, value in zip(p.signature.arguments, taken, values):
            if isinstance(got, np.ndarray) and not (
                    isinstance(value, np.ndarray) and address(got) == address(value)):
                raise ArgumentError(f"bind needs {a.name!r} as a C-contiguous NumPy array of "
                                    f"{a.dtype.name}, or on the device: a copy would not see "
                                    f"later changes")
            if not isinstance(got, np.ndarray) and not hasattr(got, "owner"):
                raise ArgumentError(f"bind needs {a.name!r} apart from every state: a copy would "
                                    f"not see later changes")
        sizes = p.signature.sizes(taken)
        made = self._made(sizes, p._named(out), taken)
        for r, m in zip(p.signature.results, made):
            if m.to is not None:
                raise ArgumentError(f"bind needs out {r.name!r} C-contiguous, of native byte "
                                    f"order, and apart from every input")
        results = [m.array for m in made]
        return Bound(p, taken, results, sizes, [m.given for m in made],
                     (self._resident(taken, results),))

    def profile(self, values: Sequence[Any],
                repeats: int) -> tuple[list[list[float]], Mapping[str, int]]:
        """Seconds of each call of the plan, and the sizes. States are copies."""
        p = self._program
        taken = self._taken(values)
        for i, a in enumerate(p.signature.arguments):
            if a.state:
                taken[i] = self._copied(taken[i])
        sizes = p.signature.sizes(taken)
        results = [m.array for m in self._made(sizes, {}, taken)]
        key, space = p._prepared(taken, sizes, results)
        resident = self._resident(taken, results)
        runs = [self._executable.profile(space.pointers, space.sizes, resident)
                for _ in range(repeats)]
        p._spaces.give(key, space)
        return runs, sizes

    def _resident(self, taken: Sequence[Any], results: Sequence[Any]) -> frozenset[int]:
        """Buffers whose memory is the device's."""
        p = self._program
        pairs = (*zip(p._inputs, taken), *zip(p._outputs, results))
        return frozenset(i for where, a in pairs if not isinstance(a, np.ndarray) for i in where)

    # ---- arguments
    def _taken(self, values: Sequence[Any]) -> list[Any]:
        """What kernels read. As on the host, what shares memory with a state is read as it was."""
        arguments = self._program.signature.arguments
        out = [self._argument(a, v) for a, v in zip(arguments, values)]
        for i, a in enumerate(arguments):
            for j, b in enumerate(arguments if a.state else ()):
                if i != j and self._shared(out[i], out[j]):
                    if b.state:
                        raise ArgumentError(f"states {a.name!r} and {b.name!r} share memory, and "
                                            f"both are replaced; give each an array of its own")
                    out[j] = self._copied(out[j])
        return out

    def _argument(self, a: Argument, value: Any) -> Any:
        if not on_device(value):
            return self._program.signature.array(a, value)
        made = self._arrays.view(f"input {a.name!r}", value, a.dtype)
        if len(made.shape) != len(a.shape):
            raise ShapeError(f"input {a.name!r} has shape {made.shape}, of rank "
                             f"{len(made.shape)}; the program takes {show(a.shape)}")
        if a.state and not made.writable:
            raise ArgumentError(f"state {a.name!r} is replaced in place, and this array is "
                                f"read-only")
        return made

    def _shared(self, a: Any, b: Any) -> bool:
        hosted = isinstance(a, np.ndarray), isinstance(b, np.ndarray)
        if all(hosted):
            return np.may_share_memory(a, b)
        return not any(hosted) and self._arrays.overlap(a, b)

    def _copied(self, array: Any) -> Any:
        if isinstance(array, np.ndarray):
            return array.copy()
        made = self._arrays.empty(array.shape, array.dtype)
        self._arrays.copy(made, array)
        return made

    # ---- results
    def _made(self, sizes: Mapping[str, int], out: Mapping[str, Any],
              taken: Sequence[Any]) -> list[Made]:
        made: list[Made] = []
        for r in self._program.signature.results:
            shape = tuple(evaluate(d, sizes) for d in r.shape)
            wanted = out.get(r.name)
            if wanted is not None:
                made.append(self._into(r, wanted, shape, taken))
                mine = made[-1].array if made[-1].to is None else made[-1].to
                if any(self._shared(mine, m.array if m.to is None else m.to) for m in made[:-1]):
                    raise ArgumentError(f"out {r.name!r} shares memory with the array of another "
                                        f"output, of which one would be lost; give each its own")
            elif self._arrays.wanted:
                array = self._arrays.empty(shape, r.dtype.numpy)
                made.append(Made(array, None, self._arrays.give(array)))
            else:
                hosted = result(shape, r.dtype.numpy)
                made.append(Made(hosted, None, hosted))
        return made

    def _into(self, r: Result, wanted: Any, shape: tuple[int, ...], taken: Sequence[Any]) -> Made:
        """A result in an array of the caller's; through another where an input lies there."""
        if not on_device(wanted):
            hosts = [a for a in taken if isinstance(a, np.ndarray)]
            array = self._program._given(r.name, wanted, shape, r.dtype.numpy, hosts)
            return Made(array, None if array is wanted else wanted, wanted)
        there = self._arrays.view(f"out {r.name!r}", wanted, r.dtype)
        if there.shape != shape:
            raise ShapeError(f"out {r.name!r} has shape {there.shape}; the result is {shape}")
        if not there.writable:
            raise ArgumentError(f"out {r.name!r} is read-only")
        if any(self._shared(there, a) for a in taken):
            return Made(self._arrays.empty(shape, r.dtype.numpy), there, wanted)
        return Made(there, None, wanted)
