"""DLPack by ctypes: capsules that other libraries give, and those that they are given."""

from __future__ import annotations

import ctypes
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_int32, c_int64, c_uint8, c_uint16,
                    c_uint64, c_void_p, py_object)
from typing import Any

import numpy as np

from tegg.dtype import bf16
from tegg.errors import DTypeError

CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
_FRESH, _USED = b"dltensor", b"used_dltensor"
_CODES = {(0, 8): np.int8, (0, 32): np.int32, (0, 64): np.int64, (1, 8): np.uint8,
          (2, 16): np.float16, (2, 32): np.float32, (2, 64): np.float64,
          (4, 16): bf16.numpy, (6, 8): np.bool_}


class _Tensor(Structure):
    _fields_ = (("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64))


class _Managed(Structure):
    pass


_Deleter = CFUNCTYPE(None, POINTER(_Managed))
_Managed._fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", _Deleter))

_api = ctypes.pythonapi
_pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", _api))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_SetName", _api))
_destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_new = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", _api))
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _api))
_peek = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))


class Taken:
    """A tensor that another library gave. It is told when the object goes."""

    def __init__(self, managed: Any) -> None:
        self._managed = managed
        t = managed.contents.tensor
        self.address = (t.data or 0) + t.byte_offset
        self.shape = tuple(t.shape[i] for i in range(t.ndim))
        self._key = (t.code, t.bits, t.lanes)
        size = t.bits // 8
        self.strides = tuple(t.strides[i] * size for i in range(t.ndim)) if t.strides else None

    @property
    def dtype(self) -> np.dtype:
        found = _CODES.get(self._key[:2]) if self._key[2] == 1 else None
        if found is None:
            raise DTypeError(f"it has a dtype that programs do not know (DLPack code "
                             f"{self._key[0]}, {self._key[1]} bits, {self._key[2]} lanes)")
        return np.dtype(found)

    def __del__(self) -> None:
        if self._managed.contents.deleter:
            self._managed.contents.deleter(self._managed)


def taken(capsule: Any) -> Taken:
    """What a capsule holds. From now on it is ours to give back."""
    managed = ctypes.cast(_pointer(capsule, _FRESH), POINTER(_Managed))
    _rename(capsule, _USED)
    return Taken(managed)


_given: dict[int, tuple] = {}  # what lives until another library is done with it


@_Deleter
def _done(managed: Any) -> None:
    _given.pop(ctypes.addressof(managed.contents), None)


@_destructor
def _unused(capsule: int) -> None:
    """A capsule goes that nobody took."""
    if _valid(capsule, _FRESH):
        _given.pop(_peek(capsule, _FRESH), None)


def given(owner: Any, address: int, shape: tuple[int, ...], dtype: np.dtype, device: int) -> Any:
    """A capsule over memory that ``owner`` keeps."""
    code, bits = next(k for k, v in _CODES.items() if np.dtype(v) == dtype)
    sizes = (c_int64 * max(1, len(shape)))(*shape)
    made = _Managed(_Tensor(address, CUDA[0], device, len(shape), code, bits, 1,
                            ctypes.cast(sizes, POINTER(c_int64)), None, 0), None, _done)
    at = ctypes.addressof(made)
    _given[at] = (made, sizes, owner)
    return _new(at, _FRESH, ctypes.cast(_unused, c_void_p))
