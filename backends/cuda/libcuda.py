"""NVIDIA's driver by ctypes: the calls of ``libcuda.so.1`` that runs need, and their refusals."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from types import MappingProxyType
from typing import Any

from tegg.errors import BackendError

NAMES = ("libcuda.so.1", "libcuda.so")
OLDEST = 11040  # CUDA 11.4: graphs whose nodes can be changed, memory in the order of a stream
NO_MEMORY, NOT_STARTED = 2, 3  # CUresult
# Why a driver that is there does not know that it was started.
FORKED = ("it was started before this process was forked, by tegg or another library, and does not "
          "work in both: open GPUs after the fork only, or start processes by multiprocessing's "
          "'spawn'")

# Of each call what it takes; all give a CUresult.
_CALLS = MappingProxyType({
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), c_void_p),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemAllocAsync": (POINTER(c_uint64), c_size_t, c_void_p),
    "cuMemFreeAsync": (c_uint64, c_void_p),
    "cuMemAllocHost_v2": (POINTER(c_void_p), c_size_t),
    "cuMemFreeHost": (c_void_p,),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuPointerGetAttribute": (c_void_p, c_int, c_uint64),
    "cuDeviceGetDefaultMemPool": (POINTER(c_void_p), c_int),
    "cuMemPoolSetAttribute": (c_void_p, c_int, c_void_p),
    "cuMemPoolTrimTo": (c_void_p, c_size_t),
    "cuCtxSynchronize": (),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, POINTER(c_void_p)),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuGraphCreate": (POINTER(c_void_p), c_uint),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphAddKernelNode": (POINTER(c_void_p), c_void_p, POINTER(c_void_p), c_size_t, c_void_p),
    "cuGraphAddChildGraphNode": (POINTER(c_void_p), c_void_p, POINTER(c_void_p), c_size_t,
                                 c_void_p),
    "cuGraphAddEventRecordNode": (POINTER(c_void_p), c_void_p, POINTER(c_void_p), c_size_t,
                                  c_void_p),
    "cuGraphExecChildGraphNodeSetParams": (c_void_p, c_void_p, c_void_p),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_uint64),
    "cuGraphExecKernelNodeSetParams": (c_void_p, c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphLaunch": (c_void_p, c_void_p),
})


class Refused(Exception):
    """The driver did not do what a call asked: its code, name and words."""

    def __init__(self, call: str, code: int, name: str, words: str) -> None:
        super().__init__(f"{call}: {name}, {words}")
        self.code = code


class Libcuda:
    """The driver, loaded: every call is a method of its own name that raises ``Refused``."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        for name, takes in _CALLS.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                raise BackendError(f"NVIDIA's driver has no {name}: it is older than CUDA "
                                   f"{_version(OLDEST)}; install a newer driver") from None
            function.argtypes, function.restype = takes, c_int
            setattr(self, name, functools.partial(self._call, function, name))

    def _call(self, function: Any, name: str, *arguments: Any) -> None:
        code = function(*arguments)
        if code:
            raise Refused(name, code, self._text("cuGetErrorName", code),
                          self._text("cuGetErrorString", code))

    def _text(self, call: str, code: int) -> str:
        out = c_char_p()
        failed = getattr(self._library, call)(code, byref(out))
        return f"error {code}" if failed or out.value is None else out.value.decode()

    def __getattr__(self, name: str) -> Any:  # for readers of types: the calls are set above
        raise AttributeError(name)

    def number(self, call: str, *arguments: Any) -> int:
        """What a call writes to an int that its first argument points to."""
        out = c_int()
        getattr(self, call)(byref(out), *arguments)
        return out.value

    def handle(self, call: str, *arguments: Any) -> int:
        """The same of a handle or an address; 0 for none."""
        out = c_uint64() if call in ("cuMemAlloc_v2", "cuMemAllocAsync") else c_void_p()
        getattr(self, call)(byref(out), *arguments)
        return out.value or 0


@functools.cache
def library() -> Libcuda:
    """The driver of this machine, started.

    Raises BackendError where there is none, where it is too old, and where it does not start.
    """
    loaded, why = None, ""
    for name in NAMES:
        try:
            loaded = ctypes.CDLL(name)
            break
        except OSError as e:
            why = why or str(e)
    if loaded is None:
        raise BackendError(f"NVIDIA's driver cannot be loaded ({why}); install the driver of the "
                           f"GPU, or use device='cpu'")
    made = Libcuda(loaded)
    try:
        made.cuInit(0)
        version = made.number("cuDriverGetVersion")
    except Refused as e:
        remedy = FORKED if e.code == NOT_STARTED else "see whether nvidia-smi lists a GPU"
        raise BackendError(f"NVIDIA's driver does not start ({e}); {remedy}, or use "
                           f"device='cpu'") from None
    if version < OLDEST:
        raise BackendError(f"NVIDIA's driver is of CUDA {_version(version)}, and {_version(OLDEST)}"
                           f" is the oldest that runs programs; install a newer driver")
    return made


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
