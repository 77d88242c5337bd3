"""A real GPU, its driver and its libraries: ``pytest --gpu tests/test_gpu.py`` on a machine that has
them. Everywhere else tests play the driver, and run kernels in a simulator."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
import tegg
from profiles import LONG
from simt import on_gpu
from tegg.backends import cuda
from tegg.backends.cuda import driver, nvrtc
from tegg.backends.cuda.target import Cuda
from test_cuda_blas import check_forms
from test_runtime import arrays, chain
from test_simulated import layer, layer_arguments

from tegg.dtype import DTYPES
from tegg.errors import BackendError
from tegg.rewrite.compiler import Compiler, Generic, stack
from tegg.runtime.driver import Options, compile_graph
from tegg.testing.backend import BackendReport, check_programs, check_views
from tegg.testing.rows import check_drawn, check_elementwise

pytestmark = pytest.mark.skipif("not config.getoption('--gpu')", reason="runs with --gpu alone")

RNG = np.random.default_rng(4)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def on_device() -> tuple[Compiler, Compiler]:
    """Compilers whose results stay there."""
    return tegg.Generic(), tegg.Cuda(results="device")


def target() -> Cuda:
    return Cuda(driver.open_device().architecture)


def stacked(t: Cuda) -> tuple[Compiler, ...]:
    return Generic(), Compiler(name="cuda", target=t)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))


# ---- the kit
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows(dtype):
    """Every op that the device lowers by itself, with the values that break things."""
    t = target()
    table = stack(stacked(t)).table
    check_elementwise(t, table, DTYPES[dtype], 0)
    check_drawn(t, table, DTYPES[dtype], 4 if LONG else 1, 0, {})


@pytest.mark.parametrize("seed", range(24 if LONG else 12))
def test_programs(seed):
    t = target()
    report = BackendReport("cuda")
    check_programs(t, stacked(t), report, 3, seed, 1.0)
    assert report.programs


@pytest.mark.parametrize("seed", range(12 if LONG else 6))
def test_views(seed):
    t = target()
    check_views(t, stacked(t), BackendReport("cuda"), 6, seed, 1.0)


# ---- the runtime
@pytest.mark.parametrize("options", ({}, {"graph": False}, {"blas": True}), ids=str)
def test_layers(options):
    args = layer_arguments()
    f = tegg.compile(layer, tegg.Generic(), tegg.Cuda(**options))
    for _ in range(3):
        for a, b in zip(f(*args), tegg.compile(layer)(*args)):
            np.testing.assert_allclose(a, b, 1e-4, 1e-5)


def test_states_outputs_sizes_and_profiles():
    program = compile_graph(chain(), Options(device="cuda", cache=False))
    for n in (3, 1, 64, 3):
        x, s = arrays(n)
        before = s.copy()
        r = program(x, s=s)
        want = (x + 2 * np.arange(8, dtype=np.float32)) * before
        np.testing.assert_allclose(r["y"], want, 1e-5, 1e-5)
        np.testing.assert_array_equal(r["old"], before)
        np.testing.assert_allclose(s, before + want, 1e-5, 1e-5)
    rows = program.profile(*arrays(64))
    assert rows and all(0 < r["seconds"] < 1 for r in rows)


def test_results_stay_and_feed_other_programs():
    double = tegg.compile(lambda x: x * 2, *on_device())
    x = floats(40, 3)
    y = double(x)
    for _ in range(5):
        y = double(y)
    np.testing.assert_array_equal(y.numpy(), 64 * x)


def test_search_by_time():
    x, w = floats(200, 300), floats(300, 100)
    f = tegg.compile(lambda x, w: (x @ w).softmax(-1), device="cuda", search="measure")
    e = np.exp(x @ w - (x @ w).max(-1, keepdims=True))
    np.testing.assert_allclose(f(x, w), e / e.sum(-1, keepdims=True), 1e-3, 1e-6)


def test_a_saved_program(tmp_path):
    x = floats(5, 8)
    f = tegg.compile(lambda x: (x.exp() @ x.T).sum(0), device="cuda")
    want = f(x)
    tegg.save(f.program(x), tmp_path / "f.tegg")
    np.testing.assert_array_equal(next(iter(tegg.load(tmp_path / "f.tegg")(x).values())), want)


def test_threads():
    f = tegg.compile(lambda x, y: (x @ y).tanh().sum(0), device="cuda")
    given = [(floats(30, 40), floats(40, 50)) for _ in range(8)]
    want = [f(*g) for g in given]
    wrong = []

    def work(i: int) -> None:
        for _ in range(20):
            if not np.array_equal(f(*given[i]), want[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_memory_is_given_back():
    device = driver.open_device()
    f = tegg.compile(lambda x: (x @ x).exp(), *on_device())
    x = floats(2048, 2048)
    f(x)

    def free() -> int:
        gc.collect()
        with device.current():
            device.trim()
            return device.free_bytes()

    left = []
    for _ in range(3):  # other processes use the GPU meanwhile
        before = free()
        for _ in range(20):
            f(x)
        left.append(before - free())
    assert min(left) < 16 << 20, "20 results of 16 MiB"


def test_too_much_memory_is_said():
    device = driver.open_device()
    with device.current():
        n = device.free_bytes() // 4 + (1 << 30)
    f = tegg.compile(lambda x: x.expand(n // 1024, 1024) + 1, device="cuda")
    with pytest.raises(BackendError, match="out of memory"):
        f(floats(1, 1024))
    np.testing.assert_array_equal(tegg.compile(lambda x: x + 1, device="cuda")(np.zeros(3, np.float32)), 1)


def test_kernels_of_more_than_two_to_the_31_elements():
    n = (1 << 31) + 1000
    f = tegg.compile(lambda x: (x.expand(n, 1) + 1)[-5:], device="cuda")
    np.testing.assert_array_equal(f(np.ones((1, 1), np.int8)), 2)
    f = tegg.compile(lambda x: x.expand(n, 1).astype("f32").sum(), device="cuda")
    assert abs(float(f(np.ones((1, 1), np.int8))) / n - 1) < 1e-3


# ---- libraries
def test_every_way_that_matrices_lie_by_cublas():
    check_forms(Cuda(driver.open_device().architecture, blas=True))


def test_arrays_of_pytorch():
    """Read where they lie, on PyTorch's stream; results are PyTorch's without a copy."""
    torch = pytest.importorskip("torch")
    f = tegg.compile(lambda x, w: (x @ w).relu(), *on_device())
    x, w = torch.randn(64, 48, device="cuda"), torch.randn(48, 80, device="cuda")
    made = torch.cuda.Stream()
    with torch.cuda.stream(made), cuda.stream(made):
        for _ in range(50):
            x = torch.tanh(x)
            y = torch.from_dlpack(f(x, w))
            x = x + y[:, :48] * 1e-3
    torch.cuda.synchronize()
    want = torch.relu(x.double() @ w.double())
    got = torch.from_dlpack(f(x, w)).double()
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    half = torch.randn(32, 32, device="cuda", dtype=torch.bfloat16)
    twice = tegg.compile(lambda x: x + x, *on_device())
    assert torch.equal(torch.from_dlpack(twice(half)), half + half)


def test_arrays_of_cupy():
    cupy = pytest.importorskip("cupy")
    x = cupy.asarray(floats(40, 30))
    got = cupy.asarray(tegg.compile(lambda x: x.softmax(-1), *on_device())(x))
    e = cupy.exp(x - x.max(-1, keepdims=True))
    assert float(abs(got - e / e.sum(-1, keepdims=True)).max()) < 1e-6


def test_the_compiler_is_real():
    assert on_gpu.using and nvrtc.find() is not None
    assert driver.open_device().multiprocessors > 1
