"""The primary context of a GPU: held by PyCUDA, which is imported here alone, or by the driver."""

from __future__ import annotations

import importlib
from ctypes import byref, c_void_p
from typing import Any

from tegg.errors import ArgumentError

from .libcuda import Libcuda, library


class _Plain:
    """The context as the driver alone keeps it."""

    def __init__(self, driver: Libcuda, number: int) -> None:
        self._driver = driver
        self._context = driver.handle("cuDevicePrimaryCtxRetain", number)

    def push(self) -> None:
        self._driver.cuCtxPushCurrent_v2(self._context)

    def pop(self) -> None:
        self._driver.cuCtxPopCurrent_v2(byref(c_void_p()))


def primary_context(driver: Libcuda, number: int) -> tuple[Any, str]:
    """The primary context of a device, and who holds it. PyCUDA's knows of what is pushed."""
    try:
        import pycuda
        from pycuda import driver as pycuda_driver
    except ImportError:
        return _Plain(driver, number), "libcuda"
    pycuda_driver.init()
    return (pycuda_driver.Device(number).retain_primary_context(),
            f"PyCUDA {pycuda.VERSION_TEXT}")


def as_gpuarray(array: Any) -> Any:
    """The memory of an array of ours as PyCUDA's, which keeps ours."""
    from pycuda.gpuarray import GPUArray
    return GPUArray(array.shape, array.dtype, gpudata=array.address, base=array)


def need_pycuda() -> None:
    """Raises ArgumentError where PyCUDA does not load, BackendError where there is no driver."""
    library()  # without it PyCUDA does not load: that is said first
    try:
        importlib.import_module("pycuda.gpuarray")
    except ImportError as e:
        raise ArgumentError(f"results='gpuarray' needs PyCUDA, which does not load: {e}; "
                            f"pip install 'tegg[cuda]', or write results='device'") from None
