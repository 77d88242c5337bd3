"""Metal by its own interface: the real file, over classes played behind an Objective-C runtime."""

from __future__ import annotations

import ctypes
import gc
import mmap
import pickle
import platform
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from profiles import examples
from simt import fake_metal, fake_objc
from simt.fake_objc import Settings
from test_runtime import arrays, chain

import tegg
from tegg.backends.metal import direct, hazards, objc
from tegg.backends.metal.chips import costs_of
from tegg.backends.metal.driver import Dispatch, prelude
from tegg.backends.metal.emit import MOST_BUFFERS, Msl
from tegg.backends.metal.target import Metal
from tegg.dtype import f32
from tegg.errors import ArgumentError, BackendError, ExtractionError, LoweringError
from tegg.ir.graph import Graph
from tegg.mapped import start_of
from tegg.nn import Parameter
from tegg.runtime.driver import compile_graph, Options
from tegg.testing.backend import check_program
from tegg.testing.strategies import programs

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64",
                                reason="messages are played for x86-64 alone")


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    with fake_objc.installed():
        yield


def stack():
    return tegg.Generic(), tegg.Metal(through="metal")


def options():
    return Options(compilers=stack(), cache=False)


RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def test_a_run_is_one_command_buffer(gpu):
    def layer(ids, table, w, b):
        x = table[ids]
        h = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()
        a = ((h @ w @ h.T) * 0.125).softmax(-1) @ h
        return (a @ w + b).gelu() + x, a.sum(0)

    args = (RNG.integers(0, 40, 37), floats(40, 48), floats(48, 48) * 0.1, floats(48))
    want, run = tegg.compile(layer)(*args), tegg.compile(layer, *stack())
    for _ in range(2):
        for a, b in zip(run(*args), want):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    probe, first, second = fake_objc.sent
    assert [name for name, _ in probe] == ["tegg_probe"]
    assert first == second and 4 <= len(first) <= 12


def test_nothing_is_left_over(gpu):
    run, x = tegg.compile(lambda x: x.softmax(-1), *stack()), floats(7, 9)
    run(x)
    first = fake_objc.kept()
    for _ in range(3):
        run(x)
    assert fake_objc.kept() == first
    del run
    gc.collect()
    assert set(fake_objc.kept()) == {"Device", "Queue", "Class", "Pipeline"}


@settings(max_examples=examples(3), deadline=None, phases=[Phase.explicit, Phase.generate],
          suppress_health_check=list(HealthCheck))
@given(program=programs(steps=10))
def test_random_programs(program):
    if any(n.dtype.name == "f64" for n in program.graph.reachable(program.graph.outputs.values())):
        return
    with fake_objc.installed():
        check_program(program, options())


def test_states_outputs_and_sizes(gpu):
    program = compile_graph(chain(), options())
    for n in (3, 1, 64, 3):
        x, s = arrays(n)
        before = s.copy()
        r = program(x, s=s)
        want = (x + 2 * np.arange(8, dtype=np.float32)) * before
        np.testing.assert_allclose(r["y"], want, rtol=2e-5)
        np.testing.assert_allclose(s, before + want, rtol=2e-5)
    assert all(r["seconds"] > 0 for r in program.profile(*arrays(3)))


def test_compiled_kernels_are_kept_on_disk(gpu, tmp_path):
    x, before = floats(5), None
    for _ in range(2):
        direct.open_direct.cache_clear()
        fake_objc.Pipeline.found.clear()
        run = tegg.compile(lambda x: x.exp() + 1, *stack(), cache=False)
        np.testing.assert_allclose(run(x), np.exp(x) + 1, rtol=1e-5)
        assert fake_objc.Pipeline.found == [True, True]
        files = sorted(p for p in tmp_path.rglob("*") if p.is_file() and "metalar" in str(p))
        assert len(files) == 2
        before = before or files
        assert files == before


def test_messages_have_the_types_of_methods():
    """Two tables, written apart, agree; a third would be Apple's headers."""
    for selector, (result, *kinds) in objc.METHODS.items():
        mine = ctypes.CFUNCTYPE(result, ctypes.c_void_p, ctypes.c_void_p, *kinds)
        assert fake_objc.types(mine) == fake_objc.types(fake_objc.METHODS[selector][1]), selector
        assert selector.count(":") == len(kinds)


def test_the_stand_in_sees_wrong_messages(gpu):
    gpu_ = direct.open_direct()
    with gpu_.current():
        made = gpu_.allocate(64)
        gpu_._send(made.handle, "commit")
        assert "Buffer at" in fake_objc.failed.pop() and not fake_objc.failed
        handle = made.handle
        del made
        gc.collect()
        gpu_._send(handle, "contents")
        assert "does not know contents" in fake_objc.failed.pop()


