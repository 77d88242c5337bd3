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
BEFORE = f"""
import sys
sys.path.insert(0, {str(HERE.parent)!r})
import gc, threading
import numpy as np, tegg
from simt import fake_driver
from tegg.backends.cuda import driver, nvrtc, stream
nvrtc.find = fake_driver.Compiler
import pycuda.driver as cuda
from pycuda import gpuarray
x = np.arange(12, dtype=np.float32).reshape(3, 4)
on = tegg.Generic(), tegg.Cuda(results="gpuarray")
def fn(x):
    return (x * 2 + 1).softmax(-1).sum(0)
def want(x):
    e = np.exp(2 * x - (2 * x).max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).sum(0)
def close(got, wanted):
    np.testing.assert_allclose(got, wanted, 1e-5)
"""
PRIMARY = BEFORE.replace("from pycuda import", "import pycuda.autoprimaryctx\nfrom pycuda import")
ARRAYS = PRIMARY + """
assert "PyCUDA" in driver.open_device().held_by, driver.open_device().held_by
f = tegg.compile(fn, *on, cache=False)
a, b = gpuarray.to_gpu(x), gpuarray.to_gpu(-x)
y = f(a)
assert type(y) is gpuarray.GPUArray, type(y)
close(y.get(), want(x))
mine = cuda.Stream()
with stream(mine):
    z = f(b)
mine.synchronize()
close(z.get(), want(-x))
f(a)
close(y.get(), want(x))  # a result's memory lives as long as its array
close(z.get(), want(-x))
out = gpuarray.to_gpu(np.zeros(4, np.float32))
g = tegg.Graph()
g.tensor((3, 4), name="x").sum(0).output("y")
program = g.compile(device="cuda", cache=False)
program(a, out={"y": out})
close(out.get(), x.sum(0))
host = program(x)["y"]
close(host, x.sum(0))
bound = program.bind(a, out={"y": out})
a.set(3 * x)
bound()
close(out.get(), 3 * x.sum(0))
def step(s, x):
    tegg.state(s, s + x)
    return s * 2
s = gpuarray.to_gpu(x)
twice = tegg.compile(step, *on, cache=False)(s, b)
close(twice.get(), 2 * x)
close(s.get(), 0 * x)
del y, z, bound, program, f, twice
gc.collect()
print("done")
"""
THREADS = PRIMARY + """
f = tegg.compile(fn, *on, cache=False)
held = [(k * x, gpuarray.to_gpu(k * x)) for k in range(4)]
f(held[0][1])
made, failed = [None] * 4, []
def work(i):
    try:
        for _ in range(5):
            made[i] = f(held[i][1])
    except Exception as e:
        failed.append(e)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not failed, failed
for (a, _), y in zip(held, made):
    close(y.get(), want(a))
print("done")
"""
ANOTHER_CONTEXT = BEFORE.replace("from pycuda import", "import pycuda.autoinit\nfrom pycuda import") + """
from tegg.errors import BackendError
f = tegg.compile(fn, tegg.Generic(), tegg.Cuda(), cache=False)
close(f(x), want(x))
a = gpuarray.to_gpu(x)
try:
    f(a)
except BackendError as e:
    assert "import pycuda.autoprimaryctx instead of pycuda.autoinit" in str(e), e
    close(a.get(), x)  # PyCUDA's context is the current one still
    print("done")
"""
OUT_OF_MEMORY = PRIMARY + """
from tegg.errors import BackendError
f = tegg.compile(fn, *on, cache=False)
a = gpuarray.to_gpu(np.zeros((3, 4 << 20), np.float32))
too_much = gpuarray.empty(200 << 20, np.uint8)
try:
    f(a)
except BackendError as e:
    assert "is out of memory" in str(e) and "use smaller inputs" in str(e), e
    del too_much
    close(f(gpuarray.to_gpu(x)).get(), want(x))
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
                           str(wheels[-1]), "--upgrade", "--find-links", str(DIST)], capture_output=True, text=True,
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
@pytest.mark.parametrize("program", [ARRAYS, THREADS, ANOTHER_CONTEXT, OUT_OF_MEMORY],
                         ids=["arrays", "threads", "another_context", "out_of_memory"])
def test_programs_beside_pycuda(site, program, tmp_path):
    assert Compiler.version == "simulated"
    libraries = f"{site}:{machine_path().parent}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": libraries, "PYTHONPATH": str(site),
                               "TEGG_CACHE": str(tmp_path)})
    assert done.returncode == 0 and "done" in done.stdout, done.stdout + done.stderr
