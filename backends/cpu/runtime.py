"""The runtime library: its C sources compiled once per machine, loaded once per process."""

from __future__ import annotations

import ctypes
import re
import sys
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

import numpy as np

from tegg.cache import default

from . import toolchain
from .caches import last_cache, own_cache

_UNITS = ("runtime", "pieces", "program", "caller", "entry")


@cache
def text(name: str) -> str:
    """A C file of this package with its own headers put in place of their ``#include`` lines."""
    return re.sub(r'^#include "(.+)"$', lambda m: text(f"native/{m.group(1)}"),
                  files("tegg.backends.cpu").joinpath(name).read_text(), flags=re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Runtime:
    """The loaded library: ``free`` calls without the GIL, ``held`` with it."""

    free: ctypes.CDLL
    held: ctypes.PyDLL
    table: int           # address of struct rt_table, which every library of kernels is given
    reads_arrays: bool   # whether the call path may read NumPy arrays where they keep their fields


@lru_cache(maxsize=1)
def runtime() -> Runtime:
    """The runtime of this process. Raises BackendError where it cannot be compiled."""
    units = {name: text(f"native/{name}.c") for name in _UNITS}
    path = toolchain.find().shared_object(default(), units, "the runtime library")
    free, held = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
    free.tegg_runtime.restype = ctypes.c_void_p
    free.rt_run_program.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int, ctypes.c_void_p]
    free.rt_run_program.restype = None
    free.tegg_caches(ctypes.c_int64(last_cache()), ctypes.c_int64(own_cache()))
    held.tegg_python.restype = None
    held.tegg_python(ctypes.byref(_python()))
    return Runtime(free, held, free.tegg_runtime(), arrays_are_as_expected())


# ---- what the call path knows of Python and NumPy
_FUNCTIONS = ("Py_IncRef", "Py_DecRef", "PyTuple_New", "PyTuple_SetItem", "PyTuple_GetItem",
              "PyTuple_Size", "PyLong_FromLongLong", "PyDict_New", "PyDict_SetItem",
              "PyObject_Call", "PyEval_SaveThread", "PyEval_RestoreThread", "PyCapsule_New",
              "PyCapsule_GetPointer", "PyCFunction_NewEx")
_HEADER = object.__basicsize__  # what every object begins with; its type is the last word of it


def _python() -> ctypes.Array:
    """``struct python`` of caller.h: functions of the stable ABI, objects, the header's size."""
    words = [ctypes.cast(getattr(ctypes.pythonapi, f), ctypes.c_void_p).value for f in _FUNCTIONS]
    words += [id(None), id(np.ndarray), _HEADER]
    return (ctypes.c_void_p * len(words))(*words)


def arrays_are_as_expected() -> bool:
    """Whether arrays keep their fields where caller.c looks for them, by looking at some.

    The layout is part of NumPy's binary interface, but it costs little to see that it holds. Where
    it does not, calls take the slow way. So they do without a GIL, which the call path counts on.
    """
    if sys.implementation.name != "cpython" or "t" in sys.abiflags:
        return False
    fixed = np.zeros((2, 3, 5), np.float32)
    fixed.flags.writeable = False
    samples = [fixed, np.zeros((7, 4), np.int64).T, np.zeros(0, np.bool_), np.array(1.5),
               np.zeros((4, 6), np.float16)[::2, 1:]]
    return all(_is_as_expected(a) for a in samples)


def _is_as_expected(a: np.ndarray) -> bool:
    if np.ndarray.__basicsize__ < _HEADER + 56:
        return False
    kind = ctypes.c_void_p.from_address(id(a) + _HEADER - 8).value
    data, _, dims, strides, _, descr = (ctypes.c_int64 * 6).from_address(id(a) + _HEADER)
    rank = ctypes.c_int.from_address(id(a) + _HEADER + 8).value
    flags = ctypes.c_int.from_address(id(a) + _HEADER + 48).value
    mask = 0x1 | 0x100 | 0x400
    if (kind, data, rank, descr, flags & mask) != (
            id(np.ndarray), a.__array_interface__["data"][0], a.ndim, id(a.dtype),
            a.flags.num & mask):
        return False
    shape = tuple((ctypes.c_int64 * rank).from_address(dims)) if rank else ()
    steps = tuple((ctypes.c_int64 * rank).from_address(strides)) if rank else ()
    return shape == a.shape and steps == a.strides
