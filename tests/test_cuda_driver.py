"""The driver's refusals: each is an error that says what, where and what to do."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
from simt import fake_driver
from tegg.backends.cuda import cubin, driver, libcuda, nvrtc
from tegg.backends.cuda.failures import explained
from tegg.backends.cuda.libcuda import Refused
from tegg.backends.cuda.replay import Launch

import tegg
from tegg.errors import ArgumentError, BackendError
from tegg.ir.graph import Graph
from tegg.runtime.driver import Options, compile_graph

CUDA = Options(device="cuda", cache=False)


@pytest.fixture
def inner(gpu):
    """Patches of what the fake has put in place, undone before it goes."""
    with pytest.MonkeyPatch.context() as m:
        yield m


def doubled(n=3):
    g = Graph()
    g.outputs["y"] = g.mul(g.input("x", (n,), "f32"), 2)
    return g


X = np.arange(3, dtype=np.float32)


# ---- opening
def test_no_driver(monkeypatch):
    monkeypatch.setattr(libcuda, "NAMES", ("libcuda-that-is-not-there.so",))
    fake_driver.forget()
    with pytest.raises(BackendError, match=r"cannot be loaded \(libcuda-that.*install the driver"):
        compile_graph(doubled(), CUDA)
    fake_driver.forget()


@pytest.mark.parametrize("settings, text", [
    ({"devices": 0}, r"does not start \(cuInit: CUDA_ERROR_NO_DEVICE, no CUDA-capable.*nvidia-smi"),
    ({"version": 11020}, "is of CUDA 11.2, and 11.4 is the oldest .*install a newer driver"),
    ({"major": 6, "minor": 1}, "is of compute capability 6.1; the oldest .* is 7.0"),
])
def test_a_machine_that_cannot(gpu, settings, text):
    gpu.set(**settings)
    with pytest.raises(BackendError, match=text):
        compile_graph(doubled(), CUDA)


def test_a_driver_without_devices(gpu, inner):
    inner.setattr(libcuda.Libcuda, "number", lambda self, call, *_: 0 if "Count" in call else 12000)
    with pytest.raises(BackendError, match="finds no GPU on this machine; use device='cpu'"):
        driver.open_device()


def test_a_gpu_that_is_not_there(gpu):
    with pytest.raises(BackendError, match="there is no GPU 3: NVIDIA's driver finds 1"):
        tegg.Cuda(device=3)


def test_a_device_that_does_not_open(gpu):
    gpu.fail("cuDevicePrimaryCtxRetain", 46)
    with pytest.raises(BackendError, match="GPU 0 cannot be opened .*leave it free"):
        driver.open_device()


def test_a_driver_that_lacks_a_call():
    with pytest.raises(BackendError, match="has no cuInit: it is older than CUDA 11.4"):
        libcuda.Libcuda(types.SimpleNamespace())


def test_the_device_says_what_it_is(gpu):
    device = driver.open_device()
    assert (device.architecture, device.multiprocessors, device.name) == (90, 1, "Simulated GPU")
    assert (device.shared_bytes, device.l2_bytes, device.memory_bytes) == (232448, 50 << 20, 256 << 20)
    assert device.held_by == "libcuda" and device.version == 12090


# ---- runs
def test_memory_runs_out(gpu):
    program = compile_graph(doubled(100_000), CUDA)
    gpu.set(memory=1000)
    text = r"out of memory \(cuMemAlloc_v2: .* of 400,000 bytes; .* are free\); use smaller inputs"
    with pytest.raises(BackendError, match=text):
        program(np.zeros(100_000, np.float32))
    gpu.set(memory=256 << 20)
    assert program(np.ones(100_000, np.float32))["y"][0] == 2  # it is not lost


def test_what_a_pool_keeps_is_had_before_memory_is_out(gpu):
    """Freed results stay with the driver's pool: memory of other kinds is asked for again then."""
    x = np.zeros(100_000, np.float32)
    add = tegg.compile(lambda x: x + 1, tegg.Generic(), tegg.Cuda(results="device"), cache=False)
    results = [add(x) for _ in range(3)]
    gpu.set(memory=gpu.used + 50_000)
    del results
    again = compile_graph(doubled(100_000), CUDA)
    assert again(x + 1)["y"][5] == 2
    assert gpu.count("cuMemPoolTrimTo") == 1


def test_a_kernel_that_fails_loses_the_device(gpu):
    program = compile_graph(doubled(), CUDA)
    program(X)
    gpu.fail("cuStreamSynchronize", 700)
    with pytest.raises(BackendError, match="Simulated GPU: a kernel failed .*device='cpu', and rep"):
        program(X)
    with pytest.raises(BackendError, match="a kernel failed.*nothing can run on it in this process"):
        program(X)


