"""cuBLAS without a GPU: ``libcublas.cpp`` in its place, over the driver of ``fake_driver``."""

from __future__ import annotations

import ctypes
import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from simt import fake_driver
from simt.simulator import HERE, machine_path, run_compiler
from tegg.backends.cuda import cublas


@functools.cache
def library_path() -> Path:
    """The fake, compiled, beside the driver that it runs on."""
    driver = fake_driver.library_path()
    folder = driver.parent / "cublas"
    folder.mkdir(exist_ok=True)
    path = folder / "libcublas.so.12"
    run_compiler(["g++", "-std=c++20", "-O2", "-fPIC", "-shared", "-Wl,-soname,libcublas-played.so",
                  str(HERE / "libcublas.cpp"), str(driver), str(machine_path()), "-o", str(path)])
    return path


class FakeBlas:
    """The fake library as tests see it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(library_path()))
        self._library.fake_blas_count.restype = ctypes.c_long

    def count(self, what: str) -> int:
        """Calls by name; ``products`` that ran; calls ``with workspace`` and ``without``."""
        return self._library.fake_blas_count(what.encode())

    def fail(self, call: str, status: int) -> None:
        """A call gives a status, once."""
        self._library.fake_blas_fail(call.encode(), status)

    def version(self, major: int, minor: int) -> None:
        self._library.fake_blas_version(major, minor)

    def reset(self) -> None:
        self._library.fake_blas_reset()
        cublas.library.cache_clear()


@contextmanager
def installed() -> Iterator[FakeBlas]:
    """The library is there, beside the simulated device that ``fake_driver.installed`` gives."""
    gc.collect()  # devices of earlier tests, whose workspaces are a good part of the memory there is
    with pytest.MonkeyPatch.context() as m:
        ctypes.CDLL(str(fake_driver.library_path()), mode=ctypes.RTLD_GLOBAL)
        fake = FakeBlas()
        m.setattr(cublas, "places", lambda: iter([library_path()]))
        fake.reset()
        try:
            yield fake
        finally:
            fake.reset()