def test_plans_know_that_launches_are_cheap(gpu):
    assert costs_of("M2", True).launch < costs_of("M2").launch
    assert Metal("M2", "metal").costs().launch == costs_of("M2", True).launch
    assert Metal("M2", "metal").identity() != Metal("M2").identity()
    assert tegg.Metal(chip="M2", through="metal").target.chip == "M2"
    with pytest.raises(ArgumentError, match="through= is one of metalcompute, metal, not 'cuda'"):
        tegg.Metal(through="cuda")


def test_saved_programs_keep_how_the_gpu_is_reached(gpu):
    with fake_metal.installed():
        program, x = tegg.compile(doubled(), *stack(), cache=False), floats(3)
        again = pickle.loads(pickle.dumps(program))
        np.testing.assert_array_equal(again(x)["y"], 2 * x)
        assert again.target.through == "metal"


def doubled():
    g = Graph()
    g.outputs["y"] = g.mul(g.input("x", (3,), "f32"), 2)
    return g


# ---- what is bound, and what waits
def test_arrays_are_bound_where_they_lie(gpu):
    """A kernel has a buffer for each array; in the text nothing tells where in memory it is."""
    run, x, w = tegg.compile(lambda x, w: x @ w + 1, *stack()), floats(8, 40), floats(40, 24)
    np.testing.assert_allclose(run(x, w), x @ w + 1, rtol=1e-4, atol=1e-4)
    text = run.program(x, w).source()
    text = text[len(prelude()):]
    assert "device float *b0 [[buffer(0)]]" in text and "lies(" not in text
    d = {n: f32 for n in range(MOST_BUFFERS)}
    with pytest.raises(LoweringError, match="a kernel of 31 arrays; Metal binds 31 buffers, of which"):
        Msl(bound=True).head("k", d, ())
    assert len(Msl(bound=True).head("k", dict(list(d.items())[1:]), ("n",))) > 3


def test_kernels_that_touch_the_same_wait(gpu, monkeypatch):
    """The stand-in runs what no barrier orders in the other order: without barriers it is wrong."""
    def f(x, w):
        a, b = (x @ w).softmax(-1), (x @ w.T).softmax(0)
        return a @ w, b @ w, (a.sum(0) * b.sum(0)).cumsum(-1)

    x, w = floats(24, 24), floats(24, 24)
    want, run = tegg.compile(f)(x, w), tegg.compile(f, *stack())
    for a, b in zip(run(x, w), want):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(hazards.Place, "meets", lambda self, other: False)
    x = floats(24, 24)  # what the last run has left in memory is no answer
    assert not all(np.allclose(a, b, rtol=1e-3, atol=1e-3)
                   for a, b in zip(run(x, w), tegg.compile(f)(x, w)))


def test_what_waits():
    one, other = object(), object()

    def place(buffer, offset, nbytes, written=False):
        return hazards.Place(buffer, offset, nbytes, written)

    t = hazards.Together()
    assert not t.waits([place(one, 0, 64), place(one, 64, 64, True)])
    assert not t.waits([place(one, 0, 64), place(one, 128, 64, True)])    # both read the first
    assert not t.waits([place(other, 64, 64, True)])                      # another buffer
    assert t.waits([place(one, 100, 4)])                                  # after it is written
    assert not t.waits([place(one, 64, 4)]) and t.waits([place(one, 0, 200, True)])  # after a read
    assert t.waits([place(one, 199, 1, True)])                            # after a write
    assert not t.waits([place(one, 200, 1, True)])


@pytest.fixture
def weights(tmp_path):
    """Weights of a file that is mapped: some begin at a multiple of 16, one does not."""
    path = tmp_path / "w.safetensors"
    tensors = {"a": floats(32, 16), "b": floats(16, 8), "odd": np.zeros(2, np.uint8),
               "c": floats(16, 8).astype(np.float16)}
    tegg.save_safetensors(path, tensors)
    return tegg.load_safetensors(path), tensors


def adopted():
    return [o for o in fake_objc.alive.values() if isinstance(o, fake_objc.Buffer) and o.adopted]


def model(files):
    g = Graph()
    x = g.input("x", (4, 32), "f32")
    a, b = (g.input(n, files[n].shape, "f32", "weight", Parameter(files[n])) for n in "ab")
    h = g.idiom("Contract", x, a, "a,k;k,b;a,b", (4, 16))
    g.outputs["y"] = g.idiom("Contract", h, b, "a,k;k,b;a,b", (4, 8))
    return g


