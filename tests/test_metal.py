"""Metal through tegg.compile: plans run by the real runtime, over metalcompute's stand-in."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from simt import fake_metal
from test_runtime import arrays, chain

import tegg
from tegg.backends.metal import driver as runtime
from tegg.backends.metal.chips import chip_of, costs_of
from tegg.backends.metal.emit import Msl
from tegg.backends.metal.target import Metal
from tegg.dtype import f32, f64
from tegg.errors import ArgumentError, BackendError, ExtractionError, LoweringError
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph
from tegg.ir.op import OPS
from tegg.nn import Parameter
from tegg.runtime.driver import Options, compile_graph

METAL = Options(device="metal", cache=False)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    fake_metal.launched.clear()
    with fake_metal.installed() as library:
        yield library


def close(got, want, rtol=2e-5):
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-5)


RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def test_the_stack_names_the_device(gpu):
    x = floats(5)
    close(tegg.compile(lambda x: x.exp(), tegg.Generic(), tegg.Metal())(x), np.exp(x))
    assert [name for name, *_ in fake_metal.launched if name != "tegg_probe"]


def test_many_sizes_keep_a_few_starts(gpu):
    program = compile_graph(chain(), METAL)
    for n in range(1, 20):
        x, s = arrays(n)
        close(program(x, s=s)["old"], arrays(n)[1])
    assert len(program._executable._placed) == 16


def test_weights_stay_on_the_device_until_they_change(gpu):
    g, w = Graph(), Parameter(floats(30, 20))
    x = g.input("x", (4, 30), "f32")
    weight = g.input("w", (30, 20), "f32", "weight", w)
    g.outputs["y"] = g.idiom("Contract", x, g.mul(weight, 2), "a,k;k,b;a,b", (4, 20))
    program, a = compile_graph(g, METAL), floats(4, 30)
    for _ in range(2):
        close(program(a)["y"], a @ (2 * w.data), 1e-4)
    fixed = program._executable._fixed
    w.data = floats(30, 20)
    close(program(a)["y"], a @ (2 * w.data), 1e-4)
    assert program._executable._fixed is not fixed


def test_a_source_is_compiled_once(gpu):
    def f(x):
        return x * 3 + 1

    before = fake_metal.Kernel.compiled
    for _ in range(2):
        close(tegg.compile(f, device="metal")(floats(5)).shape, (5,))
    assert fake_metal.Kernel.compiled == before + 2  # the probe, and the kernels


# ---- what is refused
def doubled():
    g = Graph()
    g.outputs["y"] = g.mul(g.input("x", (3,), "f32"), 2)
    return g


@pytest.fixture
def missing(monkeypatch):
    runtime.open_device.cache_clear()
    monkeypatch.setitem(sys.modules, "metalcompute", None)
    yield monkeypatch
    runtime.open_device.cache_clear()


def test_another_system_is_named(missing):
    missing.setattr(sys, "platform", "linux")
    with pytest.raises(BackendError, match="an Apple GPU, and this machine does not run macOS; use"):
        compile_graph(doubled(), METAL)


def test_metalcompute_is_named_where_it_is_missing(missing):
    missing.setattr(sys, "platform", "darwin")
    with pytest.raises(BackendError, match=r"metalcompute, which is not installed; pip install 'tegg\[m"):
        compile_graph(doubled(), METAL)


def test_a_library_that_does_not_load(missing):
    class Broken:
        def find_spec(self, name, path=None, target=None):
            if name == "metalcompute":
                raise ImportError("dlopen: symbol not found")

    missing.delitem(sys.modules, "metalcompute")
    missing.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(BackendError, match="metalcompute does not load .dlopen: symbol not found"):
        compile_graph(doubled(), METAL)


def test_a_mac_without_a_gpu(gpu, monkeypatch):
    monkeypatch.setattr(fake_metal.Settings, "devices", 0)
    with pytest.raises(BackendError, match="no GPU that Metal can use .Cannot create device.; use"):
        compile_graph(doubled(), METAL)


def test_a_gpu_of_other_threadgroups(gpu, monkeypatch):
    monkeypatch.setattr(fake_metal.Settings, "group", 128)
    with pytest.raises(BackendError, match="M2 Pro runs 128 threads in simdgroups of 32 where kernels"):
        compile_graph(doubled(), METAL)
    fake_metal.failed.clear()  # two blocks of the probe write where one should


def test_a_kernel_that_does_not_compile(gpu):
    device = runtime.open_device()
    text = "\n".join([runtime.prelude(), *("// a line" for _ in range(9)), "float f() { return nothing; }"])
    with device.current(), pytest.raises(BackendError, match="does not compile kernels for Apple M2 Pro") as e:
        device.load(text, ["f"])
    line = text.count("\n") + 1
    assert "nothing" in str(e.value) and "was not declared" in str(e.value)
    assert f"{line:5} float f() {{ return nothing; }}" in str(e.value)
    assert f"{line - 3:5} // a line" in str(e.value) and f"{line - 4:5} // a line" not in str(e.value)
    assert runtime.numbered("a\nb", "something is wrong") == "    1 a\n    2 b"


def test_buffers_over_the_limit(gpu, monkeypatch):
    program = compile_graph(doubled(), METAL)
    monkeypatch.setattr(fake_metal.Settings, "memory", 8)
    with pytest.raises(BackendError, match="Apple M2 Pro makes no buffer of .* bytes .Could not make"):
        program(floats(3))


def test_a_run_that_is_refused(gpu, monkeypatch):
    program = compile_graph(doubled(), METAL)

    def fails(*_):
        raise fake_metal.error("Cannot create pipeline state")

    monkeypatch.setattr(fake_metal.Function, "__call__", fails)
    with pytest.raises(BackendError, match="Apple M2 Pro: Metal refuses: Cannot create pipeline state"):
        program(floats(3))


@pytest.mark.parametrize("record, name", [
    (lambda g, x: g.mul(x, 2), "Mul"), (lambda g, x: g.op("Cast", x, f32), "Cast")])
def test_double_precision(gpu, record, name):
    g = Graph()
    g.outputs["y"] = record(g, g.input("x", (3,), "f64"))
    with pytest.raises(ExtractionError, match=rf"(?s){name}.*no float64; cast to float32"):
        compile_graph(g, METAL)


def test_chips_are_known_by_name():
    assert (costs_of("Apple M1").threads, costs_of("Apple M4 Max").threads) == (8, 40)
    assert costs_of("Apple M2 Ultra").name == "metal/apple8 76 cores"
    assert chip_of("AMD Radeon Pro 560") == chip_of("Apple M1")
    with pytest.raises(ArgumentError, match="chip= is one of M1, .*, not 'M0'"):
        tegg.Metal(chip="M0")


# ---- the target
def test_planning_needs_no_device():
    target = Metal("M3 Max")
    assert target.costs().threads == 40 and target.features == {"family=9"}
    assert target.identity() != Metal("M1").identity()
    assert "float64" in target.unsupported(OPS["Add"], f64)
    assert tegg.Metal(chip="M2").target.chip == "M2"


def test_what_has_no_form_here_is_named():
    g = Graph()
    x = g.input("x", (4, 5), "f32")
    with pytest.raises(LoweringError, match="no float64"):
        Msl().head("k", {0: f64}, ())
    d = g.op("Cast", x, f64)
    with pytest.raises(LoweringError, match="no float64"):
        Metal("M1").lower(Fragment(g, (d,), ()), "k", frozenset())
