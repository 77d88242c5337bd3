"""A GPU: its context, memory, streams, events and loaded kernels, through NVIDIA's driver.

Where PyCUDA is installed it holds the context, so that its arrays and ours live in one; without it
the driver does.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tegg.errors import BackendError

from . import libcuda
from .context import as_gpuarray, primary_context
from .failures import explained
from .libcuda import Libcuda, Refused
from .replay import Launch, Mark, Replay, Step, start

if TYPE_CHECKING:
    from .cublas import Cublas, Product

OLDEST = 70          # shuffles with masks and independent threads
_BLOCKS_EACH = 32     # blocks of one kernel that a multiprocessor is given at most

# CUdevice_attribute, CUfunction_attribute, CUpointer_attribute, CUmemPool_attribute
_MULTIPROCESSORS, _L2, _SHARED, _POOLS, _MAJOR, _MINOR = 16, 38, 97, 115, 75, 76
_DYNAMIC_SHARED = 8
_CONTEXT, _KIND, _ORDINAL = 1, 2, 9
_KEEP = 4
_WORKSPACE = 32 << 20  # bytes that cuBLAS is given for a stream: as much as NVIDIA recommends
_ON_DEVICE = 2        # CUmemorytype


def open_device(number: int = 0) -> Device:
    """A GPU, one object for each. Raises BackendError where the driver or the device is missing."""
    return opened(number)


@functools.cache
def opened(number: int) -> Device:
    """What ``open_device`` keeps."""
    driver = libcuda.library()
    try:
        found = driver.number("cuDeviceGetCount")
        if not found:
            raise BackendError("NVIDIA's driver finds no GPU on this machine; use device='cpu'")
        if not 0 <= number < found:
            raise BackendError(f"there is no GPU {number}: NVIDIA's driver finds {found}, and "
                               f"counts from 0")
        return Device(driver, number)
    except Refused as e:
        remedy = ("see whether nvidia-smi lists it and other programs leave it free"
                  if e.code != libcuda.NOT_STARTED else libcuda.FORKED)
        raise BackendError(f"GPU {number} cannot be opened ({e}); {remedy}") from None


class Device:
    """One GPU: its primary context, and what runs in it. ``with device.current():`` around all.

    What a program reads off it: ``architecture`` (90 for compute capability 9.0),
    ``multiprocessors``, ``shared_bytes`` of a block, ``l2_bytes``, ``memory_bytes``.
    """

    def __init__(self, driver: Libcuda, number: int) -> None:
        self.number, self._driver = number, driver
        self._device = driver.number("cuDeviceGet", number)
        text = ctypes.create_string_buffer(256)
        driver.cuDeviceGetName(text, 256, self._device)
        self.name = text.value.decode(errors="replace")
        major, minor = self._read(_MAJOR), self._read(_MINOR)
        self.architecture = 10 * major + minor
        if self.architecture < OLDEST:
            raise BackendError(f"{self.name} is of compute capability {major}.{minor}; the "
                               f"oldest that kernels are made for is {OLDEST // 10}.0")
        self.multiprocessors = self._read(_MULTIPROCESSORS)
        self.most_blocks = _BLOCKS_EACH * self.multiprocessors
        self.shared_bytes, self.l2_bytes = self._read(_SHARED), self._read(_L2)
        size = c_size_t()
        driver.cuDeviceTotalMem_v2(byref(size), self._device)
        self.memory_bytes = size.value
        self.version = driver.number("cuDriverGetVersion")
        self._context, self.held_by = primary_context(driver, number)
        self._lock, self._process = threading.RLock(), os.getpid()
        self._cublas: Cublas | None = None
        self._through: Stream | None = None  # on which calls are taken down
        self._lost = ""
        with self.current():
            self._pool = self._default_pool()
            self._address = self._own_context()

    def _read(self, attribute: int) -> int:
        return self._driver.number("cuDeviceGetAttribute", attribute, self._device)

    def _default_pool(self) -> int:
        """Gives memory in the order of a stream, and keeps what is freed; 0 where there is none."""
        if not self._read(_POOLS):
            return 0
        pool = self._driver.handle("cuDeviceGetDefaultMemPool", self._device)
        self._driver.cuMemPoolSetAttribute(pool, _KEEP, byref(c_uint64(2**64 - 1)))
        return pool

    def _own_context(self) -> int:
        """The context's handle, as it is known to memory that is allocated in it."""
        probe = Memory(self, 1, None)
        return self._context_of(probe.address)

    @contextmanager
    def current(self) -> Iterator[None]:
        """This thread has the device to itself; what the driver refuses is a BackendError."""
        if os.getpid() != self._process:
            raise BackendError(f"{self.name} was opened before this process was forked, and "
                               f"NVIDIA's driver does not work in both; open it after the fork "
                               f"only, or start processes by multiprocessing's 'spawn'")
        with self._lock:
            if self._lost:
                raise BackendError(f"{self._lost}; nothing can run on it in this process any more")
            try:
                self._context.push()
                try:
                    yield
                finally:
                    self._context.pop()
            except Refused as e:
                text, lost = explained(self.name, e)
                self._lost = text if lost else ""
                raise BackendError(text) from None

    # ---- kernels
    def load(self, code: bytes, names: Sequence[str]) -> Module:
        """The kernels of machine code, by name."""
        return Module(self, self._driver, code, names)

    def allow_shared(self, function: int, nbytes: int) -> None:
        """Let a kernel have so much shared memory beside what it declares."""
        if nbytes > self.shared_bytes:
            raise BackendError(f"a kernel takes {nbytes:,} bytes of shared memory, and a block of "
                               f"{self.name} has {self.shared_bytes:,}; compile for this GPU, "
                               f"with tegg.Cuda() or device='cuda'")
        if nbytes:  # with what it declares it may be more than it gets by itself
            self._driver.cuFuncSetAttribute(function, _DYNAMIC_SHARED, nbytes)

    def start(self, step: Step, stream: int) -> None:
        """One kernel, or one product of the library, by itself."""
        if isinstance(step, Launch):
            start(self._driver, step, stream)
        else:
            self.cublas().multiply(step, stream)

    def cublas(self) -> Cublas:
        """The library in this device's context, started when it is first asked for."""
        if self._cublas is None:
            from .cublas import Cublas
            nbytes = _WORKSPACE if self.architecture >= 90 else _WORKSPACE // 8
            self._cublas = Cublas(self.allocate, nbytes)
        return self._cublas

    def can_replay(self, steps: Sequence[Step]) -> bool:
        """Whether steps can be a graph: their products have been started one by one before."""
        return not self._new(steps)

    def _new(self, steps: Sequence[Step | Mark]) -> list[Product]:
        """Products that the library has not been asked for yet."""
        return [s for s in steps if not isinstance(s, (Launch, Mark))
                and not self.cublas().started(s)]

    def replay(self, steps: Sequence[Step | Mark], stream: int = 0) -> Replay:
        """Steps as one graph, which this stream starts; any stream does, where all are kernels."""
        if all(isinstance(s, (Launch, Mark)) for s in steps):
            return Replay(self._driver, steps)
        from .capture import Recorder
        if self._through is None:
            self._through = self.stream()
        recorder = Recorder(self._driver, self.cublas(), stream, self._through.handle)
        return Replay(self._driver, steps, recorder)

    # ---- memory
    def allocate(self, nbytes: int, stream: int | None = None) -> Memory:
        """Memory that is freed with the object. With a stream: in its order, and soon had again."""
        return Memory(self, nbytes, stream if self._pool else None)

    def trim(self) -> None:
        """Give back what the pool keeps. Waits for all streams, whose memory it is till then."""
        if self._pool:
            self._driver.cuCtxSynchronize()
            self._driver.cuMemPoolTrimTo(self._pool, 0)

    def pinned(self, nbytes: int) -> Pinned:
        """Memory of the host that copies need not go through another's for."""
        return Pinned(self, self._driver, nbytes)

    def free_bytes(self) -> int:
        """Bytes of memory that nobody has."""
        free, total = c_size_t(), c_size_t()
        self._driver.cuMemGetInfo_v2(byref(free), byref(total))
        return free.value

    def upload(self, to: int, source: int, nbytes: int, stream: int = 0) -> None:
        """Copy from an address of the host."""
        if nbytes:
            self._driver.cuMemcpyHtoDAsync_v2(to, source, nbytes, stream)

    def download(self, to: int, source: int, nbytes: int, stream: int = 0) -> None:
        """Copy to an address of the host, which has it once the stream is waited for."""
        if nbytes:
            self._driver.cuMemcpyDtoHAsync_v2(to, source, nbytes, stream)

    def copy(self, to: int, source: int, nbytes: int, stream: int = 0) -> None:
        """Copy on the device."""
        if nbytes:
            self._driver.cuMemcpyDtoDAsync_v2(to, source, nbytes, stream)

    def _pointer(self, attribute: int, address: int, out: Any) -> Any:
        self._driver.cuPointerGetAttribute(byref(out), attribute, address)
        return out.value

    def _context_of(self, address: int) -> int:
        """The context that memory was made in; 0 for a pool's, which belongs to none."""
        try:
            return self._pointer(_CONTEXT, address, c_void_p()) or 0
        except Refused:
            return 0

    def why_not(self, address: int) -> str:
        """Why an address cannot be used by this device's kernels; empty where it can."""
        try:
            kind = self._pointer(_KIND, address, c_int())
            ordinal = self._pointer(_ORDINAL, address, c_int())
        except Refused:
            return "is not memory that NVIDIA's driver knows"
        if kind != _ON_DEVICE:
            return "lies in memory of the host"
        if ordinal != self.number:
            return f"lies on GPU {ordinal}, and the program runs on GPU {self.number}"
        if self._context_of(address) not in (0, self._address):
            return ("was made in another CUDA context than the device's primary one; with PyCUDA "
                    "import pycuda.autoprimaryctx instead of pycuda.autoinit")
        return ""

    def gpuarray(self, array: Any) -> Any:
        """The memory of an array of ours as PyCUDA's GPUArray."""
        with self.current():
            return as_gpuarray(array)

    # ---- order and time
    def wait(self, stream: int) -> None:
        """The host waits until a stream is done."""
        self._driver.cuStreamSynchronize(stream)

    def stream(self) -> Stream:
        """A stream of its own, which does not wait for the default one."""
        return Stream(self, self._driver)

    def mark(self, stream: int = 0) -> Event:
        """An event after what a stream was given so far."""
        return Event(self, self._driver, stream)

    def after(self, stream: int, event: Event) -> None:
        """What a stream is given from now on waits for an event."""
        self._driver.cuStreamWaitEvent(stream, event.handle, 0)

    def order(self, first: int, then: int) -> None:
        """What a stream is given from now on comes after what another has."""
        if first != then:
            self.after(then, self.mark(first))

    def times(self, groups: Sequence[Sequence[Step]], stream: int = 0) -> list[float]:
        """The seconds that each group of steps takes on the device, one after the other. All are
        one graph with events between: launches one by one, with Python between them, are slower
        than small kernels are. The first group runs once before, as a graph takes time to begin."""
        for product in self._new([s for group in groups for s in group]):
            self.start(product, stream)
        marks = [self.mark(stream) for _ in range(len(groups) + 1)]
        steps: list[Step | Mark] = [*(groups[0] if groups else ()), Mark(marks[0].handle)]
        for group, mark in zip(groups, marks[1:]):
            steps += [*group, Mark(mark.handle)]
        replay = self.replay(steps, stream)
        try:
            replay.start(stream)
            self.wait(stream)  # an event that was recorded before would be there at once
            return [self.seconds(a, b) for a, b in pairwise(marks)]
        finally:
            replay.close()

    def seconds(self, begin: Event, end: Event) -> float:
        """The time between two events; waits for the second."""
        self._driver.cuEventSynchronize(end.handle)
        out = c_float()
        self._driver.cuEventElapsedTime(byref(out), begin.handle, end.handle)
        return out.value * 1e-3

    def released(self, call: str, *arguments: Any) -> None:
        """Free a thing of the driver's by a call."""
        self.finish(lambda: getattr(self._driver, call)(*arguments))

    def finish(self, free: Callable[[], None]) -> None:
        """Free something, unless it went with its context or stayed behind in a fork."""
        if not sys.is_finalizing() and os.getpid() == self._process and not self._lost:
            with contextlib.suppress(BackendError), self.current():
                free()