def test_a_launch_that_is_refused(gpu):
    program = compile_graph(doubled(), CUDA)
    gpu.fail("cuLaunchKernel", 701)
    with pytest.raises(BackendError, match="too few registers or too little shared memory"):
        program(X)


@pytest.mark.parametrize("code, text, lost", [
    (2, "GPU is out of memory", False), (3, "open it after a fork", False),
    (209, "no kernels for its architecture", False), (222, "newer compiler than its driver", False),
    (1, "GPU refuses a call .f: E, words.; report it, with the program", False),
    (200, "GPU does not take the machine code .*report it", False), (719, "GPU: a kernel failed", True),
    (716, "GPU: a kernel failed", True), (702, "ran for too long", True),
    (214, r"GPU was lost \(f: E, words\); see nvidia-smi", True), (999, "GPU was lost", True),
])
def test_what_refusals_mean(code, text, lost):
    import re
    message, gone = explained("GPU", Refused("f", code, "E", "words"))
    assert re.search(text, message) and gone is lost


def test_too_much_shared_memory(gpu):
    device = driver.open_device()
    with pytest.raises(BackendError, match="takes 300,000 bytes of shared memory, and a block of"):
        device.allow_shared(0, 300_000)


def test_shared_memory_that_was_not_asked_for(gpu):
    """A launch with more than 48 KiB is refused until the kernel was allowed it."""
    device = driver.open_device()
    source = ('extern "C" __global__ void __launch_bounds__(32) f(float *a) '
              '{ ROOM(room); room[98303] = 1; if (threadIdx.x == 0) *a = room[98303]; }')
    code, _ = nvrtc.find().compile(source, 90)
    with device.current():
        module, memory = device.load(code, ["f"]), device.allocate(4)
        launch = Launch(module.functions["f"], 1, 1, 96 << 10, (memory.address,))
    with pytest.raises(BackendError, match="more shared memory than the kernel was allowed"), \
            device.current():
        device.start(launch, 0)
    with device.current():
        device.allow_shared(module.functions["f"], 96 << 10)
        device.start(launch, 0)
        device.wait(0)
    small = Launch(module.functions["f"], 1, 1, 64 << 10, (memory.address,))
    with pytest.raises(BackendError, match="a kernel failed"), device.current():
        device.start(small, 0)
        device.wait(0)


def test_a_grid_beyond_what_devices_have(gpu):
    """Launches are cut to blocks that take several points; one that was not is refused."""
    device = driver.open_device()
    source = 'extern "C" __global__ void __launch_bounds__(32) f(long n) {}'
    code, _ = nvrtc.find().compile(source, 90)
    with device.current():
        module = device.load(code, ["f"])
    with pytest.raises(BackendError, match="refuses a call .*a grid or a block that the device"), \
            device.current():
        device.start(Launch(module.functions["f"], 2**31, 32, 0, (1,)), 0)


def test_arrays_of_more_than_2_31_elements(gpu):
    """Positions are of 64 bits, and grids are cut: shown by what is launched, which is not run."""
    n, m = tegg.dim("n"), tegg.dim("m")
    g = Graph()
    g.outputs["y"] = g.mul(g.input("x", (n, m), "f32"), 2)
    program = compile_graph(g, CUDA)
    gpu.set(dry=1, memory=1 << 40)
    executable = program._executable
    device = driver.open_device()
    sizes = {s: 65536 for s in program.plan.symbols}
    with device.current():
        memory = device.allocate(4 << 32)
    buffers = [memory.address] * len(program.plan.buffers)
    executable.run(buffers, [sizes[s] for s in program.plan.symbols],
                   frozenset(range(len(buffers))))
    with device.current():
        device.wait(0)
    (_, blocks, threads), = gpu.launched
    assert blocks == device.most_blocks and blocks * threads < 2**31
    assert "int64_t" in program.source().split("KERNEL(256")[-1]


def test_nothing_is_left_behind(gpu):
    import gc
    gc.collect()  # what earlier tests left
    before = gpu.used
    program = compile_graph(doubled(), CUDA)
    program(X)
    assert gpu.used > before
    del program
    gc.collect()
    assert gpu.used == before


