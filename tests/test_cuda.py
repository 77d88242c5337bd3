"""CUDA through tegg.compile: plans run by the real runtime, over a driver that is played."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from simt import fake_driver
from test_runtime import arrays, chain

import tegg
from tegg.backends.cuda.target import Cuda
from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph
from tegg.ir.op import OPS
from tegg.nn import Parameter
from tegg.runtime.driver import Options, compile_graph
from tegg.testing.backend import check_program
from tegg.testing.strategies import programs

CUDA = Options(device="cuda", cache=False)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    with fake_driver.installed() as driver:
        yield driver



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
    got = tegg.compile(layer, device="cuda")(*args)
    for a, b in zip(got, want):
        close(a, b, 1e-4)
    assert len(gpu.launched) >= 4
    assert gpu.count("cuGraphLaunch") == 1 and gpu.count("cuLaunchKernel") == 0


def test_ops_of_every_kind(gpu):
    def f(x, i):
        y = x.reshape(2, 3, 10, 12)
        image = y[:, :, 1:-1].flip(3)
        kernel = x[:4, :27].reshape(4, 3, 3, 3)
        return (x.cumsum(1), x.logcumsumexp(1), x.sort(1)[0], x.topk(3, 1)[1], tegg.concat([x, x * 2], 0), x.T, image,
                tegg.conv2d(y, kernel, padding=1), x.index_add(0, i, x[:5]), x.max(1), x.sum(),
                (x > 0).any(1), x.log_softmax(0), x.prod(1), x.astype("f16") * 2)

    args = floats(12, 60), np.array([0, 3, 3, 11, 7])
    want = tegg.compile(f)(*args)
    for number, (a, b) in enumerate(zip(tegg.compile(f, device="cuda")(*args), want)):
        assert a.dtype == b.dtype, number
        close(a.astype(np.float64), b.astype(np.float64), 1e-3 if a.dtype == np.float16 else 2e-5)


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate],
          suppress_health_check=list(HealthCheck))
@given(program=programs(steps=10))
def test_random_programs(program):
    with fake_driver.installed():
        check_program(program, CUDA)


def test_states_outputs_and_sizes(gpu):
    program = compile_graph(chain(), CUDA)
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
    assert rows and all(r["seconds"] == pytest.approx(0.25e-3) for r in rows)
    assert "KERNEL(256)" in program.source()


def test_weights_stay_on_the_device_until_they_change(gpu):
    g, w = Graph(), Parameter(floats(30, 20))
    x = g.input("x", (4, 30), "f32")
    weight = g.input("w", (30, 20), "f32", "weight", w)
    g.outputs["y"] = g.idiom("Contract", x, g.mul(weight, 2), "a,k;k,b;a,b", (4, 20))
    program, a = compile_graph(g, CUDA), floats(4, 30)
    for sent in (2, 3):  # the weight and x, then x alone
        close(program(a)["y"], a @ (2 * w.data), 1e-4)
        assert gpu.count("cuMemcpyHtoDAsync_v2") == sent
    w.data = floats(30, 20)
    close(program(a)["y"], a @ (2 * w.data), 1e-4)
    assert gpu.count("cuMemcpyHtoDAsync_v2") == 5


def test_a_second_load_comes_from_the_cache(gpu, monkeypatch):
    def f(x):
        return x * 3 + 1

    close(tegg.compile(f, device="cuda")(floats(5)).shape, (5,))

    def never(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr(fake_driver.Compiler, "compile", never)
    tegg.compile(f, device="cuda")(floats(5))
    with pytest.raises(AssertionError, match="compiled again"):
        tegg.compile(lambda x: x * 4, device="cuda")(floats(5))


# ---- the target
def test_planning_needs_no_device():
    target = Cuda(90)
    assert target.costs().name == "cuda/sm_90" and Cuda(75).costs().name == "cuda/generic"
    assert Cuda(75).identity() != target.identity()
    assert target.unsupported(OPS["Add"], f32) is None
    assert "templates" in target.unsupported(OPS["Contract"], f32)
    assert "no sort" in target.unsupported(OPS["ArgSort"], f32)
    assert target.unsupported(target.ops[0], f32) is None


def test_a_sum_of_products_is_left_to_the_templates():
    g = Graph()
    x = g.input("x", (4, 5), "f32")
    total = g.op("SumReduce", g.mul(x, x), 1)
    with pytest.raises(LoweringError, match="has no tile here"):
        Cuda(90).lower(Fragment(g, (total,), (total,)), "k", frozenset())