class Memory:
    """Bytes of a device, freed with the object; ``int`` gives the address."""

    __slots__ = ("_device", "_stream", "address", "nbytes")

    def __init__(self, device: Device, nbytes: int, stream: int | None) -> None:
        self.address, self.nbytes, self._device, self._stream = 0, nbytes, device, stream
        try:
            self.address = self._asked()
        except Refused as e:
            if e.code != libcuda.NO_MEMORY:
                raise
            device.trim()
            try:
                self.address = self._asked()
            except Refused as e:
                e.args = (f"{e} of {nbytes:,} bytes; {device.free_bytes():,} are free",)
                raise

    def _asked(self) -> int:
        handle, nbytes = self._device._driver.handle, max(1, self.nbytes)
        return (handle("cuMemAlloc_v2", nbytes) if self._stream is None else
                handle("cuMemAllocAsync", nbytes, self._stream))

    def __int__(self) -> int:
        return self.address

    def __del__(self) -> None:
        if self.address and self._stream is None:
            self._device.released("cuMemFree_v2", self.address)
        elif self.address:
            self._device.released("cuMemFreeAsync", self.address, self._stream)


class Pinned:
    """Bytes of the host that stay where they are, freed with the object."""

    def __init__(self, device: Device, driver: Libcuda, nbytes: int) -> None:
        self._device = device
        self.address = driver.handle("cuMemAllocHost_v2", nbytes)

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self._device.released("cuMemFreeHost", self.address)


class Module:
    """Loaded kernels: handles by name. Unloaded with the object."""

    def __init__(self, device: Device, driver: Libcuda, code: bytes,
                 names: Sequence[str]) -> None:
        self._device = device
        self._handle = driver.handle("cuModuleLoadData", code)
        self.functions = {n: driver.handle("cuModuleGetFunction", self._handle, n.encode())
                          for n in names}

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self._device.released("cuModuleUnload", self._handle)


class Stream:
    """A stream of the driver's. ``handle`` is what other libraries call it by."""

    def __init__(self, device: Device, driver: Libcuda) -> None:
        self._device = device
        self.handle = driver.handle("cuStreamCreate", 1)  # CU_STREAM_NON_BLOCKING

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._device.released("cuStreamDestroy_v2", self.handle)


class Event:
    """A point in a stream."""

    def __init__(self, device: Device, driver: Libcuda, stream: int) -> None:
        self._device, self._driver = device, driver
        self.handle = driver.handle("cuEventCreate", 0)
        self.again(stream)

    def again(self, stream: int) -> None:
        """The point after what a stream was given by now."""
        self._driver.cuEventRecord(self.handle, stream)

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._device.released("cuEventDestroy_v2", self.handle)
