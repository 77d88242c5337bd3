"""Arrays that lie on the GPU: used in place, checked, in the order of streams; results there."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest
from tegg.backends.cuda import dlpack, driver, streams
from tegg.backends.cuda.arrays import DeviceArray

import tegg
from tegg.backends.cuda import stream
from tegg.errors import ArgumentError, BackendError, DTypeError, ShapeError
from tegg.ir.graph import Graph
from tegg.interchange import dtype_of, on_device, shape_of


class Foreign:
    """An array of another library, by __cuda_array_interface__."""

    def __init__(self, gpu, like, device=0, context=0, offset=0, **said):
        like = np.asarray(like)
        raw = like.tobytes()
        self._at = gpu.foreign(len(raw) + offset + 16, device, context) + offset
        self._like = like
        if device == 0 and context == 0:
            gpu.write(self._at, raw)
        self.__cuda_array_interface__ = {"shape": like.shape, "typestr": like.dtype.str,
                                         "strides": None, "version": 3, "data": (self._at, False),
                                         **said}

    def read(self):
        raw = ctypes.string_at(self._at, self._like.nbytes)
        return np.frombuffer(raw, self._like.dtype).reshape(self._like.shape)


class Packed:
    """An array of another library, by DLPack, with a dtype that is not NumPy's."""

    class dtype:
        def __init__(self, name):
            self.name = name

        def __str__(self):
            return f"library.{self.name}"

    def __init__(self, array, name):
        self._array, self.shape, self.dtype = array, array.shape, Packed.dtype(name)
        self.asked = []

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        return self._array.__dlpack__(stream=stream)


RNG = np.random.default_rng(1)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def scaled(x, w):
    return (x @ w).relu() * 2


def want(x, w):
    return np.maximum(x @ w, 0) * 2


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, 1e-4, 1e-5)


def test_arrays_of_other_libraries_are_read_where_they_lie(gpu):
    x, w = floats(5, 8), floats(8, 6)
    f = tegg.compile(scaled, device="cuda", cache=False)
    a, b = Foreign(gpu, x), Foreign(gpu, w, stream=None)
    got = f(a, b)
    assert isinstance(got, np.ndarray)
    close(got, want(x, w))
    assert gpu.count("cuMemcpyHtoDAsync_v2") == 0
    close(f(x, b), want(x, w))  # one of the host beside one of the device
    assert gpu.count("cuMemcpyHtoDAsync_v2") == 1


def test_results_stay_there_on_request(gpu):
    x, w = floats(5, 8), floats(8, 6)
    f = tegg.compile(scaled, tegg.Generic(), tegg.Cuda(results="device"), cache=False)
    got = f(Foreign(gpu, x), Foreign(gpu, w))
    assert isinstance(got, DeviceArray) and got.shape == (5, 6) and got.dtype == np.float32
    assert gpu.count("cuStreamSynchronize") == 1 and gpu.launched == []  # for weights, before
    again = f(Foreign(gpu, x), Foreign(gpu, w))
    close(got.numpy(), want(x, w))
    close(np.asarray(again), want(x, w))
    assert np.asarray(again, np.float64).dtype == np.float64
    assert "5, 6" in repr(got) and got.nbytes == 120
    with pytest.raises(ValueError, match="as a copy only"):
        np.array(got, copy=False)
    assert gpu.count("cuMemcpyDtoHAsync_v2") == 3 and gpu.count("cuMemAllocAsync") == 2


def test_results_feed_other_programs(gpu):
    on = tegg.Generic(), tegg.Cuda(results="device")
    double = tegg.compile(lambda x: x * 2, *on, cache=False)
    x = floats(40)
    y = double(x)
    for _ in range(5):
        y = double(y)  # by DLPack, with no copy between
    close(y.numpy(), 64 * x)
    assert gpu.count("cuMemcpyDtoHAsync_v2") == 1
    assert len(dlpack._given) == 1  # what the last run read, which may be under way
    del double
    gc.collect()
    assert not dlpack._given


def test_outs_on_the_device(gpu):
    x, w = floats(5, 8), floats(8, 6)
    g = Graph()
    a, b = g.tensor((5, 8), name="a"), g.tensor((8, 6), name="b")
    (a @ b).output("c")
    (a * 2).output("d")
    program = g.compile(device="cuda", cache=False)
    c, d = Foreign(gpu, np.zeros((5, 6), np.float32)), np.zeros((5, 8), np.float32)
    made = program(Foreign(gpu, x), w, out={"c": c, "d": d})
    assert made["c"] is c and made["d"] is d
    close(c.read(), x @ w)
    close(d, 2 * x)
    same = Foreign(gpu, x)
    program(same, w, out={"d": same})  # written after it was read
    gpu_now = driver.open_device()
    with gpu_now.current():
        gpu_now.wait(0)
    close(same.read(), 2 * x)


