"""metalcompute over the simulator, as its source says it behaves: the runtime's own file runs.

As there, runs are one-dimensional, of whole threadgroups as large as the kernel's limit; every
argument is a buffer; runs are put off, and done in order when a handle goes away. Where the real
one goes on with something that nobody means, or goes wrong without a word, this one refuses.
"""

from __future__ import annotations

import collections
import ctypes
import mmap
import sys
import types
from contextlib import contextmanager

from simt.metal_module import MetalModule
from simt.metal_rules import broken_rules, threadgroup_bytes
from simt.simulator import SimulatorError, machine
from tegg.backends.metal import driver as runtime

WIDTH, MOST_THREADS, MOST_BYTES = 32, 1024, 32768
launched: list[tuple[str, int, int]] = []  # of every run: its function, threadgroups, threads
failed: list[str] = []                     # what the real library never says: runs that went wrong


class error(Exception):
    pass


class Settings:
    """The machine that is played."""

    name = "Apple M2 Pro"
    memory = 1 << 28
    devices = 1
    group = 0  # threads of a threadgroup, where the GPU cannot do what kernels state


class Device:
    def __init__(self, index: int = -1) -> None:
        if index >= Settings.devices or Settings.devices == 0:
            raise error("Cannot create device")
        self.queue: collections.deque = collections.deque()
        self.sent = self.done = 0

    def __str__(self) -> str:
        return f"metalcompute.Device({Settings.name})"

    def kernel(self, source: str) -> Kernel:
        return Kernel(self, source)

    def buffer(self, length_or_buffer: object) -> Buffer:
        return Buffer(self, length_or_buffer)

    def finish(self, number: int) -> None:
        while self.done < number:
            self.done += 1
            try:
                self.queue.popleft()()
            except SimulatorError as e:
                failed.append(str(e))


class Kernel:
    compiled = 0

    def __init__(self, device: Device, source: str) -> None:
        Kernel.compiled += 1
        self.device, self.source = device, source
        wrong = broken_rules(source)
        if wrong:
            raise error("\n".join(wrong))
        try:
            self.module = MetalModule(source)
        except SimulatorError as e:
            raise error(str(e)) from None

    def function(self, name: str) -> Function:
        return Function(self, name)


class Buffer(mmap.mmap):
    """Memory of whole pages: a length, or a copy of what has memory."""

    def __new__(cls, device: Device, given: object):
        if isinstance(given, int):
            length, data = given, None
        else:
            try:
                data = memoryview(given).cast("B")  # type: ignore[arg-type]
            except TypeError:
                raise error("Unsupported input format") from None
            length = len(data)
        if length <= 0 or length > Settings.memory:
            raise error("Could not make buffer")
        self = mmap.mmap.__new__(cls, -1, length)
        self[:] = bytes([0x5a]) * length if data is None else data.tobytes()
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self))
        machine().simt_add(ctypes.c_void_p(self.address), ctypes.c_size_t(length), b"a buffer", 0)
        machine().simt_known(ctypes.c_void_p(self.address), ctypes.c_size_t(length))
        return self

    def __init__(self, *_: object) -> None:
        pass

    def __del__(self) -> None:
        if hasattr(self, "address"):
            machine().simt_drop(ctypes.c_void_p(self.address))


class Function:
    def __init__(self, kernel: Kernel, name: str) -> None:
        if name not in kernel.module.kernels:
            raise error("Function not found")
        self.kernel, self.name = kernel, name
        self.head = kernel.module.kernels[name]

    def __call__(self, count: int, *arguments: object) -> Run:
        device = self.kernel.device
        if not isinstance(count, int):
            raise error("First argument should be an integer kernel count")
        buffers = []
        for a in arguments:
            if isinstance(a, (int, float)):
                raise error(f"{a!r} would become a buffer of so many zeros; pass its bytes")
            buffers.append(a if isinstance(a, Buffer) else Buffer(device, a))
        if len(buffers) != len(self.head.buffers):
            raise error(f"{self.name} has {len(self.head.buffers)} buffers, {len(buffers)} are bound")
        if threadgroup_bytes(self.kernel.source, self.name) > MOST_BYTES:
            raise error("Cannot create pipeline state")
        if self.head.threads is None or self.head.threads % WIDTH or self.head.threads > MOST_THREADS:
            raise error(f"{self.name} states no limit of threads by which its groups are known")
        threads = Settings.group or self.head.threads
        groups = -(-count // threads)

        def work() -> None:
            launched.append((self.name, groups, threads))
            self.kernel.module.run(self.name, groups, threads, [b.address for b in buffers],
                                   len(launched) % 3)

        device.queue.append(work)
        device.sent += 1
        return Run(device, device.sent, buffers)


class Run:
    def __init__(self, device: Device, number: int, buffers: list[Buffer]) -> None:
        self.device, self.number, self.buffers = device, number, buffers

    def __del__(self) -> None:
        self.device.finish(self.number)


def get_devices():
    info = collections.namedtuple("metalcompute_device", "deviceName recommendedMaxWorkingSetSize "
                                                         "maxTransferRate hasUnifiedMemory")
    return tuple(info(Settings.name, Settings.memory, 0, True) for _ in range(Settings.devices))


@contextmanager
def installed():
    """A Mac on which metalcompute finds the simulated GPU. Runs that fail are errors at the end."""
    module = types.ModuleType("metalcompute")
    vars(module).update(Device=Device, error=error, get_devices=get_devices)
    saved = sys.modules.get("metalcompute")
    sys.modules["metalcompute"] = module
    runtime.open_device.cache_clear()
    failed.clear()
    try:
        yield module
        assert not failed, failed[0]
    finally:
        runtime.open_device.cache_clear()
        if saved is None:
            sys.modules.pop("metalcompute", None)
        else:
            sys.modules["metalcompute"] = saved


