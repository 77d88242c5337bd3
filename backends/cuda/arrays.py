"""Arrays on the GPU: those of other libraries, used where they lie, and ours for results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tegg.dtype import DType
from tegg.errors import ArgumentError, BackendError, DTypeError
from tegg.interchange import dlpack_device, interface

from . import dlpack
from .driver import Device, Memory
from .streams import LEGACY, current_stream

WIDEST = 16  # bytes of the widest access: where an array must begin a multiple of, or of its size


@dataclass(frozen=True, slots=True)
class View:
    """An array on the device as a kernel sees it. ``owner`` keeps the memory."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    writable: bool
    owner: Any

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def view(device: Device, stream: int, name: str, value: object, dtype: DType) -> View:
    """An array of another library, in place. What ``stream`` is given from now on comes after
    whatever makes the array.

    Raises DTypeError for another dtype, ArgumentError for memory that kernels cannot use as it
    lies, BackendError for memory that the device cannot reach.
    """
    if dlpack_device(value) in dlpack.CUDA:
        made, strides = _from_dlpack(stream, name, value)
    else:
        made, strides = _from_interface(device, stream, name, value)
    want = dtype.numpy
    if made.dtype != want and not (made.dtype.kind == "V" and dtype.name == "bf16"
                                   and made.dtype.itemsize == 2):
        raise DTypeError(f"{name} is {made.dtype}, the program was compiled for {dtype.name}; "
                         f"convert it first")
    if math.prod(made.shape):
        _usable(device, name, made, strides)
    return View(made.address, made.shape, want, made.writable, made.owner)


def _usable(device: Device, name: str, made: View, strides: Sequence[int] | None) -> None:
    if strides is not None and not _contiguous(made.shape, strides, made.dtype.itemsize):
        raise ArgumentError(f"{name} is not C-contiguous on the GPU: its shape is {made.shape}, "
                            f"its strides in bytes {tuple(strides)}; copy it to a contiguous "
                            f"array first")
    if made.address % WIDEST:
        raise ArgumentError(f"{name} begins at an address that is no multiple of {WIDEST} bytes, "
                            f"as a view into an array may; copy it first")
    why = device.why_not(made.address)
    if why:
        raise BackendError(f"{name} {why}")


def _contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    step = itemsize
    for n, s in zip(reversed(shape), reversed(strides)):
        if n != 1 and s != step:
            return False
        step *= n
    return True


def _from_dlpack(stream: int, name: str, value: Any) -> tuple[View, Sequence[int] | None]:
    tensor = dlpack.taken(value.__dlpack__(stream=stream or LEGACY))
    try:
        dtype = tensor.dtype
    except DTypeError as e:
        raise DTypeError(f"{name}: {e}") from None
    return View(tensor.address, tensor.shape, dtype, True, (value, tensor)), tensor.strides


def _from_interface(device: Device, stream: int, name: str,
                    value: Any) -> tuple[View, Sequence[int] | None]:
    said = interface(value)
    if said is None:
        raise ArgumentError(f"{name} is {type(value).__name__}, which lies on another device than "
                            f"an NVIDIA GPU; copy it to a NumPy array first")
    if said.get("mask") is not None:
        raise ArgumentError(f"{name} has a mask, which programs do not read; fill it in first")
    address, readonly = said["data"]
    made_on = said.get("stream")
    if made_on is not None:
        device.order(0 if made_on == LEGACY else int(made_on), stream)
    return (View(int(address or 0), tuple(map(int, said["shape"])), np.dtype(said["typestr"]),
                 not readonly, value), said.get("strides"))


class DeviceArray:
    """A result on the GPU. Any library with ``__cuda_array_interface__`` or DLPack reads it in
    place; ``numpy()`` copies it to the host."""

    def __init__(self, device: Device, memory: Memory, shape: tuple[int, ...], dtype: np.dtype,
                 stream: int) -> None:
        self._device, self._memory, self._stream = device, memory, stream
        self.shape, self.dtype = shape, dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def address(self) -> int:
        """Where it begins on the device."""
        return self._memory.address

    def numpy(self) -> np.ndarray:
        """A copy on the host. Waits until it is computed."""
        out = np.empty(self.shape, self.dtype)
        with self._device.current():
            self._device.download(out.ctypes.data, self.address, self.nbytes, self._stream)
            self._device.wait(self._stream)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array on the GPU is read on the host as a copy only")
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype.kind == "V":
            raise TypeError(f"__cuda_array_interface__ has no code for {self.dtype}; use DLPack")
        return {"shape": self.shape, "typestr": self.dtype.str, "version": 3, "strides": None,
                "data": (self.address if self.nbytes else 0, False),
                "stream": self._stream or LEGACY}

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA[0], self._device.number

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        """A capsule. What ``stream`` (default: the default one) is given next comes after us."""
        reader = 0 if stream in (None, LEGACY) else stream
        if reader != -1:
            with self._device.current():
                self._device.order(self._stream, reader)
        return dlpack.given(self, self.address, self.shape, self.dtype, self._device.number)

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self._device.name})"


def overlap(a: Any, b: Any) -> bool:
    """Whether two arrays on the device share memory."""
    return (a.address < b.address + b.nbytes and b.address < a.address + a.nbytes
            and a.nbytes > 0 and b.nbytes > 0)


class Arrays:
    """Arrays on a device as programs take and give them.

    results: ``"numpy"``, ``"device"`` (``DeviceArray``) or ``"gpuarray"`` (PyCUDA's GPUArray).
    """

    def __init__(self, device: Device, results: str) -> None:
        self._device, self._kind = device, results
        self.wanted = results != "numpy"

    def view(self, name: str, value: object, dtype: DType) -> View:
        """An array of any library in place; see ``view``."""
        with self._device.current():
            return view(self._device, current_stream(), name, value, dtype)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        """Fresh memory for a result, in the order of the thread's stream."""
        stream, nbytes = current_stream(), math.prod(shape) * dtype.itemsize
        with self._device.current():
            return DeviceArray(self._device, self._device.allocate(nbytes, stream), shape, dtype,
                               stream)

    def copy(self, to: Any, source: Any) -> None:
        """Copy one array's bytes to another's memory."""
        with self._device.current():
            self._device.copy(to.address, source.address, source.nbytes, current_stream())

    def overlap(self, a: Any, b: Any) -> bool:
        """Whether two arrays on the device share memory."""
        return overlap(a, b)

    def give(self, array: DeviceArray) -> Any:
        """A result in the form that was asked for."""
        return array if self._kind == "device" else self._device.gpuarray(array)