def test_states_on_the_device(gpu):
    def step(s, x):
        tegg.state(s, s * 0.5 + x)
        return s + x

    s, x = floats(64), floats(64)
    f = tegg.compile(step, device="cuda", cache=False)
    state = Foreign(gpu, s)
    close(f(state, x), s + x)
    close(state.read(), s * 0.5 + x)
    shared = Foreign(gpu, s)
    close(f(shared, shared), 2 * s)  # what is read beside it is read as it was
    close(shared.read(), s * 1.5)
    with pytest.raises(ArgumentError, match="state 's' is replaced in place, and this array is rea"):
        f(Foreign(gpu, s, data=(state._at, True)), x)


def test_bound_arrays_on_the_device(gpu):
    x, w = floats(5, 8), floats(8, 6)
    f = tegg.compile(scaled, tegg.Generic(), tegg.Cuda(results="device"), cache=False)
    a, b = Foreign(gpu, x), Foreign(gpu, w)
    bound = f.bind(a, b)
    for scale in (1, 3):
        gpu.write(a._at, (scale * x).tobytes())
        bound()
        close(bound.outputs["out"].numpy(), scale * want(x, w))
    rows = f.profile(a, b)
    assert rows and all(r["seconds"] > 0 for r in rows)
    host = x.copy()
    bound = f.bind(host, b)
    bound()
    host[...] *= 2
    bound()
    close(bound.outputs["out"].numpy(), 2 * want(x, w))
    with pytest.raises(ArgumentError, match="bind needs 'x' as a C-contiguous NumPy array of f32"):
        f.program(a, b).bind(np.asfortranarray(x), b)


def test_bind_of_what_a_copy_would_hide(gpu):
    def step(s, x):
        tegg.state(s, s + x)
        return s * 2

    f = tegg.compile(step, device="cuda", cache=False)
    s = Foreign(gpu, floats(16))
    with pytest.raises(ArgumentError, match="bind needs 'x' apart from every state"):
        f.bind(s, s)
    program = f.program(s, Foreign(gpu, floats(16)))
    x = Foreign(gpu, floats(16))
    with pytest.raises(ArgumentError, match="bind needs out 'out' C-contiguous.*apart from every"):
        program.bind(s, x, out={"out": x})


def test_sizes_and_addresses_change_the_nodes_of_one_graph(gpu):
    n = tegg.dim("n", 1, 600)

    def f(x):
        return x.softmax(-1).sum(0)

    compiled = tegg.compile(f, tegg.Generic(), tegg.Cuda(results="device"),
                            dims={"x": (n, None)}, cache=False)
    for size in (3, 500, 3, 7):
        x = floats(size, 40)
        e = np.exp(x - x.max(-1, keepdims=True))
        close(compiled(x).numpy(), (e / e.sum(-1, keepdims=True)).sum(0))
    assert gpu.count("cuGraphInstantiateWithFlags") == 1
    assert gpu.count("cuGraphLaunch") == 4 and gpu.count("cuGraphExecKernelNodeSetParams") > 3
    plain = tegg.compile(f, tegg.Generic(), tegg.Cuda(graph=False), cache=False)
    plain(floats(3, 40))
    assert gpu.count("cuGraphLaunch") == 4 and gpu.count("cuLaunchKernel") > 1


def test_no_arena_on_the_host(gpu, monkeypatch):
    from tegg.runtime import workspace
    asked = []
    real = workspace.aligned
    monkeypatch.setattr(workspace, "aligned", lambda n: (asked.append(n), real(n))[1])
    f = tegg.compile(lambda x: x.softmax(-1).sum(0), device="cuda", cache=False)
    f(floats(30, 40))
    assert sum(asked) == 0


# ---- streams
def test_a_run_follows_the_stream_of_its_arguments(gpu):
    device = driver.open_device()
    with device.current():
        made_on, mine = device.stream(), device.stream()
    x = floats(100)
    f = tegg.compile(lambda x: x + 1, tegg.Generic(), tegg.Cuda(results="device"), cache=False)
    source = Foreign(gpu, np.zeros(100, np.float32), stream=made_on.handle)
    f(source)  # compiling waits for all streams
    with device.current():  # another library writes it, on its own stream, some time
        device.upload(source._at, x.ctypes.data, x.nbytes, made_on.handle)
    with stream(mine):
        got = f(source)
        assert got.__cuda_array_interface__["stream"] == mine.handle
    close(got.numpy(), x + 1)
    assert streams.current_stream() == 0