def test_weights_are_read_where_a_file_is_mapped(gpu, weights):
    files, tensors = weights
    aligned = [n for n in "ab" if files[n].ctypes.data % 16 == 0]
    program, x = compile_graph(model(files), options()), floats(4, 32)
    for _ in range(2):
        np.testing.assert_allclose(program(x)["y"], x @ tensors["a"] @ tensors["b"], rtol=1e-4,
                                   atol=1e-4)
    assert len(adopted()) == bool(aligned)
    e = program._executable
    assert len(e._stays) == 2 - len(aligned)
    (placed,) = e._placed.values()  # nothing is kept free for them
    assert placed.peak <= program.stats["arena_bytes"] + x.nbytes + 4 * 4 * 8 + 3 * 64
    del program, e, placed
    gc.collect()
    assert not adopted()


def test_a_weight_that_is_a_result_is_copied(gpu, weights):
    files, tensors = weights
    g = Graph()
    w = g.input("w", files["a"].shape, "f32", "weight", Parameter(files["a"]))
    g.outputs["y"], g.outputs["z"] = w, g.mul(w, 2)
    r = compile_graph(g, options())()
    np.testing.assert_array_equal(r["y"], tensors["a"])
    np.testing.assert_array_equal(r["z"], 2 * tensors["a"])


def test_arguments_are_read_where_a_file_is_mapped(gpu, weights):
    files, tensors = weights
    run = tegg.compile(lambda x: x * 2 + 1, *stack())
    (name, *_) = [n for n in "ab" if files[n].ctypes.data % 16 == 0] or ["a"]
    for _ in range(2):
        np.testing.assert_array_equal(run(files[name]), tensors[name] * 2 + 1)
    assert len(adopted()) == (files[name].ctypes.data % 16 == 0)


def test_parts_of_weights_are_read_where_a_file_is_mapped(gpu, weights):
    files, tensors = weights
    g = Graph()
    x, a = g.input("x", (4, 16), "f32"), g.input("a", (32, 16), "f32", "weight",
                                                 Parameter(files["a"]))
    for t in (1, 0):
        x = g.op("Exp2", g.idiom("Contract", x, g.narrow(a, 0, 16 * t, 16), "a,k;k,b;a,b", (4, 16)))
    g.outputs["y"] = x
    program, x = compile_graph(g, options()), floats(4, 16) / 8
    assert any(c.offsets for c in program.plan.run)
    want = np.exp2(np.exp2(x @ tensors["a"][16:]) @ tensors["a"][:16])
    np.testing.assert_allclose(program(x)["y"], want, rtol=1e-4)


def test_parts_of_arguments_are_read_where_they_are_copied_to(gpu):
    g = Graph()
    x = g.input("x", (4, 16), "f32")
    h = g.narrow(x, 0, 3, 1)
    for t in (2, 1):
        step = g.idiom("Contract", h, g.input(f"w{t}", (16, 16), "f32"), "a,k;k,b;a,b", (1, 16))
        h = g.op("Exp2", g.add(g.mul(step, 0.1), g.narrow(x, 0, t, 1)))
    g.outputs["y"] = h
    program, x, *w = compile_graph(g, options()), *(floats(*s) for s in ((4, 16), (16, 16), (16, 16)))
    assert any(c.offsets for c in program.plan.run)
    want = np.exp2(np.exp2(x[3:] @ w[0] * 0.1 + x[2]) @ w[1] * 0.1 + x[1])
    np.testing.assert_allclose(program(x, *w)["y"], want, rtol=1e-4)


@pytest.mark.parametrize("name, value", [("adopts", False), ("biggest", 1 << 14)])
def test_maps_that_are_not_taken_over_are_copied(gpu, weights, monkeypatch, name, value):
    files, tensors = weights
    program, x = compile_graph(model(files), options()), floats(4, 32)
    monkeypatch.setattr(Settings, name, value)
    monkeypatch.setattr(mmap, "PAGESIZE", mmap.PAGESIZE if name == "adopts" else 1 << 15)
    np.testing.assert_allclose(program(x)["y"], x @ tensors["a"] @ tensors["b"], rtol=1e-4, atol=1e-4)
    assert not adopted()


@pytest.mark.parametrize("change, words", [
    (lambda at: (at + 64, mmap.PAGESIZE), "is not page-aligned"),
    (lambda at: (at, 100), "are no whole pages")])
def test_the_stand_in_refuses_what_metal_refuses_of_pages(gpu, change, words):
    device, pages = direct.open_direct(), mmap.mmap(-1, mmap.PAGESIZE)
    with device.current():
        device._send(device._device, "newBufferWithBytesNoCopy:length:options:deallocator:",
                     *change(start_of(pages)), 0, None)
    assert words in fake_objc.failed.pop() and not fake_objc.failed


