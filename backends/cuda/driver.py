"""The GPU through PyCUDA, which is imported here alone, when a device is opened."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tegg.cache import Cache, content_key, default
from tegg.errors import BackendError

from . import nvrtc

_OLDEST = 70          # shuffles with masks and independent threads
_BLOCKS_EACH = 32     # blocks of one kernel that a multiprocessor is given at most


@functools.cache
def open_device() -> Device:
    """The first GPU. Raises BackendError where PyCUDA, the driver or a device is missing."""
    try:
        from pycuda import driver
    except ModuleNotFoundError:
        raise BackendError("device 'cuda' needs PyCUDA, which is not installed; "
                           "pip install 'tegg[cuda]'") from None
    except ImportError as e:
        raise BackendError(f"PyCUDA cannot load NVIDIA's driver ({e}); install the driver of the "
                           f"GPU, or use device='cpu'") from None
    try:
        driver.init()
        if driver.Device.count() == 0:
            raise BackendError("NVIDIA's driver finds no GPU on this machine; use device='cpu'")
        return Device(driver, driver.Device(0))
    except RuntimeError as e:
        raise BackendError(f"NVIDIA's driver does not start ({e}); see whether nvidia-smi lists a "
                           f"GPU, or use device='cpu'") from None


class Device:
    """One GPU: its primary context, and what runs in it. ``with device.current():`` around all."""

    def __init__(self, driver: Any, device: Any) -> None:
        self._driver = driver
        major, minor = device.compute_capability()
        self.architecture = 10 * major + minor
        if self.architecture < _OLDEST:
            raise BackendError(f"{device.name()} is of compute capability {major}.{minor}; the "
                               f"oldest that kernels are made for is {_OLDEST // 10}.0")
        self.name = device.name()
        attribute = driver.device_attribute.MULTIPROCESSOR_COUNT
        self.most_blocks = _BLOCKS_EACH * int(device.get_attribute(attribute))
        self._context = device.retain_primary_context()
        self._lock = threading.RLock()

    @contextmanager
    def current(self) -> Iterator[None]:
        """This thread has the device to itself; what the driver refuses is a BackendError."""
        with self._lock:
            self._context.push()
            try:
                yield
            except self._driver.MemoryError as e:
                raise BackendError(f"{self.name} is out of memory ({e}); use smaller inputs or "
                                   f"free other programs") from None
            except self._driver.Error as e:
                raise BackendError(f"{self.name}: {e}") from None
            finally:
                self._context.pop()

    # ---- kernels
    def load(self, source: str, names: Sequence[str],
             cache: Cache | None = None) -> Mapping[str, Any]:
        """Functions of a source by name. The source is compiled once, and kept by the cache."""
        cache, compiler = cache or default(), nvrtc.find()
        version = compiler.version if compiler else f"nvcc {self._driver.get_version()}"
        key = content_key(source, version, str(self.architecture), *nvrtc.FLAGS)
        code = cache.read("cubin", key)
        if code is None:
            code = (compiler.compile(source, self.architecture) if compiler
                    else self._nvcc(source))
            cache.put("cubin", key, code)
        module = self._driver.module_from_buffer(code)
        return {name: module.get_function(name) for name in names}

    def _nvcc(self, source: str) -> bytes:
        from pycuda.compiler import compile as nvcc
        try:
            return nvcc(source, no_extern_c=True, arch=f"sm_{self.architecture}",
                        options=list(nvrtc.FLAGS))
        except (OSError, self._driver.CompileError) as e:
            raise BackendError(f"neither NVRTC nor nvcc compiles kernels for {self.name} ({e}); "
                               f"pip install nvidia-cuda-nvrtc-cu12, or put nvcc on PATH") from None

    @staticmethod
    def prepare(function: Any, pointers: int, sizes: int) -> None:
        """State the arguments of a function: pointers, then sizes of 64 bits."""
        function.prepare("P" * pointers + "q" * sizes)

    @staticmethod
    def launch(function: Any, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        function.prepared_call((blocks, 1), (threads, 1, 1), *arguments)

    # ---- memory
    def allocate(self, nbytes: int) -> Any:
        """Memory that is freed with the object; ``int`` gives its address."""
        return self._driver.mem_alloc(max(1, nbytes))

    def upload(self, to: int, source: int, nbytes: int) -> None:
        """Copy from an address of the host."""
        if nbytes:
            self._driver.memcpy_htod(to, (ctypes.c_char * nbytes).from_address(source))

    def download(self, to: int, source: int, nbytes: int) -> None:
        """Copy to an address of the host."""
        if nbytes:
            self._driver.memcpy_dtoh((ctypes.c_char * nbytes).from_address(to), source)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Copy on the device."""
        if nbytes:
            self._driver.memcpy_dtod(to, source, nbytes)

    # ---- time
    def mark(self) -> Any:
        """An event after what has been launched so far."""
        event = self._driver.Event()
        event.record()
        return event

    @staticmethod
    def seconds(begin: Any, end: Any) -> float:
        """The time between two events; waits for the second."""
        end.synchronize()
        return end.time_since(begin) * 1e-3
