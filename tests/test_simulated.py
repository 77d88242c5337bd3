"""CUDA and Metal held against the oracle by the kit of tests, each as a whole on its simulator:
plans run by the real runtime, over a driver, or a metalcompute, that is played."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import pytest
from profiles import LONG
from simt import fake_driver, fake_metal
from tegg.backends.cuda.target import Cuda
from tegg.backends.metal.target import Metal
from test_runtime import arrays, chain

import tegg
from tegg.dtype import DTYPES, f32
from tegg.errors import LoweringError
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph
from tegg.ir.op import OPS
from tegg.planning.target import Target
from tegg.rewrite.compiler import Compiler, Generic
from tegg.runtime.driver import Options, compile_graph
from tegg.testing.backend import BackendReport, check_programs, check_rows, check_views


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device on which tests run whole programs."""

    name: str
    target: Target
    installed: Callable[[], AbstractContextManager]

    @property
    def options(self) -> Options:
        return Options(device=self.name, cache=False)

    @property
    def compilers(self) -> tuple[Compiler, ...]:
        return (Generic(), Compiler(name=self.name, target=self.target))


GPUS = (Gpu("cuda", Cuda(90), fake_driver.installed), Gpu("metal", Metal("M2"), fake_metal.installed))


@pytest.fixture(params=GPUS, ids=lambda g: g.name)
def gpu(request, monkeypatch, tmp_path, quick_cpu):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    fake_metal.launched.clear()
    with request.param.installed():
        yield request.param


def launched(gpu: Gpu) -> list[tuple[str, int, int]]:
    """Of every kernel that ran: its name, blocks, threads."""
    if gpu.name == "cuda":
        return fake_driver.fake().launched
    return [run for run in fake_metal.launched if run[0] != "tegg_probe"]


def close(got, want, rtol=2e-5):
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-5)


# ---- the kit, as tests/test_testing.py runs it for the CPU
# Rows that programs of views move by, and updates: tests/test_simt_scatter.py.
ELSEWHERE = {"Expand", "Flip", "Full", "Gather", "Input", "Iota", "Pad", "Permute", "Reshape",
             "Scatter", "ScatterAlong", "Size", "Slice", "Window"}


def taken(target: Target) -> set[str]:
    """The rows that a target lowers by themselves."""
    return {op.name for op in OPS.values() if any(
        target.unsupported(op, d) is None for d in DTYPES.values())}


def test_rows(gpu):
    """Every op of the table that the device lowers, in every dtype that it has."""
    report = BackendReport(gpu.name)
    check_rows(gpu.target, gpu.compilers, report, 2 if LONG else 1, 0, {})
    assert taken(gpu.target) - report.rows == ELSEWHERE


@pytest.mark.parametrize("seed", range(2))
def test_programs(gpu, seed):
    """Random programs, and every e-class of each; seeds share them out to processes."""
    report = BackendReport(gpu.name)
    check_programs(gpu.target, gpu.compilers, report, 4, seed, 1.0)
    assert report.programs == 4 and report.classes > 50


def test_views(gpu):
    report = BackendReport(gpu.name)
    check_views(gpu.target, gpu.compilers, report, 8, 0, 1.0)
    assert report.views >= 14


# ---- whole programs
RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def layer(ids, table, w, b, gain):
    x = table[ids]
    h = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt() * gain
    q, k, v = h @ w, h @ w.T, h
    a = ((q @ k.T) * 0.125).softmax(-1) @ v
    return (a @ w + b).gelu() + x, a.sum(0), a.argmax(-1)


def layer_arguments():
    return RNG.integers(0, 40, 37), floats(40, 48), floats(48, 48) * 0.1, floats(48), floats(48)


