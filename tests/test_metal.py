"""Metal through tegg.compile: plans run by the real runtime, over metalcompute's stand-in."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
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
from tegg.testing.backend import check_program
from tegg.testing.strategies import programs

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


def test_layers_of_a_transformer(gpu):
    """Norms, products with bias and gelu, attention, softmax, an embedding: as on the CPU."""
    def layer(ids, table, w, b, gain):
        x = table[ids]
        h = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt() * gain
        q, k, v = h @ w, h @ w.T, h
        a = ((q @ k.T) * 0.125).softmax(-1) @ v
        return (a @ w + b).gelu() + x, a.sum(0), a.argmax(-1)

    args = (RNG.integers(0, 40, 37), floats(40, 48), floats(48, 48) * 0.1, floats(48), floats(48))
    want = tegg.compile(layer)(*args)
    got = tegg.compile(layer, device="metal")(*args)
    for a, b in zip(got, want):
        close(a, b, 1e-4)
    assert 4 <= len(fake_metal.launched) <= 15


def test_ops_of_every_kind(gpu):
    def f(x, i):
        y = x.reshape(2, 3, 10, 12)
        image = y[:, :, 1:-1].flip(3)
        kernel = x[:4, :27].reshape(4, 3, 3, 3)
        return (x.cumsum(1), x.logcumsumexp(1), x.sort(1)[0], x.topk(3, 1)[1], tegg.concat([x, x * 2], 0), x.T, image,
                tegg.conv2d(y, kernel, padding=1), x.index_add(0, i, x[:5]), x.max(1), x.sum(),
                (x > 0).any(1), x.log_softmax(0), x.prod(1), x.astype("f16") * 2, x.astype("bf16") * 2)

    args = floats(12, 60), np.array([0, 3, 3, 11, 7])
    want = tegg.compile(f)(*args)
    for number, (a, b) in enumerate(zip(tegg.compile(f, device="metal")(*args), want)):
        assert a.dtype == b.dtype, number
        close(a.astype(np.float64), b.astype(np.float64), 1e-2 if a.dtype.itemsize == 2 else 2e-5)


def test_the_stack_names_the_device(gpu):
    x = floats(5)
    close(tegg.compile(lambda x: x.exp(), tegg.Generic(), tegg.Metal())(x), np.exp(x))
    assert [name for name, *_ in fake_metal.launched if name != "tegg_probe"]


@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.generate],
          suppress_health_check=list(HealthCheck))
@given(program=programs(steps=10))
def test_random_programs(program):
    if any(n.dtype.name == "f64" for n in program.graph.reachable(program.graph.outputs.values())):
        return
    with fake_metal.installed():
        check_program(program, METAL)


def test_states_outputs_and_sizes(gpu):
    program = compile_graph(chain(), METAL)
    for n in (3, 1, 64, 3):
        x, s = arrays(n)
        before = s.copy()
        r = program(x, s=s)
        want = (x + 2 * np.arange(8, dtype=np.float32)) * before
        close(r["y"], want)
        np.testing.assert_array_equal(r["again"], r["y"])
        np.testing.assert_array_equal(r["old"], before)
        close(s, before + want)
    out = np.zeros((3, 8), np.float32)
    bound = program.bind(*arrays(3), out={"y": out})
    bound()
    close(bound.outputs["y"], (arrays(3)[0] + 2 * np.arange(8)) * arrays(3)[1])
    rows = program.profile(*arrays(3))
    assert rows and all(r["seconds"] > 0 for r in rows)
    assert "max_total_threads_per_threadgroup(256)" in program.source()


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
    assert target.unsupported(OPS["Add"], f32) is None
    assert "float64" in target.unsupported(OPS["Add"], f64)
    assert "templates" in target.unsupported(OPS["Contract"], f32)
    assert "no sort" in target.unsupported(OPS["ArgSort"], f32)
    assert target.unsupported(target.ops[0], f32) is None
    assert tegg.Metal(chip="M2").target.chip == "M2"


def test_what_has_no_form_here_is_named():
    g = Graph()
    x = g.input("x", (4, 5), "f32")
    total = g.op("SumReduce", g.mul(x, x), 1)
    with pytest.raises(LoweringError, match="has no tile here"):
        Metal("M1").lower(Fragment(g, (total,), (total,)), "k", frozenset())
    with pytest.raises(LoweringError, match="no float64"):
        Msl().head("k", {0: f64}, ())
    d = g.op("Cast", x, f64)
    with pytest.raises(LoweringError, match="no float64"):
        Metal("M1").lower(Fragment(g, (d,), ()), "k", frozenset())
