"""Emitted CUDA C compiled unchanged by g++ and run on a machine of fibers that checks every access."""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ORDERS = (0, 1, 2)  # of the threads of a block: as counted, reversed, shuffled
_FLAGS = ("-std=c++17", "-Og", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing",
          "-fno-threadsafe-statics", "-fno-exceptions", "-Wall", "-Wno-unused-variable",
          "-Wno-unused-function", "-Werror")
_GAP = 4096  # bytes around an array that belong to nobody


class SimulatorError(Exception):
    """A kernel did what a GPU must not: the machine's own words."""


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tegg-simt-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def run_compiler(command: Sequence[str]) -> None:
    """Raises SimulatorError with a compiler's words."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SimulatorError(done.stderr[:3000])


@functools.cache
def machine_path() -> Path:
    """The machine, compiled."""
    path = _folder() / "machine.so"
    # checked jumps take a fiber's stack for one that has ended
    run_compiler(["g++", "-std=c++17", "-O2", "-U_FORTIFY_SOURCE", "-fPIC", "-shared",
                  str(HERE / "machine.cpp"), "-o", str(path), "-Wl,-soname,machine.so"])
    return path


@functools.cache
def machine() -> ctypes.CDLL:
    """The machine; kernels that are loaded later find it among the global names."""
    lib = ctypes.CDLL(str(machine_path()), mode=ctypes.RTLD_GLOBAL)
    lib.simt_message.restype = ctypes.c_char_p
    lib.simt_moved.restype = ctypes.c_uint64
    return lib


class Memory:
    """Bytes of the device between bytes that belong to nobody."""

    def __init__(self, nbytes: int, name: str) -> None:
        self._raw = np.zeros(nbytes + 2 * _GAP + 256, np.uint8)
        self.address = (self._raw.ctypes.data + _GAP + 255) // 256 * 256
        at = self.address - self._raw.ctypes.data
        self.nbytes, self.bytes = nbytes, self._raw[at:at + nbytes]
        self.bytes[...] = 0x5a  # what nobody has written is no plausible value
        machine().simt_add(ctypes.c_void_p(self.address), ctypes.c_size_t(nbytes), name.encode(), 0)

    def write(self, data: np.ndarray, at: int = 0) -> None:
        """The host writes: from now on these bytes may be read."""
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self.bytes[at:at + raw.size] = raw
        machine().simt_known(ctypes.c_void_p(self.address + at), ctypes.c_size_t(raw.size))

    def free(self) -> None:
        machine().simt_drop(ctypes.c_void_p(self.address))


_units = itertools.count()
_made: dict[tuple[type[Module], str], Path] = {}  # tests load many a text again


@functools.cache
def _header(unit: type[Module]) -> tuple[str, list[str]]:
    """What stands above all kernels of a device, and the flags with which it is read once for all."""
    text = files(f"tegg.backends.{unit.DEVICE}").joinpath("prelude.h").read_text(encoding="utf-8")
    path = _folder() / f"above_{unit.__name__}.h"
    path.write_text(f'{unit.HEAD}\n#line 1 "{unit.FILE}"\n{text}')
    run_compiler([*unit.COMPILER, *_flags(unit), "-x", "c++-header", str(path), "-o", f"{path}.gch"])
    return text, ["-include", str(path)]


def _flags(unit: type[Module]) -> list[str]:
    return [*(f for f in _FLAGS if f != "-shared"), *unit.WARNINGS, f"-I{HERE}",
            "-fsanitize=thread,alignment,bounds"]


def built(source: str, unit: Module | None = None) -> tuple[Path, list[str]]:
    """A translation unit of kernels, in CUDA C where ``unit`` says nothing else, as a shared object,
    and their names."""
    unit = object.__new__(Module) if unit is None else unit
    names, key = unit.found(source), (type(unit), source)
    if key in _made:
        return _made[key], names
    stem = _folder() / f"unit{next(_units)}"
    exports = "".join(f"{unit.export(n)}\n" for n in names)
    head, line, include = unit.HEAD, 1, []
    if unit.COMPILER == ("g++",):
        above, found = _header(type(unit))
        if source.startswith(above):
            source, head, include = source[len(above):], "", found
            line += above.count("\n")
    Path(f"{stem}.cpp").write_text(f'{head}\n#line {line} "{unit.FILE}"\n{source}\n'
                                   f'#line 1 "exports"\nSIMT_MODULE\n{exports}')
    # the sanitizer's hooks are the machine's: its own library must not be linked
    run_compiler([*unit.COMPILER, *_flags(type(unit)), *include, "-c", f"{stem}.cpp", "-o",
                  f"{stem}.o"])
    run_compiler(["g++", "-shared", f"{stem}.o", "-o", f"{stem}.so"])
    _made[key] = Path(f"{stem}.so")
    return _made[key], names


class Module:
    """One translation unit of kernels in CUDA C."""

    DEVICE = "cuda"
    HEAD = '#include "cuda.h"'  # what stands before the unchanged text
    FILE = "kernels.cu"         # what compilers call the text
    WARNINGS: tuple[str, ...] = ("-Wno-maybe-uninitialized",)  # of what is set under a guard
    COMPILER: tuple[str, ...] = ("g++",)

    def __init__(self, source: str) -> None:
        machine()
        path, self.names = built(source, self)
        self._library = ctypes.CDLL(str(path))
        low, high = ctypes.c_void_p(), ctypes.c_void_p()
        self._library.simt_shared_range(ctypes.byref(low), ctypes.byref(high))
        self._shared = low, high
        self.moved = [0, 0]  # bytes of device memory that all launches have read and written

    def found(self, source: str) -> list[str]:
        """The names of the kernels of a text."""
        return (re.findall(r"^KERNEL\(\d+(?:, \d+)?\) (\w+)\(", source, re.MULTILINE)
                + re.findall(r"^extern \"C\" __global__ void (?:__launch_bounds__\(\d+\) )?"
                             r"(\w+)\(", source, re.MULTILINE))

    def export(self, name: str) -> str:
        """C that lets the machine call a kernel."""
        return f"SIMT_EXPORT({name})"

    def run(self, name: str, blocks: int, threads: int, arguments: Sequence[int],
            order: int = 0, shared: int = 0) -> None:
        """Launch a kernel on addresses and sizes, with ``shared`` bytes beside what it declares.
        Raises SimulatorError for what it did wrong."""
        if name not in self.names:
            raise SimulatorError(f"no kernel {name!r}; there are {', '.join(self.names)}")
        count = self._library[f"simt_arguments_{name}"]()
        if count != len(arguments):
            raise SimulatorError(f"{name} takes {count} arguments, {len(arguments)} were given")
        values = [ctypes.c_int64(a) for a in arguments]
        table = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
        failed = machine().simt_launch(self._library[f"simt_body_{name}"], table, blocks, threads,
                                       order, *self._shared, ctypes.c_size_t(shared))
        if failed:
            raise SimulatorError(f"{name}: {machine().simt_message().decode()}")
        self.moved = [n + machine().simt_moved(i) for i, n in enumerate(self.moved)]
