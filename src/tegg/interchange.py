"""Arrays of other libraries that lie on a device: how they are known, and what they say.

Two protocols: ``__cuda_array_interface__``, and DLPack. Nothing here touches their memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tegg.dtype import DType, dtype as as_dtype
from tegg.errors import DTypeError

CPU = 1  # the device of DLPack that every NumPy array names


def on_device(x: object) -> bool:
    """Whether an object is an array outside the host's memory."""
    if isinstance(x, (np.ndarray, np.generic, int, float, list, tuple)):
        return False
    return dlpack_device(x) not in (None, CPU) or interface(x) is not None


def interface(x: object) -> dict[str, Any] | None:
    """The ``__cuda_array_interface__`` of an object, or None. What has none for its dtype, or is
    not on a GPU, raises inside a property; that counts as none."""
    try:
        found = getattr(x, "__cuda_array_interface__", None)
    except (TypeError, RuntimeError):
        return None
    return found if isinstance(found, dict) else None


def dlpack_device(x: object) -> int | None:
    """The kind of device that DLPack says an object lies on, or None without DLPack."""
    asked = getattr(type(x), "__dlpack_device__", None)
    return None if asked is None else int(asked(x)[0])


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of an array on a device."""
    if hasattr(x, "shape"):
        return tuple(int(n) for n in x.shape)
    return tuple(int(n) for n in x.__cuda_array_interface__["shape"])


def dtype_of(x: Any) -> DType:
    """The dtype of an array on a device. Raises DTypeError for one that no tensor has."""
    named = getattr(x, "dtype", None)
    if named is None:
        named = np.dtype(x.__cuda_array_interface__["typestr"])
    if isinstance(named, (np.dtype, DType)):
        return as_dtype(named)
    text = str(named).rpartition(".")[2]  # torch.float32
    try:
        return as_dtype(text)
    except DTypeError:
        raise DTypeError(f"arrays of dtype {named} cannot be used") from None
