"""Machine code of a source: by NVRTC, or nvcc without it; compiled once, and kept by the cache."""

from __future__ import annotations

import functools
import os
import pickle
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tegg.cache import Cache, content_key, default
from tegg.errors import BackendError

from . import nvrtc
from .nvrtc import FLAGS, CompileFailed, machine_of
from .resources import Resources, resources_of


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code for one architecture, and what each of its kernels takes of the device."""

    code: bytes
    resources: tuple[Resources, ...]


def cubin(source: str, architecture: int, cache: Cache | None = None) -> Cubin:
    """The machine code of a source, from the cache where it was compiled before.

    Raises BackendError where there is no compiler, or, with the path of the source, where it fails.
    """
    cache, compiler = cache or default(), nvrtc.find()
    version = f"nvrtc {compiler.version}" if compiler else _nvcc_version()
    key = content_key(source, version, machine_of(source, architecture), *FLAGS)
    kept = cache.read("cubin", key)
    if kept is not None:
        return Cubin(*pickle.loads(kept))
    try:
        code, log = (compiler.compile(source, architecture) if compiler
                     else _nvcc(source, machine_of(source, architecture)))
    except CompileFailed as e:
        path = cache.keep(f"{key}.cu", source)
        raise BackendError(f"{e}\nits source is {path}") from None
    made = Cubin(code, resources_of(log))
    cache.put("cubin", key, pickle.dumps((made.code, made.resources)))
    return made


@functools.cache
def nvcc() -> str | None:
    """The compiler of a CUDA toolkit, if there is one."""
    roots = [os.environ.get(n) for n in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    places = [str(Path(r) / "bin") for r in roots if r] + [os.environ.get("PATH", "")]
    return shutil.which("nvcc", path=os.pathsep.join(places))


@functools.cache
def _nvcc_version() -> str:
    found = nvcc()
    if found is None:
        raise BackendError("neither NVRTC nor nvcc is there to compile kernels; "
                           "pip install nvidia-cuda-nvrtc-cu12, or put nvcc on PATH")
    return subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout


def _nvcc(source: str, machine: str) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory(prefix="tegg-") as folder:
        text, out = Path(folder) / "kernels.cu", Path(folder) / "kernels.cubin"
        text.write_text(source, encoding="utf-8")
        done = subprocess.run([str(nvcc()), "-cubin", f"-arch={machine}", "-Xptxas", "-v",
                               *FLAGS, str(text), "-o", str(out)],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileFailed(f"nvcc does not compile kernels for {machine}: "
                                f"{(done.stderr + done.stdout)[:2000]}")
        return out.read_bytes(), done.stderr + done.stdout
