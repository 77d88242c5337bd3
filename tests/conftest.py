"""Hypothesis profiles: short by default, the same examples in every run, so that what it says
depends on the code alone; long with ``--hypothesis-profile=long``, which searches anew.
Costs are those that are shipped: what was measured on a machine would choose other kernels than
golden files have. What a person's terminal says of itself does not reach the output that tests read.
And the played driver and library of NVIDIA's, for tests of the CUDA runtime. The system is asked for
the registers of tiles, as the CPU's target asks: where a CPU has them, tests run there.
"""

import os

import pytest
from hypothesis import settings

from tegg.backends.cpu.instructions import tiles_granted

os.environ.setdefault("TEGG_COSTS", "cpu/generic")
for name in ("TEGG_DEBUG", "COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)

settings.register_profile("short", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=500)
settings.load_profile("short")

tiles_granted()


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")
    parser.addoption("--gpu", action="store_true", help="kernels of CUDA tests run on this machine's "
                     "GPU, not in the simulator")


def pytest_configure(config):
    if config.getoption("--gpu"):
        from simt import on_gpu
        on_gpu.using = True


@pytest.fixture
def quick_cpu(monkeypatch):
    """Programs of the CPU compiled in less time, for tests that hold another device against them."""
    from kernels import quick
    from tegg.backends.cpu import runtime, toolchain
    runtime.runtime()  # the process keeps it
    found = quick()
    monkeypatch.setattr(toolchain, "find", lambda: found)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """The played driver, with an empty cache."""
    from simt import fake_driver
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    with fake_driver.installed() as fake:
        yield fake


@pytest.fixture
def blas(gpu):
    """The played cuBLAS over it."""
    from simt import fake_cublas
    with fake_cublas.installed() as fake:
        yield fake
