"""What models share in reading files: config.json, whole and sharded safetensors, names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tegg.errors import WeightsError
from tegg.weights import SafeTensors, load_safetensors

PathLike = str | os.PathLike[str]
INDEX = "model.safetensors.index.json"


def read_config(path: PathLike, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a ``config.json``. ``wanted``: values that keys must have where they are there.

    Raises WeightsError for a file that is missing or no JSON object, and another value.
    """
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as e:
        raise WeightsError(f"{path} cannot be read: {e.strerror}; a model's folder holds "
                           f"config.json and model.safetensors") from None
    except ValueError as e:
        raise WeightsError(f"{path} is no JSON: {e}") from None
    if not isinstance(config, dict):
        raise WeightsError(f"{path} holds no JSON object")
    for key, want in wanted.items():
        if config.get(key, want) != want:
            raise WeightsError(f"{path}: {key} is {config[key]!r}, and only {want!r} is known")
    return config


def known(config: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """The keys that are among ``fields`` and not null."""
    return {k: config[k] for k in fields if config.get(k) is not None}


def config_beside(path: PathLike) -> Path:
    """The ``config.json`` of a model's folder, or beside a weights file. Raises WeightsError where
    there is neither."""
    path = Path(path)
    if not path.exists():
        raise WeightsError(f"{path} is not there; give a model's folder, which holds config.json "
                           f"and model.safetensors, or a weights file beside its config.json")
    return (path if path.is_dir() else path.parent) / "config.json"


class Shards(Mapping[str, np.ndarray]):
    """The tensors of several safetensors files as one mapping, read when used."""

    def __init__(self, index: Path) -> None:
        try:
            self._file_of: dict[str, str] = json.loads(index.read_text("utf-8"))["weight_map"]
        except (ValueError, KeyError, TypeError) as e:
            raise WeightsError(f"{index} has no weight_map from names to files: {e!r}") from None
        self._files = {f: load_safetensors(index.parent / f)
                       for f in sorted(set(self._file_of.values()))}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._files[self._file_of[name]][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._file_of)

    def __len__(self) -> int:
        return len(self._file_of)


def read_weights(path: PathLike) -> SafeTensors | Shards:
    """The tensors of a file, or of a folder that holds ``model.safetensors`` or its shards.

    Raises WeightsError for a file that is missing or damaged.
    """
    path = Path(path)
    if not path.is_dir():
        return load_safetensors(path)
    if not (path / "model.safetensors").exists() and (path / INDEX).exists():
        return Shards(path / INDEX)
    return load_safetensors(path / "model.safetensors")


def renamed(state: Mapping[str, Any], layout: Sequence[tuple[str, str]],
            unused: str = "(?!)") -> dict[str, Any]:
    """A state dict under other names: of the patterns in ``layout`` the first that matches the
    beginning of a name replaces it. Names that match ``unused`` are left out."""
    out: dict[str, Any] = {}
    for name in state:
        if not re.match(unused, name):
            out[_renamed(name, layout)] = state[name]
    return out


def _renamed(name: str, layout: Sequence[tuple[str, str]]) -> str:
    for pattern, ours in layout:
        new, n = re.subn("^" + pattern, ours, name)
        if n:
            return new
    return name
