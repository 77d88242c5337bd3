"""The part of PyCUDA that the runtime uses, over the simulator: the runtime's own file runs."""

from __future__ import annotations

import sys
import types
from contextlib import contextmanager

import numpy as np
from simt.simulator import Memory, Module
from tegg.backends.cuda import driver as runtime
from tegg.backends.cuda import nvrtc

_live: dict[int, Memory] = {}
launched: list[tuple[str, int, int]] = []  # of every kernel: its name, blocks, threads


class Error(Exception):
    pass


class MemoryError_(Error):
    pass


class CompileError(Error):
    pass


class DeviceAllocation:
    def __init__(self, nbytes: int) -> None:
        if nbytes > device.memory:
            raise MemoryError_("cuMemAlloc failed: out of memory")
        self._memory = Memory(nbytes, "device memory")
        _live[self._memory.address] = self._memory

    def __int__(self) -> int:
        return self._memory.address

    def __del__(self) -> None:
        if hasattr(self, "_memory") and _live.pop(self._memory.address, None):
            self._memory.free()


class Context:
    depth = 0

    def push(self) -> None:
        Context.depth += 1

    def pop(self) -> None:
        Context.depth -= 1


class Device:
    memory = 1 << 28
    capability = (9, 0)
    found = 1

    def __init__(self, number: int = 0) -> None:
        assert number == 0

    @staticmethod
    def count() -> int:
        return Device.found

    def name(self) -> str:
        return "Simulated GPU"

    def compute_capability(self) -> tuple[int, int]:
        return Device.capability

    def get_attribute(self, which: str) -> int:
        assert which == "multiprocessors"
        return 1

    def retain_primary_context(self) -> Context:
        return Context()


device = Device()


class Function:
    def __init__(self, module: Module, name: str) -> None:
        self._module, self._name, self._format = module, name, ""

    def prepare(self, arguments: str) -> None:
        self._format = arguments

    def prepared_call(self, grid, block, *arguments) -> None:
        _here()
        assert len(arguments) == len(self._format)
        assert all(isinstance(a, int) for a in arguments)
        launched.append((self._name, grid[0], block[0]))
        self._module.run(self._name, grid[0], block[0], arguments, len(launched) % 3)


class Event:
    def record(self) -> None:
        _here()

    def synchronize(self) -> None:
        _here()

    def time_since(self, other: Event) -> float:
        assert isinstance(other, Event)
        return 0.25


class Loaded:
    def __init__(self, code: bytes) -> None:
        self._module = Module(code.decode())

    def get_function(self, name: str) -> Function:
        return Function(self._module, name)


def _here() -> None:
    assert Context.depth > 0, "no context is current in this thread"


def _inside(address: int, nbytes: int) -> tuple[Memory, int]:
    for m in _live.values():
        if m.address <= address and address + nbytes <= m.address + m.nbytes:
            return m, address - m.address
    raise Error("cuMemcpy failed: invalid argument")


def _htod(to: int, source) -> None:
    _here()
    data = np.frombuffer(source, np.uint8)
    memory, at = _inside(to, data.size)
    memory.write(data, at)


def _dtoh(to, source: int) -> None:
    _here()
    data = np.frombuffer(to, np.uint8)
    memory, at = _inside(source, data.size)
    data[...] = memory.bytes[at:at + data.size]


def _dtod(to: int, source: int, nbytes: int) -> None:
    _here()
    (a, i), (b, j) = _inside(to, nbytes), _inside(source, nbytes)
    a.write(b.bytes[j:j + nbytes].copy(), i)


class Compiler:
    """In place of NVRTC: the text itself is what the fake device loads."""

    version = "simulated"

    def compile(self, source: str, architecture: int) -> bytes:
        return source.encode()


@contextmanager
def installed():
    """A machine on which PyCUDA finds the simulated device."""
    driver = types.ModuleType("pycuda.driver")
    vars(driver).update(
        init=lambda: None, Device=Device, Error=Error, MemoryError=MemoryError_,
        CompileError=CompileError, Event=Event, mem_alloc=DeviceAllocation,
        memcpy_htod=_htod, memcpy_dtoh=_dtoh, memcpy_dtod=_dtod, module_from_buffer=Loaded,
        device_attribute=types.SimpleNamespace(MULTIPROCESSOR_COUNT="multiprocessors"),
        get_version=lambda: (12, 9))
    package = types.ModuleType("pycuda")
    package.driver = driver
    saved = {n: sys.modules.get(n) for n in ("pycuda", "pycuda.driver")}
    sys.modules.update({"pycuda": package, "pycuda.driver": driver})
    find, nvrtc.find = nvrtc.find, Compiler
    runtime.open_device.cache_clear()
    try:
        yield driver
    finally:
        nvrtc.find = find
        runtime.open_device.cache_clear()
        for name, module in saved.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
