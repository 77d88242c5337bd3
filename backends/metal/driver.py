"""The GPU through metalcompute, which is imported here alone, when a device is opened.

metalcompute binds whole buffers only, starts whole threadgroups along one dimension, whose size is
the limit that the kernel states, gives each run a command buffer of its own, says nothing of runs
that fail, and waits for a run where its handle goes away.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from mmap import mmap
from typing import Any, Protocol

import numpy as np

from tegg.errors import BackendError
from tegg.kernel.simt import THREADS, WARP

from .chips import cores_of
from .hazards import Place

BLOCKS_EACH = 32  # blocks of one kernel that a core is given at most
_AROUND = 3        # lines of a source shown on either side of one that is refused
_PROBE = "tegg_probe"


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One start of a function: of so many blocks, on what it is handed."""

    function: Any
    blocks: int
    places: tuple[Place, ...]


class Gpu(Protocol):
    """What programs need of a device, whichever way it is reached. ``with gpu.current():`` around
    all but its names."""

    name: str
    most_blocks: int
    bound: bool  # whether kernels are handed each array by itself, at an offset

    def current(self) -> AbstractContextManager[None]:
        """This thread has the device to itself; what Metal refuses is a BackendError."""

    def load(self, source: str, names: Sequence[str]) -> Mapping[str, Any]:
        """Functions of a source by name. A source that was compiled before is not again."""

    def run(self, dispatches: Sequence[Dispatch]) -> None:
        """Do all of them, in order, and wait."""

    def allocate(self, nbytes: int) -> Any:
        """A buffer that the host sees, too."""

    def adopt(self, pages: mmap) -> Any:
        """A buffer of a map's own pages, which it keeps alive; None where there is none to have."""

    def bytes(self, buffer: Any) -> np.ndarray:
        """What the host sees of a buffer."""


@functools.cache
def prelude() -> str:
    """The header that stands above all kernels."""
    return files("tegg.backends.metal").joinpath("prelude.h").read_text(encoding="utf-8")


@functools.cache
def open_device() -> Device:
    """The default GPU. Raises BackendError without macOS, metalcompute or a GPU."""
    try:
        import metalcompute
    except ModuleNotFoundError:
        raise BackendError(_missing()) from None
    except ImportError as e:
        raise BackendError(f"metalcompute does not load ({e}); pip install --force-reinstall "
                           f"metalcompute, or use device='cpu'") from None
    try:
        device = metalcompute.Device()
    except metalcompute.error as e:
        raise BackendError(f"macOS finds no GPU that Metal can use ({e}); use "
                           f"device='cpu'") from None
    return Device(metalcompute, device)


def _missing() -> str:
    if sys.platform != "darwin":
        return ("device 'metal' is an Apple GPU, and this machine does not run macOS; use "
                "device='cpu', or device='cuda' with an NVIDIA GPU")
    return ("device 'metal' needs metalcompute, which is not installed; pip install 'tegg[metal]'")


class Device:
    """One GPU and its queue of runs, as metalcompute has them."""

    bound = False

    def __init__(self, library: Any, device: Any) -> None:
        self._library, self._device = library, device
        found = re.search(r"Device\((.*)\)", str(device))
        self.name = found.group(1) if found else str(device)
        self.most_blocks = BLOCKS_EACH * cores_of(self.name)
        self._lock = threading.RLock()
        self._kernels: dict[str, Any] = {}
        with self.current():
            probe(self)

    @contextmanager
    def current(self) -> Iterator[None]:
        """This thread has the device to itself; what Metal refuses is a BackendError."""
        with self._lock:
            try:
                yield
            except self._library.error as e:
                raise BackendError(f"{self.name}: Metal refuses: {e}") from None

    # ---- kernels
    def load(self, source: str, names: Sequence[str]) -> Mapping[str, Any]:
        """Functions of a source by name. A source that was compiled before is not again."""
        kernel = self._kernels.get(source)
        if kernel is None:
            try:
                kernel = self._kernels[source] = self._device.kernel(source)
            except self._library.error as e:
                raise BackendError(f"Metal does not compile kernels for {self.name}: {e}\n"
                                   f"{numbered(source, str(e))}") from None
        return {name: kernel.function(name) for name in names}

    @staticmethod
    def run(dispatches: Sequence[Dispatch]) -> None:
        """Do all of them: a command buffer each. A handle that goes away is waited for."""
        handles = [d.function(d.blocks * THREADS, *(p.buffer for p in d.places))
                   for d in dispatches]
        while handles:
            handles.pop()

    # ---- memory
    def allocate(self, nbytes: int) -> Any:
        """A buffer that the host sees, too."""
        try:
            return self._device.buffer(max(16, nbytes))
        except (self._library.error, MemoryError, OverflowError) as e:
            raise no_buffer(self.name, nbytes, str(e)) from None

    @staticmethod
    def adopt(pages: mmap) -> None:
        """metalcompute copies whatever it is given."""

    @staticmethod
    def bytes(buffer: Any) -> np.ndarray:
        """What the host sees of a buffer."""
        return np.frombuffer(buffer, np.uint8)


def no_buffer(device: str, nbytes: int, why: str) -> BackendError:
    """The error of a device that makes no buffer of so many bytes."""
    return BackendError(f"{device} makes no buffer of {nbytes:,} bytes ({why}); its limit on one "
                        f"buffer is below that, or memory is used up: use smaller inputs or "
                        f"narrower weights (tegg.Fp16())")


def probe(gpu: Gpu) -> None:
    """Threadgroups are as large, and numbered, as kernels take it. Raises BackendError if not."""
    out = gpu.allocate(16)
    gpu.run([Dispatch(gpu.load(_probe_source(), [_PROBE])[_PROBE], 1,
                      (Place(out, 0, 16, True),))])
    threads, width, strangers = gpu.bytes(out).view(np.uint32)[:3]
    if (int(threads), int(width), int(strangers)) != (THREADS, WARP, 0):
        raise BackendError(
            f"{gpu.name} runs {threads} threads in simdgroups of {width} where kernels are "
            f"made for {THREADS} in simdgroups of {WARP}, in order; Apple silicon is what is "
            f"supported, use device='cpu'")


def _probe_source() -> str:
    return f"""{prelude()}
[[max_total_threads_per_threadgroup({THREADS})]]
kernel void {_PROBE}(device uint *out [[buffer(0)]], uint at [[thread_position_in_threadgroup]],
                uint lane [[thread_index_in_simdgroup]], uint n [[threads_per_threadgroup]],
                uint width [[threads_per_simdgroup]]) {{
  SHARED int room_i[{THREADS // WARP}];
  const int strange = team_add_i((int)(lane != at % {WARP}), room_i, (int)at, (int)lane, (int)n);
  if (at == 0) {{
    out[0] = n;
    out[1] = width;
    out[2] = (uint)strange;
  }}
}}
"""


def numbered(source: str, message: str) -> str:
    """The lines of a source that a compiler's message names, with their neighbours; all of it
    where it names none."""
    lines = source.split("\n")
    named = {int(n) for n in re.findall(r"program_source:(\d+)", message)}
    shown = sorted({k for n in named for k in range(n - _AROUND, n + _AROUND + 1)
                    if 1 <= k <= len(lines)}) or range(1, len(lines) + 1)
    return "\n".join(f"{k:5} {lines[k - 1]}" for k in shown)
