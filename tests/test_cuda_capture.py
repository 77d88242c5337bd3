"""Products of the library inside of graphs: taken down, changed, and refused as the driver does."""

from __future__ import annotations

from ctypes import byref, c_uint64, c_void_p

import numpy as np
import pytest
import tegg
from tegg.backends.cuda import cublas, driver, streams
from tegg.backends.cuda.capture import Recorder
from tegg.backends.cuda.cublas import Product, Side
from tegg.backends.cuda.libcuda import Refused
from test_cuda_blas import compiled, floats, mixed, mixed_wanted, stack

from tegg.errors import BackendError

LAUNCHES = ("cuLaunchKernel", "cuGraphLaunch", "cuGraphInstantiateWithFlags",
            "cuGraphExecChildGraphNodeSetParams")


@pytest.fixture
def device(blas):
    """The GPU, as it is to this thread."""
    found = driver.open_device()
    with found.current():
        yield found


def counted(gpu, run):
    before = [gpu.count(c) for c in LAUNCHES]
    run()
    return [gpu.count(c) - b for c, b in zip(LAUNCHES, before)]


def matrix(memory, lead, at=0):
    return Side(memory.address + at, "f32", lead, 0, False)


def product(device, m=8, k=12, n=4, kind="f32"):
    """A product on memory of its own, whose operands are ones, and that memory."""
    held = [device.allocate(4 * a * b) for a, b in ((m, k), (k, n), (m, n))]
    for memory in held[:2]:
        ones = np.ones(memory.nbytes // 4, np.float32)
        device.upload(memory.address, ones.ctypes.data, memory.nbytes)
        device.wait(0)
    return Product(kind, 1, m, n, k, matrix(held[0], k), matrix(held[1], n),
                   matrix(held[2], n)), held


def values(device, memory):
    out = np.empty(memory.nbytes // 4, np.float32)
    device.download(out.ctypes.data, memory.address, memory.nbytes)
    device.wait(0)
    return out


# ---- runs
def test_a_run_is_one_graph(blas, gpu):
    """The first run starts all one by one, so that the library loads its kernels; others are one
    launch of one graph, which changes with addresses."""
    f = compiled(mixed)
    x, w = floats(20, 24), floats(24, 40)
    for n, wanted in enumerate(([2, 0, 0, 0], [0, 1, 1, 0], [0, 1, 0, 0])):
        found = counted(gpu, lambda: np.testing.assert_allclose(
            f(x, w), mixed_wanted(x, w), 1e-4, 1e-4))
        assert found[0] >= 1 if n == 0 else found == wanted, (n, found)
    assert blas.count("captured") == 2 and not blas.count("without workspace")
    assert blas.count("cublasGemmEx") == 4 and blas.count("products") == 6


def test_addresses_change_the_graph(blas, gpu):
    f = tegg.compile(mixed, *stack(results="device"), cache=False)
    w = floats(24, 40)
    f(floats(20, 24), w)
    seen = []
    for _ in range(3):  # results are other memory each time
        x = floats(20, 24)
        seen.append(f(x, w))
        np.testing.assert_allclose(seen[-1].numpy(), mixed_wanted(x, w), 1e-4, 1e-4)
    assert gpu.count("cuGraphInstantiateWithFlags") == 1


def test_sizes_for_which_the_library_starts_other_kernels(blas, gpu):
    """The played library takes two kernels for a sum of more than 64 terms."""
    n = tegg.dim("n", min=1, max=128)
    f = compiled(lambda x, w: (x @ w).sin(), dims={"x": (16, n), "w": (n, 24)})

    def run(size):
        x, w = floats(16, size), floats(size, 24)
        return counted(gpu, lambda: np.testing.assert_allclose(
            f(x, w), np.sin(x @ w), 1e-3, 1e-3))[1:]

    assert run(20) == [0, 0, 0] and run(20) == [1, 1, 0]
    assert run(24) == [0, 0, 0], "a product that is new to the library"
    assert run(24) == [1, 0, 1] and run(20) == [1, 0, 1], "the same kernels: the graph is changed"
    assert run(100) == [0, 0, 0] and run(100) == [1, 1, 1], "others: a graph of its own"
    assert run(100) == [1, 0, 0]


def test_each_stream_has_a_graph_and_a_workspace(blas, gpu, monkeypatch):
    """A graph keeps the workspace of its stream, also when others have taken its place."""
    monkeypatch.setattr(cublas, "STREAMS", 1)
    f = compiled(lambda a, b: (a @ b).sin())
    x, w = floats(20, 24), floats(24, 28)
    device = driver.open_device()
    with device.current():
        kept = [device.stream() for _ in range(2)]
    for s in (*kept, *kept, *kept):
        with streams.stream(s):
            np.testing.assert_allclose(f(x, w), np.sin(x @ w), 1e-4, 1e-4)
    assert gpu.count("cuGraphInstantiateWithFlags") == 2 and blas.count("captured") == 2


def test_without_graphs_nothing_is_taken_down(blas, gpu):
    f = compiled(mixed, graph=False)
    x, w = floats(20, 24), floats(24, 40)
    for _ in range(3):
        np.testing.assert_allclose(f(x, w), mixed_wanted(x, w), 1e-4, 1e-4)
    assert not gpu.count("cuStreamBeginCapture_v2") and not gpu.count("cuGraphLaunch")


def test_replay(device):
    p, held = product(device)
    assert not device.can_replay([p])
    device.start(p, 0)
    assert device.can_replay([p])
    made = device.replay([p, p])
    assert made.serves(0) and not made.serves(77) and made.fits([p, p]) and not made.fits([p])
    device.upload(held[2].address, np.zeros(32, np.float32).ctypes.data, 128)
    made.start(0)
    np.testing.assert_array_equal(values(device, held[2]), 12.0)
    made.close()
    made.close()


def test_memory_may_be_freed_meanwhile(device, gpu, monkeypatch):
    """As Python's collector does, in the middle of anything."""
    p, _held = product(device)
    device.start(p, 0)
    waste, library, used = [device.allocate(1 << 16)], device.cublas(), gpu.used
    put = library.put
    monkeypatch.setattr(library, "put", lambda p: (waste.clear(), put(p)))
    device.replay([p]).close()
    assert gpu.used == used - (1 << 16)


# ---- what is refused
def test_a_library_that_fails_while_it_is_taken_down(blas, gpu):
    f = compiled(lambda a, b: (a @ b).sin())
    x = floats(24, 24)
    f(x, x)
    blas.fail("cublasGemmEx", 14)
    with pytest.raises(BackendError, match=r"INTERNAL_ERROR.*, or start kernels one by one with "
                                           r"tegg\.Cuda\(graph=False\)"):
        f(x, x)
    np.testing.assert_allclose(f(x, x), np.sin(x @ x), 1e-4, 1e-4)


@pytest.mark.parametrize("call", ["cuStreamBeginCapture_v2", "cuStreamEndCapture",
                                  "cuGraphAddChildGraphNode", "cuGraphInstantiateWithFlags"])
def test_a_driver_that_refuses(blas, gpu, call):
    f = compiled(lambda a, b: (a @ b).sin())
    x = floats(24, 24)
    f(x, x)
    gpu.fail(call, 801)
    with pytest.raises(BackendError, match=rf"refuses a call \({call}"):
        f(x, x)


def test_a_change_that_fails_otherwise(blas, gpu):
    """Nothing of other kernels: the error is not swallowed."""
    f = tegg.compile(mixed, *stack(results="device"), cache=False)
    x, w = floats(20, 24), floats(24, 40)
    held = [f(x, w) for _ in range(2)]
    gpu.fail("cuGraphExecChildGraphNodeSetParams", 801)
    n = floats(20, 24)
    other = driver.open_device()
    with other.current():
        p, _memory = product(other)
        other.start(p, 0)
        made = other.replay([p])
        q, _more = product(other)
        other.start(q, 0)
        with pytest.raises(BackendError, match="refuses a call .cuGraphExecChild"), other.current():
            made.change([q])
    np.testing.assert_allclose(f(n, w).numpy(), mixed_wanted(n, w), 1e-4, 1e-4)
    assert len(held) == 2


# ---- the rules that the played driver holds us to
def test_a_product_that_is_new_cannot_be_taken_down(device):
    """Its kernels would be loaded in the middle of the capture."""
    p, _held = product(device)
    with pytest.raises(BackendError, match="EXECUTION_FAILED"):
        device.replay([p])
    device.start(p, 0)
    device.replay([p]).close()


def test_without_a_workspace_the_graph_allocates(device, monkeypatch):
    p, _held = product(device)
    device.start(p, 0)
    library = device.cublas()

    def bare(stream, space):
        library._library.cublasSetStream_v2(library._handle, stream)
        library._set = None
    monkeypatch.setattr(library, "on", bare)
    with pytest.raises(BackendError, match="a graph that allocates is no node|cuGraphAddChild"), \
            device.current():
        device.replay([p])


@pytest.mark.parametrize("call", [
    lambda d, s: d._driver.cuMemAlloc_v2(byref(c_uint64()), 64),
    lambda d, s: d._driver.cuCtxPopCurrent_v2(byref(c_void_p())) or d._driver.cuCtxPushCurrent_v2(
        d._context._context) or d.wait(s),
    lambda d, s: d.upload(1, np.zeros(4).ctypes.data, 8, s),
    lambda d, s: d.mark(s),
], ids=["allocate", "wait", "copy", "event"])
def test_what_a_capture_does_not_allow(device, call):
    """The call is refused, and what was taken down is void."""
    stream = device.stream()
    device._driver.cuStreamBeginCapture_v2(stream.handle, 1)
    with pytest.raises(Refused, match="cu"):
        call(device, stream.handle)
    with pytest.raises(Refused) as e:
        device._driver.cuStreamEndCapture(stream.handle, byref(c_void_p()))
    assert e.value.code == 901


def test_which_streams_are_captured(device):
    cu, stream = device._driver, device.stream()
    for handle, code in ((0, 900), (stream.handle, 0), (stream.handle, 401)):
        if not code:
            cu.cuStreamBeginCapture_v2(handle, 1)
            continue
        with pytest.raises(Refused) as e:
            cu.cuStreamBeginCapture_v2(handle, 1)
        assert e.value.code == code
    cu.cuStreamEndCapture(stream.handle, byref(c_void_p()))
    with pytest.raises(Refused) as e:
        cu.cuStreamEndCapture(stream.handle, byref(c_void_p()))
    assert e.value.code == 401


def test_the_recorder_leaves_nothing_behind(device, gpu):
    p, _held = product(device)
    device.start(p, 0)
    stream = device.stream()
    recorder = Recorder(device._driver, device.cublas(), 0, stream.handle)
    made, gone = gpu.count("cuStreamEndCapture"), gpu.count("cuGraphDestroy")
    with recorder.graph(p) as graph:
        assert graph
    assert gpu.count("cuStreamEndCapture") == made + 1 and gpu.count("cuGraphDestroy") == gone + 1
    assert recorder.stream == 0