def test_runs_of_one_program_on_several_streams_share_its_arena(gpu):
    device = driver.open_device()
    with device.current():
        every = [device.stream() for _ in range(3)]
    f = tegg.compile(lambda x: x.softmax(-1).sum(0), tegg.Generic(), tegg.Cuda(results="device"),
                     cache=False)
    inputs = [floats(9, 40) for _ in every]
    f(inputs[0])
    held = [Foreign(gpu, x) for x in inputs]
    got = []
    for s, x in zip(every, held):
        with stream(s.handle):
            got.append(f(x))
    for x, y in reversed(list(zip(inputs, got))):  # the last stream is waited for first
        e = np.exp(x - x.max(-1, keepdims=True))
        close(y.numpy(), (e / e.sum(-1, keepdims=True)).sum(0))


def test_readers_follow_the_stream_of_a_result(gpu):
    device = driver.open_device()
    with device.current():
        mine = device.stream()
    on = tegg.Generic(), tegg.Cuda(results="device")
    add, double = (tegg.compile(f, *on, cache=False) for f in (lambda x: x + 1, lambda x: x * 2))
    x = floats(50)
    with stream(mine):
        y = add(Foreign(gpu, x))
    close(double(y).numpy(), 2 * (x + 1))
    assert gpu.count("cuStreamWaitEvent") >= 1


class Handle:
    def __init__(self, **names):
        vars(self).update(names)


@pytest.mark.parametrize("of, handle", [
    (Handle(handle=48), 48), (Handle(cuda_stream=64), 64), (Handle(ptr=80), 80), (96, 96), (1, 0),
    (Handle(handle=ctypes.c_void_p(112)), 112), (Handle(__cuda_stream__=lambda: (0, 128)), 128),
    (0, 0), (Handle(handle=ctypes.c_void_p(0)), 0), (2, 2)])
def test_streams_of_other_libraries(of, handle):
    assert streams.handle_of(of) == handle


@pytest.mark.parametrize("of", ["fast", True, object()])
def test_what_is_no_stream(of):
    with pytest.raises(ArgumentError, match="a CUDA stream is a handle or a stream object, not"), \
            stream(of):
        pass


# ---- what is refused
@pytest.fixture
def program(gpu):
    g = Graph()
    g.tensor((4, 8), name="x").exp().output("y")
    return g.compile(device="cuda", cache=False)


Z = np.zeros((4, 8), np.float32)


@pytest.mark.parametrize("make, error, text", [
    (lambda gpu: Foreign(gpu, Z.astype("f8")), DTypeError, "input 'x' is float64, the program was"),
    (lambda gpu: Foreign(gpu, Z[0]), ShapeError, r"input 'x' has shape \(8,\), of rank 1"),
    (lambda gpu: Foreign(gpu, Z[:3]), ShapeError, "axis 0 must be 4, not 3"),
    (lambda gpu: Foreign(gpu, Z, strides=(4, 16)), ArgumentError, r"not C-contiguous .*\(4, 16\); c"),
    (lambda gpu: Foreign(gpu, Z, offset=4), ArgumentError, "no multiple of 16 bytes"),
    (lambda gpu: Foreign(gpu, Z, mask=Z), ArgumentError, "has a mask"),
    (lambda gpu: Foreign(gpu, Z, device=1), BackendError, "lies on GPU 1, and the program runs on"),
    (lambda gpu: Foreign(gpu, Z, context=1), BackendError, "another CUDA context .*autoprimaryctx"),
    (lambda gpu: Foreign(gpu, Z, data=(64, False)), BackendError, "is not memory that NVIDIA's"),
])
def test_arrays_that_cannot_be_used(gpu, program, make, error, text):
    with pytest.raises(error, match=text):
        program(make(gpu))


def test_memory_of_the_host_is_not_of_the_device(gpu, program, monkeypatch):
    x = Foreign(gpu, Z)
    monkeypatch.setattr(driver, "_ON_DEVICE", 1)
    with pytest.raises(BackendError, match="input 'x' lies in memory of the host"):
        program(x)


def test_outs_that_cannot_be_used(gpu, program):
    for out, error, text in (
            (Foreign(gpu, Z[:2]), ShapeError, r"out 'y' has shape \(2, 8\); the result is \(4, 8\)"),
            (Foreign(gpu, Z, data=(Foreign(gpu, Z)._at, True)), ArgumentError, "out 'y' is read-only"),
            (Foreign(gpu, Z.astype("i4")), DTypeError, "out 'y' is int32")):
        with pytest.raises(error, match=text):
            program(Z, out={"y": out})


