"""The real PyCUDA over the played driver: its contexts and arrays beside ours. Needs its wheel,
which ``make pycuda-wheel`` builds into dist/."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from simt.fake_driver import Compiler, library_path
from simt.simulator import HERE, machine_path, run_compiler

DIST = Path(__file__).parent.parent / "dist"
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
import numpy as np, tegg
from simt import fake_driver
from tegg.backends.cuda import driver, nvrtc, stream
nvrtc.find = fake_driver.Compiler
import pycuda.autoprimaryctx
import pycuda.driver as cuda
from pycuda import gpuarray
assert "PyCUDA" in driver.open_device().held_by, driver.open_device().held_by
x = np.arange(12, dtype=np.float32).reshape(3, 4)
on = tegg.Generic(), tegg.Cuda(results="gpuarray")
f = tegg.compile(lambda x: (x * 2 + 1).softmax(-1).sum(0), *on, cache=False)
a = gpuarray.to_gpu(x)
y = f(a)
assert type(y) is gpuarray.GPUArray, type(y)
e = np.exp(2 * x - (2 * x).max(-1, keepdims=True))
want = (e / e.sum(-1, keepdims=True)).sum(0)
np.testing.assert_allclose(y.get(), want, 1e-5)
mine = cuda.Stream()
with stream(mine):
    z = f(a)
mine.synchronize()
np.testing.assert_allclose(z.get(), want, 1e-5)
out = gpuarray.to_gpu(np.zeros(4, np.float32))
g = tegg.Graph()
g.tensor((3, 4), name="x").sum(0).output("y")
program = g.compile(device="cuda", cache=False)
program(a, out={{"y": out}})
np.testing.assert_allclose(out.get(), x.sum(0), 1e-5)
host = program(x)["y"]
np.testing.assert_allclose(host, x.sum(0), 1e-5)
bound = program.bind(a, out={{"y": out}})
a.set(3 * x)
bound()
np.testing.assert_allclose(out.get(), 3 * x.sum(0), 1e-5)
del y, z, bound, program, f
import gc
gc.collect()
print("done")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """PyCUDA unpacked, and a libcuda.so.1 that has every call that it is linked with."""
    wheels = [w for w in DIST.glob("pycuda-*.whl") if TAG in w.name]
    if not wheels:
        pytest.skip("make pycuda-wheel has not been run")
    folder = tmp_path_factory.mktemp("pycuda")
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", str(folder),
                           str(wheels[-1]), "--upgrade"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        pytest.skip(f"PyCUDA's wheel cannot be installed: {done.stderr[-300:]}")
    (binary,) = (folder / "pycuda").glob("_driver*.so")
    names = subprocess.run(["nm", "-D", "--undefined-only", str(binary)], capture_output=True,
                           text=True, check=True).stdout
    played = subprocess.run(["nm", "-D", "--defined-only", str(library_path())],
                            capture_output=True, text=True, check=True).stdout
    lacks = set(re.findall(r" U (cu[A-Z]\w+)", names)) - set(re.findall(r" T (cu\w+)", played))
    rest = folder / "rest.c"
    rest.write_text("".join(f"int {n}(void) {{ return 801; }}\n" for n in sorted(lacks)))
    run_compiler(["gcc", "-c", "-fPIC", "-w", str(rest), "-o", str(folder / "rest.o")])
    run_compiler(["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1",
                  str(HERE / "libcuda.cpp"), str(folder / "rest.o"), str(machine_path()), "-o",
                  str(folder / "libcuda.so.1"), "-ldl"])
    return folder


@pytest.mark.long
def test_programs_beside_pycuda(site, tmp_path):
    assert Compiler.version == "simulated"
    libraries = f"{site}:{machine_path().parent}"
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(tests=str(HERE.parent))],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": libraries, "PYTHONPATH": str(site),
                               "TEGG_CACHE": str(tmp_path)})
    assert done.returncode == 0 and "done" in done.stdout, done.stdout + done.stderr