def test_several_threads(gpu):
    program = compile_graph(doubled(500), CUDA)
    failed = []

    def work(seed):
        x = np.random.default_rng(seed).standard_normal(500).astype(np.float32)
        for _ in range(5):
            if not np.array_equal(program(x)["y"], 2 * x):
                failed.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def said_in_a_fork(work):
    """What a BackendError of some work says in a child of this process."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        text = "it did not end"
        try:
            work()
            text = "it ran"
        except BackendError as e:
            text = str(e)
        finally:
            os.write(write, text.encode())
            os._exit(0)
    os.waitpid(child, 0)
    return os.read(read, 1000).decode()


def test_a_fork_is_told_to_open_its_own(gpu):
    program = compile_graph(doubled(), CUDA)
    program(X)
    assert "opened before this process was forked" in said_in_a_fork(lambda: program(X))
    assert program(X)["y"][1] == 2
    assert "spawn" in multiprocessing.get_all_start_methods()


def test_a_fork_of_a_process_in_which_another_library_started_the_driver(gpu):
    gpu.set(devices=2)
    libcuda.library()
    assert "GPU 1 cannot be opened (cuDeviceGetCount: CUDA_ERROR_NOT_INIT" in (
        said := said_in_a_fork(lambda: driver.open_device(1)))
    assert "it was started before this process was forked" in said and "'spawn'" in said
    libcuda.library.cache_clear()
    said = said_in_a_fork(libcuda.library)
    assert "does not start (cuInit: CUDA_ERROR_NOT_INIT" in said
    assert "it was started before this process was forked" in said and "nvidia-smi" not in said


def test_nvrtc_leaves_the_driver_alone(tmp_path):
    """It would start it, to keep what it makes: then a child of a fork could not use the GPU."""
    if nvrtc.find() is None:
        pytest.skip("NVRTC is not installed")
    (tmp_path / "driver.c").write_text("void abort(void);\nint cuInit(unsigned flags) { abort(); }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", tmp_path / "driver.c",
                    "-o", tmp_path / "libcuda.so.1"], check=True)
    text = ("import ctypes; from tegg.backends.cuda import nvrtc; ctypes.CDLL('libcuda.so.1'); "
            "nvrtc.find().compile('extern \"C\" __global__ void f() {}', 80)")
    subprocess.run([sys.executable, "-c", text], check=True,
                   env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})


def test_what_older_versions_of_nvrtc_are_not_asked(monkeypatch):
    given = []

    class Library:
        """NVRTC 12.8, as far as it goes."""

        def __getattr__(self, name):
            def call(*arguments):
                if name == "nvrtcCompileProgram":
                    given.extend(arguments[2])
                return 0

            return call

    monkeypatch.setattr(nvrtc.Nvrtc, "architectures", (90,))
    for version, asked in (((12, 8), False), ((12, 9), True), ((13, 0), True)):
        monkeypatch.setattr(nvrtc.Nvrtc, "_version", version)
        given.clear()
        nvrtc.Nvrtc(Library()).compile("", 90)
        assert b"--gpu-architecture=sm_90" in given and (b"--no-cache" in given) is asked


# ---- compilers
def test_no_compiler(gpu, inner):
    inner.setattr(nvrtc, "find", lambda: None)
    inner.setattr(cubin, "nvcc", lambda: None)
    cubin._nvcc_version.cache_clear()
    with pytest.raises(BackendError, match="neither NVRTC nor nvcc .*pip install nvidia-cuda-nvrtc"):
        compile_graph(doubled(), CUDA)


def nvcc(folder, body):
    path = folder / "nvcc"
    path.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo fake && exit 0\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_nvcc_stands_in(gpu, inner, tmp_path):
    code, _ = fake_driver.built("")
    inner.setattr(nvrtc, "find", lambda: None)
    inner.setattr(cubin, "nvcc", lambda: nvcc(tmp_path, f"cp {code} \"$9\"; echo $@ >&2"))
    cubin._nvcc_version.cache_clear()
    made = cubin.cubin("", 90)
    assert made.code == code.read_bytes() and made.resources == ()
    cubin._nvcc_version.cache_clear()


def test_a_source_that_does_not_compile_is_kept(gpu, inner, tmp_path):
    inner.setattr(nvrtc, "find", lambda: None)
    inner.setattr(cubin, "nvcc", lambda: nvcc(tmp_path, "echo no good >&2; exit 1"))
    cubin._nvcc_version.cache_clear()
    with pytest.raises(BackendError, match="nvcc does not compile kernels for sm_90: no good") as e:
        cubin.cubin("this is the source", 90)
    cubin._nvcc_version.cache_clear()
    path = str(e.value).rpartition("its source is ")[2]
    with open(path) as kept:
        assert kept.read() == "this is the source"


def test_machine_code_is_kept_by_what_decides_it(gpu, inner):
    class Counting(fake_driver.Compiler):
        made = []

        def compile(self, source, architecture):
            self.made.append((source, architecture))
            return b"code", ""

    inner.setattr(nvrtc, "find", Counting)
    for source, architecture in (("a", 90), ("a", 90), ("a", 80), ("b", 90), ("b", 90)):
        assert cubin.cubin(source, architecture).code == b"code"
    assert Counting.made == [("a", 90), ("a", 80), ("b", 90)]
    inner.setattr(Counting, "version", "another")
    cubin.cubin("a", 90)
    assert len(Counting.made) == 4


def test_which_nvcc(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    nvcc(tmp_path / "bin", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    cubin.nvcc.cache_clear()
    assert cubin.nvcc() == str(tmp_path / "bin" / "nvcc")
    cubin.nvcc.cache_clear()
    assert subprocess.run([str(tmp_path / "bin" / "nvcc"), "--version"], check=True).returncode == 0


def test_nvrtc_says_what_it_does_not_compile(monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    compiler = nvrtc.find()
    if compiler is None:
        pytest.skip("NVRTC is not installed")
    with pytest.raises(BackendError, match=r"(?s)NVRTC .* for sm_90: .*nothing.*\nits source is .*\.cu"):
        cubin.cubin("__global__ void f(float *a) { a[0] = nothing; }", 90)
    with pytest.raises(BackendError, match="NVRTC .* does not know sm_30; it knows sm_"):
        cubin.cubin("", 30)
    with pytest.raises(BackendError, match="NVRTC"):
        compiler._check(1)


def test_what_kernels_take_is_recorded(monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    if nvrtc.find() is None:
        pytest.skip("NVRTC is not installed")
    source = ('extern "C" __global__ void __launch_bounds__(64) f(float *a) { __shared__ float s[64];'
              's[threadIdx.x] = a[threadIdx.x]; __syncthreads(); a[threadIdx.x] = s[63 - threadIdx.x]; }')
    for _ in range(2):  # compiled, then from the cache
        (r,) = cubin.cubin(source, 80).resources
        assert (r.kernel, r.shared_bytes, r.spill_stores, r.spill_loads) == ("f", 256, 0, 0)
        assert 4 < r.registers < 40 and "f: " in r.show()


# ---- tegg.Cuda()
@pytest.mark.parametrize("given, text", [
    ({"results": "torch"}, "results= is one of 'numpy', 'device', 'gpuarray', not 'torch'"),
    ({"device": "first"}, "device= is a number, not 'first'"),
    ({"device": True}, "device= is a number, not True"),
    ({"architecture": "sm_90"}, "architecture= is a number"),
    ({"architecture": 61}, "architecture= is 70 or more, as 90 for compute capability 9.0, not 61"),
    ({"architecture": 9}, "architecture= is 70 or more"),
    ({"graph": "no"}, "graph= is True or False, not 'no'"),
    ({"blas": 1}, "blas= is True or False, not 1"),
    ({"results": "gpuarray"}, "needs PyCUDA, which does not load: .*'pycuda"),
])
def test_what_cuda_takes(gpu, given, text):
    with pytest.raises(ArgumentError, match=text):
        tegg.Cuda(**given)


def test_cuda_in_a_stack(gpu):
    g = doubled()
    program = g.compile([tegg.Generic(), tegg.Cuda(graph=False), tegg.Fp16()], cache=False)
    np.testing.assert_array_equal(program(X)["y"], 2 * X)
    assert program.target.name == "cuda" and program.target.architecture == 90


@pytest.mark.parametrize("which", ["sm_61", "sm_90x", "first"])
def test_devices_that_cannot_be_named(gpu, which):
    with pytest.raises(BackendError, match=f"no GPU 'cuda:{which}': write .* from 7.0 on"):
        doubled().compile(device=f"cuda:{which}", cache=False)


def test_a_pycuda_that_does_not_load(gpu, inner):
    def broken(name, *_):
        raise ImportError("undefined symbol: cuCtxCreate_v9")

    inner.setattr("importlib.import_module", broken)
    with pytest.raises(ArgumentError, match="needs PyCUDA, which does not load: undefined symbol: "
                                            "cuCtxCreate_v9; pip install 'tegg.cuda.', or write"):
        tegg.Cuda(results="gpuarray")


def test_planning_for_another_gpu(gpu):
    program = doubled().compile([tegg.Generic(), tegg.Cuda(architecture=75)], cache=False)
    np.testing.assert_array_equal(program(X)["y"], 2 * X)
    with pytest.raises(BackendError, match="compiled for compute capability 10.0, and Simulated GPU "):
        doubled().compile([tegg.Generic(), tegg.Cuda(architecture=100)], cache=False)
