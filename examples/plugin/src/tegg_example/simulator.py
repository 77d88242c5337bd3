"""The toy accelerator: registers, instructions, and copies between its memory and the host's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tegg
from tegg.extend import KernelCode

UNARY = {"log2": np.log2, "exp2": np.exp2, "sin": np.sin, "sqrt": np.sqrt,
         "recip": lambda x: (1 / x).astype(x.dtype), "contiguous": np.array, "put": np.array,
         "get": np.array}
BINARY = {"add": np.add, "mul": np.multiply, "lessthan": np.less}


@dataclass(slots=True)
class Register:
    """A value, and where it lies: ``host``, ``toy``, or ``any`` for what programs spell."""

    value: np.ndarray
    place: str


@dataclass(slots=True)
class Machine:
    """Runs programs, and counts what it did."""

    launches: int = 0
    instructions: int = 0
    puts: int = 0
    gets: int = 0
    _sizes: Mapping[str, int] = field(default_factory=dict)

    def launch(self, kernel: KernelCode, arrays: list[np.ndarray],
               sizes: Mapping[str, int]) -> None:
        """Run one program on flat arrays.

        Raises BackendError where an instruction reads what does not lie in the toy's memory.
        """
        self.launches += 1
        self._sizes = sizes
        registers: dict[int, Register] = {}
        with np.errstate(all="ignore"):
            for line in kernel.source.splitlines()[1:]:
                self._run(json.loads(line), registers, arrays)

    def _run(self, line: Mapping[str, Any], registers: dict[int, Register],
             arrays: list[np.ndarray]) -> None:
        do, operands = line["do"], [registers[r] for r in line["of"]]
        if do == "store":
            arrays[line["buffer"]][...] = operands[0].value.reshape(-1)
            return
        shape = tuple(map(self._dim, line["shape"]))
        dtype = tegg.dtype(line["dtype"]).numpy
        if do == "load":
            registers[line["to"]] = Register(arrays[line["buffer"]].reshape(shape), line["place"])
            return
        self.instructions += 1
        wanted = "host" if do == "put" else "toy"
        for r, number in zip(operands, line["of"]):
            if r.place not in (wanted, "any"):
                raise tegg.BackendError(f"the toy's {do} reads register {number}, which lies in "
                                        f"the memory of the {r.place}; a rule lacks a copy")
        self.puts += do == "put"
        self.gets += do == "get"
        made = np.asarray(self._value(do, [r.value for r in operands], line, shape, dtype))
        place = "any" if not operands else "host" if do == "get" else "toy"
        registers[line["to"]] = Register(made.astype(dtype, copy=False).reshape(shape), place)

    def _dim(self, d: int | list) -> int:
        """A dim as ``lower`` writes it."""
        if isinstance(d, int):
            return d
        return sum(c * int(np.prod([self._sizes[s] for s in names], dtype=np.int64))
                   for c, names in d)

    def _value(self, do: str, x: list[np.ndarray], line: Mapping[str, Any],
               shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if do in UNARY:
            return UNARY[do](x[0])
        if do in BINARY:
            return BINARY[do](*x)
        return getattr(self, f"_{do}")(x, line, shape, dtype)

    # ---- sources
    def _full(self, x, line, shape, dtype):
        return np.full(shape, _value_of(line["bits_"], dtype))

    def _iota(self, x, line, shape, dtype):
        return np.arange(shape[0]).astype(dtype)

    def _size(self, x, line, shape, dtype):
        return np.asarray(self._dim(line["size_"][0]))

    # ---- arithmetic
    def _mod(self, x, line, shape, dtype):
        a, b = x
        if dtype.kind not in "iu":
            return np.fmod(a.astype(np.float64), b.astype(np.float64)) if dtype.itemsize == 2 \
                else np.fmod(a, b)
        return np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b).astype(dtype)))

    def _intdiv(self, x, line, shape, dtype):
        a, b = x
        by = np.where(b == 0, 1, b).astype(dtype)
        q = a // by
        q = q + ((a % by != 0) & ((a < 0) != (by < 0)))
        return np.where(b == 0, 0, q)

    def _cast(self, x, line, shape, dtype):
        return x[0].astype(dtype)

    def _select(self, x, line, shape, dtype):
        return np.where(*x)

    def _sumreduce(self, x, line, shape, dtype):
        if dtype == bool:
            return x[0].any(line["axis_"], keepdims=True)
        wide = np.float32 if dtype.itemsize == 2 else dtype
        return x[0].astype(wide).sum(line["axis_"], dtype=wide, keepdims=True)

    def _maxreduce(self, x, line, shape, dtype):
        axis = line["axis_"]
        if x[0].shape[axis]:
            return x[0].max(axis, keepdims=True)
        lowest = False if dtype == bool else np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf
        return np.full(shape, lowest)

    # ---- indices
    def _gather(self, x, line, shape, dtype):
        axis = line["axis_"]
        return np.take(x[0], np.clip(x[1], 0, x[0].shape[axis] - 1), axis)

    def _scatter(self, x, line, shape, dtype):
        axis, mode = line["axis_"], line["mode_"]
        out, rows = np.moveaxis(x[0].copy(), axis, 0), np.moveaxis(x[2], axis, 0)
        for row, at in zip(rows, x[1]):
            if 0 <= at < len(out):
                out[at] = (row if mode == "last" else out[at] + row if mode == "add" else
                           np.maximum(out[at], row))
        return np.moveaxis(out, 0, axis)

    # ---- movement
    def _reshape(self, x, line, shape, dtype):
        return x[0].reshape(shape)

    def _permute(self, x, line, shape, dtype):
        return x[0].transpose(line["perm_"])

    def _expand(self, x, line, shape, dtype):
        return np.broadcast_to(x[0], shape)

    def _slice(self, x, line, shape, dtype):
        starts, stops = (map(self._dim, line[k]) for k in ("starts_", "stops_"))
        return x[0][tuple(map(slice, starts, stops, line["steps_"]))]

    def _pad(self, x, line, shape, dtype):
        out = np.full(shape, _value_of(line["fill_"], dtype)).astype(dtype)
        low = [self._dim(d) for d in line["low_"]]
        out[tuple(slice(a, a + n) for a, n in zip(low, x[0].shape))] = x[0]
        return out

    def _flip(self, x, line, shape, dtype):
        return np.flip(x[0], line["axis_"])

    def _window(self, x, line, shape, dtype):
        axis, stride, dilation = line["axis_"], line["stride_"], line["dilation_"]
        at = np.arange(shape[axis])[:, None] * stride + np.arange(shape[axis + 1]) * dilation
        return np.take(x[0], at, axis)


def _value_of(bits: int, dtype: np.dtype) -> object:
    """The number of a pattern: that of a float64 for floats, itself for the others."""
    if dtype.kind in "iub":
        return bits
    return np.int64(bits).view(np.float64)