def test_layers_of_a_transformer(gpu):
    """Norms, products with bias and gelu, attention, softmax, an embedding: as on the CPU."""
    args = layer_arguments()
    want = tegg.compile(layer)(*args)
    f = tegg.compile(layer, device=gpu.name)
    for a, b in zip(f(*args), want):
        close(a, b, 1e-4)
    assert 4 <= len(launched(gpu)) <= 15
    if gpu.name == "cuda":  # as one graph, but for what is computed before
        driver, ahead = fake_driver.fake(), f.program(*args).plan.ahead
        assert driver.count("cuGraphLaunch") == 1
        assert driver.count("cuLaunchKernel") == sum(len(c.stages) for c in ahead)


def test_ops_of_every_kind(gpu):
    def f(x, i):
        y = x.reshape(2, 3, 10, 12)
        image = y[:, :, 1:-1].flip(3)
        kernel = x[:4, :27].reshape(4, 3, 3, 3)
        return (x.cumsum(1), x.logcumsumexp(1), x.sort(1)[0], x.topk(3, 1)[1],
                tegg.concat([x, x * 2], 0), x.T, image, tegg.conv2d(y, kernel, padding=1),
                x.index_add(0, i, x[:5]), x.max(1), x.sum(), (x > 0).any(1), x.log_softmax(0),
                x.prod(1), x.astype("f16") * 2, x.astype("bf16") * 2)

    args = floats(12, 60), np.array([0, 3, 3, 11, 7])
    want = tegg.compile(f)(*args)
    for number, (a, b) in enumerate(zip(tegg.compile(f, device=gpu.name)(*args), want)):
        assert a.dtype == b.dtype, number
        close(a.astype(np.float64), b.astype(np.float64), 1e-2 if a.dtype.itemsize == 2 else 2e-5)


def test_states_outputs_and_sizes(gpu):
    program = compile_graph(chain(), gpu.options)
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
    x, s = arrays(3)
    before = s.copy()
    rows = program.profile(x, s)
    np.testing.assert_array_equal(s, before)  # its runs have a copy of it
    assert rows and all(r["seconds"] > 0 for r in rows)
    assert ("KERNEL(256)" if gpu.name == "cuda" else "per_threadgroup(256)") in program.source()


@pytest.mark.parametrize("width, moved", [(8, True), (7, False)])
def test_steps_of_a_loop_begin_where_their_parts_do(gpu, width, moved):
    """A slice that begins at a multiple of 16 bytes is read by the kernel of the first one."""
    g = Graph()
    x, u = g.input("x", (3, 4, width), "f32"), g.input("u", (width, width), "f32")
    h = g.full(0.5, "f32", (3, width))
    for t in range(4):
        step = g.reshape(g.narrow(x, 1, t, 1), (3, width))
        product = g.idiom("Contract", h, u, "a,k;k,b;a,b", (3, width))
        h = g.op("Exp2", g.mul(g.add(step, product), 0.1))
    g.outputs["h"] = h
    program = compile_graph(g, gpu.options)
    assert any(c.offsets for c in program.plan.run) == moved
    rng = np.random.default_rng(0)
    x, u = (rng.standard_normal(s).astype(np.float32) for s in ((3, 4, width), (width, width)))
    want = np.full((3, width), 0.5)
    for t in range(4):
        want = np.exp2((x[:, t] + want @ u.astype(np.float64)) * 0.1)
    close(program(x, u)["h"], want)


# ---- the targets
def test_planning_needs_no_device():
    for target in (g.target for g in GPUS):
        assert target.unsupported(OPS["Add"], f32) is None
        assert "templates" in target.unsupported(OPS["Contract"], f32)
        assert "no sort" in target.unsupported(OPS["ArgSort"], f32)
        assert target.unsupported(target.ops[0], f32) is None


@pytest.mark.parametrize("target", [g.target for g in GPUS], ids=lambda t: t.name)
def test_a_sum_of_products_is_left_to_the_templates(target):
    g = Graph()
    x = g.input("x", (4, 5), "f32")
    total = g.op("SumReduce", g.mul(x, x), 1)
    with pytest.raises(LoweringError, match="has no tile here"):
        target.lower(Fragment(g, (total,), (total,)), "k", frozenset())
