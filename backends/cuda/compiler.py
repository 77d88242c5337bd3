"""``tegg.Cuda()``: the GPU as a compiler in a stack."""

from __future__ import annotations

import operator
from typing import Any

from tegg.errors import ArgumentError
from tegg.rewrite.compiler import Compiler

from .context import need_pycuda
from .cublas import library
from .driver import OLDEST, open_device
from .target import Cuda as Target

RESULTS = ("numpy", "device", "gpuarray")


def Cuda(*, device: int = 0, results: str = "numpy", graph: bool = True,
         architecture: int | None = None, blas: bool = False) -> Compiler:
    """An NVIDIA GPU as the device of a stack: ``[tegg.Generic(), tegg.Cuda()]``.

    device: the number of the GPU, as the driver counts. results: what calls give: ``"numpy"``
      arrays; ``"device"``, which stay on the GPU and are read in place by any library with
      ``__cuda_array_interface__`` or DLPack; or ``"gpuarray"``, PyCUDA's GPUArray.
    graph: whether a run of several kernels is one CUDA graph; else they are launched one by one.
    architecture: plan for this compute capability (90 for 9.0), which needs no GPU; by default
      that of the device. Raises BackendError where that cannot be opened.
    blas: whether products may also be NVIDIA's cuBLAS's, where the cost profile says that this is
      sooner. Raises BackendError where the library is not to be found. Not by default: its prices
      have not been measured, and the same program shall give the same bits whatever else is
      installed.
    """
    if results not in RESULTS:
        raise ArgumentError(f"results= is one of {', '.join(map(repr, RESULTS))}, not {results!r}")
    if results == "gpuarray":
        need_pycuda()
    for name, value in (("graph", graph), ("blas", blas)):
        if not isinstance(value, bool):
            raise ArgumentError(f"{name}= is True or False, not {value!r}")
    if blas:
        library()
    number = _number("device", device)
    if architecture is not None:
        known, model = _number("architecture", architecture), ""
        if known < OLDEST:
            raise ArgumentError(f"architecture= is {OLDEST} or more, as 90 for compute capability "
                                f"9.0, not {known}")
    else:
        known, model = open_device(number).architecture, open_device(number).name
    return Compiler(name="Cuda", target=Target(known, number, results, graph, model, blas))


def _number(name: str, value: Any) -> int:
    try:
        return operator.index(None if isinstance(value, bool) else value)
    except TypeError:
        raise ArgumentError(f"{name}= is a number, not {value!r}") from None