def test_the_stand_in_refuses_offsets(gpu):
    device = direct.open_direct()
    text = (f"{prelude()}\n[[max_total_threads_per_threadgroup(256)]] kernel void f("
            "device float *x [[buffer(0)]], constant int64_t *given [[buffer(1)]]) "
            "{ x[0] = (float)given[0]; }")
    with device.current():
        f, made = device.load(text, ["f"])["f"], device.allocate(1024)
        for first, second, words in ((8, 0, "8 does not divide by the widest access"),
                                     (0, 16, "dispatch: AssertionError")):
            device.run([Dispatch(f, 1, (hazards.Place(made, first), hazards.Place(made, second)))])
            assert words in fake_objc.failed[0]
            fake_objc.failed.clear()


# ---- what is refused
def test_buffers_over_the_limit(gpu, monkeypatch):
    program = compile_graph(doubled(), options())
    monkeypatch.setattr(Settings, "biggest", 8)
    with pytest.raises(BackendError, match="M2 Pro makes no buffer of .* bytes .at most 8 bytes.; its"):
        program(floats(3))


def test_double_precision(gpu):
    with pytest.raises(ExtractionError, match=r"(?s)Metal has no float64; cast to float32"):
        tegg.compile(lambda x: x * 2, *stack())(np.zeros(3))


@pytest.fixture
def closed():
    direct.open_direct.cache_clear()
    yield
    direct.open_direct.cache_clear()


def test_another_system(closed, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(BackendError, match="Apple's Metal framework, and this machine does not run"):
        tegg.Metal(through="metal")


def test_frameworks_that_do_not_load(closed, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(BackendError, match="Metal does not load .*CoreGraphics.*part of macOS"):
        tegg.Metal(through="metal")


def test_a_macos_without_the_language(closed, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("13.6.1", ("", "", ""), "arm64"))
    with pytest.raises(BackendError, match="MSL 3.1, which macOS 14 has first, and this is macOS 13.6.1"):
        tegg.Metal(through="metal")


@pytest.mark.parametrize("name, value, words", [
    ("devices", False, "no GPU that Metal can use; use device='cpu'"),
    ("queue", False, "Apple M2 Pro gives no queue of commands"),
    ("lost", ("MTLCompileOptions",), "no class MTLCompileOptions; macOS 14 is the least"),
    ("lost", ("tegg_probe",), "the compiled kernels have no function tegg_probe"),
    ("no_pipeline", "tegg_probe", "makes no pipeline of tegg_probe: Compute function exceeds"),
    ("no_archive", "new", "opens no archive of kernels: the archive is damaged"),
    ("no_archive", "open", r"opens no archive of kernels .*; delete it: the archive is damaged"),
    ("no_archive", "write", "writes no archive of kernels to .*: the disk is full"),
    ("most", 128, "at most 128 threads of tegg_probe together; kernels are made for 256"),
    ("group", 128, "M2 Pro runs 128 threads in simdgroups of 32 where kernels"),
    ("run_fails", "Caused GPU Timeout Error", "a run failed: Caused GPU Timeout Error"),
    ("biggest", 8, "makes no buffer of 16 bytes .at most 8 bytes.; its limit"),
    ("memory", 8, "makes no buffer of 16 bytes .none was given.; its limit")])
def test_a_device_that_cannot_be_opened(gpu, monkeypatch, name, value, words):
    monkeypatch.setattr(Settings, name, value)
    with pytest.raises(BackendError, match=words):
        tegg.Metal(through="metal")
    fake_objc.failed.clear()


def test_pipelines_that_an_archive_has_can_fail(gpu, monkeypatch):
    device = direct.open_direct()
    source = f"{prelude()}\n[[max_total_threads_per_threadgroup(256)]] kernel void f(device float *x [[buffer(0)]]) {{ x[0] = 1.0f; }}"
    monkeypatch.setattr(fake_objc.Archive, "add", lambda self, descriptor, error: True)
    monkeypatch.setattr(Settings, "no_pipeline", "f")
    with device.current(), pytest.raises(BackendError, match="makes no pipeline of f: Compute function"):
        device.load(source, ["f"])


def test_a_kernel_that_does_not_compile(gpu):
    device = direct.open_direct()
    text = f"{prelude()}\nfloat f() {{ return nothing; }}"
    with device.current(), pytest.raises(BackendError, match="does not compile kernels for Apple M2 Pro") as e:
        device.load(text, ["f"])
    assert f"{text.count(chr(10)) + 1:5} float f() {{ return nothing; }}" in str(e.value)
    assert "was not declared" in str(e.value)


def test_no_command_buffer(gpu, monkeypatch):
    device = direct.open_direct()
    monkeypatch.setattr(Settings, "queue", False)
    with device.current(), pytest.raises(BackendError, match="gives no command buffer"):
        device.run([Dispatch(0, 1, ())])
    device.run([])
