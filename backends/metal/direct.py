"""The GPU by Metal's own interface: what metalcompute does not offer is had here.

A run is one command buffer for all its kernels, whose failure is reported; kernels that do not wait
for one another may run at once; arrays are bound where they lie, files in memory maps among them;
maths is not the fast kind; pipelines are kept on disk. The device is used as ``driver.Device`` is.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tegg.cache import content_key, default
from tegg.errors import BackendError
from tegg.kernel.simt import THREADS
from tegg.mapped import start_of

from .chips import cores_of
from .emit import DIRECT
from .hazards import Together
from .driver import BLOCKS_EACH, Dispatch, no_buffer, numbered, probe
from .objc import Runtime, Size, libraries

_VERSION = (DIRECT[0] << 16) + DIRECT[1]  # of MSL, as MTLLanguageVersion counts
_FAILED = 5  # MTLCommandBufferStatusError
_CONCURRENT = 1  # MTLDispatchTypeConcurrent: only barriers order kernels
_BUFFERS = 1  # MTLBarrierScopeBuffers
_SHARED = 0  # MTLResourceStorageModeShared: host and GPU see the same bytes


@functools.cache
def open_direct() -> Direct:
    """The default GPU. Raises BackendError without macOS or a GPU."""
    objc, metal = libraries()
    metal.MTLCreateSystemDefaultDevice.restype = ctypes.c_void_p
    device = metal.MTLCreateSystemDefaultDevice()
    if not device:
        raise BackendError("macOS finds no GPU that Metal can use; use device='cpu'")
    return Direct(Runtime(objc), device)


class Buffer:
    """Memory that host and GPU share, until nobody holds it. keep: what it lies in."""

    def __init__(self, runtime: Runtime, handle: int, nbytes: int, keep: object = None) -> None:
        self.handle, self.keep = handle, keep
        address = runtime.send(handle, "contents")
        memory = (ctypes.c_ubyte * nbytes).from_address(address)
        self.bytes = np.frombuffer(memory, np.uint8)
        weakref.finalize(self, runtime.send, handle, "release").atexit = False


class Direct:
    """One GPU and its queue of runs. ``with device.current():`` around all."""

    bound = True

    def __init__(self, runtime: Runtime, device: int) -> None:
        self._runtime, self._device = runtime, device
        self._send = runtime.send
        self._lock = threading.RLock()
        self._pipelines: dict[str, dict[str, int]] = {}
        with self.current():
            self.name = runtime.text(self._send(device, "name"))
            self.most_blocks = BLOCKS_EACH * cores_of(self.name)
            self._queue = self._send(device, "newCommandQueue")
            if not self._queue:
                raise BackendError(f"{self.name} gives no queue of commands; use device='cpu'")
            probe(self)

    @contextmanager
    def current(self) -> Iterator[None]:
        """This thread has the device to itself."""
        with self._lock, self._runtime.pool():
            yield

    # ---- kernels
    def load(self, source: str, names: Sequence[str]) -> Mapping[str, int]:
        """Pipelines of the functions of a source. One that was compiled before is not again."""
        known = self._pipelines.setdefault(source, {})
        missing = [n for n in dict.fromkeys(names) if n not in known]
        if missing:
            library = self._compiled(source)
            try:
                known.update(self._made(source, library, missing))
            finally:
                self._send(library, "release")
        return {n: known[n] for n in names}

    def _compiled(self, source: str) -> int:
        options = self._send(self._runtime.class_named("MTLCompileOptions"), "new")
        self._send(options, "setFastMathEnabled:", False)
        self._send(options, "setLanguageVersion:", _VERSION)
        error = ctypes.c_void_p()
        library: int | None = self._send(
            self._device, "newLibraryWithSource:options:error:", self._runtime.string(source),
            options, ctypes.byref(error))
        self._send(options, "release")
        if not library:
            why = self._runtime.why(error.value)
            raise BackendError(f"Metal does not compile kernels for {self.name}: {why}\n"
                               f"{numbered(source, why)}")
        return library

    def _made(self, source: str, library: int, names: Sequence[str]) -> dict[str, int]:
        """Pipelines by name, out of an archive on disk where there is one."""
        described = {n: self._described(library, n) for n in names}
        try:
            key = content_key(self.name, platform.release(), source, *sorted(names))
            path = default().build("metalar", key, lambda p: self._archive(p, described))
            archive = self._opened(path)
            array = self._send(self._runtime.class_named("NSArray"), "arrayWithObject:", archive)
            out = {}
            for name, descriptor in described.items():
                self._send(descriptor, "setBinaryArchives:", array)
                out[name] = self._pipeline(name, descriptor)
            self._send(archive, "release")
            return out
        finally:
            for descriptor in described.values():
                self._send(descriptor, "release")

    def _described(self, library: int, name: str) -> int:
        function = self._send(library, "newFunctionWithName:", self._runtime.string(name))
        if not function:
            raise BackendError(f"{self.name}: the compiled kernels have no function {name}")
        made: int = self._send(self._runtime.class_named("MTLComputePipelineDescriptor"), "new")
        self._send(made, "setComputeFunction:", function)
        self._send(function, "release")
        return made

    def _pipeline(self, name: str, descriptor: int) -> int:
        error = ctypes.c_void_p()
        made: int | None = self._send(
            self._device, "newComputePipelineStateWithDescriptor:options:reflection:error:",
            descriptor, 0, None, ctypes.byref(error))
        if not made:
            raise BackendError(f"{self.name}: Metal makes no pipeline of {name}: "
                               f"{self._runtime.why(error.value)}")
        most = self._send(made, "maxTotalThreadsPerThreadgroup")
        if most < THREADS:
            raise BackendError(f"{self.name} runs at most {most} threads of {name} together; "
                               f"kernels are made for {THREADS}")
        return made

    # ---- archives of compiled pipelines
    def _archive(self, path: Path, described: Mapping[str, int]) -> None:
        """Compile pipelines into a file."""
        archive, error = self._opened(None), ctypes.c_void_p()
        for name, descriptor in described.items():
            if not self._send(archive, "addComputePipelineFunctionsWithDescriptor:error:",
                              descriptor, ctypes.byref(error)):
                raise BackendError(f"{self.name}: Metal makes no pipeline of {name}: "
                                   f"{self._runtime.why(error.value)}")
        written = self._send(archive, "serializeToURL:error:", self._url(path),
                             ctypes.byref(error))
        self._send(archive, "release")
        if not written:
            raise BackendError(f"{self.name}: Metal writes no archive of kernels to {path}: "
                               f"{self._runtime.why(error.value)}")

    def _opened(self, path: Path | None) -> int:
        """An archive, of a file or a new one."""
        descriptor = self._send(self._runtime.class_named("MTLBinaryArchiveDescriptor"), "new")
        if path is not None:
            self._send(descriptor, "setUrl:", self._url(path))
        error = ctypes.c_void_p()
        made: int | None = self._send(self._device, "newBinaryArchiveWithDescriptor:error:",
                                      descriptor, ctypes.byref(error))
        self._send(descriptor, "release")
        if not made:
            raise BackendError(f"{self.name}: Metal opens no archive of kernels"
                               f"{f' {path}; delete it' if path else ''}: "
                               f"{self._runtime.why(error.value)}")
        return made

    def _url(self, path: Path) -> int:
        found: int = self._send(self._runtime.class_named("NSURL"), "fileURLWithPath:",
                                self._runtime.string(str(path)))
        return found

    # ---- runs
    def run(self, dispatches: Sequence[Dispatch]) -> None:
        """All in one command buffer, with a barrier before each that touches what another one has
        written since the last. Raises BackendError where it fails."""
        if not dispatches:
            return
        send = self._send
        commands = send(self._queue, "commandBuffer")
        encoder = (send(commands, "computeCommandEncoderWithDispatchType:", _CONCURRENT)
                   if commands else None)
        if not encoder:
            raise BackendError(f"{self.name} gives no command buffer; memory may be used up")
        together = Together()
        for d in dispatches:
            if together.waits(d.places):
                send(encoder, "memoryBarrierWithScope:", _BUFFERS)
            send(encoder, "setComputePipelineState:", d.function)
            for i, p in enumerate(d.places):
                send(encoder, "setBuffer:offset:atIndex:", p.buffer.handle, p.offset, i)
            send(encoder, "dispatchThreadgroups:threadsPerThreadgroup:", Size(d.blocks, 1, 1),
                 Size(THREADS, 1, 1))
        send(encoder, "endEncoding")
        send(commands, "commit")
        send(commands, "waitUntilCompleted")
        if send(commands, "status") == _FAILED:
            raise BackendError(f"{self.name}: a run failed: "
                               f"{self._runtime.why(send(commands, 'error'))}")
        self.seconds = send(commands, "GPUEndTime") - send(commands, "GPUStartTime")

    # ---- memory
    def allocate(self, nbytes: int) -> Buffer:
        """A buffer that the host sees, too."""
        nbytes, most = max(16, nbytes), self._send(self._device, "maxBufferLength")
        if nbytes > most:
            raise no_buffer(self.name, nbytes, f"at most {most:,} bytes")
        handle = self._send(self._device, "newBufferWithLength:options:", nbytes, _SHARED)
        if not handle:
            raise no_buffer(self.name, nbytes, "none was given")
        return Buffer(self._runtime, handle, nbytes)

    def adopt(self, pages: mmap.mmap) -> Buffer | None:
        """A buffer of a map's own pages, to the end of the last; None where it is larger than
        buffers can be, or Metal does not take it over: it is copied then."""
        nbytes = -(-len(pages) // mmap.PAGESIZE) * mmap.PAGESIZE
        if nbytes > self._send(self._device, "maxBufferLength"):
            return None
        handle = self._send(self._device, "newBufferWithBytesNoCopy:length:options:deallocator:",
                            start_of(pages), nbytes, _SHARED, None)
        return Buffer(self._runtime, handle, len(pages), pages) if handle else None

    @staticmethod
    def bytes(buffer: Buffer) -> np.ndarray:
        """What the host sees of a buffer."""
        return buffer.bytes
