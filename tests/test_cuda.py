"""CUDA through tegg.compile: plans run by the real runtime, over a driver that is played."""

from __future__ import annotations

import numpy as np
import pytest
from simt import fake_driver

import tegg
from tegg.backends.cuda.target import Cuda
from tegg.ir.graph import Graph
from tegg.nn import Parameter
from tegg.runtime.driver import Options, compile_graph

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
