"""Rows that registers do not hold: kept in memory of the block, and read once."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import tegg
from simt import cases, fake_driver
from simt.cases import CUDA, METAL, Case, Kit
from simt.simulator import SimulatorError
from tegg.backends.cuda.emit import CudaC, cuda_c
from tegg.backends.cuda.target import Cuda
from tegg.kernel.lower import lower
from tegg.kernel.simt import LIMITS
from tegg.testing.draw import Draw
from tegg.testing.kernels import check_results, random_inputs

from tegg.dim import dim
from tegg.dtype import f32

KITS = pytest.mark.parametrize("kit", [CUDA, METAL], ids=["cuda", "metal"])
ROWS = 16  # so many that sums are not shared out to parts


def softmax(g: Draw, x):
    wide = x if x.dtype in (f32, tegg.f64) else g.op("Cast", x, f32)
    out = g.op("Softmax", wide, 1)
    return out if wide is x else g.op("Cast", out, x.dtype)


def agree(unit, c: Case, order: int = 0) -> None:
    check_results(c.outputs, cases.run(unit, c, order), c.inputs, c.sizes, 8.0, c.code.name)


def kernel(kit: Kit, name: str, *shape, dtype="f32", sizes=None, language=None) -> Case:
    g = Draw()
    out = softmax(g, g.x(*shape, dtype=dtype))
    code = lower(g, [out], name, language or kit.language, LIMITS)
    return Case(g, [out], sizes or {}, random_inputs(g, sizes or {}), code)


def kept(c: Case) -> bool:
    """Whether a kernel has memory of the block for rows."""
    return re.search(r"r\d+\[\(g \* ", c.code.source) is not None


@KITS
def test_each_byte_moves_once(kit):
    """What threads read and write is what the plan counts, in every dtype and at odd lengths."""
    found = [kernel(kit, "k_even", ROWS, 16_800)]
    found += ([kernel(kit, "k_double", ROWS, 8_400, dtype="f64")] if kit is CUDA else
              [kernel(kit, "k_odd", ROWS, 16_501), kernel(kit, "k_half", ROWS, 17_000, dtype="f16")])
    unit = cases.module([c.code for c in found], kit=kit)
    for number, c in enumerate(found):
        assert kept(c), c.code.name
        unit.moved = [0, 0]
        agree(unit, c, number % 3)
        assert unit.moved == [c.code.work.loaded, c.code.work.stored], c.code.name


@KITS
def test_sizes_that_have_a_bound(kit):
    n = dim("n", 1, 20_000, hint=18_000)
    c = kernel(kit, "k_bound", ROWS, n, sizes={"n": 20_000})
    assert kept(c)
    unit = cases.module([c.code], kit=kit)
    for size in (16_601, 40):
        at = {"n": size}
        agree(unit, Case(c.graph, c.outputs, at, random_inputs(c.graph, at), c.code))


@KITS
def test_what_does_not_fit_keeps_a_part(kit):
    c = kernel(kit, "k_part", ROWS, 30_000)
    unit = cases.module([c.code], kit=kit)
    agree(unit, c)
    assert kept(c) and c.code.work.loaded < unit.moved[0] < 3 * c.code.work.loaded


def test_what_has_none():
    """Rows that registers hold; rows of which most could be short; a device that gives none."""
    n = dim("n", 1, hint=30_000)
    assert not kept(kernel(CUDA, "k", ROWS, 16_384)) and not kept(kernel(CUDA, "k", ROWS, n, sizes={"n": 9}))
    assert not kept(kernel(CUDA, "k", ROWS, 20_000, language=CudaC(rows=0)))
    assert not kernel(CUDA, "k", ROWS, 16_384).code.stages[0].launch.shared


@pytest.mark.parametrize("architecture, most", [(75, 31), (80, 80), (86, 48), (90, 112), (100, 112)])
def test_how_much_follows_the_device(architecture, most):
    language = cuda_c(architecture)
    assert language.rows == most << 10
    c = kernel(CUDA, "k", ROWS, 16_384 + 128 * most, language=language)
    (stage,) = c.code.stages
    assert 0 < stage.launch.shared <= language.rows and "ROOM(kept)" in c.code.source
    assert cuda_c(70).rows == CudaC().rows


def test_metal_declares_it():
    (stage,) = kernel(METAL, "k", ROWS, 20_000).code.stages
    assert not stage.launch.shared
    source = kernel(METAL, "k", ROWS, 20_000).code.source
    (length,) = map(int, re.findall(r"SHARED float r\d+\[(\d+)\];", source))
    assert length * 4 <= METAL.language.rows


@KITS
def test_places_of_other_threads_are_found(kit):
    """A thread that takes another's place: a race, or a wrong result."""
    c = kernel(kit, "k", ROWS, 18_000)
    text, count = re.subn(r"(r\d+\[\(g \* \d+ \+ \w+\) \* 256 \+) thread_id\(\)",
                          r"\1 (thread_id() & 127)", c.code.source)
    assert count > 1
    unit = cases.module([replace(c.code, source=text)], extra="// planted\n", kit=kit)
    with pytest.raises((SimulatorError, AssertionError)):
        agree(unit, c)


def test_on_the_device(monkeypatch, tmp_path):
    """More than a kernel has without being asked for: the runtime asks."""
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    x = np.random.default_rng(0).standard_normal((ROWS, 29_700)).astype(np.float32)
    with fake_driver.installed() as gpu:
        f = tegg.compile(lambda x: tegg.softmax(x, -1), device="cuda", cache=False)
        got = f(x)
        stages = [s for k in f.program(x).plan.kernels for s in k.stages]
        assert max(s.launch.shared for s in stages if s.launch) > 48 << 10
        assert gpu.count("cuFuncSetAttribute") >= 1
    e = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True), 1e-4, 1e-9)
    assert Cuda(90).language.rows == 112 << 10