def test_outs_and_states_that_share_memory(gpu):
    g = Graph()
    x = g.tensor((8,), name="x")
    (x + 1).output("a")
    (x + 2).output("b")
    a = Foreign(gpu, np.zeros(8, np.float32))
    with pytest.raises(ArgumentError, match="out 'b' shares memory with the array of another outpu"):
        g.compile(device="cuda", cache=False)(np.zeros(8, np.float32), out={"a": a, "b": a})

    def both(s, t):
        tegg.state(s, s + 1)
        tegg.state(t, t + 2)

    with pytest.raises(ArgumentError, match="states 's' and 't' share memory"):
        tegg.compile(both, device="cuda", cache=False)(a, a)


def test_a_program_of_the_host_does_not_read_them(gpu):
    with pytest.raises(ArgumentError, match="input 'x' is Foreign, which does not lie in the host's"):
        tegg.compile(lambda x: x + 1)(Foreign(gpu, Z))


class Elsewhere:
    """An array on a device that is no GPU of NVIDIA's."""

    shape, dtype = (4, 8), np.dtype("f4")

    def __dlpack_device__(self):
        return 10, 0

    @property
    def __cuda_array_interface__(self):
        raise TypeError("not on CUDA")


def test_arrays_of_other_devices(gpu, program):
    with pytest.raises(ArgumentError, match="is Elsewhere, which lies on another device than an N"):
        program(Elsewhere())


# ---- protocols
def test_what_arrays_say_of_themselves(gpu):
    x = Foreign(gpu, Z)
    assert on_device(x) and shape_of(x) == (4, 8) and dtype_of(x) is tegg.f32
    assert on_device(Elsewhere()) and dtype_of(Elsewhere()) is tegg.f32
    assert not any(map(on_device, (Z, 1, 2.0, [1], None, "x", Z[0, 0])))
    with pytest.raises(DTypeError, match="arrays of dtype library.complex64 cannot be used"):
        dtype_of(Packed(Z, "complex64"))


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "u8", "i8", "i32", "i64", "bool"])
def test_every_dtype_by_dlpack(gpu, dtype):
    d = tegg.dtype(dtype)
    on = tegg.Generic(), tegg.Cuda(results="device")
    same = tegg.compile(lambda x: x.reshape(3, 2).T, *on, cache=False)
    x = np.arange(6).astype(d.numpy)
    held = same(x)
    name = {"bf16": "bfloat16", "bool": "bool"}.get(dtype, d.numpy.name)
    packed = Packed(held, name)
    got = tegg.compile(lambda y: y.T, *on, cache=False)(packed)
    np.testing.assert_array_equal(got.numpy(), x.reshape(3, 2))
    assert packed.asked == [streams.LEGACY]
    assert held.__dlpack_device__() == (2, 0)
    if dtype == "bf16":
        with pytest.raises(TypeError, match="has no code for bfloat16; use DLPack"):
            _ = held.__cuda_array_interface__


def test_capsules_that_nobody_takes(gpu):
    gc.collect()
    on = tegg.Generic(), tegg.Cuda(results="device")
    held = tegg.compile(lambda x: x + 1, *on, cache=False)(floats(8))
    capsule = held.__dlpack__()
    assert len(dlpack._given) == 1
    del capsule
    gc.collect()
    assert not dlpack._given
    held.__dlpack__(stream=-1)
    gc.collect()
    assert not dlpack._given


def test_a_dtype_that_programs_lack(gpu, program):
    class Strange:
        shape, dtype = (4, 8), np.dtype("f4")

        def __dlpack_device__(self):
            return 2, 0

        def __dlpack__(self, stream=None):
            return dlpack.given(self, 0, (4, 8), np.dtype("f4"), 0)

    found = dlpack.taken(Strange().__dlpack__())
    found._key = (2, 16, 4)
    with pytest.raises(DTypeError, match="DLPack code 2, 16 bits, 4 lanes"):
        _ = found.dtype
    with pytest.MonkeyPatch.context() as m:
        m.setattr(dlpack, "_CODES", {(2, 32): np.float32})
        held = Strange()
        m.setitem(dlpack._CODES, (5, 64), np.float32)
        m.delitem(dlpack._CODES, (2, 32))
        with pytest.raises(DTypeError, match="input 'x': it has a dtype that programs do not know"):
            capsule = held.__dlpack__()
            m.delitem(dlpack._CODES, (5, 64))
            m.setattr(held.__class__, "__dlpack__", lambda self, stream=None: capsule)
            program(held)
