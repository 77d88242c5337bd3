"""``tegg.Cuda()``: the GPU as a compiler in a stack."""

from __future__ import annotations

import operator
from typing import Any

from tegg.errors import ArgumentError
from tegg.rewrite.compiler import Compiler

from .driver import open_device
from .target import Cuda as Target

RESULTS = ("numpy", "device", "gpuarray")


def Cuda(*, device: int = 0, results: str = "numpy", graph: bool = True,
         architecture: int | None = None) -> Compiler:
    """An NVIDIA GPU as the device of a stack: ``[tegg.Generic(), tegg.Cuda()]``.

    device: the number of the GPU, as the driver counts. results: what calls give: ``"numpy"``
      arrays; ``"device"``, which stay on the GPU and are read in place by any library with
      ``__cuda_array_interface__`` or DLPack; or ``"gpuarray"``, PyCUDA's GPUArray.
    graph: whether a run of several kernels is one CUDA graph; else they are launched one by one.
    architecture: plan for this compute capability (90 for 9.0), which needs no GPU; by default
      that of the device. Raises BackendError where that cannot be opened.
    """
    if results not in RESULTS:
        raise ArgumentError(f"results= is one of {', '.join(map(repr, RESULTS))}, not {results!r}")
    if results == "gpuarray":
        _needs_pycuda()
    number = _number("device", device)
    if architecture is not None:
        known, model = _number("architecture", architecture), ""
    else:
        known, model = open_device(number).architecture, open_device(number).name
    return Compiler(name="Cuda", target=Target(known, number, results, bool(graph), model))


def _number(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentError(f"{name}= is a number, not {value!r}") from None


def _needs_pycuda() -> None:
    from importlib.util import find_spec
    if find_spec("pycuda") is None:
        raise ArgumentError("results='gpuarray' needs PyCUDA, which is not installed; "
                            "pip install 'tegg[cuda]', or write results='device'")
