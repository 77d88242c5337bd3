"""Safetensors files: read lazily through a memory map, written atomically."""

from __future__ import annotations

import difflib
import json
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from tegg.cache import write_atomic
from tegg.errors import WeightsError
from tegg.mapped import remember

_NUMPY = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
          "I64": np.int64, "I32": np.int32, "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_}
_NAMES = {np.dtype(t): name for name, t in _NUMPY.items()}


class SafeTensors(Mapping[str, np.ndarray]):
    """The tensors of a file by name, as read-only views of its memory map.

    Nothing is read until a tensor is used. A missing name raises WeightsError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._entries, self.metadata, self._start = _header(self.path)
        with open(self.path, "rb") as f:
            self._map = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        remember(self._map)

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self._entries.get(name)
        if entry is None:
            near = difflib.get_close_matches(str(name), self._entries, 1)
            raise WeightsError(f"{self.path} has no tensor {name!r}"
                               + (f"; did you mean {near[0]!r}?" if near else ""))
        if entry["dtype"] not in _NUMPY:
            raise WeightsError(f"{self.path}: {name!r} is {entry['dtype']}, which tegg has not")
        dtype = np.dtype(_NUMPY[entry["dtype"]])
        shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
        flat = np.frombuffer(self._map, dtype, (end - begin) // dtype.itemsize, self._start + begin)
        if not flat.flags.aligned:  # other writers need not pad their headers
            flat = flat.copy()
            flat.flags.writeable = False
        return flat.reshape(shape)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def get(self, name: str, default: Any = None) -> Any:
        """The tensor, or ``default`` where the file has none of that name."""
        return self[name] if name in self._entries else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"SafeTensors({str(self.path)!r}, {len(self)} tensors)"


def _header(path: Path) -> tuple[dict[str, dict], Mapping[str, str], int]:
    """Entries, metadata and the start of the data. The safetensors library checks the header:
    that it parses, that sizes fit dtypes and shapes, and that the data are all there."""
    import safetensors
    if path.is_dir():
        raise WeightsError(f"{path} is a folder; load_safetensors takes one .safetensors file of "
                           f"it, and tegg.models reads folders of models")
    try:
        with safetensors.safe_open(path, framework="np"):
            pass
        with open(path, "rb") as f:
            (size,) = struct.unpack("<Q", f.read(8))
            entries = json.loads(f.read(size))
    except FileNotFoundError:
        raise WeightsError(f"there is no file {path}") from None
    except (safetensors.SafetensorError, OSError) as e:
        raise WeightsError(f"{path} cannot be read as safetensors: {e}; it is damaged, "
                           f"or was not copied to its end") from None
    metadata = entries.pop("__metadata__", {})
    return entries, MappingProxyType(metadata), 8 + size


def load_safetensors(path: str | os.PathLike[str]) -> SafeTensors:
    """The tensors of a ``.safetensors`` file, memory-mapped and lazy.

    Raises WeightsError for a folder, and for a file that is missing, truncated, or lies about its
    contents.
    """
    return SafeTensors(path)


def save_safetensors(path: str | os.PathLike[str], tensors: Mapping[str, Any],
                     metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors (a ``state_dict``) to a file, all or nothing: the file appears complete.

    Raises WeightsError for a dtype that the format or tegg lacks, or a place that cannot be
    written.
    """
    from safetensors.numpy import save
    path, ready = Path(path), {}
    for what, value in (("tensors", tensors), ("metadata", {} if metadata is None else metadata)):
        if not isinstance(value, Mapping):
            raise WeightsError(f"save_safetensors: {what} is a dict by name, not {value!r}")
    if "__metadata__" in tensors:
        raise WeightsError("'__metadata__' is the format's own name, which no tensor can have; "
                           "give text as metadata=")
    for name, value in tensors.items():
        a = np.asarray(value)
        native = a.dtype.newbyteorder("=")
        if native not in _NAMES:
            raise WeightsError(f"{name!r} is {a.dtype}; safetensors are {', '.join(_NUMPY)}")
        if str(name) in ready:
            raise WeightsError(f"two tensors are named {str(name)!r}, and a file holds one of a "
                               f"name")
        ready[str(name)] = np.ascontiguousarray(a, native).reshape(a.shape)
    text = {str(k): str(v) for k, v in (metadata or {}).items()}
    write_atomic(path, save(ready, text or None), WeightsError)
